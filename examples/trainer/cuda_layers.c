/* Launches our own kernels with their grids, blocks and arguments. A grid depends only on the sizes and on the GPU. So
 * sums are always computed in the same order. */
#include "cuda_state.h"

#include <math.h>

enum { THREADS = 256, LOSS_THREADS = 128, PARTS_MAX = 512, END_SIDE = 32 };
/* Average pooling over more pixels uses several threads per channel and image. */
enum { MEAN_PIXELS_MAX = 128 };
static const float norm_epsilon = 1e-5f, norm_momentum = 0.1f;

/* Both structs must match the structs of the same name in cuda_kernels.cu. */
struct pool {
    unsigned channels, height, width, out_height, out_width, kernel, stride, pad;
};
struct step_size {
    float rate, momentum, weight_decay, beta_1, beta_2, epsilon, scale, root_correction, correction;
};

/* ---- shapes of launches ---- */

/* Return the number of blocks that are needed for one thread per 8 elements and one thread per remaining element. */
static gs_dims blocks_for(size_t count)
{
    size_t threads = count / 8 + count % 8;
    return gs_dim((unsigned)((threads + THREADS - 1) / THREADS), 1, 1);
}

static size_t at_most(size_t value, size_t limit)
{
    return value < limit ? value : limit;
}

/* Return the grid and the block for a kernel over rows of channels. grid.y is the number of parts of the rows, at most
 * `parts_max`. The parts keep the GPU busy, but each thread handles about four rows or more. */
static struct launch_shape rows_shape(const struct cuda *cuda, size_t rows, size_t channels, size_t parts_max)
{
    int is_wide = channels % 8 == 0;
    size_t columns = is_wide ? channels / 8 : channels, x = 1;
    while (x < columns && x < 32)
        x *= 2;
    size_t y = THREADS / x, across = (columns + x - 1) / x;
    size_t parts = (rows + 4 * y - 1) / (4 * y), busy = ((size_t)cuda->multiprocessors * 8 + across - 1) / across;
    parts = at_most(at_most(parts, busy), parts_max);
    return (struct launch_shape){.grid = gs_dim((unsigned)across, (unsigned)(parts == 0 ? 1 : parts), 1),
                                 .block = gs_dim((unsigned)x, (unsigned)y, 1),
                                 .is_wide = is_wide};
}

static struct launch_shape sums_shape(const struct cuda *cuda, size_t rows, size_t channels)
{
    return rows_shape(cuda, rows, channels, PARTS_MAX);
}

static struct launch_shape apply_shape(const struct cuda *cuda, size_t rows, size_t channels)
{
    return rows_shape(cuda, rows, channels, 65535);
}

struct launch_shape cuda_rows_shape(const struct cuda *cuda, size_t rows, size_t channels)
{
    return apply_shape(cuda, rows, channels);
}

size_t cuda_partial_bytes(const struct cuda *cuda, size_t rows, size_t channels, int of)
{
    return sums_shape(cuda, rows, channels).grid.y * channels * (size_t)of * sizeof(float);
}

/* Return the grid for 32 channels per block and 32 threads per channel. */
static gs_dims end_grid(size_t channels)
{
    return gs_dim((unsigned)((channels + END_SIDE - 1) / END_SIDE), 1, 1);
}

/* Return the number of threads for a row of `count` elements: a power of two from 32 to THREADS. */
static unsigned along(size_t count)
{
    unsigned threads = 32;
    while (threads < THREADS && threads < count)
        threads *= 2;
    return threads;
}

/* ---- element by element ---- */

gs_status cuda_input(struct cuda *cuda, CUdeviceptr y, CUdeviceptr x, size_t count)
{
    unsigned long long numbers = count;
    return GS_LAUNCH(cuda->kernels.to_low, blocks_for(count), gs_dim(THREADS, 1, 1), 0, cuda->card.compute, &y, &x,
                     &numbers);
}

gs_status cuda_relu(struct cuda *cuda, CUdeviceptr y, size_t count)
{
    unsigned long long numbers = count;
    return GS_LAUNCH(cuda->kernels.relu_forward, blocks_for(count), gs_dim(THREADS, 1, 1), 0, cuda->card.compute, &y,
                     &numbers);
}

