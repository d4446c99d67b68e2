/* Train a small CNN that uses GPU memory as a framework does. Weights, gradients and Adam's two moments exist for a
 * whole run. Each forward pass saves what the backward pass needs. The backward pass frees it layer by layer. The next
 * batch is loaded on a separate stream while the current one is processed.
 *
 * Without a fault option the program is healthy: it frees all memory and exits 0. Each fault option makes one of the
 * mistakes that kill real training runs. See ../README.md. */
#include "kernels.h"
#include "network.h"

#include "gpu.h"
#include "options.h"
#include "truth.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct settings {
    long long batch, iterations, runs;
    const char *allocator, *save, *truth;
    /* options that select a fault */
    int keep_runs, leak_batch, leak_workspace, unchecked, bad_address;
    long long leak_streams, leak_contexts, whole_data_set;
};

/* A block of device memory and its size. */
struct tensor {
    CUdeviceptr address; /* 0: no memory */
    size_t bytes;
    size_t count; /* number of elements */
};

struct batch {
    struct tensor images, labels;
};

/* The device memory of one training run. run_end() frees what is still allocated. */
struct run {
    struct {
        struct tensor weight, gradient, moment1, moment2;
    } parameters[LAYER_COUNT];
    struct {
        struct tensor output, indices; /* saved by the forward pass for the backward pass */
    } saved[LAYER_COUNT];
    struct tensor raw[2]; /* image bytes copied from the host: one buffer in use, one being filled */
    struct tensor loss;
    struct batch evaluation; /* batch of the forward pass after the last iteration */
};

struct trainer {
    struct settings set;
    struct gpu gpu;
    CUfunction kernel[KERNEL_COUNT];
    CUstream compute, copy;
    CUevent batch_ready;
    unsigned char *host_images; /* pinned */
    int *host_labels;           /* pinned */
    float *host_loss;           /* pinned */
    struct tensor data_set;     /* used only with --whole-data-set */
    size_t live_bytes, live_blocks;
    long long leaked_streams, leaked_contexts;
    long long run_number, iteration;
    const char *doing; /* current activity for messages, such as "loader" or the name of a layer */
};

/* ---- memory ---- */

static int uses_pool(const struct trainer *t)
{
    return strcmp(t->set.allocator, "pool") == 0;
}

static void report_failed_allocation(struct trainer *t, size_t bytes)
{
    truth("failed_bytes", "%zu", bytes);
    truth("failed_run", "%lld", t->run_number);
    truth("failed_iteration", "%lld", t->iteration);
    truth("live_bytes_at_failure", "%zu", t->live_bytes);
    truth("streams", "%lld", t->leaked_streams);
    truth("contexts", "%lld", t->leaked_contexts);
    fprintf(stderr, "cnn: run %lld, iteration %lld, %s: no room for %.2f MiB\n", t->run_number, t->iteration, t->doing,
            (double)bytes / (1 << 20));
}

static struct tensor tensor_new(struct trainer *t, size_t count, size_t element_bytes)
{
    struct tensor tensor = {0, count * element_bytes, count};
    CUresult result = uses_pool(t) ? cuMemAllocAsync(&tensor.address, tensor.bytes, t->compute)
                                   : cuMemAlloc(&tensor.address, tensor.bytes);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && t->set.unchecked) {
        truth("ignored_bytes", "%zu", tensor.bytes);
        return tensor; /* with --unchecked, ignore the failure and return address 0 */
    }
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        report_failed_allocation(t, tensor.bytes);
    gpu_check(result, uses_pool(t) ? "cuMemAllocAsync" : "cuMemAlloc");
    t->live_bytes += tensor.bytes;
    t->live_blocks++;
    return tensor;
}

static struct tensor floats_new(struct trainer *t, size_t count)
{
    return tensor_new(t, count, sizeof(float));
}

static void tensor_free(struct trainer *t, struct tensor *tensor)
{
    if (tensor->address == 0)
        return;
    if (uses_pool(t))
        CHECK(cuMemFreeAsync(tensor->address, t->compute));
    else
        CHECK(cuMemFree(tensor->address));
    t->live_bytes -= tensor->bytes;
    t->live_blocks--;
    *tensor = (struct tensor){0};
}

