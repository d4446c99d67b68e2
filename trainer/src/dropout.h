/* The random decisions of dropout. They are a function of the run's seed, the epoch, the layer, the position of the
 * image in the order of the epoch, and the place of the number in the image. So nothing is stored: the backward pass, a
 * segment that is computed again, another division into micro-batches and a resumed run make the same decisions.
 *
 * cuda_elements.cu has a copy of dropout_mix() and dropout_keeps(). */
#ifndef TRAINER_DROPOUT_H
#define TRAINER_DROPOUT_H

#include "backend.h"

static inline uint64_t dropout_mix(uint64_t z)
{
    z += 0x9E3779B97F4A7C15; /* splitmix64, as in random_next() */
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
}

/* Return the key of a layer in an iteration. Add the index of an image in the micro-batch to get that image's key. */
static inline uint64_t dropout_key(const struct iteration *iteration, size_t layer)
{
    return dropout_mix(dropout_mix(dropout_mix(iteration->seed) + iteration->epoch) + layer) + iteration->first;
}

/* Numbers below this are dropped. */
static inline uint32_t dropout_limit(float rate)
{
    return (uint32_t)((double)rate * 0x1p32);
}

/* What a number that is kept is multiplied by. */
static inline float dropout_factor(float rate)
{
    return 1 / (1 - rate);
}

static inline bool dropout_keeps(uint64_t key_of_image, uint64_t index, uint32_t limit)
{
    return (uint32_t)(dropout_mix(dropout_mix(key_of_image) + index) >> 32) >= limit;
}

#endif
