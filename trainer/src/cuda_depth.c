/* Launch the kernels of cuda_depth.cu: depthwise convolutions and their gradients. They compute little for each number
 * that they read, so each thread reads 8 channels at a time and keeps its sums in registers. */
#include "cuda_conv.h"

enum { PIXELS = 4, PARTS_MAX = 512 };
#define PARTIAL_BYTES_MIN ((size_t)256 << 10) /* used even if the budget is smaller */

/* Must match the struct of the same name in cuda_depth.cu. */
struct depth {
    unsigned channels, height, width, out_height, out_width, kernel, stride, pad;
};

static struct depth depth_of(const struct conv_problem *problem)
{
    return (struct depth){.channels = (unsigned)problem->in.channels,
                          .height = (unsigned)problem->in.height,
                          .width = (unsigned)problem->in.width,
                          .out_height = (unsigned)problem->out.height,
                          .out_width = (unsigned)problem->out.width,
                          .kernel = (unsigned)problem->kernel,
                          .stride = (unsigned)problem->stride,
                          .pad = (unsigned)problem->pad};
}

bool depth_suits(const struct conv_problem *problem)
{
    return problem->groups > 1 && problem->groups == problem->in.channels && problem->groups == problem->out.channels;
}

/* The launch that computes partial weight gradients: `taps` of them per thread. */
struct filter_shape {
    gs_dims grid, block;
    unsigned taps, parts;
};

/* The parts keep the GPU busy, and their sums stay within the budget. */
static struct filter_shape filter_shape(const struct cuda *cuda, const struct conv_problem *problem)
{
    size_t kernel = problem->kernel, taps = kernel == 3 || kernel == 5 ? kernel : 1, x = 1;
    size_t columns = problem->in.channels % 8 == 0 ? problem->in.channels / 8 : problem->in.channels;
    size_t part_bytes = kernel * kernel * problem->in.channels * sizeof(float);
    size_t budget = problem->budget_bytes > PARTIAL_BYTES_MIN ? problem->budget_bytes : PARTIAL_BYTES_MIN;
    while (x < columns && x < 32)
        x *= 2;
    size_t y = THREADS / x, across = (columns + x - 1) / x * (kernel * kernel / taps);
    size_t lines = problem->images * problem->out.height;
    const size_t limits[] = {(lines + y - 1) / y, ((size_t)cuda->multiprocessors * 8 + across - 1) / across,
                             budget / part_bytes, PARTS_MAX};
    size_t parts = limits[0];
    for (size_t i = 1; i < sizeof limits / sizeof *limits; i++)
        parts = limits[i] < parts ? limits[i] : parts;
    parts = parts == 0 ? 1 : parts;
    return (struct filter_shape){.grid = gs_dim((unsigned)across, (unsigned)parts, 1),
                                 .block = gs_dim((unsigned)x, (unsigned)y, 1),
                                 .taps = (unsigned)taps,
                                 .parts = (unsigned)parts};
}

size_t depth_workspace_bytes(const struct cuda *cuda, const struct conv_problem *problem)
{
    size_t sums = problem->kernel * problem->kernel * problem->in.channels;
    return conv_round(sums * sizeof(float) *
                      (problem->kind == CONV_FILTER ? filter_shape(cuda, problem).parts : (size_t)1));
}

static gs_status filter_gradient(struct cuda *cuda, const struct conv_problem *problem, const struct conv_data *data)
{
    struct filter_shape shape = filter_shape(cuda, problem);
    struct depth depth = depth_of(problem);
    CUdeviceptr x = data->x, dy = data->y, partial = data->workspace, gradient = data->gradient;
    unsigned long long lines = (unsigned long long)problem->images * problem->out.height;
    unsigned all_taps = depth.kernel * depth.kernel;
    int is_wide = depth.channels % 8 == 0;
    CUfunction kernel = shape.taps == 3   ? cuda->kernels.depth_filter3[is_wide]
                        : shape.taps == 5 ? cuda->kernels.depth_filter5[is_wide]
                                          : cuda->kernels.depth_filter1[is_wide];
    gs_status status =
        GS_LAUNCH(kernel, shape.grid, shape.block, 0, cuda->lane->stream, &partial, &x, &dy, &depth, &lines);
    if (status == GS_OK)
        status = GS_LAUNCH(cuda->kernels.depth_filter_end, cuda_end_grid(depth.channels, all_taps), cuda_end_block(), 0,
                           cuda->lane->stream, &gradient, &partial, &all_taps, &depth.channels, &shape.parts);
    return status;
}

/* Return the number of threads for one row of `pixels` results: a power of two from 32 to THREADS. */
static unsigned threads_for(unsigned pixels, unsigned channels)
{
    unsigned groups = channels % 8 == 0 ? channels / 8 : channels, threads = 32;
    while (threads < THREADS && threads < (pixels + PIXELS - 1) / PIXELS * groups)
        threads *= 2;
    return threads;
}

gs_status depth_run(struct cuda *cuda, const struct conv_problem *problem, const struct conv_data *data)
{
    struct depth depth = depth_of(problem);
    CUdeviceptr x = data->x, y = data->y, w = data->w, weights = data->workspace;
    unsigned taps = depth.kernel * depth.kernel, images = (unsigned)problem->images;
    int is_wide = depth.channels % 8 == 0, adds = problem->adds != 0;
    if (problem->kind == CONV_FILTER)
        return filter_gradient(cuda, problem, data);
    gs_status status =
        GS_LAUNCH(cuda->kernels.depth_weights, gs_dim((taps * depth.channels + THREADS - 1) / THREADS, 1, 1),
                  gs_dim(THREADS, 1, 1), 0, cuda->lane->stream, &weights, &w, &taps, &depth.channels);
    if (status != GS_OK)
        return status;
    if (problem->kind == CONV_FORWARD)
        return GS_LAUNCH(cuda->kernels.depth_forward[is_wide], gs_dim(images * depth.out_height, 1, 1),
                         gs_dim(threads_for(depth.out_width, depth.channels), 1, 1), 0, cuda->lane->stream, &y, &x,
                         &weights, &depth);
    return GS_LAUNCH(cuda->kernels.depth_backward[is_wide], gs_dim(images * depth.height, 1, 1),
                     gs_dim(threads_for(depth.width, depth.channels), 1, 1), 0, cuda->lane->stream, &x, &y, &weights,
                     &depth, &adds);
}
