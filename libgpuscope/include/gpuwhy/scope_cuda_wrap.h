/* Scopes for existing sources that use the CUDA runtime, without a change of their calls.
 *
 *     #include <cuda_runtime.h>
 *     #include <gpuwhy/scope_cuda_wrap.h>       last, after all other headers
 *
 * In this source file, cudaMalloc(), cudaFree() and the other calls at the end of this header then also report to the
 * calling thread's innermost scope what they create and release. The end of the scope releases and lists what the
 * program has forgotten. A failed call becomes the scope's first failure.
 *
 * Results, arguments and error numbers stay those of the runtime, with one exception: cudaErrorMemoryAllocation also
 * means that the memory would exceed the scope's limit, or that the host has no memory to record it. It is then
 * released again.
 *
 * A thread outside of any scope calls the runtime directly. What it creates has no owner. Calls in other source files,
 * and in libraries, are not affected, but they may release what this file has created only after gs_disown(). */
#ifndef GPUWHY_SCOPE_CUDA_WRAP_H
#define GPUWHY_SCOPE_CUDA_WRAP_H

#include <gpuwhy/scope_cuda.h>

#ifndef GS_CUDA_IS_LINKED
#error "include <cuda_runtime.h> before <gpuwhy/scope_cuda.h> and <gpuwhy/scope_cuda_wrap.h>"
#endif

/* ---- creating ---- */

#define GS_WRAP_CREATED(call, kind, handle, bytes)                                                                     \
    (cudaError_t) gs_cuda_created_at(GS_CUDA_RUNTIME, (int)result, (kind),                                             \
                                     result == cudaSuccess ? GS_NUMBER(handle) : 0, (bytes), (call), file, line)

static inline cudaError_t gs_wrap_malloc(const char *file, int line, void **ret, size_t bytes)
{
    cudaError_t result = cudaMalloc(ret, bytes);
    return GS_WRAP_CREATED("cudaMalloc", GS_KIND_DEVICE, *ret, bytes);
}
static inline cudaError_t gs_wrap_malloc_async(const char *file, int line, void **ret, size_t bytes,
                                               cudaStream_t stream)
{
    cudaError_t result = cudaMallocAsync(ret, bytes, stream);
    return GS_WRAP_CREATED("cudaMallocAsync", GS_KIND_ORDERED, *ret, bytes);
}
static inline cudaError_t gs_wrap_malloc_host(const char *file, int line, void **ret, size_t bytes)
{
    cudaError_t result = cudaMallocHost(ret, bytes);
    return GS_WRAP_CREATED("cudaMallocHost", GS_KIND_PINNED, *ret, bytes);
}
static inline cudaError_t gs_wrap_host_alloc(const char *file, int line, void **ret, size_t bytes, unsigned flags)
{
    cudaError_t result = cudaHostAlloc(ret, bytes, flags);
    return GS_WRAP_CREATED("cudaHostAlloc", GS_KIND_PINNED, *ret, bytes);
}
static inline cudaError_t gs_wrap_malloc_managed(const char *file, int line, void **ret, size_t bytes, unsigned flags)
{
    cudaError_t result = cudaMallocManaged(ret, bytes, flags);
    return GS_WRAP_CREATED("cudaMallocManaged", GS_KIND_MANAGED, *ret, bytes);
}
static inline cudaError_t gs_wrap_stream(const char *file, int line, cudaStream_t *ret)
{
    cudaError_t result = cudaStreamCreate(ret);
    return GS_WRAP_CREATED("cudaStreamCreate", GS_KIND_STREAM, *ret, 0);
}
static inline cudaError_t gs_wrap_stream_flags(const char *file, int line, cudaStream_t *ret, unsigned flags)
{
    cudaError_t result = cudaStreamCreateWithFlags(ret, flags);
    return GS_WRAP_CREATED("cudaStreamCreateWithFlags", GS_KIND_STREAM, *ret, 0);
}
static inline cudaError_t gs_wrap_stream_priority(const char *file, int line, cudaStream_t *ret, unsigned flags,
                                                  int priority)
{
    cudaError_t result = cudaStreamCreateWithPriority(ret, flags, priority);
    return GS_WRAP_CREATED("cudaStreamCreateWithPriority", GS_KIND_STREAM, *ret, 0);
}
static inline cudaError_t gs_wrap_event(const char *file, int line, cudaEvent_t *ret)
{
    cudaError_t result = cudaEventCreate(ret);
    return GS_WRAP_CREATED("cudaEventCreate", GS_KIND_EVENT, *ret, 0);
}
static inline cudaError_t gs_wrap_event_flags(const char *file, int line, cudaEvent_t *ret, unsigned flags)
{
    cudaError_t result = cudaEventCreateWithFlags(ret, flags);
    return GS_WRAP_CREATED("cudaEventCreateWithFlags", GS_KIND_EVENT, *ret, 0);
}

