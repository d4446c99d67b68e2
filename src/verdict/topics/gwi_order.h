/* Judges memory that the program freed, or may have read, while a copy may still have used it. */
#ifndef GWI_VERDICT_ORDER_H
#define GWI_VERDICT_ORDER_H

#include "gwi_cause.h"

/* The reason why an unordered free counts as a fault. */
typedef enum gwi_race_reason {
    GWI_RACE_IN_FLIGHT, /* the free came before any card could have copied that many bytes */
    GWI_RACE_UNSEEN     /* nothing after the copy could have shown the program that it had ended */
} gwi_race_reason;

/* Find the free of stream-ordered memory that most likely raced with a copy, and return its certainty.
 *
 * SUPPORTED: gwi_race_reason has the possible reasons. HYPOTHESIS: no recorded call orders the free after the copy, but
 * the host may have waited for the copy without a call, by reading a value that the copy or a later kernel wrote. NONE:
 * there is no such free, or a graph, a launch into the default stream or unknown calls may have ordered the two;
 * *ret_race is unchanged. */
typedef struct gwi_race {
    const gw_unordered *found;
    gw_certainty certainty;
    gwi_race_reason reason; /* only if SUPPORTED */
} gwi_race;
gw_certainty gwi_find_race(const gwi_case *c, gwi_race *ret_race);

/* Find a copy to page-locked memory that nothing waited for. The certainty is at most HYPOTHESIS, because reads by the
 * host are not recorded. */
typedef struct gwi_host_read {
    const gw_unordered *freed; /* the free of that memory; NULL: the process ended without it */
    const gw_unwaited *unwaited;
} gwi_host_read;
gw_certainty gwi_find_host_read(const gwi_case *c, gwi_host_read *ret_read);

/* For a clean run: add hypotheses about unordered frees and reads as advice. False: no memory. */
bool gwi_advise_order(const gwi_case *c, gw_string_list *advice);

/* Format a stream of an ordering event: "stream 0x7f..", "the per-thread default stream of thread 12". */
enum { GWI_ORDER_STREAM_TEXT_MAX = 64 };
const char *gwi_order_stream_text(char out[GWI_ORDER_STREAM_TEXT_MAX], uint64_t stream);

#endif
