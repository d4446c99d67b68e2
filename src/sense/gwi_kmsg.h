/* The kernel's log while a run goes on: what was written since it was opened, as events. */
#ifndef GWI_KMSG_H
#define GWI_KMSG_H

#include "gw_klog.h"
#include "gw_sense.h"

enum { GWI_BURSTS_MAX = 16 };

typedef struct gwi_burst { /* equal lines in a short while */
    gw_klog klog;
    uint64_t since_ns, untold; /* monotonic; lines that were counted and not handed out */
    uint32_t told;
} gwi_burst;

typedef struct gwi_kmsg {
    int fd;  /* -1: it cannot be read */
    int why; /* errno then */
    uint64_t read_at_ns;
    uint64_t told;
    gwi_burst burst[GWI_BURSTS_MAX];
    uint32_t burst_count;
} gwi_kmsg;

typedef struct gwi_kmsg_to {
    const gw_sense_options *options;
    const gw_sense_now *now;
    const gw_sense_sink *sink;
    bool pids_are_ours; /* the kernel's numbers of processes are this process's, too */
} gwi_kmsg_to;

void gwi_kmsg_open(gwi_kmsg *kmsg, const char *root);
/* Hand out what is new; `last`: and what was only counted. */
void gwi_kmsg_read(gwi_kmsg *kmsg, const gwi_kmsg_to *to, bool last);
void gwi_kmsg_close(gwi_kmsg *kmsg);

#endif
