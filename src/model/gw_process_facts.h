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
    const char *kernel; /* launches: the kernel's name, NULL: unknown. Graph launches: names of its kernel nodes */
    bool is_launch, is_graph_launch, is_copy, is_sync, is_query;
    bool captured; /* went into a graph: it has not run */
    /* By the waits that followed, stream by stream (waits.c): it is surely over; it may be. */
    bool waited, maybe_waited;
} gw_ring_call;

typedef struct gw_thread {
    uint32_t pid, tid;
    char name[16];
    uint64_t counter[GW_COUNT_COUNT];
    uint64_t calls, synced_at_ns;
    const char *inside_fn; /* the call it was inside at the last look; NULL: none */
    uint64_t inside_since_ns;
    gw_ring_call *ring; /* oldest first; owned */
    size_t ring_count;
    uint64_t ring_total, ring_synced_total;
} gw_thread;

/* A signal of a fault in host code, as a handler of ours (--catch-crash), a core dump or the kernel's log told it. The
 * process need not have died of it: handlers of its own may cope. */
typedef struct gw_crash {
    bool seen;
    bool by_handler;  /* else `site` is 0 */
    bool by_core;     /* neither: by the kernel's log, then tid and instruction are 0, too */
    bool was_sent;    /* no instruction of that thread brought it: somebody sent the signal */
    bool has_address; /* the one that the code touched; of some faults nobody tells it */
    bool in_block;    /* it lies in device memory that was alive: in `block` */
    bool has_code;
    int code; /* si_code */
    int signal;
    uint64_t address, instruction, t_ns;
    uint32_t tid, site;
    bool has_file;  /* the core dump lists the mapped files */
    char file[256]; /* has_file: the one in which the address lies, cut off; "": in none */
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
    bool forked_after_init; /* and the parent had initialised the driver */
    uint64_t t_fork_ns;
    uint32_t fork_parent_pid;
    uint32_t init_site; /* of its first cuInit that succeeded; 0: not known */
    uint32_t fork_site; /* where its parent called fork; 0: not known */
    bool exit_known;    /* it ended */
    gw_exit_fact exit;
    uint64_t t_exit_ns;
    uint64_t lost_events, lost_failures, lost_threads;
    uint64_t counter[GW_COUNT_COUNT]; /* sum over its threads */
    uint64_t synced_at_ns;            /* last good synchronisation of any thread */
    gw_usage usage[GW_MODEL_DEVICE_PLACES];
    uint64_t alloc_order, free_order;
    uint64_t allocation_us; /* inside ALLOC and FREE calls that succeeded, whole microseconds of each: a lower bound */
    uint64_t made_total;    /* things of any class, but functions and mappings */
    uint64_t pinned_bytes, pinned_bytes_peak;
    uint64_t unknown_frees; /* of addresses that the ledger does not know */
    uint64_t primary_retains[GW_MODEL_DEVICE_PLACES];
    bool has_rank, has_world; /* as its launcher named it */
    uint32_t rank, world;     /* world: how many there are */
    uint32_t driver_api;      /* the driver's word on the CUDA version that it is for: 12040; 0: not known */
    gw_libraries libraries;   /* CUDA libraries that it had mapped, as far as the supervisor saw */
    /* The exception that nobody caught, as its Python interpreter had it when it ended; as Python prints it, without
     * the source lines. Owned; NULL: none, or it could not be read. */
    char *raised;
    size_t raised_bytes;
    uint64_t t_raised_ns;
    gw_crash crash;
    bool alive_at_end; /* when the command ended, and a moment later */
    int end_snapshot;  /* the ledger at its end, or before the teardown that took most memory along; for
                        * gw_model_snapshot(); -1: none */
} gw_process;

/* Launches of kernels, one by one or as graphs, of a process or a thread. */
static inline uint64_t gw_launches(const uint64_t counter[GW_COUNT_COUNT])
{
    return counter[GW_COUNT_LAUNCH] + counter[GW_COUNT_GRAPH_LAUNCH];
}

/* It is known to have ended, otherwise than with 0; with 0. */
static inline bool gw_died_badly(const gw_process *process)
{
    return process->exit_known && process->exit.status_known &&
           (process->exit.exit_code != 0 || process->exit.signal != 0);
}
static inline bool gw_ended_well(const gw_process *process)
{
    return process->exit_known && process->exit.status_known && !gw_died_badly(process);
}
/* Launched: a kernel, alone or in a graph. */
static inline bool gw_is_any_launch(const gw_ring_call *call)
{
    return call->is_launch || call->is_graph_launch;
}

/* Launched, and nothing that followed shows that it is over. A wait for one stream says nothing about another. */
static inline bool gw_is_outstanding(const gw_ring_call *call)
{
    return gw_is_any_launch(call) && !call->captured && !call->waited && !call->maybe_waited;
}

#endif
