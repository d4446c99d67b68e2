/* What every example needs from the CUDA driver: a device, its primary context, and a way to give up on errors. */
#ifndef EXAMPLE_GPU_H
#define EXAMPLE_GPU_H

#include "gw_cuda_calls.h" /* the driver API; with a CUDA toolkit this would be <cuda.h> */

#include <stddef.h>

struct gpu {
    CUdevice device;
    CUcontext context; /* the primary context, current in the calling thread */
};

/* Call cuInit, get device `ordinal` and its primary context. Exits with an error message on failure. */
void gpu_open(struct gpu *gpu, int ordinal);
/* Release the context, and with it everything allocated in it. */
void gpu_close(struct gpu *gpu);

/* Load PTX text; find a kernel. Both exit with an error message on failure. */
CUmodule gpu_load(const char *ptx);
CUfunction gpu_kernel(CUmodule module, const char *name);

/* Make a driver call. On an error, print it on stderr and exit 1. */
#define CHECK(call) gpu_check((call), #call)
void gpu_check(CUresult result, const char *call);

/* Called once before the program exits because of a failed check. NULL: not called. */
extern void (*gpu_before_giving_up)(CUresult result);

#endif
