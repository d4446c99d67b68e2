/* S14: misaligned, trap, recursion (stack overflow); repaired: the same kernels, used without a fault. */
#include "scenario.h"

__global__ void read_wide(const char *data, double *out, int offset)
{
    *out = *(const double *)(data + offset);
}

__global__ void trap_when(int wanted)
{
    if (wanted)
        __trap();
}

__device__ __noinline__ int descend(volatile int *frame, int depth)
{
    volatile int local[64];
    local[depth & 63] = depth + frame[0];
    if (depth == 0)
        return local[0];
    return descend(local, depth - 1) + local[depth & 63];
}

__global__ void recurse(int depth, int *out)
{
    volatile int frame[64];
    frame[0] = threadIdx.x;
    *out = descend(frame, depth);
}

int main(int argc, char **argv)
{
    char *data = NULL;
    CHECK(cudaMalloc(&data, 1 << 20));
    CHECK(cudaMemset(data, 0, 1 << 20));
    read_wide<<<1, 1>>>(data, (double *)(data + 4096), is_variant(argc, argv, "misaligned") ? 3 : 8);
    CHECK(cudaDeviceSynchronize());
    trap_when<<<1, 32>>>(is_variant(argc, argv, "trap"));
    CHECK(cudaDeviceSynchronize());
    recurse<<<1, 32>>>(is_variant(argc, argv, "recursion") ? 1 << 24 : 1, (int *)(data + 8192));
    CHECK(cudaDeviceSynchronize());
    printf("all kernels ran\n");
    return 0;
}
