/* The search for the largest number that fits, without processes: which numbers are tried next, and what the results
 * mean.
 *
 * The search doubles from `from` until a number does not fit, and then divides the interval between the largest that
 * fits and the smallest above it that does not. Several trials may run at the same time, and their results may arrive
 * in any order. Memory is not always monotonic, because libraries choose other workspaces for other sizes. So two more
 * numbers are tried above the answer; if one of them fits, the search goes on from there.
 *
 * All functions take a search that gw_fit_search_begin() has set up. A search owns no memory. One thread. */
#ifndef GW_FIT_SEARCH_H
#define GW_FIT_SEARCH_H

#include "gw_status.h"
#include "gw_text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GW_FIT_TRIALS_MAX = 512 };

typedef enum gw_fit {
    GW_FIT_RUNNING, /* the trial has no result yet */
    GW_FIT_YES,
    GW_FIT_NO,
    GW_FIT_UNKNOWN /* the trial failed for another reason than memory; the search treats it like one that does not fit
                    */
} gw_fit;

typedef struct gw_fit_trial {
    uint64_t number;
    gw_fit fit;
} gw_fit_trial;

typedef struct gw_fit_search {
    uint64_t from, max, step;              /* from and max are multiples of step */
    gw_fit_trial trial[GW_FIT_TRIALS_MAX]; /* in the order in which they were started */
    size_t count;
} gw_fit_search;

typedef enum gw_fit_end {
    GW_FIT_END_OPEN,    /* trials are running, or more are needed */
    GW_FIT_END_FOUND,   /* `largest` fits, and `next` does not */
    GW_FIT_END_MAX,     /* `largest` fits, and it is the largest that was allowed */
    GW_FIT_END_NONE,    /* `next`, the smallest that was allowed, does not fit */
    GW_FIT_END_UNKNOWN, /* `next` failed for another reason; `largest` fits, or is 0: none was found that fits */
    GW_FIT_END_FULL     /* GW_FIT_TRIALS_MAX trials were not enough; `largest` fits, or is 0 */
} gw_fit_end;

typedef struct gw_fit_answer {
    gw_fit_end end;
    uint64_t largest, next; /* 0: none */
    uint64_t hole;          /* the smallest number below `largest` that does not fit; 0: none was found */
} gw_fit_answer;

/* Search among the multiples of `step` from `from` to `max`. GW_USAGE: there are none, or a number is 0; `err` has the
 * reason. */
GW_MUST_CHECK gw_status gw_fit_search_begin(gw_fit_search *search, uint64_t from, uint64_t max, uint64_t step,
                                            gw_error *err);

/* Start the next trial, which is then running: *ret_number is the number to try. Returns false if no trial is useful
 * until a running one has its result, or if the search is over. */
bool gw_fit_search_next(gw_fit_search *search, uint64_t *ret_number);

/* Set the result of a running trial. */
void gw_fit_search_result(gw_fit_search *search, uint64_t number, gw_fit fit);

/* Return the answer so far. Call it after gw_fit_search_next() has returned false. */
gw_fit_answer gw_fit_search_answer(const gw_fit_search *search);

/* The command of `gpuwhy fit`, with its placeholders, and the values that are compared.
 *
 * {batch} stands for the number that is searched, {NAME} for a value that --values lists, and {{NAME}} for the text
 * {NAME}. A NAME is a letter or underscore, followed by letters, digits and underscores; other braces are ordinary
 * text. Every combination of values is one search. One thread. */

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
/* Free the names and values, and set the plan to zeros. */
void gw_fit_plan_free(gw_fit_plan *plan);

/* The value of a name in a combination, from 0 on; the last name changes first. Borrowed from the plan. */
const char *gw_fit_plan_value(const gw_fit_plan *plan, size_t combination, size_t name);

/* Return the command of a combination for a number, ending with NULL. NULL: no memory. */
char **gw_fit_plan_command(const gw_fit_plan *plan, size_t combination, uint64_t number);
/* Free a command; NULL is allowed. */
void gw_fit_command_free(char **command);

#endif