gs_status cuda_relu_backward(struct cuda *cuda, CUdeviceptr dy, CUdeviceptr y, size_t count)
{
    unsigned long long numbers = count;
    return GS_LAUNCH(cuda->kernels.relu_backward, blocks_for(count), gs_dim(THREADS, 1, 1), 0, cuda->card.compute, &dy,
                     &y, &numbers);
}

gs_status cuda_add(struct cuda *cuda, CUdeviceptr y, CUdeviceptr a, CUdeviceptr b, size_t count, bool has_relu)
{
    unsigned long long numbers = count;
    int relu = has_relu;
    return GS_LAUNCH(cuda->kernels.add, blocks_for(count), gs_dim(THREADS, 1, 1), 0, cuda->card.compute, &y, &a, &b,
                     &numbers, &relu);
}

gs_status cuda_add_gradient(struct cuda *cuda, CUdeviceptr sum, CUdeviceptr x, size_t count)
{
    unsigned long long numbers = count;
    return GS_LAUNCH(cuda->kernels.add_gradient, blocks_for(count), gs_dim(THREADS, 1, 1), 0, cuda->card.compute, &sum,
                     &x, &numbers);
}

/* ---- bias ---- */

gs_status cuda_bias(struct cuda *cuda, CUdeviceptr y, CUdeviceptr bias, size_t rows, size_t channels, bool has_relu)
{
    struct launch_shape shape = apply_shape(cuda, rows, channels);
    unsigned long long row_count = rows;
    unsigned channel_count = (unsigned)channels;
    int relu = has_relu;
    return GS_LAUNCH(cuda->kernels.bias[shape.is_wide], shape.grid, shape.block, 0, cuda->card.compute, &y, &bias,
                     &row_count, &channel_count, &relu);
}

gs_status cuda_bias_gradient(struct cuda *cuda, CUdeviceptr gradient, CUdeviceptr dy, CUdeviceptr workspace,
                             size_t rows, size_t channels)
{
    struct launch_shape shape = sums_shape(cuda, rows, channels);
    unsigned long long row_count = rows;
    unsigned channel_count = (unsigned)channels, parts = shape.grid.y;
    gs_status status = GS_LAUNCH(cuda->kernels.columns[shape.is_wide], shape.grid, shape.block, 0, cuda->card.compute,
                                 &workspace, &dy, &row_count, &channel_count);
    if (status == GS_OK)
        status = GS_LAUNCH(cuda->kernels.columns_end, end_grid(channels), gs_dim(END_SIDE, END_SIDE, 1), 0,
                           cuda->card.compute, &gradient, &workspace, &channel_count, &parts);
    return status;
}

/* ---- batch normalisation ---- */

/* The arguments of the batch normalisation kernels. */
struct norm {
    CUdeviceptr x, y, dx, dy, saved, workspace, means, scale, shift, scale_gradient, shift_gradient, running;
    unsigned long long rows;
    unsigned channels, parts;
    int has_relu, adds;
    struct launch_shape sums, apply;
};

static CUdeviceptr lasting(const struct cuda *cuda, enum lasting which, size_t at)
{
    return card_at(&cuda->card, cuda->card.schedule->lasting[which]) + at * sizeof(float);
}

static struct norm norm_of(const struct cuda *cuda, const struct step *step)
{
    const struct layer *layer = step->layer;
    size_t rows = cuda->card.schedule->options.images * layer->out.height * layer->out.width;
    struct norm norm = {.x = card_at(&cuda->card, step->x),
                        .y = card_at(&cuda->card, step->y),
                        .dx = card_at(&cuda->card, step->dx),
                        .dy = card_at(&cuda->card, step->dy),
                        .saved = card_at(&cuda->card, step->saved),
                        .workspace = card_at(&cuda->card, step->workspace),
                        .scale = lasting(cuda, LASTING_PARAMETERS, layer->weight_at),
                        .shift = lasting(cuda, LASTING_PARAMETERS, layer->bias_at),
                        .scale_gradient = lasting(cuda, LASTING_GRADIENTS, layer->weight_at),
                        .shift_gradient = lasting(cuda, LASTING_GRADIENTS, layer->bias_at),
                        .running = lasting(cuda, LASTING_STATISTICS, layer->statistics_at),
                        .rows = rows,
                        .channels = (unsigned)layer->out.channels,
                        .has_relu = layer->has_relu,
                        .adds = step->adds,
                        .sums = sums_shape(cuda, rows, layer->out.channels),
                        .apply = apply_shape(cuda, rows, layer->out.channels)};
    norm.parts = norm.sums.grid.y;
    norm.means = norm.workspace + cuda_partial_bytes(cuda, rows, layer->out.channels, 2);
    return norm;
}

