/* Keeps track of all resources ("things") that scopes own, in one list per scope and one table for all scopes. Releases
 * each kind of thing with its driver call. */
#include "gwi_scope.h"

#include "gwi_driver.h"
#include "gwi_libraries.h"

#include <stdlib.h>
#include <string.h>

const char *gs_kind_text(int kind)
{
    static const char *const texts[] = {[GS_KIND_NCCL] = "NCCL communicator",
                                        [GS_KIND_CUDNN] = "cuDNN handle",
                                        [GS_KIND_CUBLASLT] = "cuBLASLt handle",
                                        [GS_KIND_CUBLAS] = "cuBLAS handle",
                                        [GS_KIND_EVENT] = "event",
                                        [GS_KIND_ORDERED] = "stream-ordered memory",
                                        [GS_KIND_POOL] = "memory pool",
                                        [GS_KIND_DEVICE] = "device memory",
                                        [GS_KIND_MAPPED] = "mapped host memory",
                                        [GS_KIND_PINNED] = "pinned host memory",
                                        [GS_KIND_MODULE] = "module",
                                        [GS_KIND_STREAM] = "stream",
                                        [GS_KIND_MANAGED] = "managed memory"};
    _Static_assert(sizeof texts / sizeof *texts == GS_KIND_COUNT, "a text for each kind");
    return kind >= 0 && kind < GS_KIND_COUNT ? texts[kind] : "not a kind";
}

int gwi_kind_order(gs_kind kind)
{
    return kind == GS_KIND_MANAGED ? 2 * GS_KIND_DEVICE + 1 : 2 * (int)kind;
}

/* ---- the table: by kind and handle, guarded by gwi_lock ---- */

static gwi_thing **buckets; /* owned; kept for the life of the process */
static size_t bucket_count, thing_count;

static size_t bucket_of(gs_kind kind, uint64_t handle, size_t count)
{
    uint64_t mixed = (handle ^ (uint64_t)kind << 56) * 0x9E3779B97F4A7C15u;
    return (size_t)(mixed >> 32) & (count - 1);
}

/* Make room in the table for one more thing. Returns false if there is no host memory for a first table. */
static bool reserve_locked(void)
{
    if (thing_count < bucket_count)
        return true;
    size_t count = bucket_count == 0 ? 256 : bucket_count * 2;
    gwi_thing **grown = calloc(count, sizeof *grown);
    if (grown == NULL)
        return bucket_count != 0; /* no memory for a larger table: accept longer chains */
    for (size_t i = 0; i < bucket_count; i++) {
        while (buckets[i] != NULL) {
            gwi_thing *thing = buckets[i];
            buckets[i] = thing->bucket_next;
            gwi_thing **at = &grown[bucket_of(thing->kind, thing->handle, count)];
            thing->bucket_next = *at;
            *at = thing;
        }
    }
    free(buckets);
    buckets = grown;
    bucket_count = count;
    return true;
}

/* ---- budgets ---- */

enum { SMALL_STEP_BYTES = 512 };

static uint64_t up_to(uint64_t bytes, uint64_t step)
{
    return bytes > UINT64_MAX - step ? UINT64_MAX : (bytes + step - 1) / step * step;
}

uint64_t gwi_taken_bytes(uint64_t bytes)
{
    return up_to(bytes, bytes <= GWI_SMALL_BYTES ? SMALL_STEP_BYTES : GWI_PAGE_BYTES);
}

static bool is_device_memory(gs_kind kind)
{
    return kind == GS_KIND_DEVICE || kind == GS_KIND_ORDERED;
}

static bool is_host_memory(gs_kind kind)
{
    return kind == GS_KIND_PINNED || kind == GS_KIND_MAPPED;
}

static void count_locked(gwi_thing *thing)
{
    for (gs_scope *scope = thing->scope; scope != NULL; scope = scope->parent) {
        scope->taken_bytes += thing->taken_bytes;
        if (is_device_memory(thing->kind))
            scope->live_bytes += thing->bytes;
        if (is_host_memory(thing->kind))
            scope->pinned_bytes += thing->bytes;
    }
    thing->scope->device->taken_bytes += thing->taken_bytes;
}

