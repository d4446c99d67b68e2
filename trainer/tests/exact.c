/* Computes the loss of a model in double precision: see exact.h. */
#include "exact.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const double epsilon = 1e-5;

static size_t at(const struct shape *shape, size_t image, size_t row, size_t column, size_t channel)
{
    return ((image * shape->height + row) * shape->width + column) * shape->channels + channel;
}

static void convolve(const struct exact *exact, const struct layer *layer, const double *parameters, const double *x,
                     double *y)
{
    const struct shape *in = &layer->in, *out = &layer->out;
    size_t k = layer->kernel, deep = in->channels / layer->groups, group_outputs = out->channels / layer->groups;
    for (size_t i = 0; i < exact->images * shape_count(*out); i++) {
        size_t c = i % out->channels, column = i / out->channels % out->width,
               row = i / out->channels / out->width % out->height, image = i / shape_count(*out);
        double sum = layer->bias_count != 0 ? parameters[layer->bias_at + c] : 0;
        for (size_t ky = 0; ky < k; ky++)
            for (size_t kx = 0; kx < k; kx++) {
                size_t r = row * layer->stride + ky - layer->pad, q = column * layer->stride + kx - layer->pad;
                if (r >= in->height || q >= in->width) /* a negative index has become a large size_t */
                    continue;
                for (size_t d = 0; d < deep; d++)
                    sum += parameters[layer->weight_at + ((c * k + ky) * k + kx) * deep + d] *
                           x[at(in, image, r, q, c / group_outputs * deep + d)];
            }
        y[i] = sum;
    }
}

static void multiply(const struct exact *exact, const struct layer *layer, const double *parameters, const double *x,
                     double *y)
{
    size_t inputs = shape_count(layer->in), outputs = layer->out.channels;
    for (size_t i = 0; i < exact->images * outputs; i++) {
        y[i] = layer->bias_count != 0 ? parameters[layer->bias_at + i % outputs] : 0;
        for (size_t k = 0; k < inputs; k++)
            y[i] += parameters[layer->weight_at + i % outputs * inputs + k] * x[i / outputs * inputs + k];
    }
}

static void normalise(const struct exact *exact, const struct layer *layer, const double *parameters, const double *x,
                      double *y)
{
    size_t channels = layer->out.channels, rows = exact->images * layer->out.height * layer->out.width;
    for (size_t c = 0; c < channels; c++) {
        double mean = 0, variance = 0;
        for (size_t i = 0; i < rows; i++)
            mean += x[i * channels + c] / (double)rows;
        for (size_t i = 0; i < rows; i++)
            variance += (x[i * channels + c] - mean) * (x[i * channels + c] - mean) / (double)rows;
        if (exact->statistics != NULL) {
            mean = (double)exact->statistics[layer->statistics_at + c];
            variance = (double)exact->statistics[layer->statistics_at + channels + c];
        }
        for (size_t i = 0; i < rows; i++)
            y[i * channels + c] =
                (x[i * channels + c] - mean) / sqrt(variance + epsilon) * parameters[layer->weight_at + c] +
                parameters[layer->bias_at + c];
    }
}

static void near(struct exact *exact, double distance)
{
    if (fabs(distance) < exact->closest)
        exact->closest = fabs(distance);
}

static void take_largest(struct exact *exact, const struct layer *layer, const double *x, double *y)
{
    const struct shape *in = &layer->in, *out = &layer->out;
    for (size_t i = 0; i < exact->images * shape_count(*out); i++) {
        size_t c = i % out->channels, column = i / out->channels % out->width,
               row = i / out->channels / out->width % out->height, image = i / shape_count(*out);
        double best = -INFINITY, second = -INFINITY;
        for (size_t k = 0; k < layer->kernel * layer->kernel; k++) {
            size_t r = row * layer->stride + k / layer->kernel - layer->pad,
                   q = column * layer->stride + k % layer->kernel - layer->pad;
            if (r >= in->height || q >= in->width)
                continue;
            double value = x[at(in, image, r, q, c)];
            second = value > best ? best : value > second ? value : second;
            best = value > best ? value : best;
        }
        if (best > second && best != 0) /* if all are 0 after a ReLU, it does not matter which one is the maximum */
            near(exact, best - second);
        y[i] = best;
    }
}

static void average(const struct exact *exact, const struct layer *layer, const double *x, double *y)
{
    size_t channels = layer->out.channels, pixels = layer->in.height * layer->in.width;
    for (size_t i = 0; i < exact->images * channels; i++) {
        y[i] = 0;
        for (size_t k = 0; k < pixels; k++)
            y[i] += x[(i / channels * pixels + k) * channels + i % channels] / (double)pixels;
    }
}

