/* State of the GPUs that the processes of a run share: memory used by each process, busy time, and faults.
 *
 * The state is one mapped file with a robust mutex, or private memory if there is no folder. A process that has ended
 * uses no memory, even as a zombie: its bytes return to the GPU at the next query. All fields are plain integers,
 * because gw_virt_state_read() reads the file, too. */
#ifndef GWI_SHARED_H
#define GWI_SHARED_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "gw_virt_spec.h"

enum { GWI_SHARED_PROCESSES = 512, GWI_SHARED_VERSION = 2, GWI_SHARED_EVENTS = 64, GWI_SHARED_SPANS = 8 };
#define GWI_SHARED_MAGIC 0x3144524143575047u /* "GPWCARD1" */
#define GWI_SHARED_NAME  "cards.state"

/* A span of monotonic time in which kernels of a process kept a GPU busy. Spans less than a millisecond apart are
 * merged. */
typedef struct gwi_shared_span {
    uint64_t from_ns, until_ns;
} gwi_shared_span;

typedef struct gwi_shared_busy {
    uint64_t count;   /* number of spans so far; span i is spans[i % GWI_SHARED_SPANS] */
    uint64_t past_ns; /* total time of the spans that were overwritten */
    gwi_shared_span spans[GWI_SHARED_SPANS];
} gwi_shared_busy;

/* An event that the driver reports to its listeners, as in NVML: an nvmlEventType bit and its data. */
typedef struct gwi_shared_event {
    uint64_t type, data;
    uint64_t at_ns; /* monotonic */
    int32_t pid;    /* process whose work caused it; 0 if none */
    uint32_t reserved;
} gwi_shared_event;

/* Faults and counters of one GPU, maintained by health.c. Counters only grow. */
typedef struct gwi_shared_card {
    uint64_t event_count; /* number of events so far; event i is events[i % GWI_SHARED_EVENTS] */
    gwi_shared_event events[GWI_SHARED_EVENTS];
    uint64_t strike_count; /* how often a fault has ruined contexts; the next two fields describe the last time */
    int32_t strike_code;   /* the driver's result for the ruined contexts */
    int32_t strike_pid;    /* the process whose contexts were ruined; 0: all processes */
    uint32_t is_lost, recovery_action;
    uint64_t ecc_uncorrected, remapped_uncorrected, remap_pending;
    uint64_t thermal_since_ns, power_cap_since_ns, power_brake_since_ns; /* monotonic; 0: not active */
    uint32_t link_generation, link_lanes;                                /* 0: the GPU's normal value */
    uint64_t link_replays;
    uint64_t busy_ns; /* busy time of the processes that have ended */
} gwi_shared_card;

typedef struct gwi_shared_process {
    uint64_t start_ticks; /* from /proc/PID/stat, because a pid may be reused */
    int32_t pid;          /* 0: free slot */
    uint32_t reserved;
    uint64_t used_bytes[GW_VIRT_DEVICES_MAX];
} gwi_shared_process;

typedef struct gwi_shared {
    uint64_t magic; /* written last, when all other fields are valid */
    uint32_t version;
    uint32_t device_count;
    pthread_mutex_t lock;
    uint64_t total_bytes[GW_VIRT_DEVICES_MAX];
    uint64_t used_bytes[GW_VIRT_DEVICES_MAX];
    uint64_t began_ns;       /* monotonic; faults at a given time count from here */
    uint32_t faults_applied; /* bit i: fault i of the specification was applied */
    uint32_t reserved;
    gwi_shared_card cards[GW_VIRT_DEVICES_MAX];
    gwi_shared_process processes[GWI_SHARED_PROCESSES];
    gwi_shared_busy busy[GWI_SHARED_PROCESSES]
                        [GW_VIRT_DEVICES_MAX]; /* each process writes only its own row, without the lock */
} gwi_shared;
_Static_assert(GW_VIRT_FAULTS_MAX <= 32, "a bit for each fault");

/* Map the state in `folder` (NULL: private state). *ret_slot is this process's entry. A caller that uses no GPU passes
 * NULL as ret_slot and gets no entry. Returns false on failure. */
bool gwi_shared_open(const char *folder, const gw_virt_spec *spec, gwi_shared **ret_shared, unsigned *ret_slot);
/* Take `bytes` of a GPU for the process in `slot`. Returns false if not enough are free, even after clearing the
 * entries of dead processes. */
bool gwi_shared_take(gwi_shared *shared, unsigned slot, unsigned device, uint64_t bytes);
void gwi_shared_give(gwi_shared *shared, unsigned slot, unsigned device, uint64_t bytes);
uint64_t gwi_shared_free_bytes(gwi_shared *shared, unsigned device);
/* Clear the entries of dead processes. */
void gwi_shared_tidy(gwi_shared *shared);
/* The lock protects `cards` and `faults_applied`; take it before changing them. */
void gwi_shared_lock(gwi_shared *shared);
void gwi_shared_unlock(gwi_shared *shared);
void gwi_shared_close(gwi_shared *shared);
/* Return the start time of a process in clock ticks; 0 if the process is gone or unknown. */
uint64_t gwi_process_start_ticks(int pid);

/* Stores the faults and the load of a run's GPUs. Faults are requested by the specification or caused by the program's
 * kernels. The data is shared, so that the program's driver and NVML report the same.
 *
 * Any thread may call the functions for faults, which take the state's lock. The gwi_busy functions take no lock: a
 * process changes only its own slot, while it holds its driver's lock. */

/* Apply the faults that are due. This is cheap if no fault is due. */
void gwi_health_look(gwi_shared *shared, const gw_virt_spec *spec);
/* Apply the specification's fault `index` now, once for all processes. `pid` is the process that caused the fault; 0 if
 * none did. */
void gwi_health_strike(gwi_shared *shared, const gw_virt_spec *spec, unsigned index, int pid);
/* Let the card be lost now, as the fault `lost` does. */
void gwi_health_lose(gwi_shared *shared, unsigned device);
/* Report an Xid for work of process `pid`. The Xid has no other effect. */
void gwi_health_xid(gwi_shared *shared, unsigned device, unsigned xid, int pid);

/* Record that a kernel of the process in `slot` runs from `from_ns` to `until_ns`, in monotonic time. UINT64_MAX: the
 * end is not known. */
void gwi_busy_add(gwi_shared *shared, unsigned slot, unsigned device, uint64_t from_ns, uint64_t until_ns);
/* Record that the kernels of the process in `slot` were abandoned: none of them runs after `now_ns`. */
void gwi_busy_cut(gwi_shared *shared, unsigned slot, unsigned device, uint64_t now_ns);
/* Return the busy time in ns from `from_ns` to `now_ns`. If from_ns is 0, the result includes the spans that were
 * overwritten. */
uint64_t gwi_busy_ns(const gwi_shared_busy *busy, uint64_t from_ns, uint64_t now_ns);

#endif
