/* Find the inner layers of a model: see inner.h. */
#include "inner.h"

#include <stdlib.h>

/* Return true if the sum can apply this batch normalisation itself. The sum writes the gradient of the normalisation's
 * input, so no other layer may contribute to that gradient. */
static bool suits_add(const struct model *model, const size_t *readers, const struct layer *add, size_t from)
{
    const struct layer *norm = &model->layers[from];
    return norm->kind == LAYER_BATCHNORM && !norm->has_relu && readers[from] == 1 && norm->segment == add->segment &&
           readers[norm->from[0]] == 1 && add->from[0] != add->from[1];
}

/* Return true if the max pooling can do this layer's work. For a convolution, this is its bias and ReLU, which keep the
 * order of values. */
static bool suits_pool(const struct model *model, const size_t *readers, const struct layer *pool, size_t from)
{
    const struct layer *layer = &model->layers[from];
    bool is_kind = layer->kind == LAYER_CONV || layer->kind == LAYER_BATCHNORM;
    return is_kind && layer->has_relu && readers[from] == 1 && layer->segment == pool->segment && !pool->has_relu;
}

static bool suits_activation(const struct model *model, const size_t *readers, const struct layer *activation)
{
    const struct layer *norm = &model->layers[activation->from[0]];
    return norm->kind == LAYER_BATCHNORM && !norm->has_relu && readers[activation->from[0]] == 1 &&
           norm->segment == activation->segment;
}

bool inner_find(const struct model *model, bool *ret_is_inner, const struct layer **ret_activations)
{
    size_t *readers = calloc(model->layer_count, sizeof *readers);
    if (readers == NULL)
        return false;
    for (size_t i = 1; i < model->layer_count; i++) {
        readers[model->layers[i].from[0]]++;
        if (layer_has_two_inputs(&model->layers[i]))
            readers[model->layers[i].from[1]]++;
    }
    for (size_t i = 1; i < model->layer_count; i++) {
        const struct layer *layer = &model->layers[i];
        if (layer->kind == LAYER_ADD)
            for (int k = 0; k < 2; k++)
                ret_is_inner[layer->from[k]] |= suits_add(model, readers, layer, layer->from[k]);
        if (layer->kind == LAYER_MAXPOOL)
            ret_is_inner[layer->from[0]] |= suits_pool(model, readers, layer, layer->from[0]);
        if (layer->kind == LAYER_ACTIVATION && suits_activation(model, readers, layer))
            ret_activations[layer->from[0]] = layer;
    }
    free(readers);
    return true;
}

/* Return the only layer that reads the images, if it is a convolution; otherwise NULL. */
static const struct layer *only_reader(const struct model *model)
{
    const struct layer *reader = NULL;
    for (size_t i = 1; i < model->layer_count; i++) {
        const struct layer *layer = &model->layers[i];
        if (layer->from[0] != 0 && (!layer_has_two_inputs(layer) || layer->from[1] != 0))
            continue;
        if (reader != NULL || layer->kind != LAYER_CONV)
            return NULL;
        reader = layer;
    }
    return reader;
}

struct folding inner_folding(const struct model *model)
{
    enum { MULTIPLE = 8, CHANNELS_MAX = 32, ACROSS = 4, ACROSS_CHANNELS_MAX = 16 };
    const struct layer *conv = only_reader(model);
    if (conv == NULL || conv->groups != 1 || conv->stride > CHANNELS_MAX || conv->in.channels > CHANNELS_MAX ||
        conv->in.channels * conv->stride * conv->stride > CHANNELS_MAX || conv->pad >= conv->kernel)
        return (struct folding){0};
    unsigned stride = (unsigned)conv->stride, kernel = (unsigned)conv->kernel, pad = (unsigned)conv->pad;
    unsigned channels = (unsigned)conv->in.channels * stride * stride;
    bool is_strided = stride > 1;
    struct folding folding = {.channels = (unsigned)conv->in.channels,
                              .height = (unsigned)conv->in.height,
                              .width = (unsigned)conv->in.width,
                              .kernel = kernel,
                              .pad = pad,
                              .stride = stride,
                              .front = (pad + stride - 1) / stride,
                              .folded_channels = (channels + MULTIPLE - 1) / MULTIPLE * MULTIPLE};
    folding.folded_kernel = (kernel - 1 - pad) / stride + folding.front + 1;
    folding.border = is_strided ? folding.front : 0;
    folding.folded_height =
        is_strided ? (unsigned)conv->out.height + folding.folded_kernel - 1 : (unsigned)conv->in.height;
    bool is_across = is_strided && folding.folded_channels <= ACROSS_CHANNELS_MAX && conv->out.width % ACROSS == 0;
    folding.across = is_across ? ACROSS : 1;
    /* the last of `across` results reads the pixels up to across - 1 + folded_kernel - 1 */
    folding.filter_width = (folding.folded_kernel + 2 * (folding.across - 1)) / folding.across;
    folding.folded_width =
        is_strided ? (unsigned)conv->out.width + (folding.filter_width - 1) * folding.across : (unsigned)conv->in.width;
    return folding;
}