/* Apply the function. Its bends are kinks of the function or of its first derivative. */
static void activate(struct exact *exact, const struct layer *layer, const double *x, double *y)
{
    for (size_t i = 0; i < exact->images * shape_count(layer->out); i++) {
        double v = x[i], between = fmin(fmax(v + 3, 0), 6);
        switch (layer->activation) {
        case ACTIVATION_RELU6:
            if (v != 0)
                near(exact, v);
            near(exact, v - 6);
            y[i] = fmin(fmax(v, 0), 6);
            break;
        case ACTIVATION_SIGMOID:
            y[i] = 1 / (1 + exp(-v));
            break;
        case ACTIVATION_SILU:
            y[i] = v / (1 + exp(-v));
            break;
        case ACTIVATION_HARDSWISH:
            near(exact, v + 3);
            near(exact, v - 3);
            y[i] = v * between / 6;
            break;
        default:
            abort();
        }
    }
}

static void multiply_channels(const struct exact *exact, const struct layer *layer, const double *by, const double *x,
                              double *y)
{
    size_t channels = layer->out.channels, each = shape_count(layer->out);
    for (size_t i = 0; i < exact->images * each; i++)
        y[i] = x[i] * by[i / each * channels + i % channels];
}

/* One step of splitmix64 from the state `z`. */
static uint64_t scramble(uint64_t z)
{
    return random_next(&z);
}

/* Whether a number is dropped follows from seed, epoch (0), layer, image and place: see dropout.h. */
static void drop(const struct exact *exact, size_t index, const double *x, double *y)
{
    const struct layer *layer = &exact->model->layers[index];
    size_t each = shape_count(layer->out);
    uint64_t key = scramble(scramble(scramble(exact->seed)) + index);
    for (size_t i = 0; i < exact->images * each; i++) {
        uint64_t bits = scramble(scramble(key + i / each) + (layer->drops_images ? 0 : i % each)) >> 32;
        bool is_kept = exact->statistics != NULL || (double)bits / 0x1p32 >= (double)layer->rate;
        y[i] = !is_kept ? 0 : exact->statistics != NULL ? x[i] : x[i] / (1 - (double)layer->rate);
    }
}

static void rectify(struct exact *exact, const struct layer *layer, double *y)
{
    for (size_t i = 0; layer->has_relu && i < exact->images * shape_count(layer->out); i++) {
        if (y[i] != 0) /* an exact 0 is a sum of zeros, which no rounding changes */
            near(exact, y[i]);
        y[i] = y[i] > 0 ? y[i] : 0;
    }
}

static void compute(struct exact *exact, size_t index, const double *parameters, double *const *results)
{
    const struct layer *layer = &exact->model->layers[index];
    const double *x = results[layer->from[0]];
    double *y = results[index];
    size_t count = exact->images * shape_count(layer->out);
    switch (layer->kind) {
    case LAYER_INPUT:
        for (size_t i = 0; i < count; i++)
            y[i] = (double)exact->input[i];
        break;
    case LAYER_CONV:
        convolve(exact, layer, parameters, x, y);
        break;
    case LAYER_BATCHNORM:
        normalise(exact, layer, parameters, x, y);
        break;
    case LAYER_MAXPOOL:
        take_largest(exact, layer, x, y);
        break;
    case LAYER_AVERAGEPOOL:
        average(exact, layer, x, y);
        break;
    case LAYER_ADD:
        for (size_t i = 0; i < count; i++)
            y[i] = x[i] + results[layer->from[1]][i];
        break;
    case LAYER_LINEAR:
        multiply(exact, layer, parameters, x, y);
        break;
    case LAYER_ACTIVATION:
        activate(exact, layer, x, y);
        break;
    case LAYER_MULTIPLY:
        multiply_channels(exact, layer, x, results[layer->from[1]], y);
        break;
    case LAYER_DROPOUT:
        drop(exact, index, x, y);
        break;
    default:
        abort();
    }
    rectify(exact, layer, y);
}

static double loss_of(struct exact *exact, const double *y)
{
    size_t classes = exact->model->class_count;
    double loss = 0;
    exact->correct = 0;
    for (size_t i = 0; i < exact->counted; i++) {
        const double *x = y + i * classes;
        double sum = 0;
        size_t best = 0;
        for (size_t c = 0; c < classes; c++) {
            sum += exp(x[c]);
            best = x[c] > x[best] ? c : best;
        }
        exact->correct += best == (size_t)exact->labels[i];
        loss += log(sum) - x[exact->labels[i]];
    }
    return loss;
}

double exact_loss(struct exact *exact, const double *parameters)
{
    size_t count = exact->model->layer_count;
    double **results = calloc(count, sizeof *results);
    exact->closest = INFINITY;
    for (size_t i = 0; results != NULL && i < count; i++) {
        results[i] = calloc(exact->images * shape_count(exact->model->layers[i].out), sizeof **results);
        if (results[i] == NULL)
            abort();
        compute(exact, i, parameters, results);
    }
    if (results == NULL)
        abort();
    double loss = loss_of(exact, results[count - 1]);
    for (size_t i = 0; i < count; i++)
        free(results[i]);
    free(results);
    return loss;
}
