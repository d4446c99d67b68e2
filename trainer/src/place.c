/* Compute which images a step uses, and when to evaluate: see place.h. */
#include "place.h"

void place_step(const struct way *way, struct place *place)
{
    place->step++;
    place->position += way->batch;
    if (place->position + way->batch > way->train_count) {
        place->position = 0;
        place->epoch++;
    }
}

bool place_evaluates(const struct way *way, const struct place *place)
{
    return way->evaluates &&
           (place->step == way->last_step || (way->evaluate_every != 0 && place->step % way->evaluate_every == 0));
}

static struct load evaluation(struct walk *walk)
{
    const struct way *way = &walk->way;
    struct load load = {.part = PART_TEST, .first = walk->part++ * way->micro_batch};
    load.count = way->test_count - load.first < way->micro_batch ? way->test_count - load.first : way->micro_batch;
    if (load.first + load.count == way->test_count) {
        walk->is_evaluation = false;
        walk->part = 0;
    }
    return load;
}

bool walk_next(void *user, struct load *ret_load)
{
    struct walk *walk = user;
    const struct way *way = &walk->way;
    if (walk->is_evaluation) {
        *ret_load = evaluation(walk);
        return true;
    }
    if (walk->place.step >= way->last_step)
        return false;
    *ret_load = (struct load){.part = PART_TRAIN,
                              .epoch = walk->place.epoch,
                              .first = walk->place.position + walk->device * (way->batch / way->devices) +
                                       walk->part * way->micro_batch,
                              .count = way->micro_batch};
    if (++walk->part < way_parts(way))
        return true;
    walk->part = 0;
    place_step(way, &walk->place);
    walk->is_evaluation = walk->device == 0 && place_evaluates(way, &walk->place);
    return true;
}