/* ---- kernels ---- */

static void launch_on(struct trainer *t, CUstream stream, enum kernel kernel, struct tensor out, struct tensor a,
                      struct tensor b)
{
    enum { THREADS = 256 };
    unsigned long long counts[3] = {out.bytes / sizeof(float), a.count, b.count};
    void *arguments[] = {&out.address, &a.address, &b.address, &counts[0], &counts[1], &counts[2]};
    unsigned blocks = (unsigned)((counts[0] + THREADS - 1) / THREADS);
    CHECK(cuLaunchKernel(t->kernel[kernel], blocks, 1, 1, THREADS, 1, 1, 0, stream, arguments, NULL));
}

static void launch(struct trainer *t, enum kernel kernel, struct tensor out, struct tensor a, struct tensor b)
{
    launch_on(t, t->compute, kernel, out, a, b);
}

/* ---- batches ---- */

/* Start loading the next batch on the copy stream, and make the compute stream wait until it is loaded. */
static struct batch batch_load(struct trainer *t, struct run *run)
{
    size_t count = (size_t)t->set.batch;
    t->doing = "loader";
    struct tensor raw = run->raw[t->iteration % 2];
    struct batch batch = {floats_new(t, count * IMAGE_ELEMENTS), tensor_new(t, count, sizeof(int))};
    if (uses_pool(t)) /* the compute stream allocates the memory, but the copy stream fills it */
        CHECK(cuStreamSynchronize(t->compute));
    CHECK(cuMemcpyHtoDAsync(raw.address, t->host_images, raw.bytes, t->copy));
    CHECK(cuMemcpyHtoDAsync(batch.labels.address, t->host_labels, batch.labels.bytes, t->copy));
    launch_on(t, t->copy, KERNEL_unpack_images, batch.images, raw, run->loss);
    CHECK(cuEventRecord(t->batch_ready, t->copy));
    CHECK(cuStreamWaitEvent(t->compute, t->batch_ready, 0));
    return batch;
}

static void batch_free(struct trainer *t, struct batch *batch)
{
    tensor_free(t, &batch->images);
    tensor_free(t, &batch->labels);
}

/* ---- one layer, forward and backward ---- */

static void convolve(struct trainer *t, struct tensor out, struct tensor in, struct tensor weight)
{
    enum { WORKSPACE_FLOATS = 4 << 20 };
    struct tensor workspace = floats_new(t, WORKSPACE_FLOATS);
    launch(t, KERNEL_im2col, workspace, in, in);
    launch(t, KERNEL_conv_forward, out, workspace, weight);
    if (!t->set.leak_workspace)
        tensor_free(t, &workspace);
}

static void layer_forward(struct trainer *t, struct run *run, size_t index, struct tensor in)
{
    const struct layer *layer = &network[index];
    size_t count = layer->outputs * (size_t)t->set.batch;
    t->doing = layer->name;
    struct tensor out = floats_new(t, count);
    run->saved[index].output = out;
    switch (layer->kind) {
    case LAYER_CONV:
        convolve(t, out, in, run->parameters[index].weight);
        break;
    case LAYER_RELU:
        launch(t, KERNEL_relu_forward, out, in, in);
        tensor_free(t, &run->saved[index - 1].output); /* ReLU's backward pass needs only the result, not the input */
        break;
    case LAYER_POOL:
        run->saved[index].indices = tensor_new(t, count, sizeof(long long));
        launch(t, KERNEL_pool_forward, out, in, in);
        launch(t, KERNEL_pool_indices, run->saved[index].indices, in, in);
        break;
    case LAYER_LINEAR:
        launch(t, KERNEL_linear_forward, out, in, run->parameters[index].weight);
        break;
    }
}

