/* The memory guard: while GPUWHY_MEMORY is set to a number of bytes, every device looks like a card of that size to
 * this process. Total memory, free memory and refusals are consistent for plain, pitched, managed, array, pool, VMM and
 * graph memory and for contexts.
 *
 * Against the limit count all live sizes of a ledger, as the driver counts them (guard_ledger.c), what pools and graphs
 * have reserved (guard_pools.c), the contexts, and with GPUWHY_MEMORY_SHARED the other processes of the run
 * (guard_shared.c). What the driver holds beyond that (code, streams) is NVML's count for this process minus ours. It
 * is read when a request comes near the limit, and for cuMemGetInfo. Without NVML it counts as 0.
 *
 * Memory of processes outside of the run does not count, but the reported free memory is never more than there really
 * is.
 *
 * The size of a context cannot be queried. It is estimated as the memory in use on the device right after the first
 * context was created. If that is more than a context takes on any card, other programs use the device. Then 528 MiB is
 * used, as on an H200; contexts on smaller cards take less. Each further plain context adds the same amount. Measured
 * on an H100 with driver 580.159.04: 526.8 MiB for the first context, 523.6 MiB for each further one, plain or primary.
 *
 * A request is counted before the driver is called, so that other threads cannot use the bytes meanwhile, and settled
 * after the call, whatever its result. The call can also leave its wrapper without a result (its thread may be
 * cancelled); then the thread's next request settles it. Only a small request that is far from the limit is not counted
 * before: many threads at once could not reach the limit with those, and it saves half of the guard's time. */
#include "gwi_guard_parts.h"

#include "gw_hook_special.h"
#include "gw_run_shared.h"
#include "gwi_hook.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { DEVICE_MAX = GWI_GUARD_DEVICES };
static const uint64_t context_usual_bytes = 528u << 20, context_most_bytes = 768u << 20, near_bytes = (uint64_t)2 << 30;
static const uint64_t small_request_bytes = 32u << 20; /* 64 threads at once are as many bytes as near_bytes */

/* ---- the environment ---- */

void gwi_guard_begin(void)
{
    const char *text = getenv("GPUWHY_MEMORY");
    uint64_t bytes = 0;
    if (text == NULL || text[0] == '\0')
        return;
    for (; *text >= '0' && *text <= '9'; text++) {
        if (bytes > (UINT64_MAX - 9) / 10)
            return;
        bytes = bytes * 10 + (uint64_t)(*text - '0');
    }
    if (*text != '\0' || bytes == 0)
        return; /* invalid: no limit; the supervisor has already checked a value that the user gave */
    gwi_guard.limit_bytes = bytes;
    const char *shared = getenv("GPUWHY_MEMORY_SHARED");
    gwi_guard.is_shared = shared != NULL && strcmp(shared, "1") == 0;
    gwi_guard_on = true;
}

/* ---- sizes that the program sees ---- */

/* The context that was looked up last, and its device + 1 in the highest byte; 0: none. A destroyed context's handle
 * may be given to a context on another device, so the end of a context clears it. */
static _Atomic uint64_t known;
enum { KNOWN_SHIFT = 56 };

static int device_of(uint64_t context)
{
    gw_fn_t_cuCtxGetDevice *get = GWI_REAL(cuCtxGetDevice);
    uint64_t last = atomic_load_explicit(&known, memory_order_relaxed);
    CUdevice device = -1;
    if (context == 0) /* without a context the driver would log an error */
        return -1;
    if (gwi_likely((last ^ context) << (64 - KNOWN_SHIFT) == 0 && last >> KNOWN_SHIFT != 0))
        return (int)(last >> KNOWN_SHIFT) - 1;
    if (get == NULL || get(&device) != 0 || device < 0 || device >= DEVICE_MAX)
        return -1;
    if (context >> KNOWN_SHIFT == 0)
        atomic_store_explicit(&known, context | (uint64_t)(device + 1) << KNOWN_SHIFT, memory_order_relaxed);
    return (int)device;
}

static int current_device(void)
{
    return device_of(gwi_current_context());
}

/* Return what counts against the limit. `is_swept`: leave out processes of the run that have ended. Call with the lock
 * held. */
static uint64_t used_on(int device, bool is_swept)
{
    return gwi_guard_own_bytes(device) + gwi_share_others(device, is_swept);
}