static gs_status norm_statistics(struct cuda *cuda, struct norm *norm, bool is_again)
{
    float epsilon = norm_epsilon, momentum = norm_momentum;
    CUdeviceptr running = is_again ? 0 : norm->running;
    gs_status status = GS_LAUNCH(cuda->kernels.norm_sums[norm->sums.is_wide], norm->sums.grid, norm->sums.block, 0,
                                 cuda->card.compute, &norm->workspace, &norm->x, &norm->rows, &norm->channels);
    if (status == GS_OK)
        status = GS_LAUNCH(cuda->kernels.norm_statistics, end_grid(norm->channels), gs_dim(END_SIDE, END_SIDE, 1), 0,
                           cuda->card.compute, &norm->saved, &running, &norm->workspace, &norm->x, &norm->rows,
                           &norm->channels, &norm->parts, &epsilon, &momentum);
    return status;
}

static gs_status norm_running(struct cuda *cuda, struct norm *norm)
{
    float epsilon = norm_epsilon;
    gs_dims grid = gs_dim((norm->channels + THREADS - 1) / THREADS, 1, 1);
    return GS_LAUNCH(cuda->kernels.norm_running, grid, gs_dim(THREADS, 1, 1), 0, cuda->card.compute, &norm->saved,
                     &norm->running, &norm->channels, &epsilon);
}

gs_status cuda_norm(struct cuda *cuda, const struct step *step, bool is_evaluation)
{
    struct norm norm = norm_of(cuda, step);
    gs_status status = is_evaluation ? norm_running(cuda, &norm) : norm_statistics(cuda, &norm, step->is_again);
    if (status == GS_OK)
        status = GS_LAUNCH(cuda->kernels.norm_forward[norm.apply.is_wide], norm.apply.grid, norm.apply.block, 0,
                           cuda->card.compute, &norm.y, &norm.x, &norm.saved, &norm.scale, &norm.shift, &norm.rows,
                           &norm.channels, &norm.has_relu);
    return status;
}

gs_status cuda_norm_backward(struct cuda *cuda, const struct step *step)
{
    struct norm norm = norm_of(cuda, step);
    gs_status status = GS_LAUNCH(cuda->kernels.norm_backward_sums[norm.sums.is_wide], norm.sums.grid, norm.sums.block,
                                 0, cuda->card.compute, &norm.workspace, &norm.dy, &norm.x, &norm.saved, &norm.scale,
                                 &norm.shift, &norm.rows, &norm.channels, &norm.has_relu);
    if (status == GS_OK)
        status =
            GS_LAUNCH(cuda->kernels.norm_backward_statistics, end_grid(norm.channels), gs_dim(END_SIDE, END_SIDE, 1), 0,
                      cuda->card.compute, &norm.scale_gradient, &norm.shift_gradient, &norm.means, &norm.workspace,
                      &norm.saved, &norm.rows, &norm.channels, &norm.parts);
    if (status == GS_OK && norm.dx != 0)
        status = GS_LAUNCH(cuda->kernels.norm_backward[norm.apply.is_wide], norm.apply.grid, norm.apply.block, 0,
                           cuda->card.compute, &norm.dx, &norm.dy, &norm.x, &norm.saved, &norm.means, &norm.scale,
                           &norm.shift, &norm.rows, &norm.channels, &norm.has_relu, &norm.adds);
    return status;
}

/* ---- pooling ---- */

