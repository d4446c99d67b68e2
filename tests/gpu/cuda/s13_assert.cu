/* S13: an index out of range fires a device-side assert; the next checked call reports it. repaired: in range. */
#include "scenario.h"

#include <cassert>

__global__ void pick(const float *table, const int *label, float *out, int classes)
{
    int i = threadIdx.x;
    assert(label[i] >= 0 && label[i] < classes);
    out[i] = table[label[i]];
}

int main(int argc, char **argv)
{
    int label[64];
    float *table = NULL, *out = NULL, *next = NULL;
    int *labels = NULL;
    for (int i = 0; i < 64; i++)
        label[i] = i % 10;
    if (!is_variant(argc, argv, "repaired"))
        label[17] = 10;
    CHECK(cudaMalloc(&table, 10 * sizeof *table));
    CHECK(cudaMalloc(&out, 64 * sizeof *out));
    CHECK(cudaMalloc(&labels, sizeof label));
    CHECK(cudaMemset(table, 0, 10 * sizeof *table));
    CHECK(cudaMemcpy(labels, label, sizeof label, cudaMemcpyHostToDevice));
    for (int step = 0; step < 5; step++)
        pick<<<1, 10>>>(table, labels, out, 10); /* the first ten are valid */
    CHECK(cudaDeviceSynchronize());
    printf("epoch 1\n");
    fflush(stdout);
    pick<<<1, 64>>>(table, labels, out, 10);
    CHECK(cudaGetLastError());
    CHECK(cudaMalloc(&next, 1 << 20));
    CHECK(cudaDeviceSynchronize());
    printf("epoch 2\n");
    return 0;
}
