/* Compare two runs of one command: machine, software, memory and work, and the call where the runs diverge. A
 * difference is not a cause, so there is no verdict.
 *
 * A portrait is one run in a form that can be compared: its model and the order of its first GW_CALLS_MAX calls. Later
 * calls are only counted. Call these functions from one thread only. */
#ifndef GW_COMPARE_H
#define GW_COMPARE_H

#include "gw_model_facts.h"
#include "gw_status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- the order of calls ---- */

enum { GW_CALLS_MAX = 1 << 19, GW_CALLS_THREADS_MAX = 256 };

typedef struct gw_calls gw_calls;
gw_calls *gw_calls_new(void);        /* NULL: out of memory */
void gw_calls_free(gw_calls *calls); /* takes NULL */
/* Store a call of a run, in order of time, after the run's model got it. Events that are not calls are skipped. Queries
 * are skipped, too: their number depends on timing. Returns false if out of memory. */
bool gw_calls_feed(gw_calls *calls, gw_model *model, const gw_event *event);

/* ---- one run ---- */

typedef struct gw_portrait gw_portrait;

/* Make a portrait of a recording or a run folder. `err` names the file. Stops with GW_END when gw_processor_ns()
 * exceeds `until_ns` (UINT64_MAX: no limit). Other errors are those of gw_reader_open(). */
GW_MUST_CHECK gw_status gw_portrait_read(const char *path, uint64_t until_ns, gw_portrait **ret_portrait,
                                         gw_error *err);
/* Make a portrait of a model and its calls. The portrait owns both; on failure, both are freed. Returns GW_NOMEM if
 * out of memory. */
GW_MUST_CHECK gw_status gw_portrait_make(gw_model *model, gw_calls *calls, gw_portrait **ret_portrait, gw_error *err);
void gw_portrait_free(gw_portrait *portrait); /* takes NULL */
const gw_model *gw_portrait_model(const gw_portrait *portrait);
/* Name the call sites of the portrait's model; see gw_model_name_sites(). */
void gw_portrait_name_sites(gw_portrait *portrait, uint32_t soft_ms, uint32_t hard_ms);

#define GW_AREAS(X)                                                                                                    \
    X(COMMAND, "command")                                                                                              \
    X(DRIVER, "driver")                                                                                                \
    X(LIBRARY, "libraries")                                                                                            \
    X(ENVIRONMENT, "environment")                                                                                      \
    X(CARD, "card")                                                                                                    \
    X(HOST, "host")                                                                                                    \
    X(MEMORY, "memory")                                                                                                \
    X(WORK, "work")                                                                                                    \
    X(END, "end")

typedef enum gw_area {
#define GW_X(name, word) GW_AREA_##name,
    GW_AREAS(GW_X)
#undef GW_X
        GW_AREA_COUNT
} gw_area;
const char *gw_area_text(gw_area area); /* the name of an area, such as "driver"; static */

/* One property of a run. Area and name together are unique within a run. */
typedef struct gw_trait {
    gw_area area;
    bool matters; /* false: the trait may differ between two good runs, for example a job number */
    char *name;   /* owned: "cudnn", "CUDA_LAUNCH_BLOCKING", "blocks at train.py:41 in load" */
    char *text;   /* owned: the value as text */
    bool has_value;
    double value;
    const char *unit;  /* static: "bytes", "count", "s", "" */
    double tolerance;  /* differences smaller than this fraction of the larger value are ignored */
    bool lack_matters; /* true: a run without this trait differs from a run with it; false: its value is unknown in a
                          run without it */
} gw_trait;

/* Return all traits, sorted by area, in the order in which they were found. The portrait computes them on the first
 * call and owns them. Returns NULL if out of memory. */
const gw_trait *gw_portrait_traits(gw_portrait *portrait, size_t *ret_count);
/* Find one trait. Returns NULL if the portrait has no such trait. */
const gw_trait *gw_portrait_trait(gw_portrait *portrait, gw_area area, const char *name);

/* ---- two runs ---- */

typedef struct gw_difference {
    gw_area area;
    bool matters;
    const gw_trait *good, *bad; /* borrowed from the portraits; NULL if the run lacks the trait */
} gw_difference;

/* One run's call at the point where the two runs diverge. */
typedef struct gw_parting_side {
    bool ended; /* the thread made no further call, and the other fields are not set */
    uint64_t t_ns;
    char *call;     /* owned: name of the driver function */
    uint64_t bytes; /* requested size; 0 if the call has no size */
    uint16_t result;
    char *place; /* owned: place of the call in the program; NULL if unknown */
} gw_parting_side;

typedef struct gw_parting {
    bool known;    /* false: `reason` explains why the calls cannot be compared */
    char *reason;  /* owned; NULL if `known` is true */
    bool parted;   /* the runs diverge; false: they made the same calls in the same order */
    bool is_main;  /* the first thread of rank 0 (without ranks: of the first process) diverges */
    uint64_t same; /* if the runs diverge: number of equal calls of the diverging thread before the divergence;
                      otherwise: number of equal calls of all threads */
    uint32_t process, thread; /* 1-based indexes of the diverging process and thread */
    gw_parting_side good, bad;
    bool cut; /* a run has more calls or threads than are stored; those beyond the limit were not compared */
} gw_parting;

typedef struct gw_comparison {
    gw_difference *difference; /* owned; sorted by area; within an area, those with `matters` set come first */
    size_t count;
    size_t same[GW_AREA_COUNT]; /* number of traits with the same value in both runs, by area */
    gw_parting parting;
    bool differs; /* a trait that matters differs, or the runs diverge and parting.is_main is set */
} gw_comparison;

/* Compare two portraits, which must outlive the comparison. Returns GW_NOMEM if out of memory. */
GW_MUST_CHECK gw_status gw_compare(gw_portrait *good, gw_portrait *bad, gw_comparison **ret_comparison, gw_error *err);
void gw_comparison_free(gw_comparison *comparison); /* takes NULL */

/* ---- several attempts of one command ---- */

typedef struct gw_attempts gw_attempts;
gw_attempts *gw_attempts_new(void);           /* NULL: out of memory */
void gw_attempts_free(gw_attempts *attempts); /* takes NULL */
/* Add an attempt. Everything needed is copied, so the portrait may be freed. Returns false if out of memory. */
GW_MUST_CHECK bool gw_attempts_add(gw_attempts *attempts, gw_portrait *portrait, bool good);

/* A trait that distinguishes all failed attempts from all good ones. */
typedef struct gw_split {
    gw_area area;
    char *name, *bad; /* owned: the trait's name and its value in the failed attempts, such as "GPU 0 free at the start"
                         and "at most 2.10 GiB" */
    char *good;       /* owned: its value in the good attempts; NULL if unknown */
} gw_split;
typedef struct gw_splits {
    gw_split *item; /* owned */
    size_t count;
    size_t good_count, bad_count; /* number of attempts */
    size_t looked;                /* number of traits that vary between the attempts */
    double chance;                /* upper bound of the probability that any trait splits the attempts by chance */
} gw_splits;
/* Find the traits that split the attempts. If there is no failed or no good attempt, the list is empty. Returns
 * GW_NOMEM if out of memory. */
GW_MUST_CHECK gw_status gw_attempts_split(const gw_attempts *attempts, gw_splits *ret_splits, gw_error *err);
/* Free the contents of `splits`. */
void gw_splits_free(gw_splits *splits);

#endif
