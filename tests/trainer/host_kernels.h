/* The kernels of the cuda back end, compiled for the host: a launch runs block after block, each thread of a block as a
 * fiber of its own from one barrier to the next. What they compute is what a card would, but for the rounding of
 * expf() and the like; what is amiss between threads is seen where a barrier is not reached by all of a block. */
#ifndef HOST_KERNELS_H
#define HOST_KERNELS_H

struct dims {
    unsigned x, y, z;
};
extern struct dims threadIdx, blockIdx, blockDim, gridDim;
/* As on a card: until all threads of the block are there. */
void host_barrier(void);

struct host_kernel {
    const char *name;
    void (*run)(void **arguments); /* one thread */
    int has_barriers;
};
/* By precision: fp32, bf16, fp16; ended by a name that is NULL. */
extern const struct host_kernel host_kernels_0[], host_kernels_1[], host_kernels_2[];
void host_launch(const struct host_kernel *kernel, struct dims grid, struct dims block, void **arguments);

#endif
