/* leaky.c with a scope around each run: the end of the scope releases what a run has forgotten, and lists it.
 *
 *     repaired [runs]         default: 40 runs */
#include <stdio.h>
#include <stdlib.h>

#include <cuda_runtime.h>

#include <gpuwhy/scope_cuda_wrap.h>

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        cudaError_t error = (call);                                                                                    \
        if (error != cudaSuccess) {                                                                                    \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(error));                  \
            return -1;                                                                                                 \
        }                                                                                                              \
    } while (0)

enum { WEIGHT_BYTES = 96 << 20, BATCH_BYTES = 1 << 20, STEPS = 3 };

/* Train once. Returns the steps that were made, or -1 if a call failed. */
static int train(int run)
{
    void *weights, *batch, *staging;
    cudaStream_t stream;
    cudaEvent_t copied;
    CHECK(cudaMalloc(&weights, WEIGHT_BYTES));
    CHECK(cudaMallocManaged(&batch, BATCH_BYTES, cudaMemAttachGlobal));
    CHECK(cudaMallocHost(&staging, BATCH_BYTES));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaEventCreate(&copied));
    for (int step = 0; step < STEPS; step++) {
        CHECK(cudaMemcpyAsync(batch, staging, BATCH_BYTES, cudaMemcpyDefault, stream));
        CHECK(cudaEventRecord(copied, stream));
        CHECK(cudaMemsetAsync(weights, run, BATCH_BYTES, stream));
        CHECK(cudaStreamSynchronize(stream));
        if (run % 2 == 1)
            return step + 1; /* no better than before: stop early */
    }
    CHECK(cudaEventDestroy(copied));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFreeHost(staging));
    CHECK(cudaFree(batch));
    CHECK(cudaFree(weights));
    return STEPS;
}

int main(int argc, char **argv)
{
    int runs = argc > 1 ? atoi(argv[1]) : 40;
    for (int run = 1; run <= runs; run++) {
        gs_scope *scope;
        gs_report *report = NULL;
        if (gs_open(NULL, &scope, NULL) != GS_OK)
            return 1;
        int steps = train(run);
        gs_end(scope, &report);
        gs_report_print(report, stderr);
        gs_report_free(report);
        if (steps < 0)
            return 1;
        printf("run %d: %d steps\n", run, steps);
    }
    return 0;
}
