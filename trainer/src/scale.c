/* Adjust the loss scale: see scale.h. */
#include "scale.h"

struct scale scale_begin(enum scaling scaling, float fixed)
{
    return (struct scale){.scaling = scaling,
                          .after = SCALE_AFTER,
                          .now = scaling == SCALING_NONE      ? 1
                                 : scaling == SCALING_DYNAMIC ? SCALE_BEGIN
                                                              : fixed};
}

static bool break_step(struct scale *scale)
{
    scale->broken_steps++;
    scale->good_steps = 0;
    if (scale->scaling == SCALING_DYNAMIC && scale->now > 1) {
        scale->now /= 2;
        scale->broken_in_a_row = 0;
        return true;
    }
    return ++scale->broken_in_a_row < SCALE_BROKEN_MOST;
}

bool scale_step(struct scale *scale, bool is_broken)
{
    if (is_broken)
        return break_step(scale);
    scale->broken_in_a_row = 0;
    scale->good_steps++;
    if (scale->scaling == SCALING_DYNAMIC && scale->good_steps >= scale->after && scale->now < SCALE_MOST) {
        scale->now *= 2;
        scale->good_steps = 0;
    }
    return true;
}