/* What this process holds, for reading without the lock: what is_near() needs need not be exact. */
static _Atomic uint64_t last_own_bytes[DEVICE_MAX];
/* The same for the device with the least memory left: its bytes below the limit. 0 until the first publish(). */
static _Atomic uint64_t least_left_bytes;
static int device_count; /* devices from 0 that were ever named in publish() */

/* Call with the lock held, after a change. `device` below 0: any device may have changed. */
static void publish(int device)
{
    uint64_t most = 0;
    device_count = device >= device_count ? device + 1 : device_count;
    for (int i = 0; i < device_count; i++) {
        uint64_t own = gwi_guard_own_bytes(i);
        most = own > most ? own : most;
        atomic_store_explicit(&last_own_bytes[i], own, memory_order_relaxed);
    }
    atomic_store_explicit(&least_left_bytes, most < gwi_guard.limit_bytes ? gwi_guard.limit_bytes - most : 0,
                          memory_order_relaxed);
}

/* Return used_on() without the lock held. A signal handler that interrupted a holder of the lock gets the last count.
 */
static uint64_t used_now(int device, bool is_swept)
{
    if (!gwi_guard_lock())
        return atomic_load_explicit(&last_own_bytes[device], memory_order_relaxed);
    uint64_t used = used_on(device, is_swept);
    gwi_guard_unlock();
    return used;
}

void gwi_guard_show(int device, size_t *free_bytes, size_t *total_bytes)
{
    if (!gwi_guard_on || device < 0 || device >= DEVICE_MAX)
        return;
    uint64_t used = used_now(device, true);
    uint64_t left = used < gwi_guard.limit_bytes ? gwi_guard.limit_bytes - used : 0;
    if (*free_bytes > left)
        *free_bytes = left;
    if (*total_bytes > gwi_guard.limit_bytes)
        *total_bytes = gwi_guard.limit_bytes;
}

/* Call without the lock. */
static void measure_context(int device, uint64_t context)
{
    size_t free_bytes = 0, total = 0;
    uint64_t bytes = context_usual_bytes;
    if (gwi_device_memory(device, context, &free_bytes, &total) && total > free_bytes &&
        total - free_bytes <= context_most_bytes)
        bytes = total - free_bytes;
    if (!gwi_guard_lock())
        return;
    gwi_guard.device[device].context_bytes = bytes;
    gwi_guard_unlock();
}

/* Call without the lock. */
static bool has_context_size(int device)
{
    if (!gwi_guard_lock())
        return true;
    bool is_known = gwi_guard.device[device].context_bytes != 0;
    gwi_guard_unlock();
    return is_known;
}

/* Read what the driver holds for this process beyond the ledger: NVML's count minus ours. Without NVML it stays 0. Call
 * without the lock. */
static void measure_driver(int device)
{
    uint64_t extra, held = gwi_own_memory_read(device, &extra);
    if (held == UINT64_MAX || !gwi_guard_lock())
        return;
    gwi_guard_device *d = &gwi_guard.device[device];
    uint64_t ours = gwi_guard_own_bytes(device) - d->driver_bytes;
    held += extra == UINT64_MAX ? 0 : extra;
    d->driver_bytes = held > ours ? held - ours : 0;
    publish(device);
    gwi_guard_unlock();
}

/* True if the request comes so near to the limit that the driver's own memory decides. Further away it need not be
 * read, which is slow. */
static bool is_near(int device, uint64_t bytes)
{
    uint64_t limit = gwi_guard.limit_bytes;
    uint64_t used = gwi_guard.is_shared /* what others hold is read with the lock */
                        ? used_now(device, false)
                        : atomic_load_explicit(&last_own_bytes[device], memory_order_relaxed);
    return used >= limit || bytes >= limit - used || limit - used - bytes < near_bytes;
}

/* True if the request is so small, and every device so far from the limit, that it need not be counted before the call.
 */
static bool is_trifle(unsigned fn, uint64_t bytes)
{
    unsigned kind = gw_api_fns[fn].kind;
    return (kind == GW_EV_ALLOC || kind == GW_EV_ALLOC_ASYNC) && bytes <= small_request_bytes && !gwi_guard.is_shared &&
           atomic_load_explicit(&least_left_bytes, memory_order_relaxed) >= near_bytes + small_request_bytes;
}

/* ---- calls from the wrappers ---- */

/* Arrays and managed memory never share a page with other blocks. */
static bool has_own_pages(uint64_t space)
{
    return space == GW_SPACE_ARRAY || space == GW_SPACE_MIPMAP || space == GW_SPACE_MANAGED;
}

