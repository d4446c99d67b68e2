/* Computes the loss of a model in double precision, with the simplest loops, so that tests can check gradients. It
 * shares no code with any back end. */
#ifndef TRAINER_EXACT_H
#define TRAINER_EXACT_H

#include "model.h"

struct exact {
    const struct model *model;
    size_t images, counted; /* images in the batch; only the first `counted` of them contribute to the loss */
    const float *input;     /* rows, columns, channels */
    const int32_t *labels;
    const float *statistics; /* evaluation: statistics for batch normalisation, no dropout; NULL: training */
    uint64_t seed;           /* for dropout, in epoch 0, from its first image on */
    /* Set by exact_loss(): */
    size_t correct;
    double closest; /* smallest distance of a value to the bend of a ReLU or maximum; must exceed all rounding errors */
};

/* Return the loss, summed over the first `counted` images. */
double exact_loss(struct exact *exact, const double *parameters);

#endif
