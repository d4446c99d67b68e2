/* S32: the device is reset between two model calls, and an object of the first call is used afterwards: kernel (an
 * old pointer in a kernel), event, free. repaired: nothing is kept. An old stream makes the driver itself crash
 * (stream). */
#include "scenario.h"

__global__ void scale(float *data)
{
    data[threadIdx.x] *= 2.0f;
}

int main(int argc, char **argv)
{
    float *weights = NULL;
    cudaStream_t stream;
    cudaEvent_t event;
    CHECK(cudaMalloc(&weights, 1 << 20));
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaEventCreate(&event));
    scale<<<1, 256, 0, stream>>>(weights);
    CHECK(cudaEventRecord(event, stream));
    CHECK(cudaStreamSynchronize(stream));
    printf("first call done\n");
    fflush(stdout);
    CHECK(cudaDeviceReset());
    if (is_variant(argc, argv, "kernel")) {
        scale<<<1, 256>>>(weights);
        CHECK(cudaDeviceSynchronize());
    } else if (is_variant(argc, argv, "event")) {
        CHECK(cudaEventSynchronize(event));
    } else if (is_variant(argc, argv, "free")) {
        CHECK(cudaFree(weights));
    } else if (is_variant(argc, argv, "stream")) {
        CHECK(cudaStreamSynchronize(stream));
    } else {
        CHECK(cudaMalloc(&weights, 1 << 20));
        scale<<<1, 256>>>(weights);
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaFree(weights));
    }
    printf("second call done\n");
    return 0;
}