static void uncount_locked(gwi_thing *thing)
{
    for (gs_scope *scope = thing->scope; scope != NULL; scope = scope->parent) {
        scope->taken_bytes -= thing->taken_bytes;
        if (is_device_memory(thing->kind))
            scope->live_bytes -= thing->bytes;
        if (is_host_memory(thing->kind))
            scope->pinned_bytes -= thing->bytes;
    }
    thing->scope->device->taken_bytes -= thing->taken_bytes;
}

/* Update the peaks and stream counts of the thing's scope and all enclosing scopes, after the driver has created the
 * thing. Note if a small block was allocated on the device. */
static void note_peaks_locked(gwi_thing *thing)
{
    for (gs_scope *scope = thing->scope; scope != NULL; scope = scope->parent) {
        if (scope->live_bytes > scope->peak_bytes)
            scope->peak_bytes = scope->live_bytes;
        if (scope->pinned_bytes > scope->pinned_peak_bytes)
            scope->pinned_peak_bytes = scope->pinned_bytes;
        if (thing->kind == GS_KIND_STREAM)
            scope->streams_made++;
    }
    if (is_device_memory(thing->kind) && thing->bytes <= GWI_SMALL_BYTES)
        thing->scope->device->has_shared_pages = true;
}

/* Search `scope` and then its parents for a scope that `taken_bytes` more would take over its limit. Return the first
 * one, or NULL. */
static const gs_scope *full_locked(const gs_scope *scope, uint64_t taken_bytes)
{
    for (; scope != NULL; scope = scope->parent) {
        if (scope->limit_bytes != 0 && taken_bytes > 0 &&
            (scope->taken_bytes > scope->limit_bytes || taken_bytes > scope->limit_bytes - scope->taken_bytes))
            return scope;
    }
    return NULL;
}

gs_status gwi_thing_new(gs_scope *scope, gs_kind kind, uint64_t bytes, const char *call, const char *file, int line,
                        gwi_thing **ret_thing)
{
    gwi_thing *thing = calloc(1, sizeof *thing);
    if (thing == NULL)
        return gwi_refuse(scope, GS_NO_HOST_MEMORY, call, file, line, "no host memory to record it");
    thing->kind = kind;
    thing->bytes = bytes;
    thing->taken_bytes = is_device_memory(kind) ? gwi_taken_bytes(bytes) : 0;
    thing->file = file;
    thing->line = line;
    thing->scope = scope;
    pthread_mutex_lock(&gwi_lock);
    const gs_scope *full = full_locked(scope, thing->taken_bytes);
    uint64_t limit_bytes = full == NULL ? 0 : full->limit_bytes, taken_bytes = full == NULL ? 0 : full->taken_bytes;
    bool has_place = full == NULL && reserve_locked();
    if (has_place) {
        count_locked(thing);
        thing_count++;
    }
    pthread_mutex_unlock(&gwi_lock);
    if (has_place) {
        *ret_thing = thing;
        return GS_OK;
    }
    uint64_t wanted_bytes = thing->taken_bytes;
    free(thing);
    if (limit_bytes == 0)
        return gwi_refuse(scope, GS_NO_HOST_MEMORY, call, file, line, "no host memory to record it");
    char wanted[GWI_BYTES_EXACT_MAX], limit[GWI_BYTES_EXACT_MAX], taken[GWI_BYTES_EXACT_MAX];
    return gwi_refuse(scope, GS_NO_MEMORY, call, file, line, "%s requested; the scope's limit is %s, and %s are in use",
                      gwi_bytes_exact(wanted, wanted_bytes), gwi_bytes_exact(limit, limit_bytes),
                      gwi_bytes_exact(taken, taken_bytes));
}

/* ---- lists ---- */

static void link_locked(gwi_thing *thing)
{
    gwi_thing **at = &buckets[bucket_of(thing->kind, thing->handle, bucket_count)];
    thing->bucket_next = *at;
    *at = thing;
    thing->previous = NULL;
    thing->next = thing->scope->things;
    if (thing->next != NULL)
        thing->next->previous = thing;
    thing->scope->things = thing;
}

void gwi_thing_own(gwi_thing *thing, uint64_t handle)
{
    thing->handle = handle;
    pthread_mutex_lock(&gwi_lock);
    link_locked(thing);
    note_peaks_locked(thing);
    pthread_mutex_unlock(&gwi_lock);
}

