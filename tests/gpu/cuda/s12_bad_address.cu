/* S12: a kernel of the first run writes to a bad address. The error is reported by an allocation of the second run.
 * The program tries a device reset, which does not help. repaired: a good address. */
#include "scenario.h"

__global__ void fill(float *data, size_t offset)
{
    data[offset + threadIdx.x] = 1.0f;
}

static int train(const char *name, size_t offset, bool wait)
{
    float *data = NULL;
    cudaError_t result = cudaMalloc(&data, 64 << 20);
    if (result == cudaSuccess) {
        for (int step = 0; step < 50; step++)
            fill<<<1, 256>>>(data, 0);
        fill<<<1, 256>>>(data, offset);
        for (int step = 0; step < 10; step++)
            fill<<<1, 256>>>(data, 0);
    }
    if (result == cudaSuccess && wait)
        result = cudaDeviceSynchronize();
    printf("%s: %s\n", name, cudaGetErrorName(result));
    return result == cudaSuccess ? 0 : 1;
}

int main(int argc, char **argv)
{
    size_t offset = is_variant(argc, argv, "repaired") ? 0 : (size_t)1 << 40;
    train("first run", offset, false);
    if (train("second run", 0, true) == 0)
        return 0;
    CHECK(cudaDeviceReset());
    return train("after the reset", 0, true);
}
