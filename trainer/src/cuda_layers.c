/* Launches our own kernels with their grids, blocks and arguments. A grid depends only on the sizes and on the GPU. So
 * sums are always computed in the same order. */
#include "cuda_conv.h"

#include <math.h>

enum {
    LOSS_THREADS = 128,
    PARTS_MAX = 512,
    /* Blocks per multiprocessor for the kernels of batch normalisation, which need many registers. So many are resident
     * at once, so all blocks together go through the rows in order, and a kernel finds in the L2 cache what the one
     * before it left there. */
    RESIDENT = 2,
    /* The same for the other kernels over rows, which read one row at a time. */
    BLOCKS_OF_BIAS = 8
};
/* Average pooling over more pixels uses several threads per channel and image. */
enum { MEAN_PIXELS_MAX = 128 };
static const float norm_epsilon = 1e-5f, norm_momentum = 0.1f;

/* Both structs must match the structs of the same name in cuda_kernels.cu. */
struct after {
    float low, high;
    int activation;
};
struct pool {
    unsigned channels, height, width, out_height, out_width, kernel, stride, pad;
};

/* ---- shapes of launches ---- */

/* Return the grid and the block for a kernel over rows of channels, with `blocks` per multiprocessor. grid.y is the
 * number of parts of the rows, at most `parts_max`. Each thread handles about four rows or more. */
static struct launch_shape rows_shape(const struct cuda *cuda, size_t rows, size_t channels, size_t blocks,
                                      size_t parts_max)
{
    int is_wide = channels % 8 == 0;
    size_t columns = is_wide ? channels / 8 : channels, x = 1;
    while (x < columns && x < 32)
        x *= 2;
    size_t y = THREADS / x, across = (columns + x - 1) / x, parts = (rows + 4 * y - 1) / (4 * y);
    size_t busy = ((size_t)cuda->multiprocessors * blocks + across - 1) / across;
    parts = at_most(at_most(parts, busy), parts_max);
    return (struct launch_shape){.grid = gs_dim((unsigned)across, (unsigned)(parts == 0 ? 1 : parts), 1),
                                 .block = gs_dim((unsigned)x, (unsigned)y, 1),
                                 .is_wide = is_wide};
}

/* Return the number of pairs of rows or columns of a max pooling: see inner_is_pairs(). */
static size_t pairs(const struct layer *pool, size_t side)
{
    return (side + pool->pad + 1) / 2;
}

static size_t partial_bytes(struct launch_shape shape, size_t channels, size_t of)
{
    return shape.grid.y * channels * of * sizeof(float);
}

static struct launch_shape norm_shape(const struct cuda *cuda, size_t rows, size_t channels)
{
    return rows_shape(cuda, rows, channels, RESIDENT, PARTS_MAX);
}

struct launch_shape cuda_rows_shape(const struct cuda *cuda, size_t rows, size_t channels)
{
    return rows_shape(cuda, rows, channels, BLOCKS_OF_BIAS, 65535);
}

size_t cuda_norm_rows(const struct step *step, const struct layer *layer, size_t images)
{
    const struct layer *pool = step->pool;
    if (pool != NULL)
        return images * pairs(pool, pool->in.height) * pairs(pool, pool->in.width);
    return images * layer->out.height * layer->out.width;
}

size_t cuda_norm_bytes(const struct cuda *cuda, size_t rows, size_t channels, int of)
{
    return partial_bytes(norm_shape(cuda, rows, channels), channels, (size_t)of);
}

static struct launch_shape columns_shape(const struct cuda *cuda, size_t rows, size_t channels)
{
    return rows_shape(cuda, rows, channels, BLOCKS_OF_BIAS, PARTS_MAX);
}

size_t cuda_bias_bytes(const struct cuda *cuda, size_t rows, size_t channels)
{
    return partial_bytes(columns_shape(cuda, rows, channels), channels, 1);
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
    return GS_LAUNCH(cuda->kernels.to_low, cuda_blocks_for(count), gs_dim(THREADS, 1, 1), 0, cuda->lane->stream, &y, &x,
                     &numbers);
}

gs_status cuda_relu(struct cuda *cuda, CUdeviceptr y, size_t count)
{
    unsigned long long numbers = count;
    return GS_LAUNCH(cuda->kernels.relu_forward, cuda_blocks_for(count), gs_dim(THREADS, 1, 1), 0, cuda->lane->stream,
                     &y, &numbers);
}

