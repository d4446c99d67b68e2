/* The test's own header in the place of the CUDA runtime's: the types and functions that the tests and the examples of
 * libgpuscope use. fake_runtime.c has the functions. */
#ifndef TEST_CUDA_RUNTIME_H
#define TEST_CUDA_RUNTIME_H

#include <stddef.h>

#define CUDART_VERSION 12000

typedef enum cudaError {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorNotReady = 600,
    cudaErrorIllegalAddress = 700
} cudaError_t;
typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2, cudaMemcpyDefault = 4 };
#define cudaStreamNonBlocking 1u
#define cudaEventDefault      0u
#define cudaMemAttachGlobal   1u

#ifdef __cplusplus
extern "C" {
#endif
cudaError_t cudaMalloc(void **ret, size_t bytes);
cudaError_t cudaMallocAsync(void **ret, size_t bytes, cudaStream_t stream);
cudaError_t cudaMallocHost(void **ret, size_t bytes);
cudaError_t cudaHostAlloc(void **ret, size_t bytes, unsigned flags);
cudaError_t cudaMallocManaged(void **ret, size_t bytes, unsigned flags);
cudaError_t cudaFree(void *memory);
cudaError_t cudaFreeAsync(void *memory, cudaStream_t stream);
cudaError_t cudaFreeHost(void *memory);
cudaError_t cudaStreamCreate(cudaStream_t *ret);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *ret, unsigned flags);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *ret, unsigned flags, int priority);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaEventCreate(cudaEvent_t *ret);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *ret, unsigned flags);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaMemsetAsync(void *memory, int byte, size_t bytes, cudaStream_t stream);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaMemGetInfo(size_t *ret_free, size_t *ret_total);
cudaError_t cudaGetLastError(void);
const char *cudaGetErrorString(cudaError_t error);

/* Make this thread's next call return `code` without an effect. */
void fake_runtime_fail(cudaError_t code);
#ifdef __cplusplus
}

/* The real header has templates for typed pointers, too. */
template <typename type> static inline cudaError_t cudaMalloc(type **ret, size_t bytes)
{
    return cudaMalloc(reinterpret_cast<void **>(ret), bytes);
}
template <typename type>
static inline cudaError_t cudaMallocManaged(type **ret, size_t bytes, unsigned flags = cudaMemAttachGlobal)
{
    return cudaMallocManaged(reinterpret_cast<void **>(ret), bytes, flags);
}
template <typename type> static inline cudaError_t cudaMallocHost(type **ret, size_t bytes, unsigned flags = 0)
{
    return cudaHostAlloc(reinterpret_cast<void **>(ret), bytes, flags);
}
#endif

#endif
