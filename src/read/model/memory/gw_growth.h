/* Analyses how a list of live blocks accumulated: in which phases, in repeated runs, or in steps that each keep a
 * block. */
#ifndef GW_GROWTH_H
#define GW_GROWTH_H

#include "gw_iterations.h"
#include "gw_model_facts.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The blocks of a list that were allocated in phases with the same name. */
typedef struct gw_kept {
    const gw_phase *phase; /* the first phase with that name; NULL: outside any phase */
    bool time_known;       /* false: the allocation times are unknown, and `phase` is NULL */
    uint64_t bytes, count;
    uint64_t t_first_ns, t_last_ns;
} gw_kept;

/* Group a list of live blocks by phase, and write the `room` largest groups, the largest first. Returns their number,
 * or 0 if the process has no named phases. */
size_t gw_model_kept(const gw_model *model, uint32_t pid, const gw_live *live, size_t count, gw_kept *ret_kept,
                     size_t room);

/* How a list of live blocks accumulated. */
typedef struct gw_growth {
    /* A span is a part of the list in which memory grew. Spans are separated by work that kept no memory. */
    size_t span_count;
    bool repeat_by_place;      /* the repeated requests have the same call sites in the same order, but other sizes */
    bool repeats;              /* a later span begins with the same sizes as the first span, in the same order */
    size_t repeat_count;       /* number of spans that begin with these sizes, including the first */
    size_t repeat_match_count; /* number of blocks or requests of the first span that the last of these spans repeats */
    bool repeat_goes_on; /* the last of these spans is a new run, not a copy of the model: see goes_on() in growth.c */
    bool repeat_by_requests; /* the repetition was found in the list of all requests, not in the list of live blocks */
    uint64_t first_bytes, first_count;
    bool first_has_begin;                  /* false: the start time of the first span is unknown */
    uint64_t first_begin_ns, first_end_ns; /* the first span ends when the next one begins */
    uint64_t last_bytes, last_count;
    /* if `repeats`: bytes of the last span's blocks that have a partner of about the same size in the first span */
    uint64_t last_partner_bytes;
    uint64_t last_begin_ns;
    /* Steps: blocks of one size were kept again and again. Between them, other memory was allocated and freed, or
     * work was done. */
    bool steps;
    bool steps_unsure;        /* the blocks look like steps, but may also come from a late phase or a first pass */
    uint64_t step_count;      /* number of these blocks; those with an unknown allocation time are excluded */
    uint64_t step_bytes;      /* size of one block */
    uint64_t step_live_bytes; /* total size of these blocks */
    uint64_t step_begin_ns, step_end_ns;
    uint64_t step_turnover; /* number of blocks that were allocated between these blocks and freed again */
    /* number of blocks with the same size and call site that were freed; 0 for a framework's list */
    uint64_t step_freed;
    uint64_t step_waited; /* pairs of successive blocks with a launch and a wait or copy in between (from the rings) */
    uint64_t step_fallen; /* pairs of successive blocks between which live bytes fell by at least one block */
    uint64_t step_all_bytes; /* total size of all blocks in the list, of any size, from the first of these blocks on */
    uint32_t step_group;
    uint32_t step_site; /* most frequent call site of these blocks; 0: unknown */
    /* The largest block. */
    uint64_t largest_bytes, largest_t_ns;
    bool largest_has_time;
    uint32_t largest_group;
    uint32_t largest_site;               /* 0: unknown */
    uint64_t total_bytes, undated_bytes; /* undated_bytes: bytes in blocks whose allocation time is unknown */
    /* Highest number of live bytes in earlier work that freed more than half of its memory at its end. earlier_t_ns is
     * the time after the free, or 0 if no such work was seen. */
    uint64_t earlier_peak_bytes, earlier_t_ns;
    /* Iterations, and the memory that each iteration left behind. Empty if individual requests were not recorded. */
    gw_iterations loop;
    uint64_t loop_bytes; /* loop.leak_bytes, plus what the same call sites had kept before the first recorded request */
    bool requests_whole; /* all requests of the process were recorded, from its first one */
} gw_growth;

/* Input of gw_growth_find(). */
typedef struct gw_growth_question {
    uint32_t pid;
    const gw_live *live; /* sorted by `order` */
    size_t live_count;
    uint64_t wanted_bytes; /* size of the request that was refused while these blocks were alive; 0: none */
    uint32_t wanted_site;  /* call site of this request; 0: unknown */
    uint64_t wanted_t_ns;
    uint64_t order_now;          /* `order` of the newest request when the list was taken */
    const gw_snapshot *snapshot; /* snapshot that `live` belongs to; NULL: `live` is not from the ledger */
    /* the framework's report about the same refusal, with live bytes over time; NULL: none */
    const gw_allocator_report *report;
} gw_growth_question;

/* Analyse how the live blocks accumulated. *ret_growth owns no memory. If memory runs out, the result is incomplete or
 * empty. */
void gw_growth_find(const gw_model *model, const gw_growth_question *question, gw_growth *ret_growth);

/* Get a time before which all blocks of a report without an allocation time were allocated. Returns false if no such
 * time is known. */
bool gw_report_undated_before(const gw_allocator_report *report, uint64_t *ret_t_ns);

#endif
