/* How a list of live blocks accumulated: phases that kept them, spans that repeat, steps that pile up. */
#ifndef GW_GROWTH_H
#define GW_GROWTH_H

#include "gw_iterations.h"
#include "gw_model_facts.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Blocks of a list that were allocated in phases of one name. */
typedef struct gw_kept {
    const gw_phase *phase; /* the first phase of that name; NULL: outside any phase */
    bool time_known;       /* false: blocks whose time of allocation is not known; `phase` is NULL */
    uint64_t bytes, count;
    uint64_t t_first_ns, t_last_ns;
} gw_kept;

/* Group a list of live blocks by phase, most bytes first. Writes at most `room` groups and leaves out the rest. Returns
 * their number; 0 if the process named no phase. */
size_t gw_model_kept(const gw_model *model, uint32_t pid, const gw_live *live, size_t count, gw_kept *ret_kept,
                     size_t room);

/* How a list of live blocks accumulated. All bytes are of blocks in the list. */
typedef struct gw_growth {
    /* The list consists of spans of growth, with work between them that kept nothing. */
    size_t span_count;
    bool repeat_by_place;      /* the places are the same and in the same order, but the sizes differ */
    bool repeats;              /* a later span begins with the same sizes in the same order as the first */
    size_t repeat_count;       /* number of such spans, including the first */
    size_t repeat_match_count; /* number of equal sizes in a row at the start of the last of them */
    bool repeat_goes_on;       /* it is a run, not a copy of the model: see growth.c */
    bool repeat_by_requests;   /* found by requests, including those whose block was freed, not by live blocks */
    uint64_t first_bytes, first_count;
    bool first_has_begin;                  /* false: it began before the known time */
    uint64_t first_begin_ns, first_end_ns; /* of the first span; it ends where the next one begins */
    uint64_t last_bytes, last_count;
    uint64_t last_partner_bytes; /* if `repeats`: the part in blocks of a size that the first span has, too */
    uint64_t last_begin_ns;
    /* One size was kept again and again, while other memory was allocated and freed or work was done. */
    bool steps;
    bool steps_unsure;        /* it looks like this, but may also be a late phase or a first pass */
    uint64_t step_count;      /* number of live blocks with a known time; the following counts, too */
    uint64_t step_bytes;      /* of one block */
    uint64_t step_live_bytes; /* of all of them */
    uint64_t step_begin_ns, step_end_ns;
    uint64_t step_turnover;  /* allocations that were made and freed between them */
    uint64_t step_freed;     /* freed blocks of the same size and place */
    uint64_t step_waited;    /* neighbours with work launched and waited for in between, as far as the rings show */
    uint64_t step_fallen;    /* neighbours with at least as much freed in between, as far as spans of time show */
    uint64_t step_all_bytes; /* of all sizes, allocated since the first of them */
    uint32_t step_group;
    uint32_t step_site; /* the most frequent site; 0: not known */
    /* the largest block */
    uint64_t largest_bytes, largest_t_ns;
    bool largest_has_time;
    uint32_t largest_group;
    uint32_t largest_site;               /* 0: not known */
    uint64_t total_bytes, undated_bytes; /* undated_bytes: blocks whose time is not known */
    /* Earlier work ended and freed most of its memory: the highest use of that work. 0: not seen. */
    uint64_t earlier_peak_bytes, earlier_t_ns;
    /* Iterations and what each left behind; empty if requests are not known one by one. */
    gw_iterations loop;
    uint64_t loop_bytes; /* loop.leak_bytes, plus what the same places kept before the first known request */
    bool requests_whole; /* all requests of the process are known, from the first on */
} gw_growth;

/* Input of gw_growth_find(). */
typedef struct gw_growth_question {
    uint32_t pid;
    const gw_live *live; /* sorted by `order` */
    size_t live_count;
    uint64_t wanted_bytes; /* the request that failed after them; 0: none */
    uint32_t wanted_site;  /* where it was requested; 0: not known */
    uint64_t wanted_t_ns;
    uint64_t order_now;                /* the order when the list was taken */
    const gw_snapshot *snapshot;       /* the snapshot whose list `live` is; NULL: `live` is not the ledger's */
    const gw_allocator_report *report; /* the course of the live bytes, and the reach of its history; NULL: none */
} gw_growth_question;

/* Allocates only memory that it frees again. Without memory it finds nothing. */
void gw_growth_find(const gw_model *model, const gw_growth_question *question, gw_growth *ret_growth);

/* Find the latest time at which blocks of unknown time in the report may have been allocated. False: not known. */
bool gw_report_undated_before(const gw_allocator_report *report, uint64_t *ret_t_ns);

#endif
