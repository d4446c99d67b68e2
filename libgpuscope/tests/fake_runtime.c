/* A small runtime on the driver API, in the place of the CUDA runtime, so that programs which use it run on the virtual
 * GPU. Like the CUDA runtime, it retains the device's primary context at its first call and makes it current in a
 * thread that has none, and returns NULL for 0 bytes of device or page-locked memory. */
#include <cuda_runtime.h>

#include <gpuwhy/scope.h>

#include <pthread.h>
#include <stdio.h>

typedef struct CUmemPoolHandle_st *CUmemoryPool;
int cuInit(unsigned flags);
int cuDevicePrimaryCtxRetain(CUcontext *ret, int device);
int cuCtxGetCurrent(CUcontext *ret);
int cuCtxSetCurrent(CUcontext context);
int cuCtxSynchronize(void);
int cuMemAlloc_v2(CUdeviceptr *ret, size_t bytes);
int cuMemAllocAsync(CUdeviceptr *ret, size_t bytes, CUstream stream);
int cuMemAllocManaged(CUdeviceptr *ret, size_t bytes, unsigned flags);
int cuMemHostAlloc(void **ret, size_t bytes, unsigned flags);
int cuMemFree_v2(CUdeviceptr address);
int cuMemFreeAsync(CUdeviceptr address, CUstream stream);
int cuMemFreeHost(void *memory);
int cuMemGetInfo_v2(size_t *ret_free, size_t *ret_total);
int cuMemsetD8Async(CUdeviceptr address, unsigned char byte, size_t bytes, CUstream stream);
int cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);
int cuStreamCreateWithPriority(CUstream *ret, unsigned flags, int priority);
int cuStreamDestroy_v2(CUstream stream);
int cuStreamSynchronize(CUstream stream);
int cuEventCreate(CUevent *ret, unsigned flags);
int cuEventRecord(CUevent event, CUstream stream);
int cuEventDestroy_v2(CUevent event);
int cuGetErrorString(int code, const char **ret);

static pthread_once_t once = PTHREAD_ONCE_INIT;
static CUcontext context;
static int start_code;
static _Thread_local int last_error, next_code;

void fake_runtime_fail(cudaError_t code)
{
    next_code = (int)code;
}

static void start(void)
{
    start_code = cuInit(0);
    if (start_code == 0)
        start_code = cuDevicePrimaryCtxRetain(&context, 0);
}

/* Prepare a call: returns the error with which it must fail, or 0. */
static int enter(void)
{
    CUcontext current = NULL;
    int code = next_code;
    next_code = 0;
    pthread_once(&once, start);
    if (code == 0)
        code = start_code;
    if (code == 0)
        code = cuCtxGetCurrent(&current);
    if (code == 0 && current == NULL)
        code = cuCtxSetCurrent(context);
    return code;
}

static cudaError_t leave(int code)
{
    if (code != 0 && code != cudaErrorNotReady)
        last_error = code;
    return (cudaError_t)code;
}

#define CALL(driver_call)                                                                                              \
    do {                                                                                                               \
        int code = enter();                                                                                            \
        return leave(code == 0 ? (driver_call) : code);                                                                \
    } while (0)

static CUdeviceptr number(const void *memory)
{
    return (CUdeviceptr)(uintptr_t)memory;
}

/* ---- memory ---- */

cudaError_t cudaMalloc(void **ret, size_t bytes)
{
    CUdeviceptr address = 0;
    int code = enter();
    if (code == 0 && bytes != 0)
        code = cuMemAlloc_v2(&address, bytes);
    if (code == 0)
        *ret = (void *)(uintptr_t)address;
    return leave(code);
}

cudaError_t cudaMallocAsync(void **ret, size_t bytes, cudaStream_t stream)
{
    CUdeviceptr address = 0;
    int code = enter();
    if (code == 0)
        code = cuMemAllocAsync(&address, bytes, stream);
    if (code == 0)
        *ret = (void *)(uintptr_t)address;
    return leave(code);
}

cudaError_t cudaMallocManaged(void **ret, size_t bytes, unsigned flags)
{
    CUdeviceptr address = 0;
    int code = enter();
    if (code == 0)
        code = cuMemAllocManaged(&address, bytes, flags);
    if (code == 0)
        *ret = (void *)(uintptr_t)address;
    return leave(code);
}

cudaError_t cudaHostAlloc(void **ret, size_t bytes, unsigned flags)
{
    if (bytes == 0)
        *ret = NULL;
    CALL(bytes == 0 ? 0 : cuMemHostAlloc(ret, bytes, flags));
}

cudaError_t cudaMallocHost(void **ret, size_t bytes)
{
    return cudaHostAlloc(ret, bytes, 0);
}

cudaError_t cudaFree(void *memory)
{
    CALL(memory == NULL ? 0 : cuMemFree_v2(number(memory)));
}

cudaError_t cudaFreeAsync(void *memory, cudaStream_t stream)
{
    CALL(cuMemFreeAsync(number(memory), stream));
}

cudaError_t cudaFreeHost(void *memory)
{
    CALL(memory == NULL ? 0 : cuMemFreeHost(memory));
}

cudaError_t cudaMemGetInfo(size_t *ret_free, size_t *ret_total)
{
    CALL(cuMemGetInfo_v2(ret_free, ret_total));
}

/* ---- streams, events, work ---- */

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *ret, unsigned flags, int priority)
{
    CALL(cuStreamCreateWithPriority(ret, flags, priority));
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *ret, unsigned flags)
{
    return cudaStreamCreateWithPriority(ret, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t *ret)
{
    return cudaStreamCreateWithPriority(ret, 0, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    CALL(cuStreamDestroy_v2(stream));
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    CALL(cuStreamSynchronize(stream));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *ret, unsigned flags)
{
    CALL(cuEventCreate(ret, flags));
}

cudaError_t cudaEventCreate(cudaEvent_t *ret)
{
    return cudaEventCreateWithFlags(ret, 0);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    CALL(cuEventRecord(event, stream));
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    CALL(cuEventDestroy_v2(event));
}

cudaError_t cudaMemsetAsync(void *memory, int byte, size_t bytes, cudaStream_t stream)
{
    CALL(cuMemsetD8Async(number(memory), (unsigned char)byte, bytes, stream));
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    (void)kind;
    CALL(cuMemcpyAsync(number(to), number(from), bytes, stream));
}

cudaError_t cudaDeviceSynchronize(void)
{
    CALL(cuCtxSynchronize());
}

cudaError_t cudaGetLastError(void)
{
    int code = next_code != 0 ? next_code : last_error;
    next_code = last_error = 0;
    return (cudaError_t)code;
}

const char *cudaGetErrorString(cudaError_t error)
{
    const char *text = NULL;
    return cuGetErrorString((int)error, &text) == 0 && text != NULL ? text : "unknown error";
}