/* Return the bytes by which a call would increase what counts against the limit. `what` is argument 2 of its event: the
 * kind of memory, or the pool. Call with the lock held. The size of the first context is known only after its creation,
 * so it counts as 0 here. A small block counts as nothing if it probably fits into a page that the process has. */
static uint64_t needed_by(unsigned fn, int device, uint64_t bytes, uint64_t what)
{
    const gwi_guard_device *d = &gwi_guard.device[device];
    uint64_t rounded;
    switch (gw_api_fns[fn].kind) {
    case GW_EV_CTX_CREATE:
        return fn == GW_FN_cuDevicePrimaryCtxRetain && d->has_primary ? 0 : d->context_bytes;
    case GW_EV_ALLOC_ASYNC:
        rounded = bytes == 0 ? 0 : gwi_pools_need(what, device, gwi_guard_rounded(bytes, false));
        /* A pool whose free memory is in pieces has grown past the limit: do not let it grow further. */
        return rounded == 0 && bytes > 0 && gwi_guard_own_bytes(device) > gwi_guard.limit_bytes ? 1 : rounded;
    case GW_EV_ALLOC:
        rounded = gwi_guard_rounded(bytes, has_own_pages(what));
        if (rounded == 0 || rounded > GWI_SMALL_BYTES)
            return rounded;
        return d->page_count * GWI_PAGE - d->small_bytes >= rounded ? 0 : GWI_PAGE;
    default:
        return gwi_guard_rounded(bytes, true);
    }
}

static bool is_beyond(int device, uint64_t wanted, bool is_swept)
{
    uint64_t used = used_on(device, is_swept);
    return wanted > gwi_guard.limit_bytes || used > gwi_guard.limit_bytes - wanted;
}

/* Cancel what is still counted for an earlier call, whose wrapper never came to gwi_guard_after(). */
static void settle_pending(gw_slot *slot)
{
    gwi_pending pending = gwi_slot_take_pending(slot);
    gwi_guard.device[pending.device].used_bytes -= pending.bytes;
}

/* Decide, and count the bytes of a granted request already, so that other threads and processes cannot use them while
 * the driver works. *ret_used is what counted before. Call with the lock held. */
static bool decide(gwi_slot_ref *th, unsigned fn, const gwi_pending *call, uint64_t what, uint64_t *ret_used)
{
    int device = call->device;
    settle_pending(th->slot);
    uint64_t wanted = needed_by(fn, device, call->bytes, what);
    bool is_context = gw_api_fns[fn].kind == GW_EV_CTX_CREATE;
    if (gwi_guard.is_shared)
        gwi_share_tell(device, wanted < gwi_guard.limit_bytes ? wanted : 0);
    /* A request that needs nothing (an existing context) is never refused, even if the card is full. */
    bool refused =
        wanted > 0 && is_beyond(device, wanted, false) && (!gwi_guard.is_shared || is_beyond(device, wanted, true));
    *ret_used = used_on(device, false);
    if (!refused && !is_context) {
        gwi_slot_note_pending(th->slot, &(gwi_pending){wanted, device});
        gwi_guard.device[device].used_bytes += wanted;
    }
    if (refused && gwi_guard.is_shared)
        gwi_share_tell(device, 0);
    return refused;
}

bool gwi_refuse(gwi_slot_ref *th, unsigned fn, int device, uint64_t bytes, uint64_t what)
{
    int saved_errno = errno;
    bool refused = false, is_read = false;
    uint64_t used = 0;
    if (gwi_likely(is_trifle(fn, bytes)))
        return false;
    if (device == -1)
        device = current_device();
    if (device < 0 || device >= DEVICE_MAX)
        goto out; /* the driver will return the error */
    if (is_near(device, bytes))
        measure_driver(device);
    do {
        if (refused) { /* pools and graphs may hold less than at the last reading, or NVML has counted what they grew */
            gwi_pools_read(device);
            measure_driver(device);
            is_read = true;
        }
        if (!gwi_guard_lock()) {
            refused = false;
            goto out;
        }
        refused = decide(th, fn, &(gwi_pending){bytes, device}, what, &used);
        publish(device);
        gwi_guard_unlock();
    } while (refused && !is_read);
    if (refused) {
        gwi_slot_note_refused(th->slot);
        gwi_fact(GW_EV_GUARD_REFUSED, bytes, gwi_guard.limit_bytes, used, (uint64_t)device, NULL);
    }
out:
    errno = saved_errno;
    return refused;
}

