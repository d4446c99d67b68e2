/* Where a training is in its data: which images a step takes, and what comes next. Plain data, no clock, no luck: every
 * device's loader and the training itself walk the same way, and so does a training that goes on from a checkpoint. */
#ifndef TRAINER_PLACE_H
#define TRAINER_PLACE_H

#include "loader.h"

/* Does not change. */
struct way {
    size_t train_count, test_count;
    size_t batch, micro_batch; /* of all devices; of one */
    size_t devices;
    uint64_t last_step;
    uint64_t evaluate_every; /* steps; 0: at the end alone */
    bool evaluates;
};

struct place {
    uint64_t step; /* steps made */
    uint64_t epoch;
    size_t position; /* of the next step's first image in the epoch's order */
};
/* Steps in an epoch; what is left at its end is not used. */
static inline uint64_t way_steps(const struct way *way)
{
    return way->train_count / way->batch;
}
static inline size_t way_parts(const struct way *way) /* micro-batches of a device in a step */
{
    return way->batch / way->devices / way->micro_batch;
}
void place_step(const struct way *way, struct place *place);
/* After the steps made so far. The first device evaluates. */
bool place_evaluates(const struct way *way, const struct place *place);

/* What a device's loader is to load, one after the other. */
struct walk {
    struct way way;
    struct place place;
    size_t device;
    size_t part; /* the next micro-batch of the step, or of the evaluation */
    bool is_evaluation;
};
bool walk_next(void *walk, struct load *ret_load); /* for loader_options.next */

#endif
