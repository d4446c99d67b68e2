/* Inner layers: layers whose only reader computes them, so that a result is written and read once less.
 * - A batch normalisation without ReLU inside a sum. It only computes its statistics (STEP_STATISTICS); the sum
 *   normalises its input while adding.
 * - The bias and the ReLU of a convolution inside a max pooling. The convolution's result stays without them.
 * - A batch normalisation with ReLU inside a max pooling. It has STEP_STATISTICS, and its own backward step. If the
 *   pooling is one of pairs, that step also does the backward work of the pooling, which then has no backward step.
 *
 * The other way round, a batch normalisation computes an activation (ReLU6, SiLU and others) that is its only reader.
 * The activation then has no steps: its result is that of the normalisation.
 *
 * Only back ends that set `fuses` get such schedules. */
#ifndef TRAINER_INNER_H
#define TRAINER_INNER_H

#include "model.h"

/* Set ret_is_inner[i] to true for each inner layer i, and ret_activations[i] to the activation that a batch
 * normalisation i also computes. The others stay as they are. Returns false if the host has no memory. */
bool inner_find(const struct model *model, bool *ret_is_inner, const struct layer **ret_activations);

/* Return true for a max pooling of pairs: windows of 2 or 3 with stride 2. Counted from the border on, rows (or
 * columns) 2g and 2g + 1 are only in the windows g and, for a width of 3, g - 1. */
static inline bool inner_is_pairs(const struct layer *pool)
{
    return pool->kind == LAYER_MAXPOOL && pool->stride == 2 && (pool->kernel == 2 || pool->kernel == 3);
}

/* How images are stored in bf16 and fp16 if only one convolution reads them. Convolutions of few channels are slow on
 * tensor cores, so the channels are padded to a multiple of 8. If the convolution has a stride, each square of
 * stride x stride pixels is also folded into one pixel, with a border of zeros around the image. The convolution then
 * has a smaller filter, stride 1 and no padding, and the same results.
 *
 * Example: 3 channels of 224x224, filter 7x7, stride 2, padding 3 become 16 channels of 115x115, filter 4x4.
 *
 * If these are still few channels, the convolution also reads `across` neighbouring pixels of a row as one pixel, and
 * computes as many neighbouring results as one: in memory, both are the same. The filter then has a set of outputs for
 * each of these results, with zeros where the result does not read a pixel. In the example, the rows get a 116th pixel,
 * and 64 channels of 115x29 become 256 channels (4 results of 64) of 112x28 by a filter of 4x2. */
struct folding {
    unsigned channels, height, width, kernel, pad, stride; /* as in the model; channels of 0: nothing is folded */
    unsigned front;  /* folded pixels of the filter before the one at an output's own position */
    unsigned border; /* folded pixels before the image's first one */
    unsigned folded_channels, folded_height, folded_width, folded_kernel;
    unsigned across;       /* 1: each pixel is read alone */
    unsigned filter_width; /* in units of `across` folded pixels */
};
struct folding inner_folding(const struct model *model);

#endif
