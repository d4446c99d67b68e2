/* S06: return codes are not checked. An allocation fails and its NULL goes into a kernel. repaired: it fits.
 *
 * Meant for a GPU of 4 GiB. */
#include "scenario.h"

__global__ void scale(float *data, float factor, size_t count)
{
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < count)
        data[i] *= factor;
}

int main(int argc, char **argv)
{
    size_t count = (is_variant(argc, argv, "repaired") ? 1ull : 6ull) << 28;
    float *small = NULL, *large = NULL;
    CHECK(cudaMalloc(&small, 64 << 20));
    CHECK(cudaMemset(small, 0, 64 << 20));
    (void)cudaMalloc(&large, count * sizeof(float)); /* the result is not checked */
    for (int step = 0; step < 20; step++)
        scale<<<1024, 256>>>(small, 0.5f, (64 << 20) / sizeof(float));
    scale<<<1024, 256>>>(large, 0.5f, count);
    (void)cudaMemset(small, 0, 1 << 20);
    float first = -1;
    (void)cudaMemcpy(&first, small, sizeof first, cudaMemcpyDeviceToHost);
    cudaError_t last = cudaDeviceSynchronize();
    printf("finished: %s\n", cudaGetErrorName(last));
    return last == cudaSuccess ? 0 : 1;
}
