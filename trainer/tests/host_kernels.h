/* The kernels of the cuda back end, compiled for the host. Each thread of a block is a fiber that runs from one barrier
 * to the next. The results are those of a GPU, except for the rounding of expf() and similar functions. Only one
 * synchronisation error is detected: a barrier that not all threads of a block reach. */
#ifndef HOST_KERNELS_H
#define HOST_KERNELS_H

struct dims {
    unsigned x, y, z;
};
extern struct dims threadIdx, blockIdx, blockDim, gridDim;
/* Wait for all threads of the block, as on a GPU. */
void host_barrier(void);

struct host_kernel {
    const char *name;
    void (*run)(void **arguments); /* run the kernel for the thread in threadIdx and blockIdx */
    int has_barriers;
};
/* One list for each precision: fp32, bf16, fp16. Each list ends with a NULL name. */
extern const struct host_kernel host_kernels_0[], host_kernels_1[], host_kernels_2[];
void host_launch(const struct host_kernel *kernel, struct dims grid, struct dims block, void **arguments);

#endif
