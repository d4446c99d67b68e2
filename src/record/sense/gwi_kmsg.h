/* Follows the kernel's log during a run, and reports the lines written since gwi_kmsg_open() as events. */
#ifndef GWI_KMSG_H
#define GWI_KMSG_H

#include "gw_klog.h"
#include "gw_sense.h"

enum { GWI_BURSTS_MAX = 16 };

typedef struct gwi_burst { /* equal lines within burst_ns (kmsg.c) */
    gw_klog klog;
    uint64_t since_ns, untold; /* monotonic time of the first line; number of lines counted but not reported */
    uint32_t told;
} gwi_burst;

typedef struct gwi_kmsg {
    int fd;  /* -1: the log is not readable */
    int why; /* errno if the log is not readable */
    uint64_t read_at_ns;
    uint64_t told;
    gwi_burst burst[GWI_BURSTS_MAX];
    uint32_t burst_count;
} gwi_kmsg;

typedef struct gwi_kmsg_to {
    const gw_sense_options *options;
    const gw_sense_now *now;
    const gw_sense_sink *sink;
    bool pids_are_ours; /* this process sees the kernel's own pids: see gwi_host_counts_pids() */
} gwi_kmsg_to;

/* Open the log and skip the lines that it already contains. On failure, `fd` is -1 and `why` is the errno. */
void gwi_kmsg_open(gwi_kmsg *kmsg, const char *root);
/* Report the new lines. If `last`, also report how many lines of bursts were counted but not reported so far. */
void gwi_kmsg_read(gwi_kmsg *kmsg, const gwi_kmsg_to *to, bool last);
void gwi_kmsg_close(gwi_kmsg *kmsg);

#endif
