/* A network, read from a small description file.
 *
 *     input 3 28 28                 channels, height, width; always the first line
 *     conv 64 3 pad 1 relu          channels, kernel; stride (1), pad (0), nobias; any of these can have relu
 *     batchnorm relu
 *     maxpool 3 stride 2 pad 1      the stride is the kernel unless given
 *     averagepool                   over the whole image
 *     linear 10
 *     segment                       separates parts that may be computed again instead of being kept
 *
 * Each line reads the line above. Names allow other shapes:
 *
 *     start = maxpool 2             names the output of a line
 *     short = conv 256 1 from start reads a named output instead of the line above
 *     add short relu                adds a named output to the line above
 *
 * The last line gives the classes. Text after # is a comment. Images are stored as rows, columns, channels (channels
 * last), and weights as output channel, row, column, input channel. A model is plain data: it needs no GPU and may
 * be used by any thread. */
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
    LAYER_KIND_COUNT
};
const char *layer_kind_text(enum layer_kind kind); /* "conv"; static */

struct shape {
    size_t channels, height, width;
};
static inline size_t shape_count(struct shape shape)
{
    return shape.channels * shape.height * shape.width;
}

struct layer {
    enum layer_kind kind;
    size_t from[2]; /* the layers that it reads; from[1] only for LAYER_ADD */
    struct shape in, out;
    size_t kernel, stride, pad; /* convolution, pooling */
    bool has_bias, has_relu;
    /* Positions in the flat vectors of all parameters; a count of 0 means none. For batch normalisation, weights are
     * the scale and bias is the shift. */
    size_t weight_at, weight_count;
    size_t bias_at, bias_count;
    size_t statistics_at; /* running mean, followed by running variance: out.channels each, in a separate vector */
    size_t segment;       /* number of its segment, from 0 */
    int line;
};

struct model {
    char name[64];        /* name of the file without folder and extension */
    struct layer *layers; /* owned; [0] is the input, the last one gives the classes */
    size_t layer_count;
    size_t class_count;
    size_t parameter_count;  /* the parameters of each layer begin at a multiple of 64 */
    size_t statistics_count; /* the same holds here */
    size_t segment_count;
};

/* Read a model. `reason` names the file, the line and the problem. */
bool model_read(const char *path, struct model *ret_model, struct reason *reason);
void model_clear(struct model *model); /* accepts a zeroed struct */

/* Set the initial values of all parameters: He's normal distribution for weights before a ReLU, uniform up to
 * 1/sqrt(inputs) for other weights, 0 for biases, 1 for scales. The same seed gives the same values on every
 * machine. `statistics`: mean 0, variance 1. */
void model_begin(const struct model *model, uint64_t seed, float *parameters, float *statistics);

#endif
