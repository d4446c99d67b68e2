/* Judges memory that the program freed, or may have read, while a copy may still have used it. */
#ifndef GWI_VERDICT_ORDER_H
#define GWI_VERDICT_ORDER_H

#include "gwi_cause.h"

/* The reason why a free that is not ordered after a copy counts as a fault. */
typedef enum gwi_race_reason {
    GWI_RACE_IN_FLIGHT, /* the free came sooner after the copy than any card can copy that many bytes */
    GWI_RACE_UNSEEN     /* after the copy, the program did nothing that could have shown it that the copy had ended */
} gwi_race_reason;

/* Find the free of stream-ordered memory that most likely raced with a copy, and return its certainty.
 *
 * SUPPORTED: gwi_race_reason has the possible reasons. HYPOTHESIS: no recorded call orders the free after the copy, but
 * the host may have waited for the copy without a call, by reading a value that the copy or a later kernel wrote. NONE:
 * there is no such free; or a graph, a launch into the default stream or a call that was not recorded may have ordered
 * the two; or events were lost. *ret_race is then unchanged. */
typedef struct gwi_race {
    const gw_unordered *found;
    gw_certainty certainty;
    gwi_race_reason reason; /* valid only if `certainty` is SUPPORTED */
} gwi_race;
gw_certainty gwi_find_race(const gwi_case *c, gwi_race *ret_race);

/* Find a copy to page-locked host memory that no call waited for before the memory was freed or the process ended. The
 * certainty is at most HYPOTHESIS, because reads by the host are not recorded: the program may never have read that
 * memory too early. */
typedef struct gwi_host_read {
    const gw_unordered *freed; /* the free of the copied memory; NULL: the process ended without freeing it */
    const gw_unwaited *unwaited;
} gwi_host_read;
gw_certainty gwi_find_host_read(const gwi_case *c, gwi_host_read *ret_read);

/* For a clean run: add advice about frees and reads that may have come before the end of a copy. False: no memory. */
bool gwi_advise_order(const gwi_case *c, gw_string_list *advice);

/* Format the stream of an ordering event (GW_EV_ORDER): "stream 0x7f..", "the per-thread default stream of thread
 * 12". */
enum { GWI_ORDER_STREAM_TEXT_MAX = 64 };
const char *gwi_order_stream_text(char out[GWI_ORDER_STREAM_TEXT_MAX], uint64_t stream);

#endif