gs_status cuda_relu_backward(struct cuda *cuda, CUdeviceptr dy, CUdeviceptr y, size_t count)
{
    unsigned long long numbers = count;
    return GS_LAUNCH(cuda->kernels.relu_backward, cuda_blocks_for(count), gs_dim(THREADS, 1, 1), 0, cuda->lane->stream,
                     &dy, &y, &numbers);
}

gs_status cuda_add(struct cuda *cuda, CUdeviceptr y, CUdeviceptr a, CUdeviceptr b, size_t count, bool has_relu)
{
    unsigned long long numbers = count;
    int relu = has_relu;
    return GS_LAUNCH(cuda->kernels.add, cuda_blocks_for(count), gs_dim(THREADS, 1, 1), 0, cuda->lane->stream, &y, &a,
                     &b, &numbers, &relu);
}

gs_status cuda_add_gradient(struct cuda *cuda, CUdeviceptr sum, CUdeviceptr x, size_t count)
{
    unsigned long long numbers = count;
    return GS_LAUNCH(cuda->kernels.add_gradient, cuda_blocks_for(count), gs_dim(THREADS, 1, 1), 0, cuda->lane->stream,
                     &sum, &x, &numbers);
}

/* ---- folding and sampling ---- */

/* Launch a thread for each of `count` pixels or weights. struct folding must match that in cuda_kernels.cu. */
static gs_status run_folding(struct cuda *cuda, CUfunction kernel, CUdeviceptr to, CUdeviceptr from, size_t count,
                             const struct folding *folding)
{
    unsigned long long threads = count;
    struct folding by = *folding;
    return GS_LAUNCH(kernel, gs_dim((unsigned)((count + THREADS - 1) / THREADS), 1, 1), gs_dim(THREADS, 1, 1), 0,
                     cuda->lane->stream, &to, &from, &threads, &by);
}

gs_status cuda_input_folded(struct cuda *cuda, CUdeviceptr y, CUdeviceptr x, const struct folding *folding)
{
    size_t pixels = (size_t)folding->folded_height * folding->folded_width;
    return run_folding(cuda, cuda->kernels.to_low_folded, y, x, cuda->card.schedule->options.images * pixels, folding);
}

gs_status cuda_fold(struct cuda *cuda, CUdeviceptr to, CUdeviceptr from, size_t outputs, const struct folding *folding)
{
    size_t positions = (size_t)folding->folded_kernel * folding->filter_width;
    size_t count = outputs * folding->across * positions * folding->across * folding->folded_channels;
    return run_folding(cuda, cuda->kernels.fold, to, from, count, folding);
}

gs_status cuda_add_folded(struct cuda *cuda, CUdeviceptr sum, CUdeviceptr from, size_t outputs,
                          const struct folding *folding)
{
    size_t count = outputs * folding->kernel * folding->kernel;
    return run_folding(cuda, cuda->kernels.add_folded, sum, from, count, folding);
}

/* Must match the struct of the same name in cuda_kernels.cu. */
struct sampling {
    unsigned channels, height, width, out_height, out_width, stride;
};

gs_status cuda_spread(struct cuda *cuda, CUdeviceptr dx, CUdeviceptr from, const struct conv_problem *problem)
{
    struct sampling by = {.channels = (unsigned)problem->in.channels,
                          .height = (unsigned)problem->in.height,
                          .width = (unsigned)problem->in.width,
                          .out_height = (unsigned)problem->out.height,
                          .out_width = (unsigned)problem->out.width,
                          .stride = (unsigned)problem->stride};
    int adds = problem->adds != 0, is_wide = by.channels % 8 == 0;
    size_t rows = problem->images * (adds ? by.out_height : by.height);
    unsigned threads = along((size_t)(adds ? by.out_width : by.width) * by.channels / (is_wide ? 8 : 1));
    return GS_LAUNCH(cuda->kernels.spread[is_wide], gs_dim((unsigned)rows, 1, 1), gs_dim(threads, 1, 1), 0,
                     cuda->lane->stream, &dx, &from, &by, &adds);
}

/* ---- bias ---- */

gs_status cuda_bias(struct cuda *cuda, CUdeviceptr y, CUdeviceptr bias, size_t rows, size_t channels, bool has_relu)
{
    struct launch_shape shape = rows_shape(cuda, rows, channels, BLOCKS_OF_BIAS, 65535);
    unsigned long long row_count = rows;
    unsigned channel_count = (unsigned)channels;
    int relu = has_relu;
    return GS_LAUNCH(cuda->kernels.bias[shape.is_wide], shape.grid, shape.block, 0, cuda->lane->stream, &y, &bias,
                     &row_count, &channel_count, &relu);
}

