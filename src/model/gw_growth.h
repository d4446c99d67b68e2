/* How a list of live blocks accumulated: the phases that kept them, spans of growth that repeat, and steps that each
 * keep a block. */
#ifndef GW_GROWTH_H
#define GW_GROWTH_H

#include "gw_iterations.h"
#include "gw_model_facts.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Blocks of a list that were allocated in phases of the same name. */
typedef struct gw_kept {
    const gw_phase *phase; /* the first phase of that name; NULL: outside any phase */
    bool time_known;       /* false: the times of allocation are not known, and `phase` is NULL */
    uint64_t bytes, count;
    uint64_t t_first_ns, t_last_ns;
} gw_kept;

/* Group a list of live blocks by phase, most bytes first. Writes at most `room` groups and leaves out smaller ones.
 * Returns the number of groups, or 0 if the process named no phase. */
size_t gw_model_kept(const gw_model *model, uint32_t pid, const gw_live *live, size_t count, gw_kept *ret_kept,
                     size_t room);

/* How a list of live blocks accumulated. All sizes are sums over blocks of the list. */
typedef struct gw_growth {
    /* The list consists of spans of growth. Between the spans lies work that kept nothing. */
    size_t span_count;
    bool repeat_by_place;      /* the requests have the same call sites in the same order, but other sizes */
    bool repeats;              /* a later span begins with the same sizes in the same order as the first */
    size_t repeat_count;       /* number of spans that begin with these sizes, including the first */
    size_t repeat_match_count; /* number of equal sizes in a row at the start of the last of these spans */
    bool repeat_goes_on; /* the last of these spans is a new run, not a copy of the model: see goes_on() in growth.c */
    bool repeat_by_requests; /* the repetition was found in the list of all requests, not in that of live blocks */
    uint64_t first_bytes, first_count;
    bool first_has_begin;                  /* false: the first span began before the known time */
    uint64_t first_begin_ns, first_end_ns; /* times of the first span, which ends where the next span begins */
    uint64_t last_bytes, last_count;
    uint64_t last_partner_bytes; /* if `repeats`: part of last_bytes in blocks whose sizes the first span has, too */
    uint64_t last_begin_ns;
    /* Blocks of one size were kept again and again, while other memory was allocated and freed, or work was done. */
    bool steps;
    bool steps_unsure;        /* this looks like such steps, but may also be a late phase or a first pass */
    uint64_t step_count;      /* number of these blocks whose time is known; the fields below count only such blocks */
    uint64_t step_bytes;      /* size of one block */
    uint64_t step_live_bytes; /* total size of these blocks */
    uint64_t step_begin_ns, step_end_ns;
    uint64_t step_turnover;  /* allocations between these blocks that were freed again */
    uint64_t step_freed;     /* freed blocks of the same size and call site */
    uint64_t step_waited;    /* pairs of neighbours between which work was launched and waited for (from the rings) */
    uint64_t step_fallen;    /* pairs of neighbours between which at least as much was freed (from spans of time) */
    uint64_t step_all_bytes; /* live bytes of all sizes, allocated since the first of these blocks */
    uint32_t step_group;
    uint32_t step_site; /* most frequent call site of these blocks; 0: not known */
    /* the largest block */
    uint64_t largest_bytes, largest_t_ns;
    bool largest_has_time;
    uint32_t largest_group;
    uint32_t largest_site;               /* 0: not known */
    uint64_t total_bytes, undated_bytes; /* undated_bytes: blocks whose time is not known */
    /* Highest use by earlier work that ended and freed most of its memory. 0: not seen. */
    uint64_t earlier_peak_bytes, earlier_t_ns;
    /* Iterations and what each iteration left behind. Empty if requests are not known one by one. */
    gw_iterations loop;
    uint64_t loop_bytes; /* loop.leak_bytes, plus what the same call sites kept before the first known request */
    bool requests_whole; /* all requests of the process are known, from the first on */
} gw_growth;

/* Input of gw_growth_find(). */
typedef struct gw_growth_question {
    uint32_t pid;
    const gw_live *live; /* sorted by `order` */
    size_t live_count;
    uint64_t wanted_bytes; /* size of the request that failed after these blocks; 0: none */
    uint32_t wanted_site;  /* call site of that request; 0: not known */
    uint64_t wanted_t_ns;
    uint64_t order_now;                /* number of the last request when the list was taken */
    const gw_snapshot *snapshot;       /* snapshot that contains `live`; NULL: `live` is not from the ledger */
    const gw_allocator_report *report; /* has live bytes over time, and the age of the history; NULL: none */
} gw_growth_question;

/* Find out how the live blocks accumulated. All memory that this allocates is freed again. Finds nothing if out of
 * memory. */
void gw_growth_find(const gw_model *model, const gw_growth_question *question, gw_growth *ret_growth);

/* Find the latest time at which blocks of unknown time in the report may have been allocated. Returns false if this is
 * not known. */
bool gw_report_undated_before(const gw_allocator_report *report, uint64_t *ret_t_ns);

#endif
