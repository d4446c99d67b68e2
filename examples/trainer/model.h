/* A network, read from a small description file.
 *
 *     input 3 28 28                 channels, height, width; always the first line
 *     conv 64 3 pad 1 relu          channels, kernel; stride (1), pad (0), nobias; relu works on any of these
 *     batchnorm relu
 *     maxpool 3 stride 2 pad 1      stride is the kernel where it is not given
 *     averagepool                   over the whole image
 *     linear 10
 *     segment                       what lies between two of these may be computed again instead of being kept
 *
 * Lines follow each other; names make other shapes:
 *
 *     start = maxpool 2             names what a line gives
 *     short = conv 256 1 from start reads from a name instead of the line above
 *     add short relu                adds a name to the line above
 *
 * The last line gives the classes. Text behind # is a comment. Images lie as rows, columns, channels (channels last);
 * so do weights: output channel, row, column, input channel. A model is plain data: no GPU, any thread. */
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
    size_t from[2]; /* layers that it reads; from[1] of LAYER_ADD alone */
    struct shape in, out;
    size_t kernel, stride, pad; /* convolution, pooling */
    bool has_bias, has_relu;
    /* In the flat vectors of all parameters: a count of 0 is none. Batch normalisation: scale as weights, shift as
     * bias. */
    size_t weight_at, weight_count;
    size_t bias_at, bias_count;
    size_t statistics_at; /* running mean at it, running variance behind: out.channels each, in a vector of their own */
    size_t segment;       /* which one it is in, from 0 */
    int line;
};

struct model {
    char name[64];        /* of the file, without folders and ending */
    struct layer *layers; /* owned; [0] is the input, the last one gives the classes */
    size_t layer_count;
    size_t class_count;
    size_t parameter_count;  /* each layer's part begins at a multiple of 64 */
    size_t statistics_count; /* so do these */
    size_t segment_count;
};

/* `reason` says file, line and what is wrong. */
bool model_read(const char *path, struct model *ret_model, struct reason *reason);
void model_clear(struct model *model); /* takes a zeroed one */

/* The first values of all parameters: He's normal for weights in front of a ReLU, 1/sqrt(inputs) uniform else, 0 for
 * biases, 1 for scales. The same seed gives the same values everywhere. `statistics`: mean 0, variance 1. */
void model_begin(const struct model *model, uint64_t seed, float *parameters, float *statistics);

#endif
