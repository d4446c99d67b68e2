/* The position of a training in its data: which images a step uses, and what comes next. It is plain data without a
 * clock or random numbers. Every device's loader and the training itself compute the same sequence, and so does a
 * training that continues from a checkpoint. */
#ifndef TRAINER_PLACE_H
#define TRAINER_PLACE_H

#include "loader.h"

/* These values do not change. */
struct way {
    size_t train_count, test_count;
    size_t batch, micro_batch; /* batch on all devices; micro-batch on one */
    size_t devices;
    uint64_t last_step;
    uint64_t evaluate_every; /* steps; 0: only at the end */
    bool evaluates;
};

struct place {
    uint64_t step; /* steps so far */
    uint64_t epoch;
    size_t position; /* of the next step's first image in the epoch's order */
};
/* Steps per epoch; the images left over at its end are not used. */
static inline uint64_t way_steps(const struct way *way)
{
    return way->train_count / way->batch;
}
static inline size_t way_parts(const struct way *way) /* micro-batches per device and step */
{
    return way->batch / way->devices / way->micro_batch;
}
void place_step(const struct way *way, struct place *place);
/* Whether to evaluate after the steps so far. The first device evaluates. */
bool place_evaluates(const struct way *way, const struct place *place);

/* The sequence of micro-batches that a device's loader must load. */
struct walk {
    struct way way;
    struct place place;
    size_t device;
    size_t part; /* the next micro-batch of the step or of the evaluation */
    bool is_evaluation;
};
bool walk_next(void *walk, struct load *ret_load); /* for loader_options.next */

#endif