gs_status cuda_bias_gradient(struct cuda *cuda, CUdeviceptr gradient, CUdeviceptr dy, CUdeviceptr y,
                             CUdeviceptr workspace, size_t rows, size_t channels)
{
    struct launch_shape shape = columns_shape(cuda, rows, channels);
    unsigned long long row_count = rows;
    unsigned channel_count = (unsigned)channels, parts = shape.grid.y;
    gs_status status = GS_LAUNCH(cuda->kernels.columns[shape.is_wide], shape.grid, shape.block, 0, cuda->lane->stream,
                                 &workspace, &dy, &y, &row_count, &channel_count);
    if (status == GS_OK)
        status = GS_LAUNCH(cuda->kernels.columns_end, cuda_end_grid(channels, 1), cuda_end_block(), 0,
                           cuda->lane->stream, &gradient, &workspace, &channel_count, &parts);
    return status;
}

/* ---- batch normalisation ---- */

/* The arguments of the batch normalisation kernels. */
struct norm {
    CUdeviceptr x, y, dx, dy, saved, workspace, means, scale, shift, scale_gradient, shift_gradient, running;
    unsigned long long rows;
    unsigned channels, parts;
    struct after after;
    bool is_smooth; /* what follows is a smooth activation */
    int adds;
    struct launch_shape shape; /* for all kernels over rows */
};

static CUdeviceptr lasting(const struct cuda *cuda, enum lasting which, size_t at)
{
    return card_at(&cuda->card, cuda->card.schedule->lasting[which]) + at * sizeof(float);
}

/* What follows the batch normalisation `layer` in a step: its ReLU, or the activation that the step also computes. */
static struct after after_of(const struct step *step, const struct layer *layer)
{
    struct after after = {.low = -INFINITY, .high = INFINITY};
    if (layer->has_relu)
        after.low = 0;
    if (step->activation != NULL)
        after = (struct after){.low = 0, .high = 6, .activation = (int)step->activation->activation};
    return after;
}

static struct norm norm_of(const struct cuda *cuda, const struct step *step, const struct layer *layer)
{
    size_t images = cuda->card.schedule->options.images, rows = cuda_norm_rows(step, layer, images);
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
                        .rows = images * layer->out.height * layer->out.width,
                        .channels = (unsigned)layer->out.channels,
                        .after = after_of(step, layer),
                        .is_smooth = step->activation != NULL && step->activation->activation != ACTIVATION_RELU6,
                        .adds = step->adds,
                        .shape = norm_shape(cuda, rows, layer->out.channels)};
    norm.parts = norm.shape.grid.y;
    norm.means = norm.workspace + cuda_norm_bytes(cuda, rows, layer->out.channels, 2);
    return norm;
}

static gs_status norm_statistics(struct cuda *cuda, struct norm *norm, bool is_again)
{
    float epsilon = norm_epsilon, momentum = norm_momentum;
    CUdeviceptr running = is_again ? 0 : norm->running;
    gs_status status = GS_LAUNCH(cuda->kernels.norm_sums[norm->shape.is_wide], norm->shape.grid, norm->shape.block, 0,
                                 cuda->lane->stream, &norm->workspace, &norm->x, &norm->rows, &norm->channels);
    if (status == GS_OK)
        status = GS_LAUNCH(cuda->kernels.norm_statistics, cuda_end_grid(norm->channels, 1), cuda_end_block(), 0,
                           cuda->lane->stream, &norm->saved, &running, &norm->workspace, &norm->x, &norm->rows,
                           &norm->channels, &norm->parts, &epsilon, &momentum);
    return status;
}

static gs_status norm_running(struct cuda *cuda, struct norm *norm)
{
    float epsilon = norm_epsilon;
    gs_dims grid = gs_dim((norm->channels + THREADS - 1) / THREADS, 1, 1);
    return GS_LAUNCH(cuda->kernels.norm_running, grid, gs_dim(THREADS, 1, 1), 0, cuda->lane->stream, &norm->saved,
                     &norm->running, &norm->channels, &epsilon);
}

