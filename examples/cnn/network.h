/* The network as a table: 3x28x28 images, two convolutions with ReLU and pooling, one linear layer, ten classes.
 * Most allocation sizes follow from it. */
#ifndef CNN_NETWORK_H
#define CNN_NETWORK_H

#include <stddef.h>

enum layer_kind { LAYER_CONV, LAYER_RELU, LAYER_POOL, LAYER_LINEAR };

struct layer {
    const char *name;
    enum layer_kind kind;
    size_t outputs;    /* elements of the layer's output, per image */
    size_t parameters; /* number of weights and biases; 0 if the layer has none */
};

enum { IMAGE_ELEMENTS = 3 * 28 * 28, LAYER_COUNT = 7 };

static const struct layer network[LAYER_COUNT] = {
    {"conv1", LAYER_CONV, 64 * 28 * 28, 64 * 3 * 9 + 64},
    {"relu1", LAYER_RELU, 64 * 28 * 28, 0},
    {"pool1", LAYER_POOL, 64 * 14 * 14, 0},
    {"conv2", LAYER_CONV, 128 * 14 * 14, 128 * 64 * 9 + 128},
    {"relu2", LAYER_RELU, 128 * 14 * 14, 0},
    {"pool2", LAYER_POOL, 128 * 7 * 7, 0},
    {"linear", LAYER_LINEAR, 10, 6272 * 10 + 10},
};

/* Return the number of elements that layer `index` reads per image. */
static inline size_t network_inputs(size_t index)
{
    return index == 0 ? IMAGE_ELEMENTS : network[index - 1].outputs;
}

#endif
