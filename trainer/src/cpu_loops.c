/* Compute the steps that oneDNN does not suit: batch normalisation (ours saves 1/deviation and adds to the gradients),
 * additions, gradients of ReLU, and the loss. Sums over a batch use double. The results do not depend on the number of
 * threads. */
#include "cpu.h"

#include <math.h>
#include <string.h>

enum { CHUNK = 32 }; /* number of channels that a thread sums at a time: two cache lines */

static const float epsilon = 1e-5F, momentum = 0.1F; /* PyTorch's values for batch normalisation */

void cpu_copy(float *to, const float *from, size_t count)
{
    memcpy(to, from, count * sizeof *to);
}

void cpu_add(float *to, const float *from, size_t count)
{
    CPU_PARALLEL_FOR
    for (size_t i = 0; i < count; i++)
        to[i] += from[i];
}

static size_t count_of(const struct cpu_state *state, const struct step *step)
{
    return state->schedule->options.images * shape_count(step->layer->out);
}

static float rectified(float x, bool has_relu)
{
    return has_relu && x < 0 ? 0 : x; /* a NaN is returned unchanged */
}

void cpu_add_forward(const struct cpu_state *state, const struct step *step)
{
    const float *a = cpu_block(state, step->x), *b = cpu_block(state, step->x2);
    float *y = cpu_block(state, step->y);
    size_t count = count_of(state, step);
    bool has_relu = step->layer->has_relu;
    CPU_PARALLEL_FOR
    for (size_t i = 0; i < count; i++)
        y[i] = rectified(a[i] + b[i], has_relu);
}

void cpu_relu_backward(const struct cpu_state *state, const struct step *step)
{
    const float *y = cpu_block(state, step->y);
    float *dy = cpu_block(state, step->dy);
    size_t count = count_of(state, step);
    CPU_PARALLEL_FOR
    for (size_t i = 0; i < count; i++)
        dy[i] = y[i] == 0 ? 0 : dy[i];
}

/* ---- batch normalisation ---- */

/* The channels [at, at + width) of a tensor that is stored as rows of channels. */
struct chunk {
    size_t rows, channels, at, width;
};

static struct chunk chunk_of(const struct cpu_state *state, const struct layer *layer, size_t number)
{
    size_t channels = layer->out.channels, at = number * CHUNK;
    return (struct chunk){.rows = state->schedule->options.images * layer->out.height * layer->out.width,
                          .channels = channels,
                          .at = at,
                          .width = channels - at < CHUNK ? channels - at : CHUNK};
}

static size_t chunk_count(const struct layer *layer)
{
    return (layer->out.channels + CHUNK - 1) / CHUNK;
}

/* Compute the mean and the biased variance of each channel. */
static void moments(const struct chunk *chunk, const float *x, double mean[CHUNK], double variance[CHUNK])
{
    memset(mean, 0, CHUNK * sizeof *mean);
    memset(variance, 0, CHUNK * sizeof *variance);
    for (size_t row = 0; row < chunk->rows; row++)
        for (size_t c = 0; c < chunk->width; c++)
            mean[c] += (double)x[row * chunk->channels + chunk->at + c];
    for (size_t c = 0; c < chunk->width; c++)
        mean[c] /= (double)chunk->rows;
    for (size_t row = 0; row < chunk->rows; row++)
        for (size_t c = 0; c < chunk->width; c++) {
            double off = (double)x[row * chunk->channels + chunk->at + c] - mean[c];
            variance[c] += off * off;
        }
    for (size_t c = 0; c < chunk->width; c++)
        variance[c] /= (double)chunk->rows;
}

/* Update the running mean and variance. The running variance is unbiased, as in PyTorch. */
static void remember(const struct chunk *chunk, const double *mean, const double *variance, float *running)
{
    double unbiased = (double)chunk->rows / (double)(chunk->rows - 1);
    for (size_t c = 0; c < chunk->width; c++) {
        float *running_mean = running + chunk->at + c, *running_variance = running_mean + chunk->channels;
        *running_mean += momentum * ((float)mean[c] - *running_mean);
        *running_variance += momentum * ((float)(variance[c] * unbiased) - *running_variance);
    }
}

