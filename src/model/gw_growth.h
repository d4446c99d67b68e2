/* How a list of live blocks came about: phases that kept them, spans that repeat, steps that pile up. */
#ifndef GW_GROWTH_H
#define GW_GROWTH_H

#include "gw_iterations.h"
#include "gw_model_facts.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Blocks of a list that were allocated in phases of one name. */
typedef struct gw_kept {
    const gw_phase *phase; /* the first of that name; NULL: in none */
    bool time_known;       /* false: blocks of which nobody knows when they were allocated; `phase` is NULL */
    uint64_t bytes, count;
    uint64_t t_first_ns, t_last_ns;
} gw_kept;

/* Group a list of live blocks by phase, most bytes first. At most `room` groups are written, the rest is left out; the
 * answer is their number, 0 when the process named no phase. */
size_t gw_model_kept(const gw_model *model, uint32_t pid, const gw_live *live, size_t count, gw_kept *ret_kept,
                     size_t room);

/* How a list of live blocks came about. All bytes are of blocks in the list. */
typedef struct gw_growth {
    /* The list falls into spans of growth with work in between that kept nothing. */
    size_t span_count;
    bool repeat_by_place;      /* the places are the same and in the same order, the sizes are others */
    bool repeats;              /* a later span begins with the same sizes in the same order as the first */
    size_t repeat_count;       /* how many spans do so, the first included */
    size_t repeat_match_count; /* equal sizes in a row at the start of the last of them */
    bool repeat_goes_on;       /* a run, and not the copy of a model: see growth.c */
    bool repeat_by_requests;   /* told by requests, those given back included, not by what is alive */
    uint64_t first_bytes, first_count;
    bool first_has_begin;                  /* false: it began before what is known of time */
    uint64_t first_begin_ns, first_end_ns; /* of the first span; the end is the beginning of the next */
    uint64_t last_bytes, last_count;
    uint64_t last_partner_bytes; /* repeats: of these, in blocks of a size that the first span holds as well */
    uint64_t last_begin_ns;
    /* One size that was kept again and again while other memory came and went, or work was done. */
    bool steps;
    bool steps_unsure;        /* it looks so, but too little was seen to tell it from a late phase or a first pass */
    uint64_t step_count;      /* how many of them are alive, of those whose time is known; so below */
    uint64_t step_bytes;      /* of one */
    uint64_t step_live_bytes; /* of all of them */
    uint64_t step_begin_ns, step_end_ns;
    uint64_t step_turnover;  /* allocations that came and went between them */
    uint64_t step_freed;     /* siblings of the same size and place that were freed */
    uint64_t step_waited;    /* neighbours between which work was launched and waited for, as far as rings show */
    uint64_t step_fallen;    /* neighbours between which at least as much was given back, as spans of time show */
    uint64_t step_all_bytes; /* of all sizes, allocated since the first of them */
    uint32_t step_group;
    uint32_t step_site; /* of most of them; 0: not known */
    /* the largest block */
    uint64_t largest_bytes, largest_t_ns;
    bool largest_has_time;
    uint32_t largest_group;
    uint32_t largest_site;               /* 0: not known */
    uint64_t total_bytes, undated_bytes; /* undated: of blocks whose time is not known */
    /* Earlier work came to an end and gave back most of what it had: what it needed at most. 0: not seen. */
    uint64_t earlier_peak_bytes, earlier_t_ns;
    /* Iterations and what each left behind; not searched where requests are not known one by one. */
    gw_iterations loop;
    uint64_t loop_bytes; /* loop.leak_bytes, and what the same places kept before the requests that are known */
    bool requests_whole; /* all requests of the process are known, from the first on */
} gw_growth;

/* What is asked about growth. */
typedef struct gw_growth_question {
    uint32_t pid;
    const gw_live *live; /* in order of `order` */
    size_t live_count;
    uint64_t wanted_bytes; /* the request that failed after them; 0: none */
    uint32_t wanted_site;  /* where it was asked for; 0: not known */
    uint64_t wanted_t_ns;
    uint64_t order_now;                /* the order when the list was taken */
    const gw_snapshot *snapshot;       /* `live` is its list; NULL: it is not the ledger's */
    const gw_allocator_report *report; /* says how the live bytes went and how far its history reaches; NULL: none */
} gw_growth_question;

/* Allocates nothing but short-lived memory; without it nothing is claimed. */
void gw_growth_find(const gw_model *model, const gw_growth_question *question, gw_growth *ret_growth);

/* When the blocks of the report whose time is not known were made at the latest. False: that is not known either. */
bool gw_report_undated_before(const gw_allocator_report *report, uint64_t *ret_t_ns);

#endif
