/* Changes the command for the next attempt: `gpuwhy run --restart N --on CAUSE:ACTION`.
 *
 * CAUSE is the id of a cause, or the beginning of several ids up to a hyphen: gpu-oom means every gpu-oom-*. ACTION is
 * one of these: NAME=/2         divide the value of the option NAME of the command by 2; never below 1 NAME=VALUE set
 * the value of the option env:NAME=VALUE  set an environment variable The option may be written as `--NAME V`,
 * `--NAME=V`, `-NAME V`, `-NAME=V` or `NAME=V`. Hyphens and underscores in names are the same, and only the part after
 * the last dot counts (`train.batch_size=64`). If there is no option NAME, an option NAME-size is used. If there are
 * several, the last one is used, as by most programs. */
#ifndef GWI_CHANGE_H
#define GWI_CHANGE_H

#include "gw_option_list.h"
#include "gw_status.h"
#include "gw_text.h"
#include "gw_verdict.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A command line, as for execvp(). All memory is owned. */
typedef struct gwi_command {
    char **argv; /* NULL-terminated */
    size_t count;
} gwi_command;

/* Copy `argv`. Returns false if there is no memory. */
bool gwi_command_copy(char *const *argv, gwi_command *ret_command);
void gwi_command_free(gwi_command *command); /* takes a command that is all zero */

typedef struct gwi_rule {
    const char *text; /* the rule as given; borrowed, like all texts */
    size_t cause_bytes;
    enum { GWI_RULE_DIVIDE, GWI_RULE_SET, GWI_RULE_ENVIRONMENT } kind;
    char name[128];
    const char *value; /* SET, ENVIRONMENT */
    uint64_t divisor;  /* DIVIDE */
} gwi_rule;

typedef struct gwi_rules {
    gwi_rule rule[GW_OPTION_LIST_MAX];
    size_t count;
} gwi_rules;

/* Parse the values of --on. GW_USAGE: `err` names the wrong one and the reason. */
GW_MUST_CHECK gw_status gwi_rules_parse(const gw_option_list *list, gwi_rules *ret_rules, gw_error *err);
/* Check that the command has the options that the rules change, and that values to divide are numbers. GW_USAGE: `err`
 * has the reason. */
GW_MUST_CHECK gw_status gwi_rules_check(const gwi_rules *rules, const gwi_command *command, gw_error *err);
/* Apply all rules for this cause to the command and to the environment of this process. Appends the changes to
 * `change`:
 * "--batch 32 instead of 64, LR=3 in the environment". Returns true if anything changed. False: no rule is for this
 * cause, or nothing is left to change; the reason is then appended to `why_not`. GW_NOMEM is reported as no change. */
bool gwi_rules_apply(const gwi_rules *rules, const char *cause, gwi_command *command, gw_text *change,
                     gw_text *why_not);

/* Finds a setting that would have let a failed run live (`gpuwhy run --cure`). */

typedef struct gwi_cure {
    char name[64], value[192];  /* an environment variable */
    uint64_t peak_bytes;        /* expected peak of the reserved memory with the setting */
    uint64_t peak_bytes_before; /* what the failed run would have needed without it */
} gwi_cure;

/* Find a setting with which the recorded allocations would have fitted. `recording` is the path of the recording or of
 * its run folder, and `verdict` the verdict on it. Returns false if none is known. */
typedef bool gwi_cure_find_fn(const char *recording, const gw_verdict *verdict, gwi_cure *ret_cure);

/* The search in use: a replay of PyTorch's allocator. */
extern gwi_cure_find_fn *const gwi_cure_find;

#endif
