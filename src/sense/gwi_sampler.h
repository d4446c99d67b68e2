/* The process that asks NVML and file systems, and what it tells.
 *
 * On a card that is dying a call of NVML may take seconds or never come back, and a look at a network's file system
 * likewise; a thread that hangs in the kernel would keep the whole supervisor from ending. So somebody else asks: a
 * process without files, that is killed when it is no longer needed. */
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
    GWI_MESSAGE_HOLDERS, /* `count` processes of a card; whole: that is all of them */
    GWI_MESSAGE_DONE     /* request `code` is answered */
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
    uint64_t number;        /* answered by DONE, when everything else is told */
    uint64_t fast_until_ns; /* monotonic: until then everything is read ten times a second */
    bool holders;
} gwi_request;

typedef struct gwi_sampler {
    pid_t pid;                   /* 0: none */
    int fd;                      /* a socket of records; -1: none */
    gwi_nvml_progress *progress; /* shared memory */
} gwi_sampler;

/* Start it. GW_IO, GW_NOMEM: `err` says why there is none. */
GW_MUST_CHECK gw_status gwi_sampler_start(gwi_sampler *sampler, const gw_sense_options *options, gw_error *err);
/* False: it is gone. */
bool gwi_sampler_ask(const gwi_sampler *sampler, const gwi_request *request);
/* The next message, not waiting. 1: one; 0: none yet; -1: it is gone. */
int gwi_sampler_next(const gwi_sampler *sampler, gwi_message *message);
/* End it, whatever it does. One that cannot be killed now stays behind, and is said: false. */
bool gwi_sampler_stop(gwi_sampler *sampler);

#endif