void gwi_thing_drop(gwi_thing *thing)
{
    if (thing == NULL)
        return;
    pthread_mutex_lock(&gwi_lock);
    uncount_locked(thing);
    thing_count--;
    pthread_mutex_unlock(&gwi_lock);
    free(thing);
}

gs_status gwi_thing_made(gwi_thing *thing, gs_source source, int code, const char *create, const void *handle)
{
    gs_scope *scope = thing->scope;
    const char *file = thing->file;
    int line = thing->line;
    if (code == 0) {
        gwi_thing_own(thing, (uint64_t)(uintptr_t)handle);
        return GS_OK;
    }
    gwi_thing_drop(thing);
    return gwi_failed(scope, source, code, create, NULL, file, line);
}

void gwi_thing_take_locked(gwi_thing *thing)
{
    gwi_thing **at = &buckets[bucket_of(thing->kind, thing->handle, bucket_count)];
    while (*at != thing)
        at = &(*at)->bucket_next;
    *at = thing->bucket_next;
    if (thing->previous == NULL)
        thing->scope->things = thing->next;
    else
        thing->previous->next = thing->next;
    if (thing->next != NULL)
        thing->next->previous = thing->previous;
    thing->next = thing->previous = thing->bucket_next = NULL;
}

static bool is_around(const gs_scope *outer, const gs_scope *scope)
{
    while (scope != NULL && scope != outer)
        scope = scope->parent;
    return scope != NULL;
}

/* Return the thing if `scope` or an enclosing scope owns it, otherwise NULL. A thing whose is_inner is set is found
 * only if `inner_too`. */
static gwi_thing *find_locked(const gs_scope *scope, gs_kind kind, uint64_t handle, bool inner_too)
{
    gwi_thing *thing = bucket_count == 0 ? NULL : buckets[bucket_of(kind, handle, bucket_count)];
    while (thing != NULL && (thing->kind != kind || thing->handle != handle || (thing->is_inner && !inner_too) ||
                             !is_around(thing->scope, scope)))
        thing = thing->bucket_next;
    return thing;
}

gwi_thing *gwi_thing_take(gs_scope *scope, gs_kind kind, uint64_t handle, bool inner_too)
{
    pthread_mutex_lock(&gwi_lock);
    gwi_thing *thing = find_locked(scope, kind, handle, inner_too);
    if (thing != NULL)
        gwi_thing_take_locked(thing);
    pthread_mutex_unlock(&gwi_lock);
    return thing;
}

bool gwi_thing_has(const gs_scope *scope, gs_kind kind, uint64_t handle)
{
    pthread_mutex_lock(&gwi_lock);
    bool has = find_locked(scope, kind, handle, false) != NULL;
    pthread_mutex_unlock(&gwi_lock);
    return has;
}

static gwi_thing *find_any_locked(gs_kind kind, uint64_t handle, bool inner_too)
{
    gwi_thing *thing = bucket_count == 0 ? NULL : buckets[bucket_of(kind, handle, bucket_count)];
    while (thing != NULL && (thing->kind != kind || thing->handle != handle || (thing->is_inner && !inner_too)))
        thing = thing->bucket_next;
    return thing;
}

/* Memory of one group has one address space. So two things of one group with the same address are the same memory. */
static gs_kind group_of(gs_kind kind)
{
    if (kind == GS_KIND_MAPPED)
        return GS_KIND_PINNED;
    return kind == GS_KIND_ORDERED || kind == GS_KIND_MANAGED ? GS_KIND_DEVICE : kind;
}

bool gwi_thing_owned(gs_kind kind, uint64_t handle, gs_kind *ret_kind, const char **ret_file, int *ret_line)
{
    const gwi_thing *thing = NULL;
    pthread_mutex_lock(&gwi_lock);
    for (int other = 0; thing == NULL && other < GS_KIND_COUNT; other++) {
        if (group_of((gs_kind)other) == group_of(kind))
            thing = find_any_locked((gs_kind)other, handle, true);
    }
    if (thing != NULL) {
        *ret_kind = thing->kind;
        *ret_file = thing->file;
        *ret_line = thing->line;
    }
    pthread_mutex_unlock(&gwi_lock);
    return thing != NULL;
}