/* Compute the gradient of a layer's input from the gradient of its output. The first layer returns an empty tensor. */
static struct tensor layer_backward(struct trainer *t, struct run *run, size_t index, struct tensor in,
                                    struct tensor out_gradient)
{
    static const enum kernel kernels[] = {[LAYER_CONV] = KERNEL_conv_backward,
                                          [LAYER_RELU] = KERNEL_relu_backward,
                                          [LAYER_POOL] = KERNEL_pool_backward,
                                          [LAYER_LINEAR] = KERNEL_linear_backward};
    const struct layer *layer = &network[index];
    t->doing = layer->name;
    struct tensor in_gradient = {0};
    if (index > 0) {
        in_gradient = floats_new(t, network_inputs(index) * (size_t)t->set.batch);
        struct tensor other = layer->kind == LAYER_RELU ? run->saved[index].output : out_gradient;
        launch(t, kernels[layer->kind], in_gradient, out_gradient, other);
    }
    if (layer->parameters > 0)
        launch(t, KERNEL_weight_gradient, run->parameters[index].gradient, out_gradient, in);
    tensor_free(t, &out_gradient);
    tensor_free(t, &run->saved[index].output);
    tensor_free(t, &run->saved[index].indices);
    return in_gradient;
}

/* ---- one pass over the network ---- */

static void forward(struct trainer *t, struct run *run, const struct batch *batch)
{
    for (size_t index = 0; index < LAYER_COUNT; index++)
        layer_forward(t, run, index, index == 0 ? batch->images : run->saved[index - 1].output);
    t->doing = "loss";
    launch(t, KERNEL_loss_forward, run->loss, run->saved[LAYER_COUNT - 1].output, batch->labels);
}

static void backward(struct trainer *t, struct run *run, const struct batch *batch)
{
    struct tensor logits = run->saved[LAYER_COUNT - 1].output;
    struct tensor gradient = floats_new(t, logits.count);
    launch(t, KERNEL_loss_backward, gradient, logits, batch->labels);
    for (size_t index = LAYER_COUNT; index-- > 0;)
        gradient = layer_backward(t, run, index, index == 0 ? batch->images : run->saved[index - 1].output, gradient);
}

static void optimise(struct trainer *t, struct run *run)
{
    t->doing = "adam";
    for (size_t index = 0; index < LAYER_COUNT; index++) {
        if (network[index].parameters == 0)
            continue;
        launch(t, KERNEL_adam, run->parameters[index].moment1, run->parameters[index].gradient,
               run->parameters[index].gradient);
        launch(t, KERNEL_adam, run->parameters[index].moment2, run->parameters[index].gradient,
               run->parameters[index].gradient);
        launch(t, KERNEL_adam, run->parameters[index].weight, run->parameters[index].moment1,
               run->parameters[index].moment2);
    }
}

static float read_loss(struct trainer *t, const struct run *run)
{
    CHECK(cuMemcpyDtoHAsync(t->host_loss, run->loss.address, sizeof(float), t->compute));
    CHECK(cuStreamSynchronize(t->compute));
    return *t->host_loss;
}

/* ---- faults with functions of their own ---- */

/* Simulate a program that creates new streams in every iteration and never destroys them. */
static void leak_streams(struct trainer *t)
{
    for (long long count = 0; count < t->set.leak_streams; count++) {
        CUstream stream;
        CUresult result = cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
        if (result != CUDA_SUCCESS)
            report_failed_allocation(t, 0);
        gpu_check(result, "cuStreamCreate");
        t->leaked_streams++;
    }
}

/* Simulate a program that creates new contexts in every iteration and never destroys them. */
static void leak_contexts(struct trainer *t)
{
    for (long long count = 0; count < t->set.leak_contexts; count++) {
        CUcontext context;
        CUresult result = cuCtxCreate(&context, 0, t->gpu.device);
        if (result != CUDA_SUCCESS)
            report_failed_allocation(t, 0);
        gpu_check(result, "cuCtxCreate");
        t->leaked_contexts++;
        CHECK(cuCtxSetCurrent(t->gpu.context));
    }
}

/* Launch the class_report kernel at the end of a run without waiting for it. Its output address is one tebibyte after
 * the weights, as if it had been computed with a wrong stride. */
static void report_with_bad_address(struct trainer *t, const struct run *run)
{
    struct tensor row = run->parameters[0].weight;
    row.address += (CUdeviceptr)1 << 40;
    truth("bad_address", "%llu", (unsigned long long)row.address);
    launch(t, KERNEL_class_report, row, run->parameters[0].weight, run->parameters[0].weight);
    usleep(50 * 1000); /* let the kernel run and fail before the next call */
}