gs_status cuda_norm(struct cuda *cuda, const struct step *step, bool is_evaluation)
{
    struct norm norm = norm_of(cuda, step, step->layer);
    gs_status status = is_evaluation ? norm_running(cuda, &norm) : norm_statistics(cuda, &norm, step->is_again);
    const CUfunction *kernels = norm.is_smooth ? cuda->kernels.norm_forward_smooth : cuda->kernels.norm_forward;
    if (status == GS_OK)
        status =
            GS_LAUNCH(kernels[norm.shape.is_wide], norm.shape.grid, norm.shape.block, 0, cuda->lane->stream, &norm.y,
                      &norm.x, &norm.saved, &norm.scale, &norm.shift, &norm.rows, &norm.channels, &norm.after);
    return status;
}

gs_status cuda_norm_statistics(struct cuda *cuda, const struct step *step, bool is_evaluation)
{
    struct norm norm = norm_of(cuda, step, step->layer);
    return is_evaluation ? norm_running(cuda, &norm) : norm_statistics(cuda, &norm, step->is_again);
}

static gs_status backward_sums(struct cuda *cuda, struct norm *norm)
{
    const CUfunction *kernels =
        norm->is_smooth ? cuda->kernels.norm_backward_sums_smooth : cuda->kernels.norm_backward_sums;
    return GS_LAUNCH(kernels[norm->shape.is_wide], norm->shape.grid, norm->shape.block, 0, cuda->lane->stream,
                     &norm->workspace, &norm->dy, &norm->x, &norm->saved, &norm->scale, &norm->shift, &norm->rows,
                     &norm->channels, &norm->after);
}

/* Compute the gradients of the parameters from `of` sums. */
static gs_status backward_statistics(struct cuda *cuda, struct norm *norm, int which, int of)
{
    return GS_LAUNCH(cuda->kernels.norm_backward_statistics, cuda_end_grid(norm->channels, 1), cuda_end_block(), 0,
                     cuda->lane->stream, &norm->scale_gradient, &norm->shift_gradient, &norm->means, &norm->workspace,
                     &norm->saved, &norm->rows, &norm->channels, &norm->parts, &which, &of);
}

/* Compute the gradients of the parameters and of the input, after the sums. */
static gs_status backward_end(struct cuda *cuda, struct norm *norm)
{
    gs_status status = backward_statistics(cuda, norm, 1, 2);
    const CUfunction *kernels = norm->is_smooth ? cuda->kernels.norm_backward_smooth : cuda->kernels.norm_backward;
    if (status == GS_OK && norm->dx != 0)
        status = GS_LAUNCH(kernels[norm->shape.is_wide], norm->shape.grid, norm->shape.block, 0, cuda->lane->stream,
                           &norm->dx, &norm->dy, &norm->x, &norm->saved, &norm->means, &norm->scale, &norm->shift,
                           &norm->rows, &norm->channels, &norm->after, &norm->adds);
    return status;
}

gs_status cuda_norm_backward(struct cuda *cuda, const struct step *step)
{
    struct norm norm = norm_of(cuda, step, step->layer);
    gs_status status = backward_sums(cuda, &norm);
    return status == GS_OK ? backward_end(cuda, &norm) : status;
}

/* ---- sums with batch normalisations inside them ---- */

/* Must match the structs of the same names in cuda_kernels.cu. */
struct normalised {
    CUdeviceptr x, saved, scale, shift;
};
struct branch {
    CUdeviceptr dx, x, saved, scale, means;
};

static struct normalised input_of(const struct cuda *cuda, const struct step *step, int k)
{
    const struct layer *inner = step->inner[k];
    struct normalised input = {.x = card_at(&cuda->card, k == 0 ? step->x : step->x2)};
    if (inner != NULL) {
        input.saved = card_at(&cuda->card, step->inner_saved[k]);
        input.scale = lasting(cuda, LASTING_PARAMETERS, inner->weight_at);
        input.shift = lasting(cuda, LASTING_PARAMETERS, inner->bias_at);
    }
    return input;
}

