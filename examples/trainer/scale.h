/* The loss scale: multiplying the loss before the backward pass keeps small gradients representable in fp16. Plain
 * data. */
#ifndef TRAINER_SCALE_H
#define TRAINER_SCALE_H

#include "trainer.h"

enum scaling { SCALING_NONE, SCALING_FIXED, SCALING_DYNAMIC };

#define SCALE_BEGIN 65536.0f
#define SCALE_MOST  16777216.0f /* 2^24: larger values gain nothing */
enum { SCALE_AFTER = 2000, SCALE_BROKEN_MOST = 50 };

struct scale {
    enum scaling scaling;
    uint64_t after; /* number of good steps after which it doubles; dynamic only */
    float now;
    uint64_t good_steps;      /* since the last change */
    uint64_t broken_steps;    /* total */
    uint64_t broken_in_a_row; /* most recent, with a scale that cannot become smaller */
};
/* `fixed` is used for SCALING_FIXED. */
struct scale scale_begin(enum scaling scaling, float fixed);
/* Adjust the scale after a step: halve it if the step was broken, double it after enough good steps. Returns false
 * if SCALE_BROKEN_MOST steps in a row were broken although the scale can no longer be the reason. */
bool scale_step(struct scale *scale, bool is_broken);

#endif
