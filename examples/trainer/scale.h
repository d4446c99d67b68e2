/* The loss scale: gradients in fp16 keep their small values when the loss is multiplied before the backward pass.
 * Plain data. */
#ifndef TRAINER_SCALE_H
#define TRAINER_SCALE_H

#include "trainer.h"

enum scaling { SCALING_NONE, SCALING_FIXED, SCALING_DYNAMIC };

#define SCALE_BEGIN 65536.0f
#define SCALE_MOST  16777216.0f /* 2^24: nobody gains by more */
enum { SCALE_AFTER = 2000, SCALE_BROKEN_MOST = 50 };

struct scale {
    enum scaling scaling;
    uint64_t after; /* so many good steps double it; dynamic alone */
    float now;
    uint64_t good_steps;      /* since it changed */
    uint64_t broken_steps;    /* in all */
    uint64_t broken_in_a_row; /* just now, with a scale that cannot become less */
};
/* `fixed`: of SCALING_FIXED. */
struct scale scale_begin(enum scaling scaling, float fixed);
/* After a step: halves where it was broken, doubles after enough good ones. false: SCALE_BROKEN_MOST steps in a row
 * were broken though the scale could not be the reason any more. */
bool scale_step(struct scale *scale, bool is_broken);

#endif
