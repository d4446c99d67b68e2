/* S15: threads: 4,096 threads per block; shared: 400,000 bytes of dynamic shared memory. repaired: within
 * the GPU's limits. */
#include "scenario.h"

__global__ void work(float *data)
{
    extern __shared__ float scratch[];
    if (threadIdx.x == 0)
        scratch[0] = data[0];
    __syncthreads();
    data[threadIdx.x] += scratch[0];
}

int main(int argc, char **argv)
{
    float *data = NULL;
    int threads = is_variant(argc, argv, "threads") ? 4096 : 256;
    size_t shared_bytes = is_variant(argc, argv, "shared") ? 400000 : 4096;
    CHECK(cudaMalloc(&data, 1 << 20));
    CHECK(cudaMemset(data, 0, 1 << 20));
    work<<<1, threads, shared_bytes>>>(data);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    printf("done\n");
    return 0;
}
