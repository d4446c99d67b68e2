/* libgpuscope for programs that use the CUDA runtime (cudaMalloc() and so on): scopes that own what the runtime
 * creates.
 *
 *     #include <cuda_runtime.h>
 *     #include <gpuwhy/scope_cuda.h>           after the runtime's header
 *
 *     float *weights;
 *     gs_cuda_malloc(scope, bytes, &weights);  instead of cudaMalloc(&weights, bytes)
 *     cudaStreamCreate(&stream);
 *     gs_cuda_adopt(scope, GS_KIND_STREAM, stream, 0);    or: own what exists
 *     GS_TRY_CUDA(cudaMemcpyAsync(weights, from, bytes, cudaMemcpyDefault, stream));
 *     step<<<64, 256, 0, stream>>>(weights);
 *     GS_CUDA_LAUNCHED(step);
 *
 * The rules of <gpuwhy/scope.h> hold. The runtime and the scope use the same context, the device's primary one. The
 * runtime releases it only when the process ends, so the report of an outermost scope has GS_CONTEXT_STAYS.
 *
 * How the runtime's functions are found: if this file is included after the runtime's header, the compiler inserts
 * their addresses. This works with every kind of linking, also if the runtime is linked statically, which hides its
 * names (nvcc's default). Otherwise they are searched at run time: among the global names of the process, in the
 * library that GPUSCOPE_CUDART names, and in a libcudart.so that the process has loaded. libgpuscope never loads a
 * runtime by itself. GS_NO_LIBRARY: none was found.
 *
 * Do not pass memory, streams or events that a scope owns to cudaFree(), cudaStreamDestroy() and so on: release them
 * with the calls below, or give them up with gs_disown(). Do not call cudaDeviceReset() while a scope is open. */
#ifndef GPUWHY_SCOPE_CUDA_H
#define GPUWHY_SCOPE_CUDA_H

#include <gpuwhy/scope.h>

/* The functions of the runtime that libgpuscope calls, as X(name, parameters). New ones come at the end. */
#define GS_CUDA_CALLS(X)                                                                                               \
    X(cudaMalloc, (void **, size_t))                                                                                   \
    X(cudaMallocAsync, (void **, size_t, cudaStream_t))                                                                \
    X(cudaMallocHost, (void **, size_t))                                                                               \
    X(cudaMallocManaged, (void **, size_t, unsigned))                                                                  \
    X(cudaFree, (void *))                                                                                              \
    X(cudaFreeAsync, (void *, cudaStream_t))                                                                           \
    X(cudaFreeHost, (void *))                                                                                          \
    X(cudaStreamCreateWithFlags, (cudaStream_t *, unsigned))                                                           \
    X(cudaStreamDestroy, (cudaStream_t))                                                                               \
    X(cudaEventCreateWithFlags, (cudaEvent_t *, unsigned))                                                             \
    X(cudaEventDestroy, (cudaEvent_t))                                                                                 \
    X(cudaGetLastError, (void))

/* Addresses of the runtime's functions. `bytes` is the size of the structure in the program that filled it in. It must
 * stay valid until the process ends. NULL instead of a pointer to it: search at run time. */
typedef struct gs_cuda_runtime {
    size_t bytes;
#define GS_X(name, parameters) void (*name)(void);
    GS_CUDA_CALLS(GS_X)
#undef GS_X
} gs_cuda_runtime;

#ifdef CUDART_VERSION
#if CUDART_VERSION < 11020
#error "gpuwhy/scope_cuda.h needs CUDA 11.2 or later"
#endif
static inline const gs_cuda_runtime *gs_cuda_linked(void)
{
    static const gs_cuda_runtime linked = {sizeof(gs_cuda_runtime),
#define GS_X(name, parameters) (void (*)(void))(cudaError_t(*) parameters) name,
                                           GS_CUDA_CALLS(GS_X)
#undef GS_X
    };
    return &linked;
}
#define GS_CUDA_RUNTIME   gs_cuda_linked()
#define GS_CUDA_IS_LINKED 1
#else
#define GS_CUDA_RUNTIME NULL
#endif

