/* Compute the position of a training run in its data: which images the next step uses. It depends on no clock and
 * no random numbers. So the run, every device's loader and a run continued from a checkpoint compute the same
 * positions. */
#ifndef TRAINER_PLACE_H
#define TRAINER_PLACE_H

#include "loader.h"

/* The sizes and counts that determine the sequence of positions. They do not change during a training. */
struct way {
    size_t train_count, test_count;
    /* batch: images per step, on all devices together; micro_batch: images that one device processes at once */
    size_t batch, micro_batch;
    size_t devices;
    uint64_t last_step;
    uint64_t evaluate_every; /* number of steps between evaluations; 0: evaluate only at the end */
    bool evaluates;
};

struct place {
    uint64_t step; /* steps done so far */
    uint64_t epoch;
    size_t position; /* index, in the epoch's order, of the first image of the next step */
};
/* Return the number of steps per epoch. If the batch size does not divide the number of images, the last images of an
 * epoch are not used. */
static inline uint64_t way_steps(const struct way *way)
{
    return way->train_count / way->batch;
}
static inline size_t way_parts(const struct way *way) /* micro-batches per device in a step */
{
    return way->batch / way->devices / way->micro_batch;
}
void place_step(const struct way *way, struct place *place);
/* True if an evaluation is due now, after place->step steps. Only the first device evaluates. */
bool place_evaluates(const struct way *way, const struct place *place);

/* The position of the loader of one device in the sequence of micro-batches that it must load. */
struct walk {
    struct way way;
    struct place place;
    size_t device;
    size_t part; /* index of the next micro-batch within the current step or evaluation */
    bool is_evaluation;
};
bool walk_next(void *walk, struct load *ret_load); /* for loader_options.next; `walk` is a struct walk */

#endif