gwi_thing *gwi_thing_take_any(gs_kind kind, uint64_t handle)
{
    gwi_thing *outside = NULL;
    pthread_mutex_lock(&gwi_lock);
    gwi_thing *thing = find_any_locked(kind, handle, false);
    if (thing != NULL) {
        gwi_thing_take_locked(thing);
        if (!is_around(thing->scope, gwi_current())) {
            uncount_locked(thing);
            thing_count--;
            outside = thing;
            thing = NULL;
        }
    }
    pthread_mutex_unlock(&gwi_lock);
    free(outside);
    return thing;
}

void gwi_thing_put(gwi_thing *thing, gs_scope *scope)
{
    pthread_mutex_lock(&gwi_lock);
    uncount_locked(thing);
    thing->scope = scope;
    count_locked(thing);
    link_locked(thing);
    pthread_mutex_unlock(&gwi_lock);
}

/* ---- releasing ---- */

int gwi_thing_release(const gwi_thing *thing, gs_source *ret_source, const char **ret_call)
{
    void *handle = (void *)(uintptr_t)thing->handle;
    if (thing->release != NULL) {
        *ret_source = thing->release_source;
        *ret_call = thing->release_call;
        return thing->release(handle);
    }
    *ret_source = GS_FROM_DRIVER;
    switch (thing->kind) {
    case GS_KIND_EVENT:
        *ret_call = "cuEventDestroy_v2";
        return gwi_cuda.cuEventDestroy_v2(handle);
    case GS_KIND_ORDERED:
        /* The stream on which this memory was allocated may be destroyed already. The default stream works, too,
         * because the end of a scope first waits for all work. */
        *ret_call = "cuMemFreeAsync";
        return gwi_cuda.cuMemFreeAsync(thing->handle, NULL);
    case GS_KIND_POOL:
        *ret_call = "cuMemPoolDestroy";
        return gwi_cuda.cuMemPoolDestroy(handle);
    case GS_KIND_DEVICE:
    case GS_KIND_MANAGED:
        *ret_call = "cuMemFree_v2";
        return gwi_cuda.cuMemFree_v2(thing->handle);
    case GS_KIND_MAPPED:
    case GS_KIND_PINNED:
        *ret_call = "cuMemFreeHost";
        return gwi_cuda.cuMemFreeHost(handle);
    case GS_KIND_MODULE:
        *ret_call = "cuModuleUnload";
        return gwi_cuda.cuModuleUnload(handle);
    case GS_KIND_STREAM:
        *ret_call = "cuStreamDestroy_v2";
        return gwi_cuda.cuStreamDestroy_v2(handle);
    default:
        return gwi_library_destroy(thing->kind, handle, ret_source, ret_call);
    }
}

bool gwi_is_unknown_to_driver(int code)
{
    return code == CUDA_ERROR_INVALID_VALUE || code == CUDA_ERROR_INVALID_HANDLE || code == CUDA_ERROR_NOT_FOUND ||
           code == CUDA_ERROR_INVALID_CONTEXT || code == CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

gs_status gwi_thing_close(gs_scope *scope, gs_kind kind, uint64_t handle, bool inner_too, const char *call,
                          const char *file, int line)
{
    gs_source source;
    const char *driver_call;
    gs_status status = gwi_usable(scope, call, file, line);
    if (status != GS_OK)
        return status;
    gwi_thing *thing = gwi_thing_take(scope, kind, handle, inner_too);
    if (thing == NULL)
        return gwi_refuse(scope, GS_MISUSE, call, file, line, "the scope owns no such %s (0x%llx)", gs_kind_text(kind),
                          (unsigned long long)handle);
    int code = gwi_thing_release(thing, &source, &driver_call);
    if (code == 0) {
        gwi_thing_drop(thing);
        return GS_OK;
    }
    bool is_driver = source == GS_FROM_DRIVER || source == GS_FROM_CUDART; /* with the same error numbers */
    if (is_driver && !gwi_is_unknown_to_driver(code))
        gwi_thing_put(thing, thing->scope); /* the thing stays in its scope, whose end tries to release it again */
    else
        gwi_thing_drop(thing);
    return gwi_failed(scope, source, code, driver_call, NULL, file, line);
}
