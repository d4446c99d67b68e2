/* Memory given back while a copy may still use it: what the model found, weighed. */
#ifndef GWI_VERDICT_ORDER_H
#define GWI_VERDICT_ORDER_H

#include "gwi_cause.h"

/* Why it is held for a fault. */
typedef enum gwi_race_reason {
    GWI_RACE_IN_FLIGHT, /* the free came sooner than any card could have copied so much */
    GWI_RACE_UNSEEN     /* nothing told the program that the copy was over, by whatever means */
} gwi_race_reason;

/* The free of stream-ordered memory that is most surely a fault, and how sure. NONE: *ret_race is untouched.
 *
 * SUPPORTED: see gwi_race_reason. HYPOTHESIS: nothing orders the two, but the host may have seen by means that are not
 * recorded that the copy was over (in memory that it or a kernel after it wrote). NONE also where a graph, a launch
 * into the default stream or calls that are not known may have put them in order. */
typedef struct gwi_race {
    const gw_unordered *found;
    gw_certainty certainty;
    gwi_race_reason reason; /* SUPPORTED */
} gwi_race;
gw_certainty gwi_find_race(const gwi_case *c, gwi_race *ret_race);

/* A copy to page-locked memory that nothing waited for. At most a HYPOTHESIS: the host's reads are not seen. */
typedef struct gwi_host_read {
    const gw_unordered *freed; /* the memory was given back; NULL: the process ended */
    const gw_unwaited *unwaited;
} gwi_host_read;
gw_certainty gwi_find_host_read(const gwi_case *c, gwi_host_read *ret_read);

/* For a clean run: what is no more than a hypothesis. False: no memory. */
bool gwi_advise_order(const gwi_case *c, gw_string_list *advice);

/* "stream 0x7f..", "the per-thread default stream of thread 12": a stream as steps name it. */
enum { GWI_ORDER_STREAM_TEXT_MAX = 64 };
const char *gwi_order_stream_text(char out[GWI_ORDER_STREAM_TEXT_MAX], uint64_t stream);

#endif
