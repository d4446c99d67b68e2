/* Judges memory that was freed while a copy may still have used it. */
#ifndef GWI_VERDICT_ORDER_H
#define GWI_VERDICT_ORDER_H

#include "gwi_cause.h"

/* The reason why it counts as a fault. */
typedef enum gwi_race_reason {
    GWI_RACE_IN_FLIGHT, /* the free came sooner than any card can copy that many bytes */
    GWI_RACE_UNSEEN     /* nothing could have shown the program that the copy had ended */
} gwi_race_reason;

/* Find the free of stream-ordered memory that is most likely a fault, and its certainty. NONE: *ret_race is untouched.
 *
 * SUPPORTED: see gwi_race_reason. HYPOTHESIS: nothing orders the two, but the host may have seen in an unrecorded way
 * that the copy had ended (in memory that the copy or a later kernel wrote). NONE also if a graph, a launch into the
 * default stream or unknown calls may have ordered them. */
typedef struct gwi_race {
    const gw_unordered *found;
    gw_certainty certainty;
    gwi_race_reason reason; /* SUPPORTED */
} gwi_race;
gw_certainty gwi_find_race(const gwi_case *c, gwi_race *ret_race);

/* Find a copy to page-locked memory that nothing waited for. At most a HYPOTHESIS, as the host's reads are not
 * recorded. */
typedef struct gwi_host_read {
    const gw_unordered *freed; /* the memory was freed; NULL: the process ended */
    const gw_unwaited *unwaited;
} gwi_host_read;
gw_certainty gwi_find_host_read(const gwi_case *c, gwi_host_read *ret_read);

/* For a clean run: add the hypotheses as advice. False: no memory. */
bool gwi_advise_order(const gwi_case *c, gw_string_list *advice);

/* "stream 0x7f..", "the per-thread default stream of thread 12": a stream as the ordering steps name it. */
enum { GWI_ORDER_STREAM_TEXT_MAX = 64 };
const char *gwi_order_stream_text(char out[GWI_ORDER_STREAM_TEXT_MAX], uint64_t stream);

#endif
