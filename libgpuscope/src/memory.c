/* Create memory of all kinds, streams, events and modules, add them to their scope, and release them. */
#include "gwi_scope.h"

#include "gwi_driver.h"

#include <string.h>

/* Add a new object to the scope. If the driver call that should create it failed (`code` is not 0), store the failure
 * and free `thing` instead. */
static gs_status own(gwi_thing *thing, int code, uint64_t handle, const char *call, const char *note)
{
    gs_scope *scope = thing->scope;
    const char *file = thing->file;
    int line = thing->line;
    if (code == 0) {
        gwi_thing_own(thing, handle);
        return GS_OK;
    }
    gwi_thing_drop(thing);
    return gwi_failed(scope, GS_FROM_DRIVER, code, call, note, file, line);
}

static gs_status begin(gs_scope *scope, gs_kind kind, uint64_t bytes, const char *call, const char *file, int line,
                       gwi_thing **ret_thing)
{
    gs_status status = gwi_usable(scope, call, file, line);
    return status == GS_OK ? gwi_thing_new(scope, kind, bytes, call, file, line, ret_thing) : status;
}

static uint64_t number(const void *pointer)
{
    return (uint64_t)(uintptr_t)pointer;
}

/* ---- device memory ---- */

gs_status gwi_alloc(gs_scope *scope, uint64_t bytes, bool is_inner, CUdeviceptr *ret, const char *call,
                    const char *file, int line)
{
    gwi_thing *thing;
    CUdeviceptr address = 0;
    gs_status status = begin(scope, GS_KIND_DEVICE, bytes, call, file, line, &thing);
    if (status != GS_OK)
        return status;
    thing->is_inner = is_inner;
    int code = gwi_cuda.cuMemAlloc_v2(&address, bytes);
    status = own(thing, code, address, "cuMemAlloc_v2", NULL);
    if (status == GS_OK)
        *ret = address;
    return status;
}

gs_status gs_alloc_at(gs_scope *scope, size_t bytes, CUdeviceptr *ret, const char *file, int line)
{
    return gwi_alloc(scope, bytes, false, ret, "gs_alloc", file, line);
}

gs_status gs_free_at(gs_scope *scope, CUdeviceptr address, const char *file, int line)
{
    return gwi_thing_close(scope, GS_KIND_DEVICE, address, false, "gs_free", file, line);
}

/* ---- stream-ordered memory ---- */

static int make_pool(const gs_scope *scope, CUmemoryPool *ret_pool, const char **ret_call)
{
    CUmemPoolProps properties;
    cuuint64_t keep_all = UINT64_MAX;
    memset(&properties, 0, sizeof properties);
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = scope->device->device;
    *ret_call = "cuMemPoolCreate";
    int code = gwi_cuda.cuMemPoolCreate(ret_pool, &properties);
    if (code != 0)
        return code;
    *ret_call = "cuMemPoolSetAttribute";
    code = gwi_cuda.cuMemPoolSetAttribute(*ret_pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep_all);
    if (code != 0)
        gwi_cuda.cuMemPoolDestroy(*ret_pool);
    return code;
}

/* Return the scope's pool, created by the first call, in *ret_pool, or NULL if the GPU does not support pools. If two
 * threads create it at once, one pool is destroyed. */
static gs_status pool_of(gs_scope *scope, CUmemoryPool *ret_pool, const char *file, int line)
{
    gwi_thing *thing;
    CUmemoryPool pool = NULL;
    const char *call;
    pthread_mutex_lock(&gwi_lock);
    uint64_t known = scope->pool;
    bool has_none = scope->has_no_pools;
    pthread_mutex_unlock(&gwi_lock);
    *ret_pool = (CUmemoryPool)(uintptr_t)known;
    if (known != 0 || has_none)
        return GS_OK;
    int supported = 0, code = gwi_cuda.cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED,
                                                            scope->device->device);
    if (code != 0)
        return gwi_failed(scope, GS_FROM_DRIVER, code, "cuDeviceGetAttribute", NULL, file, line);
    if (!supported) {
        pthread_mutex_lock(&gwi_lock);
        scope->has_no_pools = true;
        pthread_mutex_unlock(&gwi_lock);
        gwi_log(scope, "memory pools are not supported here: stream-ordered memory is plain memory in this scope");
        return GS_OK;
    }
    gs_status status = gwi_thing_new(scope, GS_KIND_POOL, 0, "gs_alloc_ordered", file, line, &thing);
    if (status != GS_OK)
        return status;
    thing->is_inner = true;
    code = make_pool(scope, &pool, &call);
    if (code != 0)
        return own(thing, code, 0, call, NULL);
    pthread_mutex_lock(&gwi_lock);
    bool is_first = scope->pool == 0;
    if (is_first)
        scope->pool = number(pool);
    *ret_pool = (CUmemoryPool)(uintptr_t)scope->pool;
    pthread_mutex_unlock(&gwi_lock);
    if (is_first) {
        gwi_thing_own(thing, number(pool));
        return GS_OK;
    }
    gwi_thing_drop(thing);
    code = gwi_cuda.cuMemPoolDestroy(pool);
    return code == 0 ? GS_OK : gwi_failed(scope, GS_FROM_DRIVER, code, "cuMemPoolDestroy", NULL, file, line);
}

