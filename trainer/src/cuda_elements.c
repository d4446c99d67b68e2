/* Launch the kernels of cuda_elements.cu: activations, dropout, and operations with one number for each channel of each
 * image. */
#include "cuda_state.h"
#include "dropout.h"

/* Must match the struct of the same name in cuda_elements.cu. */
struct drop {
    unsigned long long key, each;
    unsigned limit;
    int drops_images, adds;
    float factor;
};

_Static_assert(ACTIVATION_RELU6 == 0 && ACTIVATION_SIGMOID == 1 && ACTIVATION_SILU == 2 && ACTIVATION_HARDSWISH == 3 &&
                   ACTIVATION_COUNT == 4,
               "the kernels use these numbers");

static size_t count_of(const struct cuda *cuda, const struct step *step)
{
    return cuda->card.schedule->options.images * shape_count(step->layer->out);
}

/* ---- activations ---- */

gs_status cuda_activation(struct cuda *cuda, const struct step *step)
{
    CUdeviceptr x = card_at(&cuda->card, step->x), y = card_at(&cuda->card, step->y);
    unsigned long long count = count_of(cuda, step);
    int activation = (int)step->layer->activation;
    return GS_LAUNCH(cuda->kernels.activate, cuda_blocks_for(count), gs_dim(THREADS, 1, 1), 0, cuda->lane->stream, &y,
                     &x, &activation, &count);
}

gs_status cuda_activation_backward(struct cuda *cuda, const struct step *step)
{
    size_t block = activation_reads_input(step->layer->activation) ? step->x : step->y;
    CUdeviceptr dx = card_at(&cuda->card, step->dx), dy = card_at(&cuda->card, step->dy);
    CUdeviceptr from = card_at(&cuda->card, block);
    unsigned long long count = count_of(cuda, step);
    int activation = (int)step->layer->activation, adds = step->adds;
    return GS_LAUNCH(cuda->kernels.activate_backward, cuda_blocks_for(count), gs_dim(THREADS, 1, 1), 0,
                     cuda->lane->stream, &dx, &dy, &from, &activation, &adds, &count);
}

/* ---- dropout ---- */

gs_status cuda_dropout(struct cuda *cuda, const struct step *step, const struct iteration *iteration)
{
    const struct layer *layer = step->layer;
    bool is_forward = step->kind == STEP_FORWARD;
    float rate = iteration->is_evaluation ? 0 : layer->rate; /* an evaluation drops nothing */
    CUdeviceptr from = card_at(&cuda->card, is_forward ? step->x : step->dy);
    CUdeviceptr to = card_at(&cuda->card, is_forward ? step->y : step->dx);
    unsigned long long count = count_of(cuda, step);
    struct drop drop = {.key = dropout_key(iteration, (size_t)(layer - cuda->card.schedule->model->layers)),
                        .each = shape_count(layer->out),
                        .limit = dropout_limit(rate),
                        .drops_images = layer->drops_images,
                        .adds = step->adds,
                        .factor = dropout_factor(rate)};
    return GS_LAUNCH(cuda->kernels.drop, cuda_blocks_for(count), gs_dim(THREADS, 1, 1), 0, cuda->lane->stream, &to,
                     &from, &drop, &count);
}

/* ---- one number for each channel of each image ---- */

static unsigned pixels_of(struct shape shape)
{
    return (unsigned)(shape.height * shape.width);
}

/* Return the grid and the block for sums over images: THREADS threads share up to 32 columns of one image. */
static struct launch_shape sums_shape(const struct cuda *cuda, size_t channels)
{
    int is_wide = channels % 8 == 0;
    size_t columns = is_wide ? channels / 8 : channels, x = 1;
    while (x < columns && x < 32)
        x *= 2;
    size_t images = cuda->card.schedule->options.images;
    return (struct launch_shape){.grid = gs_dim((unsigned)images, (unsigned)((columns + x - 1) / x), 1),
                                 .block = gs_dim((unsigned)x, (unsigned)(THREADS / x), 1),
                                 .is_wide = is_wide};
}

gs_status cuda_image_sums(struct cuda *cuda, CUdeviceptr y, CUdeviceptr a, CUdeviceptr b, struct shape shape,
                          float scale, bool adds)
{
    struct launch_shape launch = sums_shape(cuda, shape.channels);
    unsigned pixels = pixels_of(shape), channels = (unsigned)shape.channels;
    int add = adds;
    return GS_LAUNCH(cuda->kernels.image_sums[launch.is_wide], launch.grid, launch.block, 0, cuda->lane->stream, &y, &a,
                     &b, &pixels, &channels, &scale, &add);
}

gs_status cuda_image_spread(struct cuda *cuda, CUdeviceptr y, CUdeviceptr x, CUdeviceptr by, struct shape shape,
                            float scale, bool has_relu, bool adds)
{
    unsigned pixels = pixels_of(shape), channels = (unsigned)shape.channels;
    unsigned long long rows = (unsigned long long)cuda->card.schedule->options.images * pixels;
    struct launch_shape launch = cuda_rows_shape(cuda, (size_t)rows, channels);
    int relu = has_relu, add = adds;
    return GS_LAUNCH(cuda->kernels.image_spread[launch.is_wide], launch.grid, launch.block, 0, cuda->lane->stream, &y,
                     &x, &by, &rows, &pixels, &channels, &scale, &relu, &add);
}

gs_status cuda_multiply(struct cuda *cuda, const struct step *step)
{
    return cuda_image_spread(cuda, card_at(&cuda->card, step->y), card_at(&cuda->card, step->x2),
                             card_at(&cuda->card, step->x), step->layer->out, 1, step->layer->has_relu, false);
}

gs_status cuda_multiply_backward(struct cuda *cuda, const struct step *step)
{
    CUdeviceptr dx = card_at(&cuda->card, step->dx), dy = card_at(&cuda->card, step->dy);
    struct shape shape = step->layer->out;
    if (step->input == 0)
        return cuda_image_sums(cuda, dx, dy, card_at(&cuda->card, step->x2), shape, 1, step->adds);
    return cuda_image_spread(cuda, dx, dy, card_at(&cuda->card, step->x), shape, 1, false, step->adds);
}