static void context_made(uint64_t context, int device, uint64_t kind)
{
    switch (kind) {
    case GW_CONTEXT_PRIMARY:
        gwi_guard.device[device].primary = context;
        gwi_guard.device[device].retained++;
        gwi_guard.device[device].has_primary = true;
        break;
    case GW_CONTEXT_GREEN:
        gwi_ledger_green(context, device);
        gwi_guard.device[device].has_primary = true;
        break;
    case GW_CONTEXT_PLAIN:
        gwi_ledger_context(context, gwi_guard.device[device].context_bytes, device);
        break;
    default:
        break;
    }
}

static void primary_gone(int device)
{
    gwi_guard.device[device].has_primary = false;
    gwi_ledger_context_gone(gwi_guard.device[device].primary);
}

static void primary_settle(int device)
{
    if (gwi_guard.device[device].retained == 0 && gwi_guard.device[device].greens == 0)
        primary_gone(device);
}

static void primary_released(int device)
{
    if (gwi_guard.device[device].retained > 0)
        gwi_guard.device[device].retained--;
    primary_settle(device);
}

static void context_gone(uint64_t context)
{
    gwi_ledger_context_gone(context);
    int device = gwi_ledger_green_gone(context);
    if (device >= 0)
        primary_settle(device);
}

/* True if a few chunks of a pool would exceed the limit, so that every growth matters. */
static bool is_nearly_full(int device)
{
    const uint64_t few_chunks = 128u << 20;
    uint64_t used = used_on(device, false);
    return used > gwi_guard.limit_bytes || gwi_guard.limit_bytes - used < few_chunks;
}

/* Update the ledger after a call about contexts. */
static void settle_context(unsigned kind, const uint64_t arg[4], int named)
{
    switch (kind) {
    case GW_EV_CTX_CREATE:
        if (named >= 0 &&
            arg[3] != GW_CONTEXT_FROM_GREEN) /* this is a second handle of an existing context; no device argument */
            context_made(arg[0], named, arg[3]);
        break;
    case GW_EV_CTX_DESTROY:
        context_gone(arg[0]);
        break;
    case GW_EV_CTX_RELEASE:
        if (named >= 0)
            primary_released(named);
        break;
    case GW_EV_CTX_RESET:
        if (named >= 0)
            primary_gone(named);
        break;
    default:
        break;
    }
}