gs_status gs_alloc_ordered_at(gs_scope *scope, size_t bytes, CUstream stream, CUdeviceptr *ret, const char *file,
                              int line)
{
    gwi_thing *thing;
    CUmemoryPool pool;
    CUdeviceptr address = 0;
    gs_status status = gwi_usable(scope, "gs_alloc_ordered", file, line);
    if (status == GS_OK)
        status = pool_of(scope, &pool, file, line);
    if (status != GS_OK)
        return status;
    if (pool == NULL)
        return gwi_alloc(scope, bytes, false, ret, "gs_alloc_ordered", file, line);
    status = gwi_thing_new(scope, GS_KIND_ORDERED, bytes, "gs_alloc_ordered", file, line, &thing);
    if (status != GS_OK)
        return status;
    int code = gwi_cuda.cuMemAllocFromPoolAsync(&address, bytes, pool, stream);
    status = own(thing, code, address, "cuMemAllocFromPoolAsync", NULL);
    if (status == GS_OK)
        *ret = address;
    return status;
}

gs_status gs_free_ordered_at(gs_scope *scope, CUdeviceptr address, CUstream stream, const char *file, int line)
{
    gs_status status = gwi_usable(scope, "gs_free_ordered", file, line);
    if (status != GS_OK)
        return status;
    gwi_thing *thing = gwi_thing_take(scope, GS_KIND_ORDERED, address, false);
    if (thing == NULL) /* without pools, stream-ordered memory is plain device memory */
        return gwi_thing_close(scope, GS_KIND_DEVICE, address, false, "gs_free_ordered", file, line);
    int code = gwi_cuda.cuMemFreeAsync(address, stream);
    if (code == 0) {
        gwi_thing_drop(thing);
        return GS_OK;
    }
    if (gwi_is_unknown_to_driver(code))
        gwi_thing_drop(thing);
    else
        gwi_thing_put(thing, thing->scope);
    return gwi_failed(scope, GS_FROM_DRIVER, code, "cuMemFreeAsync", NULL, file, line);
}

/* ---- host memory ---- */

gs_status gs_alloc_pinned_at(gs_scope *scope, size_t bytes, void **ret, const char *file, int line)
{
    gwi_thing *thing;
    void *memory = NULL;
    gs_status status = begin(scope, GS_KIND_PINNED, bytes, "gs_alloc_pinned", file, line, &thing);
    if (status != GS_OK)
        return status;
    int code = gwi_cuda.cuMemHostAlloc(&memory, bytes, CU_MEMHOSTALLOC_PORTABLE);
    status = own(thing, code, number(memory), "cuMemHostAlloc", NULL);
    if (status == GS_OK)
        *ret = memory;
    return status;
}