static void normalise(const struct chunk *chunk, const float *mean, const float *inverse, const float *scale,
                      const float *shift, bool has_relu, const float *x, float *y)
{
    for (size_t row = 0; row < chunk->rows; row++)
        for (size_t c = chunk->at; c < chunk->at + chunk->width; c++)
            y[row * chunk->channels + c] =
                rectified((x[row * chunk->channels + c] - mean[c]) * inverse[c] * scale[c] + shift[c], has_relu);
}

void cpu_batchnorm_forward(const struct cpu_state *state, const struct step *step, bool is_evaluation)
{
    const struct layer *layer = step->layer;
    const float *x = cpu_block(state, step->x), *parameters = cpu_lasting(state, LASTING_PARAMETERS);
    float *y = cpu_block(state, step->y), *saved_mean = cpu_block(state, step->saved);
    float *saved_inverse = saved_mean + layer->out.channels;
    float *running = cpu_lasting(state, LASTING_STATISTICS) + layer->statistics_at;
    size_t chunks = chunk_count(layer);
    CPU_PARALLEL_FOR
    for (size_t i = 0; i < chunks; i++) {
        struct chunk chunk = chunk_of(state, layer, i);
        double mean[CHUNK], variance[CHUNK];
        for (size_t c = 0; is_evaluation && c < chunk.width; c++) {
            mean[c] = (double)running[chunk.at + c];
            variance[c] = (double)running[chunk.channels + chunk.at + c];
        }
        if (!is_evaluation)
            moments(&chunk, x, mean, variance);
        if (!is_evaluation && !step->is_again)
            remember(&chunk, mean, variance, running);
        for (size_t c = 0; c < chunk.width; c++) {
            saved_mean[chunk.at + c] = (float)mean[c];
            saved_inverse[chunk.at + c] = (float)(1 / sqrt(variance[c] + (double)epsilon));
        }
        normalise(&chunk, saved_mean, saved_inverse, parameters + layer->weight_at, parameters + layer->bias_at,
                  layer->has_relu, x, y);
    }
}

/* Inputs of the backward step of batch normalisation. through_relu() has no branch for the ReLU, because half of them
 * would be mispredicted. */
struct backwards {
    const float *x, *dy, *mean, *inverse;
    /* result of the layer; without a ReLU it is read but ignored, so it may be any array of this size */
    const float *y;
    bool has_relu;
};

static float through_relu(const struct backwards *of, size_t at)
{
    float dy = of->dy[at], y = of->y[at];
    return of->has_relu & (y == 0) ? 0 : dy;
}

/* Compute the gradients of shift (the sum of dy) and scale (the sum of dy times the normalised x). */
static void sums(const struct chunk *chunk, const struct backwards *of, double of_dy[CHUNK], double of_product[CHUNK])
{
    memset(of_dy, 0, CHUNK * sizeof *of_dy);
    memset(of_product, 0, CHUNK * sizeof *of_product);
    for (size_t row = 0; row < chunk->rows; row++)
        for (size_t c = 0; c < chunk->width; c++) {
            size_t channel = chunk->at + c, at = row * chunk->channels + channel;
            float dy = through_relu(of, at);
            of_dy[c] += (double)dy;
            of_product[c] += (double)(dy * (of->x[at] - of->mean[channel]));
        }
    for (size_t c = 0; c < chunk->width; c++)
        of_product[c] *= (double)of->inverse[chunk->at + c];
}

static void spread(const struct chunk *chunk, const struct backwards *of, const float *scale, const double *of_dy,
                   const double *of_product, bool adds, float *dx)
{
    float dy_mean[CHUNK], slope[CHUNK], factor[CHUNK];
    for (size_t c = 0; c < chunk->width; c++) {
        float inverse = of->inverse[chunk->at + c];
        dy_mean[c] = (float)(of_dy[c] / (double)chunk->rows);
        slope[c] = (float)(of_product[c] / (double)chunk->rows) * inverse;
        factor[c] = scale[chunk->at + c] * inverse;
    }
    for (size_t row = 0; row < chunk->rows; row++)
        for (size_t c = 0; c < chunk->width; c++) {
            size_t channel = chunk->at + c, at = row * chunk->channels + channel;
            float off = (of->x[at] - of->mean[channel]) * slope[c];
            float gradient = factor[c] * (through_relu(of, at) - dy_mean[c] - off);
            dx[at] = adds ? dx[at] + gradient : gradient;
        }
}