/* Update the ledger after a successful call. Returns true if a pool may have grown. */
static bool settle(unsigned kind, const uint64_t arg[4], uint64_t context, int device)
{
    int named = arg[2] < DEVICE_MAX ? (int)arg[2] : -1;
    switch (kind) {
    case GW_EV_ALLOC:
        if (device >= 0 && arg[0] != 0)
            gwi_ledger_block(arg[0], arg[1], has_own_pages(arg[2]), context, device);
        break;
    case GW_EV_ALLOC_ASYNC:
        if (device >= 0 && gwi_capture_is_open())
            gwi_pools_graph_node(device); /* the memory may belong to the graph that is being captured */
        return device >= 0 && arg[0] != 0 &&
               (gwi_pools_granted(arg[2], device, gwi_guard_rounded(arg[1], false)) || is_nearly_full(device));
    case GW_EV_FREE:
    case GW_EV_FREE_ASYNC:
        gwi_ledger_block_gone(arg[0]);
        break;
    case GW_EV_POOL_CREATE:
        if (named >= 0)
            gwi_pools_made(arg[0], named);
        break;
    case GW_EV_POOL_DESTROY:
        gwi_pools_gone(arg[0]);
        break;
    case GW_EV_GRAPH_NODE:
        if (device >= 0 && arg[2] == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
            gwi_pools_graph_node(device);
        break;
    case GW_EV_VMM_CREATE:
        if (named >= 0 && arg[3] == 1) /* the memory is on a device, not on the host */
            gwi_ledger_handle(arg[0], arg[1], named);
        break;
    case GW_EV_VMM_RETAIN:
        gwi_ledger_handle_retained(arg[0]);
        break;
    case GW_EV_VMM_RELEASE:
        gwi_ledger_handle_released(arg[0]);
        break;
    case GW_EV_VMM_MAP:
        gwi_ledger_mapped(arg[0], arg[1], arg[3]);
        break;
    case GW_EV_VMM_UNMAP:
        gwi_ledger_unmapped(arg[0], arg[1]);
        break;
    default:
        settle_context(kind, arg, named);
        break;
    }
    return false;
}

/* Publish this process's bytes on the device of the call, or on all of them if a context ended. */
static void tell(unsigned kind, const uint64_t arg[4], int device)
{
    bool is_named = kind == GW_EV_VMM_CREATE || kind == GW_EV_CTX_CREATE;
    if (is_named && arg[2] < DEVICE_MAX)
        gwi_share_tell((int)arg[2], 0);
    else if (!is_named && (kind == GW_EV_ALLOC || kind == GW_EV_ALLOC_ASYNC) && device >= 0)
        gwi_share_tell(device, 0);
    else
        for (int i = 0; i < GW_RUN_SHARED_DEVICES; i++)
            gwi_share_tell(i, 0);
}

static bool needs_device(unsigned kind)
{
    return kind == GW_EV_ALLOC || kind == GW_EV_ALLOC_ASYNC || kind == GW_EV_GRAPH_NODE;
}

static bool ends_contexts(unsigned kind)
{
    return kind == GW_EV_CTX_DESTROY || kind == GW_EV_CTX_RELEASE || kind == GW_EV_CTX_RESET;
}

void gwi_guard_after(gw_slot *slot, unsigned kind, int result, uint64_t context, const uint64_t arg[4])
{
    bool has_grown = false;
    bool first = kind == GW_EV_CTX_CREATE && result == 0 && arg[3] != GW_CONTEXT_FROM_GREEN && arg[2] < DEVICE_MAX &&
                 !has_context_size((int)arg[2]);
    if (first)
        measure_context((int)arg[2], arg[3] == GW_CONTEXT_GREEN ? 0 : arg[0]);
    gwi_pending pending = gwi_slot_take_pending(slot);
    if (context == 0 && result == 0 && needs_device(kind))
        context = gwi_current_context();
    int device = result == 0 && needs_device(kind) ? device_of(context) : -1;
    if (!gwi_guard_lock())
        return;
    gwi_guard.device[pending.device].used_bytes -= pending.bytes;
    if (ends_contexts(kind))
        atomic_store(&known, 0);
    if (result == 0)
        has_grown = settle(kind, arg, context, device);
    if (gwi_guard.is_shared)
        tell(kind, arg, device);
    publish(device);
    gwi_guard_unlock();
    if (!has_grown)
        return;
    gwi_pools_read(device);
    if (gwi_guard_lock()) {
        publish(device);
        gwi_guard_unlock();
    }
}

void gwi_guard_forget(gw_slot *slot)
{
    if (!gwi_guard_on || !gwi_guard_lock())
        return;
    settle_pending(slot);
    gwi_guard_unlock();
}

static unsigned narrow(size_t bytes)
{
    return bytes > UINT32_MAX ? UINT32_MAX : (unsigned)bytes;
}

void gwi_after_total_memory(gwi_slot_ref *th, unsigned fn, size_t *bytes, CUdevice dev)
{
    size_t any = SIZE_MAX;
    (void)th;
    (void)fn;
    if (gwi_guard_on && bytes != NULL)
        gwi_guard_show(dev, &any, bytes);
}

void gwi_after_total_memory_v1(gwi_slot_ref *th, unsigned fn, unsigned int *bytes, CUdevice dev)
{
    if (!gwi_guard_on || bytes == NULL)
        return;
    size_t wide = *bytes;
    gwi_after_total_memory(th, fn, &wide, dev);
    *bytes = narrow(wide);
}

void gwi_after_memory_info(gwi_slot_ref *th, unsigned fn, size_t *free, size_t *total)
{
    size_t none_free = 0, none_total = 0;
    int device = -1;
    (void)th;
    (void)fn;
    if (gwi_guard_on)
        GWI_KEEP_ERRNO(device = current_device(); if (device >= 0) {
            gwi_pools_read(device);
            measure_driver(device);
        });
    if (gwi_guard_on)
        gwi_guard_show(device, free != NULL ? free : &none_free, total != NULL ? total : &none_total);
}

void gwi_after_memory_info_v1(gwi_slot_ref *th, unsigned fn, unsigned int *free, unsigned int *total)
{
    if (!gwi_guard_on || free == NULL || total == NULL)
        return;
    size_t wide_free = *free, wide_total = *total;
    gwi_after_memory_info(th, fn, &wide_free, &wide_total);
    *free = narrow(wide_free);
    *total = narrow(wide_total);
}
