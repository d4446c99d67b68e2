/* A network, read from a small description file.
 *
 *     input 3 28 28                 channels, height, width; always the first line
 *     conv 64 3 pad 1 relu          channels, kernel; options: stride N (default 1), pad N (default 0), groups N
 *                                   (default 1), nobias, relu
 *     batchnorm relu
 *     maxpool 3 stride 2 pad 1      kernel; options: stride N (default: size of the kernel), pad N (default 0)
 *     averagepool                   over the whole image
 *     linear 10                     outputs; options: nobias, relu
 *     dropout 0.2                   during training, set this share of the numbers to 0 and divide the others by the
 *                                   rest (1 - 0.2); option: images (drop whole images: stochastic depth)
 *     segment                       begins a new segment: with checkpointing, results inside a segment are computed
 *                                   again instead of kept
 *
 * Each layer reads the output of the line above. Names allow other connections:
 *
 *     start = maxpool 2             names the output of this layer
 *     short = conv 256 1 from start reads a named output instead of the one from the line above
 *     add short relu                adds a named output to the one from the line above
 *     multiply image                multiplies a named output by the one from the line above, which has one number for
 *                                   each channel of each image, for example after averagepool
 *
 * Instead of relu, a line may end with relu6, silu, sigmoid or hardswish. These are layers of their own, which can also
 * be written as a line: activation silu.
 *
 * Files with weights and other programs have their own names for the parameters:
 *
 *     conv 64 1 as layer1.0.conv1   the weights are "layer1.0.conv1.weight" there (see weights.h)
 *
 * The last layer has one output per class. Text after # is a comment. Images are stored as rows, columns, channels.
 * Weights are stored as output channel, row, column, input channel (of the channel's group). A model is plain data,
 * which any thread may use. */
#ifndef TRAINER_MODEL_H
#define TRAINER_MODEL_H

#include "trainer.h"

#include <stddef.h>
#include <stdint.h>

enum layer_kind {
    LAYER_INPUT,
    LAYER_CONV,
    LAYER_BATCHNORM,
    LAYER_MAXPOOL,
    LAYER_AVERAGEPOOL,
    LAYER_ADD,
    LAYER_LINEAR,
    LAYER_ACTIVATION,
    LAYER_MULTIPLY, /* out = the image of from[1], each channel multiplied by a number of from[0] */
    LAYER_DROPOUT,
    LAYER_KIND_COUNT
};
const char *layer_kind_text(enum layer_kind kind); /* for example "conv"; static */

/* Functions of LAYER_ACTIVATION. The ReLU is not one of them, because other layers include it (has_relu). */
enum activation {
    ACTIVATION_RELU6,     /* min(max(x, 0), 6) */
    ACTIVATION_SIGMOID,   /* 1 / (1 + exp(-x)) */
    ACTIVATION_SILU,      /* x sigmoid(x); also called swish */
    ACTIVATION_HARDSWISH, /* x relu6(x + 3) / 6 */
    ACTIVATION_COUNT
};
const char *activation_text(enum activation activation); /* static */
/* True if the gradient is computed from the input of the layer, false if from its output. */
static inline bool activation_reads_input(enum activation activation)
{
    return activation == ACTIVATION_SILU || activation == ACTIVATION_HARDSWISH;
}

struct shape {
    size_t channels, height, width;
};
static inline size_t shape_count(struct shape shape)
{
    return shape.channels * shape.height * shape.width;
}

enum { LAYER_TITLE_BYTES = 64 };

struct layer {
    enum layer_kind kind;
    /* Indexes of the layers whose output this layer reads. Only LAYER_ADD and LAYER_MULTIPLY use from[1]. */
    size_t from[2];
    struct shape in, out;
    size_t kernel, stride, pad; /* set only for convolution and max pooling */
    size_t groups;              /* set only for convolution; divides the channels of input and output */
    bool has_bias, has_relu;
    enum activation activation; /* set only for LAYER_ACTIVATION */
    float rate;                 /* set only for LAYER_DROPOUT: from 0 to less than 1 */
    bool drops_images;          /* set only for LAYER_DROPOUT: all numbers of an image are dropped together */
    /* First index and number of this layer's weights and biases in the vector of all parameters. A count of 0: none.
     * For batch normalisation, the weights are the scale and the bias is the shift. */
    size_t weight_at, weight_count;
    size_t bias_at, bias_count;
    /* Index in the statistics vector where the running means of the layer begin. The running variances follow. There
     * are out.channels of each. */
    size_t statistics_at;
    size_t segment; /* number of the layer's segment, from 0 */
    int line;
    char title[LAYER_TITLE_BYTES]; /* the name after "as"; "": none is given */
};
static inline bool layer_has_two_inputs(const struct layer *layer)
{
    return layer->kind == LAYER_ADD || layer->kind == LAYER_MULTIPLY;
}
/* True for a convolution in which each output channel reads only the input channel of the same number. */
static inline bool layer_is_depthwise(const struct layer *layer)
{
    return layer->kind == LAYER_CONV && layer->groups > 1 && layer->groups == layer->in.channels &&
           layer->groups == layer->out.channels;
}

struct model {
    char name[64];        /* file name without folder and extension */
    struct layer *layers; /* owned; [0] is the input; the last layer has one output per class */
    size_t layer_count;
    size_t class_count;
    /* number of elements in the parameter vector; weights and biases of a layer each begin at a multiple of 64 */
    size_t parameter_count;
    size_t statistics_count; /* number of elements in the statistics vector, aligned in the same way */
    size_t segment_count;
};

/* Read a model. On failure, `reason` names the file, the line and the problem. */
bool model_read(const char *path, struct model *ret_model, struct reason *reason);
void model_clear(struct model *model); /* accepts a zeroed struct */
/* Return the number of weights and biases, without the unused elements between them. */
size_t model_parameters(const struct model *model);

/* Set the initial values of all parameters. Equal seeds give equal values on every machine.
 * - Weights before an activation (except the sigmoid) or a batch normalisation follow He's normal distribution.
 * - Other weights are uniform in +-1/sqrt(inputs).
 * - Biases are 0, and the scales of batch normalisation are 1.
 * - In `statistics`, means are 0 and variances are 1. */
void model_begin(const struct model *model, uint64_t seed, float *parameters, float *statistics);

/* Weight decay may leave out biases, and scale and shift of batch normalisation. Then ret[i] says for each i below
 * model_decayed_count() whether (1) or not (0) the parameters from MODEL_ALIGNED * i on decay. */
enum { MODEL_ALIGNED = 64 };
static inline size_t model_decayed_count(const struct model *model)
{
    return (model->parameter_count + MODEL_ALIGNED - 1) / MODEL_ALIGNED;
}
void model_decayed(const struct model *model, uint8_t *ret);

#endif