static struct pool pool_of(const struct layer *layer)
{
    return (struct pool){.channels = (unsigned)layer->in.channels,
                         .height = (unsigned)layer->in.height,
                         .width = (unsigned)layer->in.width,
                         .out_height = (unsigned)layer->out.height,
                         .out_width = (unsigned)layer->out.width,
                         .kernel = (unsigned)layer->kernel,
                         .stride = (unsigned)layer->stride,
                         .pad = (unsigned)layer->pad};
}

gs_status cuda_max(struct cuda *cuda, const struct step *step)
{
    CUdeviceptr x = card_at(&cuda->card, step->x), y = card_at(&cuda->card, step->y);
    CUdeviceptr which = card_at(&cuda->card, step->saved);
    struct pool pool = pool_of(step->layer);
    int relu = step->layer->has_relu, is_wide = pool.channels % 8 == 0;
    size_t images = cuda->card.schedule->options.images;
    unsigned threads = along((size_t)pool.out_width * pool.channels / (is_wide ? 8 : 1));
    return GS_LAUNCH(cuda->kernels.max_forward[is_wide], gs_dim((unsigned)(images * pool.out_height), 1, 1),
                     gs_dim(threads, 1, 1), 0, cuda->card.compute, &y, &which, &x, &pool, &relu);
}

gs_status cuda_max_backward(struct cuda *cuda, const struct step *step)
{
    CUdeviceptr dx = card_at(&cuda->card, step->dx), dy = card_at(&cuda->card, step->dy);
    CUdeviceptr which = card_at(&cuda->card, step->saved);
    struct pool pool = pool_of(step->layer);
    int adds = step->adds, is_wide = pool.channels % 8 == 0;
    size_t images = cuda->card.schedule->options.images;
    unsigned threads = along((size_t)pool.width * pool.channels / (is_wide ? 8 : 1));
    if (dx == 0)
        return GS_OK;
    return GS_LAUNCH(cuda->kernels.max_backward[is_wide], gs_dim((unsigned)(images * pool.height), 1, 1),
                     gs_dim(threads, 1, 1), 0, cuda->card.compute, &dx, &dy, &which, &pool, &adds);
}

/* Return the grid and the block for average pooling over whole images. A block has up to 256 threads. Each thread
 * handles one or eight channels of one image. */
static struct launch_shape mean_shape(const struct cuda *cuda, size_t channels)
{
    int is_wide = channels % 8 == 0;
    size_t columns = is_wide ? channels / 8 : channels;
    unsigned threads = along(columns);
    size_t images = cuda->card.schedule->options.images;
    /* The images are in grid.x, because only grid.x may exceed 65,535. */
    return (struct launch_shape){.grid = gs_dim((unsigned)images, (unsigned)((columns + threads - 1) / threads), 1),
                                 .block = gs_dim(threads, 1, 1),
                                 .is_wide = is_wide};
}

gs_status cuda_mean(struct cuda *cuda, const struct step *step)
{
    CUdeviceptr x = card_at(&cuda->card, step->x), y = card_at(&cuda->card, step->y);
    const struct layer *layer = step->layer;
    struct launch_shape shape = mean_shape(cuda, layer->in.channels);
    unsigned pixels = (unsigned)(layer->in.height * layer->in.width), channels = (unsigned)layer->in.channels;
    int relu = layer->has_relu;
    if (pixels > MEAN_PIXELS_MAX)
        return cuda_image_sums(cuda, y, x, 0, layer->in, 1 / (float)pixels, false);
    return GS_LAUNCH(cuda->kernels.mean_forward[shape.is_wide], shape.grid, shape.block, 0, cuda->card.compute, &y, &x,
                     &pixels, &channels, &relu);
}

gs_status cuda_mean_backward(struct cuda *cuda, const struct step *step)
{
    CUdeviceptr dx = card_at(&cuda->card, step->dx), dy = card_at(&cuda->card, step->dy);
    const struct layer *layer = step->layer;
    struct launch_shape shape = mean_shape(cuda, layer->in.channels);
    unsigned pixels = (unsigned)(layer->in.height * layer->in.width), channels = (unsigned)layer->in.channels;
    int adds = step->adds;
    if (dx == 0)
        return GS_OK;
    if (pixels > MEAN_PIXELS_MAX)
        return cuda_image_spread(cuda, dx, 0, dy, layer->in, 1 / (float)pixels, false, step->adds);
    return GS_LAUNCH(cuda->kernels.mean_backward[shape.is_wide], shape.grid, shape.block, 0, cuda->card.compute, &dx,
                     &dy, &pixels, &channels, &adds);
}