gs_status cuda_norm_add(struct cuda *cuda, const struct step *step)
{
    const struct layer *layer = step->layer;
    bool has_two = step->inner[0] != NULL && step->inner[1] != NULL;
    int first = step->inner[0] != NULL ? 0 : 1;
    struct normalised a = input_of(cuda, step, first), b = input_of(cuda, step, 1 - first);
    CUdeviceptr y = card_at(&cuda->card, step->y), mask = card_at(&cuda->card, step->saved);
    unsigned long long rows = cuda->card.schedule->options.images * layer->out.height * layer->out.width;
    unsigned channels = (unsigned)layer->out.channels;
    struct launch_shape shape = norm_shape(cuda, rows, channels);
    CUfunction kernel = has_two ? cuda->kernels.norm_add_two[shape.is_wide] : cuda->kernels.norm_add[shape.is_wide];
    return GS_LAUNCH(kernel, shape.grid, shape.block, 0, cuda->lane->stream, &y, &mask, &a, &b, &rows, &channels);
}

static gs_status masked_sums(struct cuda *cuda, struct norm *norm, CUdeviceptr mask)
{
    return GS_LAUNCH(cuda->kernels.norm_masked_sums[norm->shape.is_wide], norm->shape.grid, norm->shape.block, 0,
                     cuda->lane->stream, &norm->workspace, &norm->dy, &mask, &norm->x, &norm->saved, &norm->rows,
                     &norm->channels);
}

/* Describe the normalisation inside a sum as one that is a layer of its own. */
static struct norm inner_norm(const struct cuda *cuda, const struct step *step, int k)
{
    struct norm norm = norm_of(cuda, step, step->inner[k]);
    norm.x = card_at(&cuda->card, k == 0 ? step->x : step->x2);
    norm.dx = card_at(&cuda->card, k == 0 ? step->dx : step->dx2);
    norm.saved = card_at(&cuda->card, step->inner_saved[k]);
    return norm;
}

static struct branch branch_of(const struct norm *norm)
{
    return (struct branch){
        .dx = norm->dx, .x = norm->x, .saved = norm->saved, .scale = norm->scale, .means = norm->means};
}

/* The gradients of both inputs at once, so that dy is read once less. */
static gs_status two_backward(struct cuda *cuda, const struct step *step)
{
    struct norm one = inner_norm(cuda, step, 0), two = inner_norm(cuda, step, 1);
    CUdeviceptr mask = card_at(&cuda->card, step->saved), dy = one.dy;
    one.means = one.workspace + cuda_norm_bytes(cuda, one.rows, one.channels, 3);
    two.means = one.means + 2 * one.channels * sizeof(float);
    struct branch a = branch_of(&one), b = branch_of(&two);
    gs_status status = GS_LAUNCH(cuda->kernels.norm_two_sums[one.shape.is_wide], one.shape.grid, one.shape.block, 0,
                                 cuda->lane->stream, &one.workspace, &dy, &mask, &a, &b, &one.rows, &one.channels);
    if (status == GS_OK)
        status = backward_statistics(cuda, &one, 1, 3);
    if (status == GS_OK)
        status = backward_statistics(cuda, &two, 2, 3);
    if (status == GS_OK)
        status = GS_LAUNCH(cuda->kernels.norm_two_backward[one.shape.is_wide], one.shape.grid, one.shape.block, 0,
                           cuda->lane->stream, &dy, &mask, &a, &b, &one.rows, &one.channels);
    return status;
}

gs_status cuda_norm_add_backward(struct cuda *cuda, const struct step *step)
{
    CUdeviceptr mask = card_at(&cuda->card, step->saved);
    if (step->inner[0] != NULL && step->inner[1] != NULL)
        return two_backward(cuda, step);
    struct norm norm = inner_norm(cuda, step, step->inner[0] != NULL ? 0 : 1);
    gs_status status = mask != 0 ? masked_sums(cuda, &norm, mask) : backward_sums(cuda, &norm);
    return status == GS_OK ? backward_end(cuda, &norm) : status;
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
    const struct layer *inner = step->inner[0]; /* a convolution or a batch normalisation with ReLU, or NULL */
    CUdeviceptr bias = inner != NULL && inner->has_bias ? lasting(cuda, LASTING_PARAMETERS, inner->bias_at) : 0;
    int relu = step->layer->has_relu || inner != NULL, is_wide = pool.channels % 8 == 0;
    size_t images = cuda->card.schedule->options.images;
    unsigned threads = along((size_t)pool.out_width * pool.channels / (is_wide ? 8 : 1));
    if (inner != NULL && inner->kind == LAYER_BATCHNORM) {
        struct normalised norm = input_of(cuda, step, 0);
        return GS_LAUNCH(cuda->kernels.norm_max_forward[is_wide], gs_dim((unsigned)(images * pool.out_height), 1, 1),
                         gs_dim(threads, 1, 1), 0, cuda->lane->stream, &y, &which, &x, &norm, &pool);
    }
    return GS_LAUNCH(cuda->kernels.max_forward[is_wide], gs_dim((unsigned)(images * pool.out_height), 1, 1),
                     gs_dim(threads, 1, 1), 0, cuda->lane->stream, &y, &which, &x, &bias, &pool, &relu);
}

