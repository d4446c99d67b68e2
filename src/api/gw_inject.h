/* The plan of `gpuwhy run --inject`: which driver calls fail on purpose, and how.
 *
 *     PLAN      = RULE[;RULE]..
 *     RULE      = ACTION@CALLS[:N|:N+][,CONDITION]..
 *     ACTION    = oom | lost | slow=TIME | NUMBER | CUDA_ERROR_NAME
 *     CALLS     = a class of gw_inject_classes() | a function
 *     CONDITION = p=PROBABILITY | seed=N | after=TIME | rank=N | process=N | process=NAME | once
 *     TIME      = a number with us, ms or s
 *
 * A function is written with or without its suffix: cuMemAlloc, cuMemAlloc_v2. `:3` is the third of these calls in a
 * process, `:3+` the third and all later ones; without it, every call. docs/commands/run.md explains it for users.
 *
 * The supervisor checks a plan before the program starts, and the hook reads it in the program. So the parser needs the
 * C library alone, allocates nothing and takes any text. All functions may be called from any thread. */
#ifndef GW_INJECT_H
#define GW_INJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GW_INJECT_RULES_MAX = 16, GW_INJECT_TEXT_MAX = 160, GW_INJECT_NAME_MAX = 64, GW_INJECT_REASON_MAX = 320 };

typedef struct gw_inject_rule {
    char text[GW_INJECT_TEXT_MAX]; /* the rule as it was written */
    uint16_t result;               /* CUresult to return; 0: the call is only slowed down */
    bool closes;                   /* after the injection, every later call of the process fails with `result` */
    bool is_lost;                  /* the device is lost */
    bool once;                     /* stop after the first injection */
    bool has_chance;
    bool has_seed;
    uint64_t slow_ns;
    uint64_t first, last;             /* numbers of the calls, counted from 1; last UINT64_MAX: no end */
    uint64_t chance;                  /* probability times 2^53, if has_chance */
    uint64_t seed;                    /* 0 if has_seed is false */
    uint64_t after_ns;                /* after the process's first driver call */
    int64_t rank;                     /* -1: any */
    uint32_t process;                 /* number of the process in the run, counted from 1; 0: any */
    char program[GW_INJECT_NAME_MAX]; /* file name of the program; "": any */
    int class_index;                  /* index into the classes; -1: the function `function` */
    char function[GW_INJECT_NAME_MAX];
} gw_inject_rule;

typedef struct gw_inject_plan {
    gw_inject_rule rule[GW_INJECT_RULES_MAX];
    size_t count;
} gw_inject_plan;

/* Read a plan. Returns false and writes a sentence to `reason` if the plan is wrong; *ret_plan is then undefined. */
bool gw_inject_parse(const char *text, gw_inject_plan *ret_plan, char reason[GW_INJECT_REASON_MAX]);
/* True if the rule names the function: by class, by its symbol, or by the symbol without version and stream suffix. */
bool gw_inject_names(const gw_inject_rule *rule, unsigned fn);
/* True if the rule's probability selects the call with this number, counted from 1. The answer depends only on the
 * rule, its place in the plan and the number. Always true for a rule without probability. */
bool gw_inject_draws(const gw_inject_rule *rule, size_t index, uint64_t number);
/* True for functions that answer without a context and never fail because of a lost one: names of errors, versions,
 * look-ups of functions, and reads of the thread's own state (READ in driver.api). Neither `any`, nor a rule that
 * closes the driver, nor --fence includes them; a rule can still name them. */
bool gw_inject_is_harmless(unsigned fn);
/* The classes of calls, for messages: "any, alloc, ..". Static. */
const char *gw_inject_classes(void);

#endif