#ifdef __cplusplus
template <typename type> static inline void **gs_cuda_place(type **place)
{
    return reinterpret_cast<void **>(place);
}
#define GS_CUDA_PLACE(ret) gs_cuda_place(ret)
extern "C" {
#else
#define GS_CUDA_PLACE(ret) (ret)
#endif

/* Make a call of the runtime and evaluate to its status, like GS_TRY: a failure becomes the first failure of the
 * thread's scope, with the source GS_FROM_CUDART. */
#define GS_TRY_CUDA(call) GS_TRY_OF(GS_FROM_CUDART, call)

/* Check a launch with <<<...>>>, in the statement after it, and evaluate to a status. A later failure then names this
 * launch as the latest one. With GS_WAIT_FOR_LAUNCHES, wait for the kernel. `kernel` is only text. */
#define GS_CUDA_LAUNCHED(kernel) gs_cuda_launched_at(GS_CUDA_RUNTIME, #kernel, GS_HERE)
GS_API gs_status gs_cuda_launched_at(const gs_cuda_runtime *runtime, const char *call, const char *file, int line);

/* Allocate memory with the runtime: device memory by cudaMalloc(), stream-ordered memory of the device's default pool
 * by cudaMallocAsync(), page-locked host memory by cudaMallocHost(), managed memory by cudaMallocManaged(). A scope's
 * limit and peak count device and stream-ordered memory, but not managed memory, which moves between host and card. For
 * 0 bytes the runtime returns NULL where it allows this, and the scope then owns nothing. In C++, `ret` may point to a
 * pointer of any type; C needs (void **)&pointer, as the runtime does. */
#define gs_cuda_malloc(scope, bytes, ret)                                                                              \
    gs_cuda_malloc_at((scope), GS_CUDA_RUNTIME, (bytes), GS_CUDA_PLACE(ret), GS_HERE)
#define gs_cuda_malloc_async(scope, bytes, stream, ret)                                                                \
    gs_cuda_malloc_async_at((scope), GS_CUDA_RUNTIME, (bytes), (stream), GS_CUDA_PLACE(ret), GS_HERE)
#define gs_cuda_malloc_host(scope, bytes, ret)                                                                         \
    gs_cuda_malloc_host_at((scope), GS_CUDA_RUNTIME, (bytes), GS_CUDA_PLACE(ret), GS_HERE)
#define gs_cuda_malloc_managed(scope, bytes, ret)                                                                      \
    gs_cuda_malloc_managed_at((scope), GS_CUDA_RUNTIME, (bytes), GS_CUDA_PLACE(ret), GS_HERE)
GS_API gs_status gs_cuda_malloc_at(gs_scope *scope, const gs_cuda_runtime *runtime, size_t bytes, void **ret,
                                   const char *file, int line);
GS_API gs_status gs_cuda_malloc_async_at(gs_scope *scope, const gs_cuda_runtime *runtime, size_t bytes, CUstream stream,
                                         void **ret, const char *file, int line);
GS_API gs_status gs_cuda_malloc_host_at(gs_scope *scope, const gs_cuda_runtime *runtime, size_t bytes, void **ret,
                                        const char *file, int line);
GS_API gs_status gs_cuda_malloc_managed_at(gs_scope *scope, const gs_cuda_runtime *runtime, size_t bytes, void **ret,
                                           const char *file, int line);

/* Free memory of the calls above, or memory that the scope has adopted, before the scope ends. gs_cuda_free() takes any
 * memory except host memory; gs_cuda_free_async() takes stream-ordered memory. NULL is accepted, as by the runtime.
 * GS_MISUSE: neither the scope nor an enclosing one owns it. */
#define gs_cuda_free(scope, memory) gs_cuda_free_at((scope), (memory), GS_HERE)
#define gs_cuda_free_async(scope, memory, stream)                                                                      \
    gs_cuda_free_async_at((scope), GS_CUDA_RUNTIME, (memory), (stream), GS_HERE)
#define gs_cuda_free_host(scope, memory) gs_free_host_at((scope), (memory), GS_HERE)
GS_API gs_status gs_cuda_free_at(gs_scope *scope, void *memory, const char *file, int line);
GS_API gs_status gs_cuda_free_async_at(gs_scope *scope, const gs_cuda_runtime *runtime, void *memory, CUstream stream,
                                       const char *file, int line);

/* Create a stream or an event with the runtime. `flags` are those of cudaStreamCreateWithFlags() and
 * cudaEventCreateWithFlags(). Release them with gs_stream_close() and gs_event_close(). */
#define gs_cuda_stream(scope, flags, ret) gs_cuda_stream_at((scope), GS_CUDA_RUNTIME, (flags), (ret), GS_HERE)
#define gs_cuda_event(scope, flags, ret)  gs_cuda_event_at((scope), GS_CUDA_RUNTIME, (flags), (ret), GS_HERE)
GS_API gs_status gs_cuda_stream_at(gs_scope *scope, const gs_cuda_runtime *runtime, unsigned flags, CUstream *ret,
                                   const char *file, int line);
GS_API gs_status gs_cuda_event_at(gs_scope *scope, const gs_cuda_runtime *runtime, unsigned flags, CUevent *ret,
                                  const char *file, int line);

/* Let the scope own a resource that the program has created with the runtime: memory, a stream or an event. For host
 * memory of cudaMallocHost() and cudaHostAlloc(), `kind` is GS_KIND_PINNED. `bytes` is the size of memory, otherwise 0.
 * The statuses are those of gs_adopt(), and GS_NO_LIBRARY. Handles of cuDNN, cuBLAS, cuBLASLt and NCCL: gs_adopt(). */
#define gs_cuda_adopt(scope, kind, handle, bytes)                                                                      \
    gs_cuda_adopt_at((scope), GS_CUDA_RUNTIME, (kind), GS_NUMBER(handle), (bytes), GS_HERE)
GS_API gs_status gs_cuda_adopt_at(gs_scope *scope, const gs_cuda_runtime *runtime, gs_kind kind, uint64_t handle,
                                  size_t bytes, const char *file, int line);

/* ---- for <gpuwhy/scope_cuda_wrap.h> ---- */

/* Let the thread's innermost scope own what a call has created, or record that the call has failed. Returns `code`, or
 * 2 (cudaErrorMemoryAllocation) as that header describes. */
GS_API int gs_cuda_created_at(const gs_cuda_runtime *runtime, int code, gs_kind kind, uint64_t handle, size_t bytes,
                              const char *call, const char *file, int line);
/* Take a resource from its scope, of any thread, before it is released: gs_cuda_released_at() ends this. `kind` is
 * GS_KIND_DEVICE for all memory that cudaFree() takes. Returns NULL if no scope owns it. */
typedef struct gs_taken gs_taken;
GS_API gs_taken *gs_cuda_take(gs_kind kind, uint64_t handle);
/* If the release has failed (`code` is not 0), return the resource to its scope and record the failure. Returns `code`.
 */
GS_API int gs_cuda_released_at(gs_taken *taken, int code, const char *call, const char *file, int line);

#ifdef __cplusplus
}
#endif

#endif
