/* Functions that every example needs to use the CUDA driver: open a device with its primary context, load kernels,
 * and exit on errors. */
#ifndef EXAMPLE_GPU_H
#define EXAMPLE_GPU_H

#include "gw_cuda_calls.h" /* the driver API; programs built with a CUDA toolkit include <cuda.h> instead */

#include <stddef.h>

struct gpu {
    CUdevice device;
    CUcontext context; /* the primary context, current in the calling thread */
};

/* Call cuInit(), get device `ordinal` and make its primary context current. Exits with an error message on failure. */
void gpu_open(struct gpu *gpu, int ordinal);
/* Release the context, which frees everything allocated in it. */
void gpu_close(struct gpu *gpu);

/* gpu_load() loads PTX text, gpu_kernel() finds a kernel. Both exit with an error message on failure. */
CUmodule gpu_load(const char *ptx);
CUfunction gpu_kernel(CUmodule module, const char *name);

/* Make a driver call. On an error, print the error on stderr and exit with status 1. */
#define CHECK(call) gpu_check((call), #call)
void gpu_check(CUresult result, const char *call);

/* If not NULL, this function is called once with the result of the failed driver call, before the program exits. */
extern void (*gpu_before_giving_up)(CUresult result);

#endif