static void try_a_reset(CUresult result)
{
    CUdevice device = 0;
    CUcontext context;
    truth("surfaced_as", "%d", (int)result);
    fprintf(stderr, "cnn: the device is reset: %d", (int)cuDevicePrimaryCtxReset(device));
    fprintf(stderr, ", and used again: %d\n", (int)cuDevicePrimaryCtxRetain(&context, device));
}

/* ---- one training run ---- */

static void run_begin(struct trainer *t, struct run *run)
{
    t->doing = "weights";
    for (size_t index = 0; index < LAYER_COUNT; index++) {
        size_t count = network[index].parameters;
        if (count == 0)
            continue;
        run->parameters[index].weight = floats_new(t, count);
        run->parameters[index].gradient = floats_new(t, count);
        run->parameters[index].moment1 = floats_new(t, count);
        run->parameters[index].moment2 = floats_new(t, count);
        CHECK(cuMemsetD32Async(run->parameters[index].weight.address, 0x3c23d70a /* 0.01f */, count, t->compute));
        CHECK(cuMemsetD32Async(run->parameters[index].moment1.address, 0, count, t->compute));
        CHECK(cuMemsetD32Async(run->parameters[index].moment2.address, 0, count, t->compute));
    }
    for (int slot = 0; slot < 2; slot++)
        run->raw[slot] = tensor_new(t, (size_t)t->set.batch * IMAGE_ELEMENTS, 1);
    run->loss = floats_new(t, 1);
    CHECK(cuMemsetD32Async(run->loss.address, 0, 1, t->compute));
    CHECK(cuStreamSynchronize(t->compute));
}

static void run_end(struct trainer *t, struct run *run)
{
    for (size_t index = 0; index < LAYER_COUNT; index++) {
        tensor_free(t, &run->parameters[index].weight);
        tensor_free(t, &run->parameters[index].gradient);
        tensor_free(t, &run->parameters[index].moment1);
        tensor_free(t, &run->parameters[index].moment2);
        tensor_free(t, &run->saved[index].output);
        tensor_free(t, &run->saved[index].indices);
    }
    tensor_free(t, &run->raw[0]);
    tensor_free(t, &run->raw[1]);
    tensor_free(t, &run->loss);
    batch_free(t, &run->evaluation);
}

static void run_save(const struct trainer *t, const struct run *run)
{
    static float weights[128 * 64 * 9 + 128]; /* as many as the largest layer has */
    FILE *file = fopen(t->set.save, "wbe");
    if (file == NULL) {
        perror(t->set.save);
        exit(1);
    }
    for (size_t index = 0; index < LAYER_COUNT; index++) {
        struct tensor weight = run->parameters[index].weight;
        if (weight.bytes == 0)
            continue;
        CHECK(cuMemcpyDtoH(weights, weight.address, weight.bytes));
        fwrite(weights, sizeof(float), weight.count, file);
    }
    fclose(file);
}

static void train(struct trainer *t, struct run *run)
{
    t->iteration = 0;
    run_begin(t, run);
    struct batch next = batch_load(t, run);
    float loss = 0;
    for (t->iteration = 1; t->iteration <= t->set.iterations; t->iteration++) {
        struct batch batch = next;
        next = batch_load(t, run);
        forward(t, run, &batch);
        backward(t, run, &batch);
        optimise(t, run);
        loss = read_loss(t, run);
        if (!t->set.leak_batch)
            batch_free(t, &batch);
        leak_streams(t);
        leak_contexts(t);
    }
    run->evaluation = next;
    forward(t, run, &run->evaluation); /* run_end() frees the memory that this pass saves */
    loss = read_loss(t, run);
    printf("run %lld: %lld iterations of %lld images, loss %.4f\n", t->run_number, t->set.iterations, t->set.batch,
           (double)loss);
    fflush(stdout);
}

/* ---- the program ---- */

