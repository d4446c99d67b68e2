/* Compute activations, multiplications by channel, and dropout. Sums over an image use double. */
#include "cpu.h"
#include "dropout.h"

#include <math.h>

static size_t images_of(const struct cpu_state *state)
{
    return state->schedule->options.images;
}

static size_t layer_index(const struct cpu_state *state, const struct layer *layer)
{
    return (size_t)(layer - state->schedule->model->layers);
}

/* ---- activations ---- */

static float clamped(float x, float most)
{
    return x < 0 ? 0 : x > most ? most : x; /* a NaN is returned unchanged */
}

static float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

static float activated(enum activation activation, float x)
{
    switch (activation) {
    case ACTIVATION_RELU6:
        return clamped(x, 6);
    case ACTIVATION_SIGMOID:
        return sigmoid(x);
    case ACTIVATION_SILU:
        return x * sigmoid(x);
    case ACTIVATION_HARDSWISH:
        return x * clamped(x + 3, 6) / 6;
    case ACTIVATION_COUNT:
        break;
    }
    return x;
}

/* Return the derivative, from the output of the layer or from its input: see activation_reads_input(). */
static float slope(enum activation activation, float v)
{
    switch (activation) {
    case ACTIVATION_RELU6:
        return v > 0 && v < 6 ? 1 : 0;
    case ACTIVATION_SIGMOID:
        return v * (1 - v);
    case ACTIVATION_SILU:
        return sigmoid(v) * (1 + v * (1 - sigmoid(v)));
    case ACTIVATION_HARDSWISH:
        return v < -3 ? 0 : v <= 3 ? v / 3 + 0.5F : 1;
    case ACTIVATION_COUNT:
        break;
    }
    return 1;
}

void cpu_activation_forward(const struct cpu_state *state, const struct step *step)
{
    const float *x = cpu_block(state, step->x);
    float *y = cpu_block(state, step->y);
    size_t count = images_of(state) * shape_count(step->layer->out);
    CPU_PARALLEL_FOR
    for (size_t i = 0; i < count; i++)
        y[i] = activated(step->layer->activation, x[i]);
}

void cpu_activation_backward(const struct cpu_state *state, const struct step *step)
{
    enum activation activation = step->layer->activation;
    const float *v = cpu_block(state, activation_reads_input(activation) ? step->x : step->y);
    const float *dy = cpu_block(state, step->dy);
    float *dx = cpu_block(state, step->dx);
    size_t count = images_of(state) * shape_count(step->layer->out);
    CPU_PARALLEL_FOR
    for (size_t i = 0; i < count; i++)
        dx[i] = (step->adds ? dx[i] : 0) + dy[i] * slope(activation, v[i]);
}

/* ---- multiplication ---- */

/* Multiply each channel of each image by its number: to (+)= image * by. */
static void multiply(const struct cpu_state *state, const struct step *step, const float *image, float *to, bool adds)
{
    struct shape shape = step->layer->out;
    const float *by = cpu_block(state, step->x);
    size_t pixels = shape.height * shape.width, rows = images_of(state) * pixels, channels = shape.channels;
    bool has_relu = step->kind == STEP_FORWARD && step->layer->has_relu;
    CPU_PARALLEL_FOR
    for (size_t row = 0; row < rows; row++)
        for (size_t c = 0; c < channels; c++) {
            float product = image[row * channels + c] * by[row / pixels * channels + c];
            float *at = &to[row * channels + c];
            *at = adds ? *at + product : has_relu && product < 0 ? 0 : product;
        }
}

void cpu_multiply_forward(const struct cpu_state *state, const struct step *step)
{
    multiply(state, step, cpu_block(state, step->x2), cpu_block(state, step->y), false);
}

/* The gradient of a number is the sum of image * dy over its channel. */
static void multiply_sums(const struct cpu_state *state, const struct step *step)
{
    struct shape shape = step->layer->out;
    const float *image = cpu_block(state, step->x2), *dy = cpu_block(state, step->dy);
    float *dx = cpu_block(state, step->dx);
    size_t pixels = shape.height * shape.width, channels = shape.channels, images = images_of(state);
    CPU_PARALLEL_FOR
    for (size_t i = 0; i < images * channels; i++) {
        size_t first = i / channels * pixels * channels + i % channels;
        double sum = step->adds ? (double)dx[i] : 0;
        for (size_t k = 0; k < pixels; k++)
            sum += (double)(image[first + k * channels] * dy[first + k * channels]);
        dx[i] = (float)sum;
    }
}

void cpu_multiply_backward(const struct cpu_state *state, const struct step *step)
{
    if (step->input == 0)
        multiply_sums(state, step);
    else
        multiply(state, step, cpu_block(state, step->dy), cpu_block(state, step->dx), step->adds);
}

/* ---- dropout ---- */

void cpu_dropout(const struct cpu_state *state, const struct step *step, const struct iteration *iteration)
{
    const struct layer *layer = step->layer;
    bool is_forward = step->kind == STEP_FORWARD, drops = !iteration->is_evaluation;
    const float *from = cpu_block(state, is_forward ? step->x : step->dy);
    float *to = cpu_block(state, is_forward ? step->y : step->dx), factor = dropout_factor(layer->rate);
    uint64_t key = dropout_key(iteration, layer_index(state, layer));
    uint32_t limit = dropout_limit(layer->rate);
    size_t each = shape_count(layer->out), images = images_of(state);
    CPU_PARALLEL_FOR
    for (size_t image = 0; image < images; image++)
        for (size_t i = 0; i < each; i++) {
            size_t at = image * each + i;
            float scale = !drops                                                                     ? 1
                          : dropout_keeps(key + image, layer->drops_images ? 0 : (uint64_t)i, limit) ? factor
                                                                                                     : 0;
            to[at] = (step->adds ? to[at] : 0) + (scale == 0 ? 0 : from[at] * scale);
        }
}