gs_status cuda_norm_max_backward(struct cuda *cuda, const struct step *step)
{
    struct norm norm = norm_of(cuda, step, step->layer);
    struct normalised input = {.x = norm.x, .saved = norm.saved, .scale = norm.scale, .shift = norm.shift};
    struct pool pool = pool_of(step->pool);
    CUdeviceptr which = card_at(&cuda->card, step->inner_saved[0]);
    unsigned long long squares = cuda_norm_rows(step, step->layer, cuda->card.schedule->options.images);
    int is_wide = norm.shape.is_wide;
    gs_status status =
        GS_LAUNCH(cuda->kernels.norm_max_sums[is_wide], norm.shape.grid, norm.shape.block, 0, cuda->lane->stream,
                  &norm.workspace, &norm.dy, &which, &input, &pool, &squares, &norm.after);
    if (status == GS_OK)
        status = backward_statistics(cuda, &norm, 1, 2);
    if (status == GS_OK && norm.dx != 0)
        status = GS_LAUNCH(cuda->kernels.norm_max_backward[is_wide], norm.shape.grid, norm.shape.block, 0,
                           cuda->lane->stream, &norm.dx, &norm.dy, &which, &input, &norm.means, &pool, &squares,
                           &norm.after, &norm.adds);
    return status;
}

gs_status cuda_max_backward(struct cuda *cuda, const struct step *step)
{
    CUdeviceptr dx = card_at(&cuda->card, step->dx), dy = card_at(&cuda->card, step->dy);
    CUdeviceptr which = card_at(&cuda->card, step->saved);
    struct pool pool = pool_of(step->layer);
    int adds = step->adds, is_wide = pool.channels % 8 == 0;
    size_t images = cuda->card.schedule->options.images;
    bool has_pairs = inner_is_pairs(step->layer);
    size_t rows = has_pairs ? pairs(step->layer, pool.height) : pool.height;
    size_t across = has_pairs ? pairs(step->layer, pool.width) : pool.width;
    unsigned threads = along(across * pool.channels / (is_wide ? 8 : 1));
    CUfunction kernel = has_pairs ? cuda->kernels.max_backward_pairs[is_wide] : cuda->kernels.max_backward[is_wide];
    const struct layer *inner = step->inner[0]; /* a convolution with ReLU, or NULL */
    CUdeviceptr y = inner != NULL ? card_at(&cuda->card, step->y) : 0;
    gs_status status = GS_OK;
    if (inner != NULL && inner->has_bias)
        status = cuda_bias_gradient(cuda, lasting(cuda, LASTING_GRADIENTS, inner->bias_at), dy, y,
                                    card_at(&cuda->card, step->workspace), images * pool.out_height * pool.out_width,
                                    pool.channels);
    if (status != GS_OK || dx == 0)
        return status;
    return GS_LAUNCH(kernel, gs_dim((unsigned)(images * rows), 1, 1), gs_dim(threads, 1, 1), 0, cuda->lane->stream, &dx,
                     &dy, &y, &which, &pool, &adds);
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
    return GS_LAUNCH(cuda->kernels.mean_forward[shape.is_wide], shape.grid, shape.block, 0, cuda->lane->stream, &y, &x,
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
    return GS_LAUNCH(cuda->kernels.mean_backward[shape.is_wide], shape.grid, shape.block, 0, cuda->lane->stream, &dx,
                     &dy, &pixels, &channels, &adds);
}

/* ---- loss ---- */

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
    float smoothing = iteration->smoothing;
    gs_status status =
        GS_LAUNCH(cuda->kernels.loss, gs_dim(images, 1, 1), gs_dim(LOSS_THREADS, 1, 1), 0, cuda->lane->stream, &dx,
                  &each, &logits, &labels, &classes, &counted, &scale, &smoothing);
    if (status == GS_OK)
        status = GS_LAUNCH(cuda->kernels.loss_sum, gs_dim(1, 1, 1), gs_dim(THREADS, 1, 1), 0, cuda->lane->stream,
                           &results, &each, &images);
    return status;
}
