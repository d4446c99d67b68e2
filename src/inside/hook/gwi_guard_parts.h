/* Parts of the memory guard that its files share: see guard.c.
 *
 * All state is changed only while the guard's lock is held. The lock is never held during a call of the driver. It is
 * not the hook's lock, because that one makes system calls, and the guard takes its own two or three times per
 * allocation. */
#ifndef GWI_GUARD_PARTS_H
#define GWI_GUARD_PARTS_H

#include "gwi_hook.h"

#define GWI_PAGE ((uint64_t)2 << 20) /* the driver's unit of device memory, in bytes */
enum { GWI_GUARD_DEVICES = 64, GWI_SMALL_BYTES = 1 << 20 };

typedef struct gwi_guard_device {
    uint64_t used_bytes; /* blocks, pages of small blocks, handles, plain contexts, and allocations in progress */
    uint64_t small_bytes, page_count; /* live small blocks, and the pages that they share (part of used_bytes) */
    uint64_t pool_bytes, graph_bytes; /* reserved by pools and by graphs, as last read from the driver */
    uint64_t
        driver_bytes; /* what NVML counted for the process beyond all of these, at the last reading: code, streams */
    uint64_t context_bytes; /* size of a context; 0: no context was created yet */
    uint64_t primary;       /* handle of the primary context; 0: unknown */
    bool has_primary;       /* the primary context exists */
    uint32_t retained, greens;
} gwi_guard_device;

extern GWI_HIDDEN struct gwi_guard {
    uint64_t limit_bytes;
    bool is_shared; /* the processes of the run share the limit */
    gwi_guard_device device[GWI_GUARD_DEVICES];
} gwi_guard;

/* Return the device memory that counts against the limit, of this process alone. */
static inline uint64_t gwi_guard_own_bytes(int device)
{
    const gwi_guard_device *d = &gwi_guard.device[device];
    return d->used_bytes + d->pool_bytes + d->graph_bytes + d->driver_bytes + (d->has_primary ? d->context_bytes : 0);
}

/* Return the size of a block as the driver counts it: whole pages, or for a small block a multiple of 512 bytes, unless
 * it has pages of its own. */
uint64_t gwi_guard_rounded(uint64_t bytes, bool has_own_pages);

/* Take the lock. Returns false if this thread already holds it, in a function that a signal interrupted. A lock that a
 * thread of the parent held at a fork is taken over. While it is held, do not call functions that may be cancelled. */
bool gwi_guard_lock(void);
void gwi_guard_unlock(void);

/* ---- guard_ledger.c: live memory by address, handle or context ---- */

/* A small block shares a page with others; the page counts as long as one of them lives. */
void gwi_ledger_block(uint64_t address, uint64_t bytes, bool has_own_pages, uint64_t context, int device);
void gwi_ledger_block_gone(uint64_t address);
/* VMM memory stays allocated until each creation and retain of its handle was followed by a release, and its last
 * mapping is removed. */
void gwi_ledger_handle(uint64_t handle, uint64_t bytes, int device);
void gwi_ledger_handle_retained(uint64_t handle);
void gwi_ledger_handle_released(uint64_t handle);
void gwi_ledger_mapped(uint64_t address, uint64_t bytes, uint64_t handle);
void gwi_ledger_unmapped(uint64_t address, uint64_t bytes);
void gwi_ledger_context(uint64_t context, uint64_t bytes, int device);
void gwi_ledger_green(uint64_t context, int device);
/* A destroyed context frees everything that it owned. */
void gwi_ledger_context_gone(uint64_t context);
/* Returns the device of the green context; -1: there is none. */
int gwi_ledger_green_gone(uint64_t context);

/* ---- guard_pools.c: memory that pools and graphs have reserved ---- */

/* Return the bytes by which the pool must probably grow for this request, in whole chunks. `pool` 0: the device's
 * current one. Call with the lock held, from the thread that allocates. */
uint64_t gwi_pools_need(uint64_t pool, int device, uint64_t bytes);
/* Count a granted request. Returns true if the pool may have grown, so that gwi_pools_read() should read it. */
bool gwi_pools_granted(uint64_t pool, int device, uint64_t bytes);
void gwi_pools_made(uint64_t pool, int device);
void gwi_pools_gone(uint64_t pool);
void gwi_pools_graph_node(int device);
/* Read the reserved memory from the driver: of all pools of the device that may be read, and of graphs. Call without
 * the lock, outside of a capture. */
void gwi_pools_read(int device);

/* ---- guard_shared.c: a limit that the processes of a run share ---- */

/* Make this process a member. Call with the lock held. */
void gwi_share_begin(void);
/* Publish this process's bytes, with `more` bytes for a request. Call with the lock held. */
void gwi_share_tell(int device, uint64_t more);
/* Return the bytes of the other processes. `sweep`: first clear the places of processes that have ended. */
uint64_t gwi_share_others(int device, bool sweep);

/* guard_shared.c. Map the file that the processes of a run share. NULL: there is none. Any thread may call this, with
 * or without a lock. */
struct gw_run_shared *gwi_run_shared(void);

#endif
