/* The command of `gpuwhy fit`, with its placeholders, and the values that are compared.
 *
 * {batch} stands for the number that is searched, {NAME} for a value that --values lists, and {{NAME}} for the text
 * {NAME}. A NAME is a letter or underscore, followed by letters, digits and underscores; other braces are ordinary
 * text. Every combination of values is one search. One thread. */
#ifndef GW_FIT_PLAN_H
#define GW_FIT_PLAN_H

#include "gw_status.h"
#include "gw_text.h"

#include <stddef.h>
#include <stdint.h>

enum { GW_FIT_NAMES_MAX = 8, GW_FIT_VALUES_MAX = 32, GW_FIT_COMBINATIONS_MAX = 64 };

typedef struct gw_fit_values {
    char *name;                     /* owned */
    char *value[GW_FIT_VALUES_MAX]; /* owned */
    size_t count;
} gw_fit_values;

typedef struct gw_fit_plan {
    char *const *command; /* borrowed; ends with NULL */
    gw_fit_values name[GW_FIT_NAMES_MAX];
    size_t name_count;
    size_t combination_count; /* at least 1 */
} gw_fit_plan;

/* Read the command and `count` words such as "precision=fp32,bf16". GW_USAGE: {batch} is missing, a placeholder has no
 * values, a name with values is not in the command, or a word is wrong; `err` names it. GW_NOMEM. Free the plan in
 * every case. */
GW_MUST_CHECK gw_status gw_fit_plan_make(char *const *command, const char *const *values, size_t count,
                                         gw_fit_plan *ret_plan, gw_error *err);
void gw_fit_plan_free(gw_fit_plan *plan);

/* The value of a name in a combination, from 0 on; the last name changes first. Borrowed from the plan. */
const char *gw_fit_plan_value(const gw_fit_plan *plan, size_t combination, size_t name);

/* Return the command of a combination for a number, ending with NULL. NULL: no memory. Free it with
 * gw_fit_command_free(), which takes NULL. */
char **gw_fit_plan_command(const gw_fit_plan *plan, size_t combination, uint64_t number);
void gw_fit_command_free(char **command);

#endif
