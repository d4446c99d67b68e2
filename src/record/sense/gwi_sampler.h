/* The sampler: a process that queries NVML and file systems, and its messages to the supervisor.
 *
 * On a failing card, an NVML call may never return, and a network file system may hang. A thread that hangs in the
 * kernel would keep the supervisor from ending. A separate process can be left behind.
 *
 * The sampler closes all files that it inherits from the supervisor. */
#ifndef GWI_SAMPLER_H
#define GWI_SAMPLER_H

#include "gw_machine.h"
#include "gw_metrics.h"
#include "gw_sense.h"
#include "gw_status.h"
#include "gwi_nvml.h"

#include <sys/types.h>

enum { GWI_SAMPLER_TEXT_MAX = 512, GWI_SAMPLER_VALUES_MAX = GW_METRIC_COUNT };

typedef enum gwi_message_kind {
    GWI_MESSAGE_SAMPLE,  /* `count` values in `sample` */
    GWI_MESSAGE_FACT,    /* "key=value" in `text` */
    GWI_MESSAGE_EVENT,   /* an event: `event_kind`, `code`, `value`, `text` */
    GWI_MESSAGE_HOLDERS, /* processes with memory on a card, `value`: ret_busy_since_us; not `whole`: the list is
                            unknown, `code` is the reason */
    GWI_MESSAGE_DONE     /* the request with number `code` is complete */
} gwi_message_kind;

typedef struct gwi_message {
    uint8_t kind, source, event_kind;
    bool whole;
    uint32_t card, count;
    uint64_t t_monotonic_ns, code, value;
    union {
        gw_sample_value sample[GWI_SAMPLER_VALUES_MAX];
        gwi_nvml_process holder[GWI_NVML_PROCESSES_MAX];
        char text[GWI_SAMPLER_TEXT_MAX];
    };
} gwi_message;

typedef struct gwi_request {
    uint64_t number;        /* 0: none; otherwise, read everything, then send a DONE message with this number */
    uint64_t fast_until_ns; /* monotonic time until which values are read ten times a second */
    bool holders;
    bool is_light; /* read nothing for `number`: the values that are read at intervals are enough */
} gwi_request;

typedef struct gwi_sampler {
    pid_t pid;                   /* 0: not running */
    int fd;                      /* a SOCK_SEQPACKET socket; -1: none */
    gwi_nvml_progress *progress; /* in memory shared with the process */
} gwi_sampler;

/* Start the sampler process. On GW_IO and GW_NOMEM, `err` has the reason. */
GW_MUST_CHECK gw_status gwi_sampler_start(gwi_sampler *sampler, const gw_sense_options *options, gw_error *err);
/* Send a request. Returns false if the process has ended. */
bool gwi_sampler_ask(const gwi_sampler *sampler, const gwi_request *request);
/* Read the next message without waiting. Returns 1 for a message, 0 if there is none yet, and -1 if the sampler has
 * ended or sent a malformed one. */
int gwi_sampler_next(const gwi_sampler *sampler, gwi_message *message);
/* Kill the sampler, even during an NVML call. Returns false if it has not ended after a second; it is then left
 * behind. */
bool gwi_sampler_stop(gwi_sampler *sampler);

#endif