void cpu_batchnorm_backward(const struct cpu_state *state, const struct step *step)
{
    const struct layer *layer = step->layer;
    const float *saved = cpu_block(state, step->saved);
    const struct backwards of = {.x = cpu_block(state, step->x),
                                 .dy = cpu_block(state, step->dy),
                                 .mean = saved,
                                 .inverse = saved + layer->out.channels,
                                 .y = cpu_block(state, layer->has_relu ? step->y : step->x),
                                 .has_relu = layer->has_relu};
    const float *scale = cpu_lasting(state, LASTING_PARAMETERS) + layer->weight_at;
    float *gradients = cpu_lasting(state, LASTING_GRADIENTS), *dx = cpu_block(state, step->dx);
    size_t chunks = chunk_count(layer);
    CPU_PARALLEL_FOR
    for (size_t i = 0; i < chunks; i++) {
        struct chunk chunk = chunk_of(state, layer, i);
        double of_dy[CHUNK], of_product[CHUNK];
        sums(&chunk, &of, of_dy, of_product);
        for (size_t c = 0; c < chunk.width; c++) {
            gradients[layer->weight_at + chunk.at + c] += (float)of_product[c];
            gradients[layer->bias_at + chunk.at + c] += (float)of_dy[c];
        }
        if (dx != NULL)
            spread(&chunk, &of, scale, of_dy, of_product, step->adds, dx);
    }
}

/* ---- loss ---- */

/* Return the number of classes with a larger logit than the label, or the same one and a smaller number, or one that is
 * not a number. If the label's logit is not a number, this is the number of all classes. */
static size_t rank_of(const float *x, size_t classes, size_t label)
{
    size_t before = 0;
    for (size_t c = 0; c < classes; c++)
        before += c != label && !(x[c] < x[label] || (x[c] == x[label] && c > label));
    return isnan(x[label]) ? classes : before;
}

/* Compute the softmax and the cross entropy of one image, with label smoothing. If `dx` is not NULL, it gets the
 * gradient times `factor`. Returns the loss. */
static double image_loss(const float *x, size_t classes, size_t label, float factor, float smoothing, float *dx)
{
    size_t best = 0;
    double sum = 0, off = 0, share = (double)smoothing / (double)classes;
    for (size_t c = 1; c < classes; c++)
        best = x[c] > x[best] ? c : best;
    double largest = (double)x[best], of_label = (double)x[label] - largest;
    for (size_t c = 0; c < classes; c++)
        sum += exp((double)x[c] - largest);
    for (size_t c = 0; smoothing > 0 && c < classes; c++)
        off += (double)x[c] - largest;
    for (size_t c = 0; dx != NULL && c < classes; c++)
        dx[c] = (float)(exp((double)x[c] - largest) / sum - (c == label ? 1 - (double)smoothing : 0) - share) * factor;
    return log(sum) - (1 - (double)smoothing) * of_label - share * off;
}

bool cpu_loss(const struct cpu_state *state, const struct step *step, const struct iteration *iteration,
              struct reason *reason)
{
    const float *x = cpu_block(state, step->x);
    const int32_t *labels = cpu_block(state, schedule_labels(state->schedule, iteration->turn));
    float *dx = iteration->is_evaluation ? NULL : cpu_block(state, step->dx);
    struct results *results = (struct results *)cpu_lasting(state, LASTING_RESULTS);
    size_t classes = state->schedule->model->class_count, images = state->schedule->options.images;
    float factor = iteration->loss_scale / (float)iteration->images_in_step;
    double loss = 0;
    if (dx != NULL)
        memset(dx, 0, images * classes * sizeof *dx); /* the gradient of padding images is 0 */
    for (size_t i = 0; i < iteration->images; i++) {
        if (labels[i] < 0 || (size_t)labels[i] >= classes)
            return because(reason, "image %zu of the batch has class %d, but the model has 0 to %zu", i, labels[i],
                           classes - 1);
        loss += image_loss(x + i * classes, classes, (size_t)labels[i], factor, iteration->smoothing,
                           dx == NULL ? NULL : dx + i * classes);
        size_t rank = rank_of(x + i * classes, classes, (size_t)labels[i]);
        results->correct += rank == 0;
        results->top += rank < CLASSES_TOP;
    }
    results->loss += (float)loss;
    return true;
}
