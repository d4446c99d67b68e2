/* Load the CUDA driver at run time. The members of gwi_driver are exported names such as cuMemAlloc_v2, whose meaning
 * never changes. The types are generated from api/driver.api. */
#ifndef GWI_DRIVER_H
#define GWI_DRIVER_H

#include <gpuwhy/gw_api_proto.h>
#include <gpuwhy/scope.h>

/* Every driver since CUDA 11.4 has all of these functions. */
#define GWI_DRIVER_CALLS(X)                                                                                            \
    X(cuGetErrorName)                                                                                                  \
    X(cuGetErrorString)                                                                                                \
    X(cuInit)                                                                                                          \
    X(cuDeviceGet)                                                                                                     \
    X(cuDeviceGetAttribute)                                                                                            \
    X(cuDevicePrimaryCtxRetain)                                                                                        \
    X(cuDevicePrimaryCtxRelease_v2)                                                                                    \
    X(cuDevicePrimaryCtxGetState)                                                                                      \
    X(cuCtxGetCurrent)                                                                                                 \
    X(cuCtxSetCurrent)                                                                                                 \
    X(cuCtxSynchronize)                                                                                                \
    X(cuMemGetInfo_v2)                                                                                                 \
    X(cuMemAlloc_v2)                                                                                                   \
    X(cuMemFree_v2)                                                                                                    \
    X(cuMemHostAlloc)                                                                                                  \
    X(cuMemHostGetDevicePointer_v2)                                                                                    \
    X(cuMemFreeHost)                                                                                                   \
    X(cuMemPoolCreate)                                                                                                 \
    X(cuMemPoolDestroy)                                                                                                \
    X(cuMemPoolSetAttribute)                                                                                           \
    X(cuMemAllocFromPoolAsync)                                                                                         \
    X(cuMemFreeAsync)                                                                                                  \
    X(cuStreamCreate)                                                                                                  \
    X(cuStreamDestroy_v2)                                                                                              \
    X(cuStreamSynchronize)                                                                                             \
    X(cuStreamWaitEvent)                                                                                               \
    X(cuEventCreate)                                                                                                   \
    X(cuEventDestroy_v2)                                                                                               \
    X(cuEventRecord)                                                                                                   \
    X(cuEventSynchronize)                                                                                              \
    X(cuEventElapsedTime)                                                                                              \
    X(cuModuleLoadDataEx)                                                                                              \
    X(cuModuleGetFunction)                                                                                             \
    X(cuModuleUnload)                                                                                                  \
    X(cuLaunchKernel)                                                                                                  \
    X(cuMemcpyHtoDAsync_v2)                                                                                            \
    X(cuMemcpyDtoHAsync_v2)                                                                                            \
    X(cuMemcpyDtoDAsync_v2)                                                                                            \
    X(cuMemsetD8Async)

typedef struct gwi_driver {
#define GWI_X(name) gw_fn_t_##name *name;
    GWI_DRIVER_CALLS(GWI_X)
#undef GWI_X
} gwi_driver;

/* The driver's functions, set once by gwi_driver_open(). */
extern gwi_driver gwi_cuda;

/* Why the driver cannot be used. */
typedef struct gwi_driver_trouble {
    int code;         /* error number that `call` returned; 0: `text` contains the reason instead */
    const char *call; /* name of the function that failed; static */
    char text[320];
} gwi_driver_trouble;

/* Load and initialise the driver. After a success, later calls do nothing. After a failure, they try again. The
 * functions differ only in how they describe the failure. Any thread may call them. */
gs_status gwi_driver_open(gwi_driver_trouble *ret_trouble);
gs_status gwi_driver_load(gs_failure *ret_failure);
/* True if the driver is loaded and its functions may be called. */
int gwi_driver_is_loaded(void);
void *gwi_driver_symbol(const char *name);
/* True if the process was forked after the driver was initialised. The driver does not work in a forked process. */
int gwi_driver_is_forked(void);

#endif
