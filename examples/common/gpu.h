/* The few things that every program here needs from the CUDA driver: a device, its primary context, and one way to
 * give up. */
#ifndef EXAMPLE_GPU_H
#define EXAMPLE_GPU_H

#include "gw_cuda_calls.h" /* the driver API; with a CUDA toolkit it would be <cuda.h> */

#include <stddef.h>

struct gpu {
    CUdevice device;
    CUcontext context; /* the primary one, current in the calling thread */
};

/* cuInit, device `ordinal`, its primary context. Gives up where one of them fails. */
void gpu_open(struct gpu *gpu, int ordinal);
/* The context is released: what it holds goes with it. */
void gpu_close(struct gpu *gpu);

/* Load PTX text, fetch a kernel. Give up where it cannot be done. */
CUmodule gpu_load(const char *ptx);
CUfunction gpu_kernel(CUmodule module, const char *name);

/* Evaluates a driver call; unless it succeeds the program says so on stderr and exits 1. */
#define CHECK(call) gpu_check((call), #call)
void gpu_check(CUresult result, const char *call);

/* Called once, before the exit of a failed check. NULL: nothing. */
extern void (*gpu_before_giving_up)(CUresult result);

#endif
