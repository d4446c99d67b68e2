/* Inner layers: layers whose only reader computes them, so that a result is written and read once less.
 * - A batch normalisation without ReLU inside a sum. It only computes its statistics (STEP_STATISTICS); the sum
 *   normalises its input while adding.
 * - The bias and the ReLU of a convolution inside a max pooling. The convolution's result stays without them.
 *
 * Only back ends that set `fuses` get such schedules. */
#ifndef TRAINER_INNER_H
#define TRAINER_INNER_H

#include "model.h"

/* Set ret_is_inner[i] to true for each inner layer i; the others stay as they are. Returns false if the host has no
 * memory. */
bool inner_find(const struct model *model, bool *ret_is_inner);

#endif
