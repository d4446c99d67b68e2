/* libgpuscope with the CUDA runtime on a real card: scopes own what the runtime creates, in new code and in code whose
 * calls are wrapped, run after run. Prints what is wrong and exits 1. Built and run by ../scope_cuda.py with a static
 * and a shared runtime. */
#include <cuda_runtime.h>

#include <gpuwhy/scope_cuda.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 1 << 20, RUNS = 5 };

__global__ void fill(float *data, float value)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < COUNT)
        data[i] = value;
}

static int failed;
#define EXPECT(what)                                                                                                   \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            printf("%s:%d: %s\n", __FILE__, __LINE__, #what);                                                          \
            failed = 1;                                                                                                \
        }                                                                                                              \
    } while (0)

static gs_scope *open_scope(void)
{
    gs_scope *scope = NULL;
    gs_failure failure;
    char text[1024];
    if (gs_open(NULL, &scope, &failure) != GS_OK) {
        printf("%s\n", gs_failure_text(&failure, text, sizeof text));
        exit(1);
    }
    return scope;
}

/* End a scope that holds `held` resources. From the second run on, nothing may be missing: the first one loads kernels.
 */
static void end_scope(gs_scope *scope, int run, size_t held)
{
    gs_report *report = NULL;
    EXPECT(gs_end(scope, &report) == GS_OK);
    if (report == NULL)
        return;
    EXPECT(report->held_count == held && report->kept_count == 0 && report->context == GS_CONTEXT_STAYS);
    EXPECT(report->has_memory);
    if (run > 0)
        EXPECT(report->missing_bytes <= (int64_t)report->allowed_bytes);
    if (failed || run == RUNS - 1)
        gs_report_print(report, stdout);
    gs_report_free(report);
}

/* ---- the calls of scope_cuda.h ---- */

static gs_status use_each_kind(gs_scope *scope)
{
    float *device, *ordered, *managed, *pinned, *adopted;
    cudaStream_t stream, other;
    cudaEvent_t event;
    GS_RETURN_IF_FAILED(gs_cuda_stream(scope, cudaStreamNonBlocking, &stream));
    GS_RETURN_IF_FAILED(gs_cuda_event(scope, cudaEventDisableTiming, &event));
    GS_RETURN_IF_FAILED(gs_cuda_malloc(scope, COUNT * sizeof(float), &device));
    GS_RETURN_IF_FAILED(gs_cuda_malloc_async(scope, COUNT * sizeof(float), stream, &ordered));
    GS_RETURN_IF_FAILED(gs_cuda_malloc_managed(scope, COUNT * sizeof(float), &managed));
    GS_RETURN_IF_FAILED(gs_cuda_malloc_host(scope, COUNT * sizeof(float), &pinned));
    GS_RETURN_IF_FAILED(GS_TRY_CUDA(cudaMalloc(&adopted, COUNT * sizeof(float))));
    GS_RETURN_IF_FAILED(gs_cuda_adopt(scope, GS_KIND_DEVICE, adopted, COUNT * sizeof(float)));
    GS_RETURN_IF_FAILED(GS_TRY_CUDA(cudaStreamCreate(&other)));
    GS_RETURN_IF_FAILED(gs_cuda_adopt(scope, GS_KIND_STREAM, other, 0));
    float *const blocks[] = {device, ordered, managed, adopted};
    for (int i = 0; i < 4; i++) {
        fill<<<COUNT / 256, 256, 0, stream>>>(blocks[i], (float)(i + 1));
        GS_RETURN_IF_FAILED(GS_CUDA_LAUNCHED(fill));
        GS_RETURN_IF_FAILED(
            GS_TRY_CUDA(cudaMemcpyAsync(pinned, blocks[i], COUNT * sizeof(float), cudaMemcpyDefault, stream)));
        GS_RETURN_IF_FAILED(gs_wait(stream));
        EXPECT(pinned[0] == (float)(i + 1) && pinned[COUNT - 1] == (float)(i + 1));
    }
    GS_RETURN_IF_FAILED(gs_record(event, stream));
    return gs_wait_event(event);
}

static void out_of_memory(gs_scope *scope)
{
    void *block;
    gs_failure failure;
    EXPECT(gs_cuda_malloc(scope, (size_t)1 << 46, &block) == GS_NO_MEMORY);
    EXPECT(gs_first_failure(scope, &failure) && failure.source == GS_FROM_CUDART && failure.code == 2);
    EXPECT(strcmp(failure.text, "cudaErrorMemoryAllocation (2): out of memory") == 0);
    gs_forgive(scope);
    EXPECT(GS_CUDA_LAUNCHED(nothing) != GS_OK); /* the runtime repeats its last error once */
    gs_forgive(scope);
    EXPECT(GS_CUDA_LAUNCHED(nothing) == GS_OK);
}

/* ---- wrapped calls: from here on ---- */

#include <gpuwhy/scope_cuda_wrap.h>

static void use_wrapped(int keep)
{
    float *device, *managed, *pinned, *ordered;
    cudaStream_t stream;
    cudaEvent_t event;
    EXPECT(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    EXPECT(cudaEventCreate(&event) == cudaSuccess);
    EXPECT(cudaMalloc(&device, COUNT * sizeof(float)) == cudaSuccess);
    EXPECT(cudaMallocAsync(&ordered, COUNT * sizeof(float), stream) == cudaSuccess);
    EXPECT(cudaMallocManaged(&managed, COUNT * sizeof(float)) == cudaSuccess);
    EXPECT(cudaMallocHost(&pinned, COUNT * sizeof(float)) == cudaSuccess);
    fill<<<COUNT / 256, 256, 0, stream>>>(device, 1.0f);
    EXPECT(cudaMemcpyAsync(pinned, device, COUNT * sizeof(float), cudaMemcpyDefault, stream) == cudaSuccess);
    EXPECT(cudaStreamSynchronize(stream) == cudaSuccess && pinned[COUNT - 1] == 1.0f);
    if (keep)
        return;
    EXPECT(cudaFreeAsync(ordered, stream) == cudaSuccess);
    EXPECT(cudaFree(device) == cudaSuccess && cudaFree(managed) == cudaSuccess && cudaFreeHost(pinned) == cudaSuccess);
    EXPECT(cudaEventDestroy(event) == cudaSuccess && cudaStreamDestroy(stream) == cudaSuccess);
}

/* Ruins the context, so it comes last. */
static void bad_address(void)
{
    gs_scope *scope = open_scope();
    gs_failure failure;
    gs_report *report = NULL;
    fill<<<COUNT / 256, 256>>>((float *)16, 1.0f);
    EXPECT(GS_CUDA_LAUNCHED(fill) == GS_OK);
    EXPECT(GS_TRY_CUDA(cudaDeviceSynchronize()) == GS_DEAD);
    EXPECT(gs_first_failure(scope, &failure) && failure.is_sticky && failure.source == GS_FROM_CUDART);
    EXPECT(strcmp(failure.launch_call, "fill") == 0 && failure.code == 700);
    EXPECT(gs_end(scope, &report) == GS_DEAD);
    gs_report_free(report);
}

int main(void)
{
    for (int run = 0; run < RUNS; run++) {
        gs_scope *scope = open_scope();
        EXPECT(use_each_kind(scope) == GS_OK);
        out_of_memory(scope);
        end_scope(scope, run, 8);
        scope = open_scope();
        use_wrapped(1);
        end_scope(scope, run, 6);
        scope = open_scope();
        use_wrapped(0);
        end_scope(scope, run, 0);
    }
    bad_address();
    puts(failed ? "failed" : "passed");
    return failed;
}
