/* The sampler: a process that queries NVML and file systems, and the messages that it sends.
 *
 * On a failing card an NVML call may take seconds or never return, and so may a call on a network file system. A thread
 * stuck in the kernel would keep the supervisor from ending. A separate process, which has none of the supervisor's
 * files open, can be killed when it is no longer needed. */
#ifndef GWI_SAMPLER_H
#define GWI_SAMPLER_H

#include "gw_machine.h"
#include "gw_sense.h"
#include "gw_status.h"
#include "gwi_nvml.h"

#include <sys/types.h>

enum { GWI_SAMPLER_TEXT_MAX = 512, GWI_SAMPLER_VALUES_MAX = GW_METRIC_COUNT };

typedef enum gwi_message_kind {
    GWI_MESSAGE_SAMPLE,  /* `count` values */
    GWI_MESSAGE_FACT,    /* text "key=value" */
    GWI_MESSAGE_EVENT,   /* text, code, value, event_kind */
    GWI_MESSAGE_HOLDERS, /* `count` processes of a card; whole: the list is complete */
    GWI_MESSAGE_DONE     /* request `code` is complete */
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
    uint64_t number;        /* a DONE message with this number follows when everything has been sent */
    uint64_t fast_until_ns; /* monotonic: read everything ten times a second until then */
    bool holders;
} gwi_request;

typedef struct gwi_sampler {
    pid_t pid;                   /* 0: none */
    int fd;                      /* a SOCK_SEQPACKET socket; -1: none */
    gwi_nvml_progress *progress; /* shared memory */
} gwi_sampler;

/* Start the process. GW_IO, GW_NOMEM: `err` has the reason. */
GW_MUST_CHECK gw_status gwi_sampler_start(gwi_sampler *sampler, const gw_sense_options *options, gw_error *err);
/* Send a request. Returns false if the process has ended. */
bool gwi_sampler_ask(const gwi_sampler *sampler, const gwi_request *request);
/* Read the next message without waiting. Returns 1 for a message, 0 if there is none yet, -1 if the process has
 * ended. */
int gwi_sampler_next(const gwi_sampler *sampler, gwi_message *message);
/* End the process, even in the middle of a call. Returns false if it cannot be killed now and stays behind. */
bool gwi_sampler_stop(gwi_sampler *sampler);

#endif