#ifdef __cplusplus /* the runtime's overloads for typed pointers and default arguments */
template <typename type> static inline cudaError_t gs_wrap_malloc(const char *file, int line, type **ret, size_t bytes)
{
    return gs_wrap_malloc(file, line, gs_cuda_place(ret), bytes);
}
template <typename type>
static inline cudaError_t gs_wrap_malloc_async(const char *file, int line, type **ret, size_t bytes,
                                               cudaStream_t stream)
{
    return gs_wrap_malloc_async(file, line, gs_cuda_place(ret), bytes, stream);
}
template <typename type, typename pool> /* from a pool of the program */
static inline cudaError_t gs_wrap_malloc_async(const char *file, int line, type **ret, size_t bytes, pool from,
                                               cudaStream_t stream)
{
    cudaError_t result = cudaMallocAsync(gs_cuda_place(ret), bytes, from, stream);
    return GS_WRAP_CREATED("cudaMallocAsync", GS_KIND_ORDERED, *ret, bytes);
}
template <typename type>
static inline cudaError_t gs_wrap_malloc_host(const char *file, int line, type **ret, size_t bytes, unsigned flags = 0)
{
    return gs_wrap_host_alloc(file, line, gs_cuda_place(ret), bytes, flags);
}
template <typename type>
static inline cudaError_t gs_wrap_host_alloc(const char *file, int line, type **ret, size_t bytes, unsigned flags)
{
    return gs_wrap_host_alloc(file, line, gs_cuda_place(ret), bytes, flags);
}
template <typename type>
static inline cudaError_t gs_wrap_malloc_managed(const char *file, int line, type **ret, size_t bytes,
                                                 unsigned flags = cudaMemAttachGlobal)
{
    return gs_wrap_malloc_managed(file, line, gs_cuda_place(ret), bytes, flags);
}
static inline cudaError_t gs_wrap_event(const char *file, int line, cudaEvent_t *ret, unsigned flags)
{
    return gs_wrap_event_flags(file, line, ret, flags);
}
#endif

/* ---- releasing ---- */

static inline cudaError_t gs_wrap_free(const char *file, int line, void *memory)
{
    gs_taken *taken = gs_cuda_take(GS_KIND_DEVICE, GS_NUMBER(memory));
    return (cudaError_t)gs_cuda_released_at(taken, (int)cudaFree(memory), "cudaFree", file, line);
}
static inline cudaError_t gs_wrap_free_async(const char *file, int line, void *memory, cudaStream_t stream)
{
    gs_taken *taken = gs_cuda_take(GS_KIND_ORDERED, GS_NUMBER(memory));
    return (cudaError_t)gs_cuda_released_at(taken, (int)cudaFreeAsync(memory, stream), "cudaFreeAsync", file, line);
}
static inline cudaError_t gs_wrap_free_host(const char *file, int line, void *memory)
{
    gs_taken *taken = gs_cuda_take(GS_KIND_PINNED, GS_NUMBER(memory));
    return (cudaError_t)gs_cuda_released_at(taken, (int)cudaFreeHost(memory), "cudaFreeHost", file, line);
}
static inline cudaError_t gs_wrap_stream_destroy(const char *file, int line, cudaStream_t stream)
{
    gs_taken *taken = gs_cuda_take(GS_KIND_STREAM, GS_NUMBER(stream));
    return (cudaError_t)gs_cuda_released_at(taken, (int)cudaStreamDestroy(stream), "cudaStreamDestroy", file, line);
}
static inline cudaError_t gs_wrap_event_destroy(const char *file, int line, cudaEvent_t event)
{
    gs_taken *taken = gs_cuda_take(GS_KIND_EVENT, GS_NUMBER(event));
    return (cudaError_t)gs_cuda_released_at(taken, (int)cudaEventDestroy(event), "cudaEventDestroy", file, line);
}

/* ---- the calls ---- */

/* With --default-stream per-thread, the runtime's header gives some of them other names. */
#undef cudaMallocAsync
#undef cudaFreeAsync
#define cudaMalloc(...)                   gs_wrap_malloc(GS_HERE, __VA_ARGS__)
#define cudaMallocAsync(...)              gs_wrap_malloc_async(GS_HERE, __VA_ARGS__)
#define cudaMallocHost(...)               gs_wrap_malloc_host(GS_HERE, __VA_ARGS__)
#define cudaHostAlloc(...)                gs_wrap_host_alloc(GS_HERE, __VA_ARGS__)
#define cudaMallocManaged(...)            gs_wrap_malloc_managed(GS_HERE, __VA_ARGS__)
#define cudaFree(...)                     gs_wrap_free(GS_HERE, __VA_ARGS__)
#define cudaFreeAsync(...)                gs_wrap_free_async(GS_HERE, __VA_ARGS__)
#define cudaFreeHost(...)                 gs_wrap_free_host(GS_HERE, __VA_ARGS__)
#define cudaStreamCreate(...)             gs_wrap_stream(GS_HERE, __VA_ARGS__)
#define cudaStreamCreateWithFlags(...)    gs_wrap_stream_flags(GS_HERE, __VA_ARGS__)
#define cudaStreamCreateWithPriority(...) gs_wrap_stream_priority(GS_HERE, __VA_ARGS__)
#define cudaStreamDestroy(...)            gs_wrap_stream_destroy(GS_HERE, __VA_ARGS__)
#define cudaEventCreate(...)              gs_wrap_event(GS_HERE, __VA_ARGS__)
#define cudaEventCreateWithFlags(...)     gs_wrap_event_flags(GS_HERE, __VA_ARGS__)
#define cudaEventDestroy(...)             gs_wrap_event_destroy(GS_HERE, __VA_ARGS__)

#endif
