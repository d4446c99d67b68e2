/* The CUDA driver API as programs write it. The project describes the driver's interface itself, so that no CUDA
 * toolkit is needed; with one, `#include <cuda.h>` does the same.
 *
 * Some calls got a new parameter or type over the years and carry a version in the library; programs write the name. */
#ifndef EXAMPLE_DRIVER_H
#define EXAMPLE_DRIVER_H

#include "gw_cuda_abi.h"
#include "gw_cuda_calls.h"

#ifndef cuMemAlloc
#define cuMemAlloc                cuMemAlloc_v2
#define cuMemFree                 cuMemFree_v2
#define cuMemGetInfo              cuMemGetInfo_v2
#define cuMemcpyHtoD              cuMemcpyHtoD_v2
#define cuMemcpyDtoH              cuMemcpyDtoH_v2
#define cuMemcpyHtoDAsync         cuMemcpyHtoDAsync_v2
#define cuMemcpyDtoHAsync         cuMemcpyDtoHAsync_v2
#define cuMemHostRegister         cuMemHostRegister_v2
#define cuStreamDestroy           cuStreamDestroy_v2
#define cuEventDestroy            cuEventDestroy_v2
#define cuCtxCreate               cuCtxCreate_v2
#define cuCtxDestroy              cuCtxDestroy_v2
#define cuDevicePrimaryCtxRelease cuDevicePrimaryCtxRelease_v2
#define cuDevicePrimaryCtxReset   cuDevicePrimaryCtxReset_v2
#endif

#endif
