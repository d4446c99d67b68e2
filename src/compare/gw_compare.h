/* Compares two runs of one command: differences in machine, software, memory and work, and the call where the two
 * diverge. It reports differences, not causes: nothing here is a verdict.
 *
 * A portrait is one run in a form that can be compared: its model and the order of its calls. Memory is bounded: the
 * first GW_CALLS_MAX calls are stored and later ones only counted. Use it from one thread. */
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
/* Store a call of a run. Feed calls in order of time, each after the run's model has received it. Events that are
 * not calls, and queries that a program repeats until something is done, are skipped. Returns false if out of
 * memory. */
bool gw_calls_feed(gw_calls *calls, gw_model *model, const gw_event *event);

/* ---- one run ---- */

typedef struct gw_portrait gw_portrait;

/* Read a recording or a run folder. `until_ns` is a limit in terms of gw_processor_ns() (UINT64_MAX: none). GW_END:
 * the limit was reached. GW_IO, GW_CORRUPT, GW_VERSION, GW_NOMEM, GW_UNSUPPORTED: as for gw_reader_open(). `err`
 * names the file. */
GW_MUST_CHECK gw_status gw_portrait_read(const char *path, uint64_t until_ns, gw_portrait **ret_portrait,
                                         gw_error *err);
/* Make a portrait from a model and calls. The portrait owns both, and both are freed on failure. GW_NOMEM. */
GW_MUST_CHECK gw_status gw_portrait_make(gw_model *model, gw_calls *calls, gw_portrait **ret_portrait, gw_error *err);
void gw_portrait_free(gw_portrait *portrait); /* takes NULL */
const gw_model *gw_portrait_model(const gw_portrait *portrait);
/* See gw_model_name_sites(). */
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
const char *gw_area_text(gw_area area); /* The word for an area, such as "driver"; static. */

/* One property of a run. Area and name together are unique within a run. */
typedef struct gw_trait {
    gw_area area;
    bool matters; /* false: may differ between two equal runs, as a job's number does */
    char *name;   /* owned: "cudnn", "CUDA_LAUNCH_BLOCKING", "blocks at train.py:41 in load" */
    char *text;   /* owned: the value as text */
    bool has_value;
    double value;
    const char *unit;  /* static: "bytes", "count", "s", "" */
    double tolerance;  /* as a ratio of the value: smaller differences are ignored */
    bool lack_matters; /* if the other run lacks the trait, that is a difference; otherwise the value there is
                        * unknown */
} gw_trait;

/* All traits, sorted by area and then in the order in which they were found. Computed on the first call and borrowed
 * from the portrait. NULL: out of memory. */
const gw_trait *gw_portrait_traits(gw_portrait *portrait, size_t *ret_count);
const gw_trait *gw_portrait_trait(gw_portrait *portrait, gw_area area, const char *name); /* NULL: the portrait has no
                                                                                           * such trait */

/* ---- two runs ---- */

typedef struct gw_difference {
    gw_area area;
    bool matters;
    const gw_trait *good, *bad; /* borrowed from the portraits; NULL: the run lacks it */
} gw_difference;

/* One run's call where the two runs diverge. */
typedef struct gw_parting_side {
    bool ended; /* the thread made no further call; the other fields are then not set */
    uint64_t t_ns;
    char *call;     /* owned: the driver's function */
    uint64_t bytes; /* requested size; 0: the call has no size */
    uint16_t result;
    char *place; /* owned; NULL: unknown */
} gw_parting_side;

typedef struct gw_parting {
    bool known;               /* false: `reason` explains why the calls cannot be compared */
    char *reason;             /* owned; NULL: none */
    bool parted;              /* false: the same calls in the same order */
    bool is_main;             /* in the first thread of the first process that made calls */
    uint64_t same;            /* number of equal calls before the divergence in that thread; if nothing diverged, in
                               * all threads */
    uint32_t process, thread; /* index, from 1 on */
    gw_parting_side good, bad;
    bool cut; /* the runs have more calls than are stored */
} gw_parting;

typedef struct gw_comparison {
    gw_difference *difference; /* owned; sorted by area, with those that matter first */
    size_t count;
    size_t same[GW_AREA_COUNT]; /* number of traits that both runs have with the same value */
    gw_parting parting;
    bool differs; /* true if a trait that matters differs */
} gw_comparison;

/* Compare two portraits, which must outlive the comparison. GW_NOMEM. */
GW_MUST_CHECK gw_status gw_compare(gw_portrait *good, gw_portrait *bad, gw_comparison **ret_comparison, gw_error *err);
void gw_comparison_free(gw_comparison *comparison); /* takes NULL */

/* ---- several attempts of one command ---- */

typedef struct gw_attempts gw_attempts;
gw_attempts *gw_attempts_new(void);           /* NULL: out of memory */
void gw_attempts_free(gw_attempts *attempts); /* takes NULL */
/* Add an attempt. Copies what it needs from the portrait. Returns false if out of memory. */
GW_MUST_CHECK bool gw_attempts_add(gw_attempts *attempts, gw_portrait *portrait, bool good);

/* A trait of every failed attempt and of no good one. */
typedef struct gw_split {
    gw_area area;
    char *name, *bad; /* owned: "GPU 0 free at the start", "at most 2.10 GiB" */
    char *good;       /* owned; NULL: unknown for the good attempts */
} gw_split;
typedef struct gw_splits {
    gw_split *item; /* owned */
    size_t count;
    size_t good_count, bad_count; /* number of attempts */
    size_t looked;                /* number of traits that could have split them */
    double chance; /* upper bound of the probability that any trait splits the attempts by chance; 1: fully expected */
} gw_splits;
/* Find the traits that split the attempts. Needs at least one good and one failed attempt, else the list is empty.
 * GW_NOMEM. */
GW_MUST_CHECK gw_status gw_attempts_split(const gw_attempts *attempts, gw_splits *ret_splits, gw_error *err);
/* Free the contents of `splits`. */
void gw_splits_free(gw_splits *splits);

#endif
