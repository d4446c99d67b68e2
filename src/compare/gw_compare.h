/* Two runs of one command side by side: what is different about machine, software, memory and work, and where the calls
 * of the two part. It says what differs, not why a run died: nothing here is a verdict.
 *
 * A portrait is one run as far as it can be compared: its model, and the order of its calls. Memory is bounded: of the
 * calls GW_CALLS_MAX are kept, later ones are counted. One thread. */
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
gw_calls *gw_calls_new(void); /* NULL: no memory */
void gw_calls_free(gw_calls *calls);
/* Take a call of a run, in order of time, after the run's model took it. What is no call, and questions that a program
 * asks until something is done, are passed over. False: no memory. */
bool gw_calls_feed(gw_calls *calls, gw_model *model, const gw_event *event);

/* ---- one run ---- */

typedef struct gw_portrait gw_portrait;

/* Read a recording, or a run folder. `until_ns` (gw_processor_ns(); UINT64_MAX: no end): GW_END when it is not read by
 * then. GW_IO, GW_CORRUPT, GW_VERSION, GW_NOMEM, GW_UNSUPPORTED: as gw_reader_open(); `err` names the file. */
GW_MUST_CHECK gw_status gw_portrait_read(const char *path, uint64_t until_ns, gw_portrait **ret_portrait,
                                         gw_error *err);
/* The same of parts; both become the portrait's, also when it fails. GW_NOMEM. */
GW_MUST_CHECK gw_status gw_portrait_make(gw_model *model, gw_calls *calls, gw_portrait **ret_portrait, gw_error *err);
void gw_portrait_free(gw_portrait *portrait); /* takes NULL */
const gw_model *gw_portrait_model(const gw_portrait *portrait);
/* As gw_model_name_sites(), which see. */
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
const char *gw_area_text(gw_area area); /* "driver"; static */

/* One thing that can be said of a run. Of one run no two have the same area and name. */
typedef struct gw_trait {
    gw_area area;
    bool matters; /* false: it may differ between two runs that are alike, such as a job's number */
    char *name;   /* owned: "cudnn", "CUDA_LAUNCH_BLOCKING", "blocks at train.py:41 in load" */
    char *text;   /* owned: the value in words */
    bool has_value;
    double value;
    const char *unit;  /* static: "bytes", "count", "s", "" */
    double tolerance;  /* of the value, as a ratio: what differs by less is the same */
    bool lack_matters; /* that the other run has nothing of the name is a difference; else it is not known there */
} gw_trait;

/* By area, within an area in the order in which they are told. Borrowed from the portrait; made when first asked for.
 * NULL: no memory. */
const gw_trait *gw_portrait_traits(gw_portrait *portrait, size_t *ret_count);
const gw_trait *gw_portrait_trait(gw_portrait *portrait, gw_area area, const char *name); /* NULL: it has none */

/* ---- two runs ---- */

typedef struct gw_difference {
    gw_area area;
    bool matters;
    const gw_trait *good, *bad; /* borrowed from the portraits; NULL: there is nothing of the kind */
} gw_difference;

/* A call where the runs part. */
typedef struct gw_parting_side {
    bool ended; /* the thread made no further call; the rest is then not set */
    uint64_t t_ns;
    char *call;     /* owned: the driver's function */
    uint64_t bytes; /* asked for; 0: the call has no size */
    uint16_t result;
    char *place; /* owned; NULL: not known */
} gw_parting_side;

typedef struct gw_parting {
    bool known;               /* false: `reason` says why nothing can be said */
    char *reason;             /* owned; NULL: none */
    bool parted;              /* false: the same calls in the same order */
    bool is_main;             /* in the first thread of the first process that made calls */
    uint64_t same;            /* calls before it in that thread, or, where nothing parted, in all threads */
    uint32_t process, thread; /* the how manieth, from 1 on */
    gw_parting_side good, bad;
    bool cut; /* the runs are longer than what is kept */
} gw_parting;

typedef struct gw_comparison {
    gw_difference *difference; /* owned; by area; those that matter first within it */
    size_t count;
    size_t same[GW_AREA_COUNT]; /* traits that both have and that are the same */
    gw_parting parting;
    bool differs; /* in something that matters */
} gw_comparison;

/* The portraits must outlive the comparison. GW_NOMEM. */
GW_MUST_CHECK gw_status gw_compare(gw_portrait *good, gw_portrait *bad, gw_comparison **ret_comparison, gw_error *err);
void gw_comparison_free(gw_comparison *comparison); /* takes NULL */

/* ---- several attempts of one command ---- */

typedef struct gw_attempts gw_attempts;
gw_attempts *gw_attempts_new(void);           /* NULL: no memory */
void gw_attempts_free(gw_attempts *attempts); /* takes NULL */
/* What is needed of the portrait is copied. False: no memory. */
GW_MUST_CHECK bool gw_attempts_add(gw_attempts *attempts, gw_portrait *portrait, bool good);

/* Something that holds for each failed attempt and for no good one. */
typedef struct gw_split {
    gw_area area;
    char *name, *bad; /* owned: "GPU 0 free at the start", "at most 2.10 GiB" */
    char *good;       /* owned; NULL: the good attempts do not tell */
} gw_split;
typedef struct gw_splits {
    gw_split *item; /* owned */
    size_t count;
    size_t good_count, bad_count; /* attempts */
    size_t looked;                /* traits that could have split them */
    double chance; /* that one trait or another splits so many attempts so by mere chance, at most; 1: no wonder */
} gw_splits;
/* Without a good and a failed attempt there is nothing to split. GW_NOMEM. */
GW_MUST_CHECK gw_status gw_attempts_split(const gw_attempts *attempts, gw_splits *ret_splits, gw_error *err);
void gw_splits_free(gw_splits *splits);

#endif