/* ---- loss and step ---- */

gs_status cuda_loss(struct cuda *cuda, const struct step *step, const struct iteration *iteration)
{
    const struct schedule *schedule = cuda->card.schedule;
    CUdeviceptr logits = card_at(&cuda->card, step->x), each = card_at(&cuda->card, step->workspace);
    CUdeviceptr labels = card_at(&cuda->card, schedule_labels(schedule, iteration->turn));
    CUdeviceptr dx = iteration->is_evaluation ? 0 : card_at(&cuda->card, step->dx);
    CUdeviceptr results = card_at(&cuda->card, schedule->lasting[LASTING_RESULTS]);
    unsigned classes = (unsigned)shape_count(step->layer->out), images = (unsigned)schedule->options.images;
    unsigned counted = (unsigned)at_most(iteration->images, images);
    float scale = (float)((double)iteration->loss_scale / (double)iteration->images_in_step);
    gs_status status = GS_LAUNCH(cuda->kernels.loss, gs_dim(images, 1, 1), gs_dim(LOSS_THREADS, 1, 1), 0,
                                 cuda->card.compute, &dx, &each, &logits, &labels, &classes, &counted, &scale);
    if (status == GS_OK)
        status = GS_LAUNCH(cuda->kernels.loss_sum, gs_dim(1, 1, 1), gs_dim(THREADS, 1, 1), 0, cuda->card.compute,
                           &results, &each, &images);
    return status;
}

static struct step_size size_of(const struct update *update)
{
    double steps = (double)update->number;
    return (struct step_size){.rate = update->rate,
                              .momentum = update->momentum,
                              .weight_decay = update->weight_decay,
                              .beta_1 = update->beta_1,
                              .beta_2 = update->beta_2,
                              .epsilon = update->epsilon,
                              .scale = update->scale,
                              .root_correction = (float)sqrt(1 - pow((double)update->beta_2, steps)),
                              .correction = (float)(1 - pow((double)update->beta_1, steps))};
}

gs_status cuda_check_and_step(struct cuda *cuda, const struct update *update)
{
    const struct schedule *schedule = cuda->card.schedule;
    CUstream stream = cuda->card.compute;
    CUdeviceptr parameters = lasting(cuda, LASTING_PARAMETERS, 0), gradients = lasting(cuda, LASTING_GRADIENTS, 0);
    CUdeviceptr first = lasting(cuda, LASTING_MOMENT_1, 0), results = lasting(cuda, LASTING_RESULTS, 0);
    CUdeviceptr second = card_at(&cuda->card, schedule->lasting[LASTING_MOMENT_2]);
    CUdeviceptr low = card_at(&cuda->card, schedule->lasting[LASTING_LOW]);
    unsigned long long count = schedule->model->parameter_count;
    struct step_size size = size_of(update);
    size_t blocks = at_most((count + THREADS - 1) / THREADS, (size_t)cuda->multiprocessors * 8);
    gs_status status = GS_LAUNCH(cuda->kernels.check, gs_dim((unsigned)blocks, 1, 1), gs_dim(THREADS, 1, 1), 0, stream,
                                 &results, &gradients, &count);
    if (status != GS_OK)
        return status;
    if (update->optimizer == OPTIMIZER_ADAM)
        return GS_LAUNCH(cuda->kernels.adam, blocks_for(count), gs_dim(THREADS, 1, 1), 0, stream, &parameters, &first,
                         &second, &low, &gradients, &results, &size, &count);
    return GS_LAUNCH(cuda->kernels.sgd, blocks_for(count), gs_dim(THREADS, 1, 1), 0, stream, &parameters, &first, &low,
                     &gradients, &results, &size, &count);
}
