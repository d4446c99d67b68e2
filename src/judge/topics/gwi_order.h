/* Judges memory that the program freed, or may have read, while a copy may still have used it. */
#ifndef GWI_VERDICT_ORDER_H
#define GWI_VERDICT_ORDER_H

#include "gwi_cause.h"

/* The reason why a free that is not ordered after a copy is judged a fault. */
typedef enum gwi_race_reason {
    GWI_RACE_IN_FLIGHT, /* the free came sooner after the copy than any card can copy that many bytes */
    GWI_RACE_UNSEEN     /* after the copy, the program did nothing that could have shown it that the copy had ended */
} gwi_race_reason;

/* Find the free of stream-ordered memory that most likely raced with a copy, and return its certainty:
 * - SUPPORTED: see gwi_race_reason.
 * - HYPOTHESIS: no recorded call orders the free after the copy. The host may have waited by reading a value that the
 *   copy or a later kernel wrote.
 * - NONE: there is no such free, events were lost, or something else may order the two: a graph, a launch into the
 *   default stream, an unrecorded call. *ret_race is unchanged. */
typedef struct gwi_race {
    const gw_unordered *found;
    gw_certainty certainty;
    gwi_race_reason reason; /* valid only if `certainty` is SUPPORTED */
} gwi_race;
gw_certainty gwi_find_race(const gwi_case *c, gwi_race *ret_race);

/* Find a copy to page-locked host memory that the program did not wait for before it freed the memory or ended. The
 * certainty is at most HYPOTHESIS, because reads by the host are not recorded. */
typedef struct gwi_host_read {
    const gw_unordered *freed; /* the free of the copied memory; NULL: the process ended without freeing it */
    const gw_unwaited *unwaited;
} gwi_host_read;
gw_certainty gwi_find_host_read(const gwi_case *c, gwi_host_read *ret_read);

/* For a clean run: add advice about memory that may have been freed or read before a copy ended. False: no memory. */
bool gwi_advise_order(const gwi_case *c, gw_string_list *advice);

/* Format the stream of an ordering event (GW_EV_ORDER): "stream 0x7f..", "the per-thread default stream of thread
 * 12". */
enum { GWI_ORDER_STREAM_TEXT_MAX = 64 };
const char *gwi_order_stream_text(char out[GWI_ORDER_STREAM_TEXT_MAX], uint64_t stream);

#endif