gs_status gs_alloc_mapped_at(gs_scope *scope, size_t bytes, void **ret, CUdeviceptr *ret_address, const char *file,
                             int line)
{
    gwi_thing *thing;
    void *memory = NULL;
    CUdeviceptr address = 0;
    gs_status status = begin(scope, GS_KIND_MAPPED, bytes, "gs_alloc_mapped", file, line, &thing);
    if (status != GS_OK)
        return status;
    int code = gwi_cuda.cuMemHostAlloc(&memory, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    status = own(thing, code, number(memory), "cuMemHostAlloc", NULL);
    if (status != GS_OK)
        return status;
    code = gwi_cuda.cuMemHostGetDevicePointer_v2(&address, memory, 0);
    if (code != 0) {
        status = gwi_failed(scope, GS_FROM_DRIVER, code, "cuMemHostGetDevicePointer_v2", NULL, file, line);
        gs_status freed = gwi_is_dead(scope) ? GS_OK : gs_free_host_at(scope, memory, file, line);
        /* ignore the result: only the first failure is reported, and memory that was not freed stays in the scope */
        (void)freed;
        return status;
    }
    *ret = memory;
    *ret_address = address;
    return GS_OK;
}

gs_status gs_free_host_at(gs_scope *scope, void *memory, const char *file, int line)
{
    if (memory == NULL)
        return gwi_usable(scope, "gs_free_host", file, line);
    gs_kind kind = gwi_thing_has(scope, GS_KIND_PINNED, number(memory)) ? GS_KIND_PINNED : GS_KIND_MAPPED;
    return gwi_thing_close(scope, kind, number(memory), false, "gs_free_host", file, line);
}

/* ---- streams, events, modules ---- */

gs_status gs_stream_at(gs_scope *scope, CUstream *ret, const char *file, int line)
{
    gwi_thing *thing;
    CUstream stream = NULL;
    gs_status status = begin(scope, GS_KIND_STREAM, 0, "gs_stream", file, line, &thing);
    if (status != GS_OK)
        return status;
    int code = gwi_cuda.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    status = own(thing, code, number(stream), "cuStreamCreate", NULL);
    if (status == GS_OK)
        *ret = stream;
    return status;
}

gs_status gs_stream_close_at(gs_scope *scope, CUstream stream, const char *file, int line)
{
    return gwi_thing_close(scope, GS_KIND_STREAM, number(stream), false, "gs_stream_close", file, line);
}

gs_status gs_event_at(gs_scope *scope, int timing, CUevent *ret, const char *file, int line)
{
    gwi_thing *thing;
    CUevent event = NULL;
    gs_status status = begin(scope, GS_KIND_EVENT, 0, "gs_event", file, line, &thing);
    if (status != GS_OK)
        return status;
    int code = gwi_cuda.cuEventCreate(&event, timing ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING);
    status = own(thing, code, number(event), "cuEventCreate", NULL);
    if (status == GS_OK)
        *ret = event;
    return status;
}

gs_status gs_event_close_at(gs_scope *scope, CUevent event, const char *file, int line)
{
    return gwi_thing_close(scope, GS_KIND_EVENT, number(event), false, "gs_event_close", file, line);
}

gs_status gs_module_at(gs_scope *scope, const void *image, CUmodule *ret, const char *file, int line)
{
    gwi_thing *thing;
    CUmodule module = NULL;
    char said[200] = "";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {said, (void *)(uintptr_t)(sizeof said - 1)};
    gs_status status = begin(scope, GS_KIND_MODULE, 0, "gs_module", file, line, &thing);
    if (status != GS_OK)
        return status;
    int code = gwi_cuda.cuModuleLoadDataEx(&module, image, 2, options, values);
    said[sizeof said - 1] = '\0';
    status = own(thing, code, number(module), "cuModuleLoadDataEx", said);
    if (status == GS_OK)
        *ret = module;
    return status;
}

gs_status gs_module_close_at(gs_scope *scope, CUmodule module, const char *file, int line)
{
    return gwi_thing_close(scope, GS_KIND_MODULE, number(module), false, "gs_module_close", file, line);
}

gs_status gs_kernel_at(gs_scope *scope, CUmodule module, const char *name, CUfunction *ret, const char *file, int line)
{
    CUfunction kernel = NULL;
    gs_status status = gwi_usable(scope, "gs_kernel", file, line);
    if (status != GS_OK)
        return status;
    int code = gwi_cuda.cuModuleGetFunction(&kernel, module, name);
    if (code != 0)
        return gwi_failed(scope, GS_FROM_DRIVER, code, "cuModuleGetFunction", name, file, line);
    *ret = kernel;
    return GS_OK;
}

gs_status gs_memory_of_at(gs_scope *scope, gs_memory *ret_memory, const char *file, int line)
{
    size_t free_bytes, total_bytes;
    gs_status status = gwi_usable(scope, "gs_memory_of", file, line);
    if (status != GS_OK)
        return status;
    int code = gwi_cuda.cuMemGetInfo_v2(&free_bytes, &total_bytes);
    if (code != 0)
        return gwi_failed(scope, GS_FROM_DRIVER, code, "cuMemGetInfo_v2", NULL, file, line);
    pthread_mutex_lock(&gwi_lock);
    *ret_memory = (gs_memory){.live_bytes = scope->live_bytes,
                              .peak_bytes = scope->peak_bytes,
                              .taken_bytes = scope->taken_bytes,
                              .pinned_live_bytes = scope->pinned_bytes,
                              .pinned_peak_bytes = scope->pinned_peak_bytes,
                              .limit_bytes = scope->limit_bytes,
                              .free_bytes = free_bytes,
                              .total_bytes = total_bytes};
    pthread_mutex_unlock(&gwi_lock);
    return GS_OK;
}