static void trainer_open(struct trainer *t)
{
    gpu_open(&t->gpu, 0);
    CUmodule module = gpu_load(cnn_ptx);
    for (int kernel = 0; kernel < KERNEL_COUNT; kernel++)
        t->kernel[kernel] = gpu_kernel(module, cnn_kernel_names[kernel]);
    CHECK(cuStreamCreate(&t->compute, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&t->copy, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&t->batch_ready, CU_EVENT_DISABLE_TIMING));
    size_t images = (size_t)t->set.batch;
    CHECK(cuMemHostAlloc((void **)&t->host_images, images * IMAGE_ELEMENTS, 0));
    CHECK(cuMemHostAlloc((void **)&t->host_labels, images * sizeof(int), 0));
    CHECK(cuMemHostAlloc((void **)&t->host_loss, sizeof(float), 0));
    if (uses_pool(t)) {
        CUmemoryPool pool;
        unsigned long long keep_all = ~0ull;
        CHECK(cuDeviceGetDefaultMemPool(&pool, t->gpu.device));
        CHECK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep_all));
    }
    if (t->set.whole_data_set > 0) {
        t->doing = "data set";
        t->data_set = tensor_new(t, (size_t)t->set.whole_data_set, 1);
        truth("data_set_bytes", "%zu", t->data_set.bytes);
    }
}

static void trainer_close(struct trainer *t)
{
    tensor_free(t, &t->data_set);
    CHECK(cuMemFreeHost(t->host_images));
    CHECK(cuMemFreeHost(t->host_labels));
    CHECK(cuMemFreeHost(t->host_loss));
    CHECK(cuEventDestroy(t->batch_ready));
    CHECK(cuStreamDestroy(t->copy));
    CHECK(cuStreamDestroy(t->compute));
    gpu_close(&t->gpu);
}

static void train_all(struct trainer *t)
{
    for (t->run_number = 1; t->run_number <= t->set.runs; t->run_number++) {
        struct run run = {0};
        train(t, &run);
        if (t->set.save != NULL)
            run_save(t, &run);
        if (t->set.bad_address) {
            gpu_before_giving_up = try_a_reset;
            report_with_bad_address(t, &run);
            continue;
        }
        if (!t->set.keep_runs)
            run_end(t, &run);
        truth("kept_bytes", "%zu", t->live_bytes);
        truth("kept_blocks", "%zu", t->live_blocks);
    }
}

int main(int argc, char **argv)
{
    struct trainer t = {.set = {.batch = 64, .iterations = 4, .runs = 1, .allocator = "plain"}};
    const struct option_row rows[] = {
        {"batch", OPTION_NUMBER, &t.set.batch, "images in a batch (64)"},
        {"iterations", OPTION_NUMBER, &t.set.iterations, "iterations in a run (4)"},
        {"runs", OPTION_NUMBER, &t.set.runs, "training runs, one after the other (1)"},
        {"allocator", OPTION_TEXT, &t.set.allocator, "plain (cuMemAlloc) or pool (cuMemAllocAsync, keeps its memory)"},
        {"save", OPTION_TEXT, &t.set.save, "write the weights to this file"},
        {"truth", OPTION_TEXT, &t.set.truth, "write facts about the program to this file"},
        {"keep-runs", OPTION_FLAG, &t.set.keep_runs, "fault: the memory of a run stays referenced"},
        {"leak-batch", OPTION_FLAG, &t.set.leak_batch, "fault: batches are never freed"},
        {"leak-workspace", OPTION_FLAG, &t.set.leak_workspace, "fault: a convolution's workspace is never freed"},
        {"leak-streams", OPTION_NUMBER, &t.set.leak_streams, "fault: create N new streams in each iteration"},
        {"leak-contexts", OPTION_NUMBER, &t.set.leak_contexts, "fault: create N new contexts in each iteration"},
        {"unchecked", OPTION_FLAG, &t.set.unchecked, "fault: allocations are not checked"},
        {"bad-address", OPTION_FLAG, &t.set.bad_address, "fault: a kernel at the end of a run writes to a bad address"},
        {"whole-data-set", OPTION_NUMBER, &t.set.whole_data_set, "fault: a data set of N bytes, all on the GPU"},
        {NULL, OPTION_FLAG, NULL, NULL}};
    options_parse(argc, argv, rows, "Trains a small CNN with the CUDA driver API.");
    truth_open(t.set.truth);
    truth("workspace_bytes", "%d", 16 << 20);
    trainer_open(&t);
    train_all(&t);
    trainer_close(&t);
    return 0;
}
