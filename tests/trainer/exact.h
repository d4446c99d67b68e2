/* The loss of a model in double, by loops as plain as can be: what a back end's gradients are measured against. It
 * knows of the trainer what model.h says, and shares no code with any back end. */
#ifndef TRAINER_EXACT_H
#define TRAINER_EXACT_H

#include "model.h"

struct exact {
    const struct model *model;
    size_t images, counted; /* in the batch; of them, from the front, in the loss */
    const float *input;     /* rows, columns, channels */
    const int32_t *labels;
    const float *statistics; /* batch normalisation by these; NULL: by the batch's own */
    /* Written by exact_loss(): */
    size_t correct;
    double closest; /* to where a ReLU or a maximum bends: how far rounding may go before a gradient is another one */
};

/* Summed over the images that count. */
double exact_loss(struct exact *exact, const double *parameters);

#endif
