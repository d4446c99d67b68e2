/* The back end `dry`, for plans and the virtual GPU: allocate a run's memory and copy its inputs, but compute nothing.
 * It reports a loss of 0 and no correctly classified image. */
#include "card.h"
#include "watch.h"

#include <stdlib.h>

struct dry {
    struct card card; /* must be the first member: see card.h */
};

static bool can(enum precision precision)
{
    (void)precision;
    return true;
}

static bool open(const struct backend_options *options, void **ret_state, struct reason *reason)
{
    struct dry *dry = calloc(1, sizeof *dry);
    if (dry == NULL)
        return because(reason, "no memory for a back end");
    if (!card_open(&dry->card, options, reason)) {
        free(dry);
        return false;
    }
    *ret_state = dry;
    return true;
}

static bool close(void *state, gs_report **ret_report, struct reason *reason)
{
    struct dry *dry = state;
    bool is_well = card_close(&dry->card, ret_report, reason);
    free(dry);
    return is_well;
}

static bool plan(void *state, const struct schedule_options *options, struct step *step, size_t budget_bytes,
                 struct reason *reason)
{
    (void)state;
    (void)options;
    (void)budget_bytes;
    (void)reason;
    step->workspace_bytes = 0;
    return true;
}

static bool iterate(void *state, const struct iteration *iteration, struct reason *reason)
{
    struct dry *dry = state;
    return card_begin(&dry->card, iteration->turn, reason) && card_end(&dry->card, iteration->turn, reason);
}

static bool update(void *state, const struct update *update, struct reason *reason)
{
    (void)state;
    (void)update;
    (void)reason;
    return true;
}

static bool swap_average(void *state, struct reason *reason)
{
    (void)state;
    (void)reason;
    return true;
}

static bool settle(void *state, struct results *ret_results, struct reason *reason)
{
    struct dry *dry = state;
    if (!card_well(&dry->card, card_settle(&dry->card), "waiting for the GPU", reason))
        return false;
    *ret_results = (struct results){0};
    return true;
}

const struct backend backend_dry = {
    .name = "dry",
    .fuses = true, /* as `cuda` does */
    .overlaps = true,
    .can = can,
    .open = open,
    .close = close,
    .plan = plan,
    .load = card_load,
    .put = card_put,
    .get = card_get,
    .host_alloc = card_host_alloc,
    .host_free = card_host_free,
    .feed = card_feed,
    .fed = card_fed,
    .expect = card_expect,
    .waited = card_waited,
    .iterate = iterate,
    .update = update,
    .swap_average = swap_average,
    .settle = settle,
    .watch = card_watch,
};
