/* Part of gw_model_facts.h: processes, their threads and last calls, and how they ended. */
#ifndef GW_PROCESS_FACTS_H
#define GW_PROCESS_FACTS_H

#include "gw_event.h"
#include "gw_libs.h"
#include "gw_memory_facts.h"
#include "gw_recording.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gw_ring_call {
    uint64_t t_ns, what, stream;
    const char *fn_name;
    const char *kernel; /* the launched kernel, or the kernels of a launched graph; NULL: unknown */
    bool is_launch, is_graph_launch, is_copy, is_sync, is_query;
    bool captured; /* captured into a graph, so it has not run */
    /* Result of the waits that followed, stream by stream (waits.c): it has certainly ended; it may have ended. */
    bool waited, maybe_waited;
} gw_ring_call;

typedef struct gw_thread {
    uint32_t pid, tid;
    char name[16];
    uint64_t counter[GW_COUNT_COUNT];
    uint64_t calls, synced_at_ns;
    const char *inside_fn; /* the call that it was inside of at the last look; NULL: none */
    uint64_t inside_since_ns;
    gw_ring_call *ring; /* oldest first; owned */
    size_t ring_count;
    uint64_t ring_total, ring_synced_total;
} gw_thread;

/* A signal for a fault in host code, reported by our own handler (--catch-crash), a core dump or the kernel's log. The
 * process need not have died of it, because a handler of its own may cope. */
typedef struct gw_crash {
    bool seen;
    bool by_handler;  /* false: `site` is 0 */
    bool by_core;     /* neither by_handler nor by_core: from the kernel's log; then tid and instruction are 0, too */
    bool was_sent;    /* somebody sent the signal; no instruction of that thread caused it */
    bool has_address; /* the address that the code accessed is known; for some faults it is not */
    bool in_block;    /* the address is in a live block of device memory: `block` */
    bool has_code;
    int code; /* si_code */
    int signal;
    uint64_t address, instruction, t_ns;
    uint32_t tid, site;
    bool has_file;  /* the core dump lists the mapped files */
    char file[256]; /* if has_file: the file that contains the address, shortened; "": none */
    gw_live block;
} gw_crash;

typedef struct gw_process {
    uint32_t pid, parent_pid;
    bool is_command;
    char *exe, *driver_path, *driver_build_id; /* owned; may be NULL */
    uint64_t t_seen_ns, t_first_call_ns, t_last_event_ns;
    bool init_ok;
    uint64_t t_init_ns;
    bool forked;            /* the hook saw that this is a child that did not exec */
    bool forked_after_init; /* and its parent had initialised the driver */
    uint64_t t_fork_ns;
    uint32_t fork_parent_pid;
    uint32_t init_site; /* of its first successful cuInit; 0: not known */
    uint32_t fork_site; /* where its parent called fork; 0: not known */
    bool exit_known;    /* its end was seen */
    gw_exit_fact exit;
    uint64_t t_exit_ns;
    uint64_t lost_events, lost_failures, lost_threads;
    uint64_t counter[GW_COUNT_COUNT]; /* sums over its threads */
    uint64_t synced_at_ns;            /* the last successful synchronisation of any thread */
    gw_usage usage[GW_MODEL_DEVICE_PLACES];
    uint64_t alloc_order, free_order;
    uint64_t allocation_us; /* in ALLOC and FREE calls that succeeded, in whole microseconds of each: a lower bound */
    uint64_t made_total;    /* objects of any class, except functions and mappings */
    uint64_t pinned_bytes, pinned_bytes_peak;
    uint64_t unknown_frees; /* of addresses that are not in the ledger */
    uint64_t primary_retains[GW_MODEL_DEVICE_PLACES];
    bool has_rank, has_world; /* according to its launcher */
    uint32_t rank, world;     /* world: number of ranks */
    uint32_t driver_api;      /* the CUDA version of the driver, as the driver reports it: 12040; 0: not known */
    gw_libraries libraries;   /* CUDA libraries that it had mapped, as far as the supervisor saw */
    /* The uncaught exception with which its Python interpreter ended, formatted as by Python, without source lines.
     * Owned; NULL: none, or it could not be read. */
    char *raised;
    size_t raised_bytes;
    uint64_t t_raised_ns;
    gw_crash crash;
    bool alive_at_end; /* when the command ended, and a moment later */
    int end_snapshot;  /* the ledger at its end, or before the teardown that destroyed most memory; for
                        * gw_model_snapshot(); -1: none */
} gw_process;

/* Number of kernel launches, including graphs, of a process or a thread. */
static inline uint64_t gw_launches(const uint64_t counter[GW_COUNT_COUNT])
{
    return counter[GW_COUNT_LAUNCH] + counter[GW_COUNT_GRAPH_LAUNCH];
}

/* True if it is known to have ended with another status than 0; with 0. */
static inline bool gw_died_badly(const gw_process *process)
{
    return process->exit_known && process->exit.status_known &&
           (process->exit.exit_code != 0 || process->exit.signal != 0);
}
static inline bool gw_ended_well(const gw_process *process)
{
    return process->exit_known && process->exit.status_known && !gw_died_badly(process);
}
/* True for a launch of a kernel or of a graph. */
static inline bool gw_is_any_launch(const gw_ring_call *call)
{
    return call->is_launch || call->is_graph_launch;
}

/* True for a launch that nothing shows to have ended. A wait for one stream says nothing about another. */
static inline bool gw_is_outstanding(const gw_ring_call *call)
{
    return gw_is_any_launch(call) && !call->captured && !call->waited && !call->maybe_waited;
}

#endif
