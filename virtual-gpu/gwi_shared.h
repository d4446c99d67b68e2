/* The cards' state that the processes of a run share: who holds how much of which card, how busy each is, and what
 * happened to it.
 *
 * One mapped file with a robust mutex; without a folder, private memory of this process. A process that is
 * gone (also a zombie) holds nothing: its bytes return to the card when somebody asks. Fields are plain
 * integers, so that another program of ours may read the file: see gw_virt_state.h. */
#ifndef GWI_SHARED_H
#define GWI_SHARED_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "gw_virt_spec.h"

enum { GWI_SHARED_PROCESSES = 512, GWI_SHARED_VERSION = 2, GWI_SHARED_EVENTS = 64, GWI_SHARED_SPANS = 8 };
#define GWI_SHARED_MAGIC 0x3144524143575047u /* "GPWCARD1" */
#define GWI_SHARED_NAME  "cards.state"

/* When kernels of a process kept a card busy, monotonic; what lies closer together than a millisecond is one. */
typedef struct gwi_shared_span {
    uint64_t from_ns, until_ns;
} gwi_shared_span;

typedef struct gwi_shared_busy {
    uint64_t count;   /* of spans so far; span i lies at i % GWI_SHARED_SPANS */
    uint64_t past_ns; /* of those that are there no more */
    gwi_shared_span spans[GWI_SHARED_SPANS];
} gwi_shared_busy;

/* Something that a driver tells its listeners, as NVML has it: an nvmlEventType bit and its data. */
typedef struct gwi_shared_event {
    uint64_t type, data;
    uint64_t at_ns; /* monotonic */
    int32_t pid;    /* whose work it was; 0: nobody's */
    uint32_t reserved;
} gwi_shared_event;

/* What happened to a card: health.c. Counters only grow. */
typedef struct gwi_shared_card {
    uint64_t event_count; /* so far; event i lies at i % GWI_SHARED_EVENTS */
    gwi_shared_event events[GWI_SHARED_EVENTS];
    uint64_t strike_count; /* how often the contexts of that moment were ruined, last by strike_code for strike_pid */
    int32_t strike_code;   /* the driver's answer */
    int32_t strike_pid;    /* 0: everybody's */
    uint32_t is_lost, recovery_action;
    uint64_t ecc_uncorrected, remapped_uncorrected, remap_pending;
    uint64_t thermal_since_ns, power_cap_since_ns, power_brake_since_ns; /* monotonic; 0: not */
    uint32_t link_generation, link_lanes;                                /* 0: the card's own */
    uint64_t link_replays;
    uint64_t busy_ns; /* of spans that are over, of processes that lived */
} gwi_shared_card;

typedef struct gwi_shared_process {
    uint64_t start_ticks; /* of /proc/PID/stat: a pid alone may be used again */
    int32_t pid;          /* 0: a free slot */
    uint32_t reserved;
    uint64_t used_bytes[GW_VIRT_DEVICES_MAX];
} gwi_shared_process;

typedef struct gwi_shared {
    uint64_t magic; /* written last */
    uint32_t version;
    uint32_t device_count;
    pthread_mutex_t lock;
    uint64_t total_bytes[GW_VIRT_DEVICES_MAX];
    uint64_t used_bytes[GW_VIRT_DEVICES_MAX];
    uint64_t began_ns;       /* monotonic: faults at a time count from here */
    uint32_t faults_applied; /* a bit for each of the specification's faults */
    uint32_t reserved;
    gwi_shared_card cards[GW_VIRT_DEVICES_MAX];
    gwi_shared_process processes[GWI_SHARED_PROCESSES];
    gwi_shared_busy busy[GWI_SHARED_PROCESSES]
                        [GW_VIRT_DEVICES_MAX]; /* written by the process alone, without the lock */
} gwi_shared;
_Static_assert(GW_VIRT_FAULTS_MAX <= 32, "a bit for each fault");

/* Map the state of `folder` (NULL: private state). False: it cannot be had. *ret_slot is this process's entry; NULL: it
 * uses no card, and gets none. */
bool gwi_shared_open(const char *folder, const gw_virt_spec *spec, gwi_shared **ret_shared, unsigned *ret_slot);
/* Take bytes of a card for the process in `slot`; looks for dead processes before it says no. */
bool gwi_shared_take(gwi_shared *shared, unsigned slot, unsigned device, uint64_t bytes);
void gwi_shared_give(gwi_shared *shared, unsigned slot, unsigned device, uint64_t bytes);
uint64_t gwi_shared_free_bytes(gwi_shared *shared, unsigned device);
/* Forget what dead processes held. */
void gwi_shared_tidy(gwi_shared *shared);
/* Locks for whoever changes `cards` or `faults_applied`. */
void gwi_shared_lock(gwi_shared *shared);
void gwi_shared_unlock(gwi_shared *shared);
void gwi_shared_close(gwi_shared *shared);
/* 0 where the process is gone or unknown. */
uint64_t gwi_process_start_ticks(int pid);

#endif
