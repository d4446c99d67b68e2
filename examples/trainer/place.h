/* The position of a training in its data: which images a step uses, and which step follows. A position is plain data
 * and does not depend on a clock or on random numbers. Every device's loader and the training itself compute the same
 * sequence, and so does a training that continues from a checkpoint. */
#ifndef TRAINER_PLACE_H
#define TRAINER_PLACE_H

#include "loader.h"

/* The sizes and counts that determine the sequence. They do not change during a training. */
struct way {
    size_t train_count, test_count;
    size_t batch, micro_batch; /* batch: images per step on all devices; micro_batch: images at a time on one device */
    size_t devices;
    uint64_t last_step;
    uint64_t evaluate_every; /* number of steps between evaluations; 0: evaluate only at the end */
    bool evaluates;
};

struct place {
    uint64_t step; /* steps so far */
    uint64_t epoch;
    size_t position; /* position in the epoch's order of the first image of the next step */
};
/* Return the number of steps per epoch. Images left over at the end of an epoch are not used. */
static inline uint64_t way_steps(const struct way *way)
{
    return way->train_count / way->batch;
}
static inline size_t way_parts(const struct way *way) /* micro-batches per device in a step */
{
    return way->batch / way->devices / way->micro_batch;
}
void place_step(const struct way *way, struct place *place);
/* True if an evaluation is due after the steps so far. The first device performs it. */
bool place_evaluates(const struct way *way, const struct place *place);

/* The sequence of micro-batches that a device's loader must load. */
struct walk {
    struct way way;
    struct place place;
    size_t device;
    size_t part; /* index of the next micro-batch in the step or in the evaluation */
    bool is_evaluation;
};
bool walk_next(void *walk, struct load *ret_load); /* used as loader_options.next */

#endif
