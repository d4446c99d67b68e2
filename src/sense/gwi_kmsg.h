/* Follows the kernel's log during a run and reports lines written since it was opened as events. */
#ifndef GWI_KMSG_H
#define GWI_KMSG_H

#include "gw_klog.h"
#include "gw_sense.h"

enum { GWI_BURSTS_MAX = 16 };

typedef struct gwi_burst { /* equal lines within a short time */
    gw_klog klog;
    uint64_t since_ns, untold; /* monotonic start of the burst; lines counted but not reported */
    uint32_t told;
} gwi_burst;

typedef struct gwi_kmsg {
    int fd;  /* -1: not readable */
    int why; /* errno if it is not readable */
    uint64_t read_at_ns;
    uint64_t told;
    gwi_burst burst[GWI_BURSTS_MAX];
    uint32_t burst_count;
} gwi_kmsg;

typedef struct gwi_kmsg_to {
    const gw_sense_options *options;
    const gw_sense_now *now;
    const gw_sense_sink *sink;
    bool pids_are_ours; /* the kernel's pids are also this process's pids */
} gwi_kmsg_to;

/* Open the log at its end. On failure, `fd` is -1 and `why` is set. */
void gwi_kmsg_open(gwi_kmsg *kmsg, const char *root);
/* Report new lines. If `last`, also report the lines that were only counted so far. */
void gwi_kmsg_read(gwi_kmsg *kmsg, const gwi_kmsg_to *to, bool last);
void gwi_kmsg_close(gwi_kmsg *kmsg);

#endif
