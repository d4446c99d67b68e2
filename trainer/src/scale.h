/* The loss scale: the loss is multiplied by this factor before the backward pass, so that fp16 can represent small
 * gradients. These functions compute the factor; the back ends use it. */
#ifndef TRAINER_SCALE_H
#define TRAINER_SCALE_H

#include "trainer.h"

enum scaling { SCALING_NONE, SCALING_FIXED, SCALING_DYNAMIC };

#define SCALE_BEGIN 65536.0f
#define SCALE_MOST  16777216.0f /* 2^24; a larger scale has no benefit */
enum { SCALE_AFTER = 2000, SCALE_BROKEN_MOST = 50 };

struct scale {
    enum scaling scaling;
    uint64_t after; /* for SCALING_DYNAMIC: the scale doubles after this many good steps */
    float now;
    uint64_t good_steps;      /* good steps since the last change of the scale */
    uint64_t broken_steps;    /* total number of broken steps (a gradient was not finite) */
    uint64_t broken_in_a_row; /* broken steps since the last good step or the last reduction of the scale */
};
/* Return the scale for the first step. `fixed` is the scale for SCALING_FIXED. */
struct scale scale_begin(enum scaling scaling, float fixed);
/* Adjust the scale after a step. `is_broken`: a gradient was not finite. A dynamic scale is halved after such a step,
 * and doubled after enough good steps. Returns false after SCALE_BROKEN_MOST broken steps in a row while the scale
 * cannot be reduced. */
bool scale_step(struct scale *scale, bool is_broken);

#endif
