/* Copy parameters, moments and statistics between a checkpoint and a device. */
#include "worker.h"

#include <stdlib.h>

struct item {
    enum lasting lasting;
    float *vector; /* NULL: the checkpoint has no such vector */
    uint64_t count;
};
enum { ITEMS = 5 };

static void items_of(const struct checkpoint *checkpoint, struct item items[ITEMS])
{
    items[0] = (struct item){LASTING_PARAMETERS, checkpoint->parameters, checkpoint->parameter_count};
    items[1] = (struct item){LASTING_MOMENT_1, checkpoint->moments[0], checkpoint->parameter_count};
    items[2] = (struct item){LASTING_MOMENT_2, checkpoint->moments[1], checkpoint->parameter_count};
    items[4] = (struct item){LASTING_AVERAGE, checkpoint->average, checkpoint->parameter_count};
    items[3] = (struct item){LASTING_STATISTICS, checkpoint->statistics, checkpoint->statistics_count};
}

static size_t block_of(const struct worker *worker, const struct item *item)
{
    return item->vector == NULL ? NO_BLOCK : worker->schedule.lasting[item->lasting];
}

static bool put_decayed(struct worker *worker, struct reason *reason)
{
    const struct model *model = &worker->training->model;
    size_t block = worker->schedule.lasting[LASTING_DECAYED], count = model_decayed_count(model);
    if (block == NO_BLOCK)
        return true;
    uint8_t *decayed = malloc(count);
    if (decayed == NULL)
        return because(reason, "no host memory for %zu bytes", count);
    model_decayed(model, decayed);
    bool is_put = worker->training->options->backend->put(worker->state, block, decayed, count, reason);
    free(decayed);
    return is_put;
}

bool worker_put(struct worker *worker, struct reason *reason)
{
    struct item items[ITEMS];
    items_of(&worker->training->start, items);
    for (int i = 0; i < ITEMS; i++) {
        size_t block = block_of(worker, &items[i]);
        if (block != NO_BLOCK && !worker->training->options->backend->put(worker->state, block, items[i].vector,
                                                                          items[i].count * sizeof(float), reason))
            return false;
    }
    return put_decayed(worker, reason);
}

bool worker_get(struct worker *worker, struct reason *reason)
{
    struct item items[ITEMS];
    items_of(&worker->training->start, items);
    for (int i = 0; i < ITEMS; i++) {
        size_t block = block_of(worker, &items[i]);
        if (block != NO_BLOCK && !worker->training->options->backend->get(worker->state, block, items[i].vector,
                                                                          items[i].count * sizeof(float), reason))
            return false;
    }
    return true;
}
