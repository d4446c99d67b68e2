/* Replays the events of an input on a device, once or in all the ways that the unknown sizes and addresses allow. */
#include "gwi_allocator.h"

#include <stdlib.h>
#include <string.h>

void gw_replay_input_free(gw_replay_input *input)
{
    free(input->event);
    free(input->step);
    free(input->step_at);
    *input = (gw_replay_input){0};
}

gw_status gwi_run_init(gwi_run *run, const gw_replay_input *input, const gw_replay_settings *settings,
                       const gwi_device *device, uint64_t card_bytes, gw_error *err)
{
    *run = (gwi_run){.input = input, .place = calloc((size_t)input->block_count + 1, sizeof *run->place)};
    gwi_allocator_init(&run->allocator, settings, device, card_bytes);
    return run->place == NULL ? gw_fail(err, GW_NOMEM, "replay the allocator") : GW_OK;
}

void gwi_run_free(gwi_run *run)
{
    gwi_allocator_free(&run->allocator);
    free(run->place);
}

static bool same_divisions(const gw_replay_settings *left, const gw_replay_settings *right)
{
    return memcmp(left->divisions, right->divisions, sizeof left->divisions) == 0;
}

/* The size that the allocator looks for. The size of a block is already rounded, by the recorded settings. */
static uint64_t size_of(const gwi_run *run, const gw_replay_event *event)
{
    uint64_t bytes = run->use_least ? event->least : event->bytes;
    bool is_rounded = !event->is_requested && same_divisions(run->allocator.settings, &run->input->settings);
    return is_rounded ? bytes : gw_replay_round(run->allocator.settings, bytes);
}

gwi_answer gwi_run_event(gwi_run *run, const gw_replay_event *event)
{
    uint32_t block = 0;
    gwi_answer answer;
    switch (event->kind) {
    case GW_REPLAY_REQUEST:
        answer = gwi_allocate(&run->allocator, size_of(run, event), event->stream, &block);
        run->place[event->block] = answer == GWI_GRANTED ? block : 0;
        return answer;
    case GW_REPLAY_FREE:
        if (run->place[event->block] != 0)
            gwi_release(&run->allocator, run->place[event->block]);
        run->place[event->block] = 0;
        return GWI_GRANTED;
    case GW_REPLAY_REFUSED:
        answer = gwi_allocate(&run->allocator, size_of(run, event), event->stream, &block);
        if (answer == GWI_GRANTED)
            gwi_release(&run->allocator, block);
        return answer;
    default:
        return gwi_empty(&run->allocator) ? GWI_GRANTED : GWI_STOPPED;
    }
}

/* ---- other settings ---- */

/* The outcome of one replay. */
typedef struct outcome {
    uint64_t reserved_peak, live_peak;
    size_t retry_count, failed_at;
} outcome;

/* Return the index of the refused request that ended the recording; event_count: none did. */
static size_t final_refusal(const gw_replay_input *input)
{
    size_t at = input->event_count;
    while (at > 0 && input->event[at - 1].kind != GW_REPLAY_REQUEST && input->event[at - 1].kind != GW_REPLAY_REFUSED)
        at--;
    return at > 0 && input->event[at - 1].kind == GW_REPLAY_REFUSED ? at - 1 : input->event_count;
}

static gw_status replay(const gw_replay_input *input, const gw_replay_variant *variant, bool use_least, bool is_falling,
                        outcome *ret, gw_error *err)
{
    gwi_card card;
    gwi_run run;
    gwi_device device = gwi_card_device(&card, variant->room_bytes, is_falling);
    uint64_t card_bytes = variant->card_bytes != 0 ? variant->card_bytes : input->card_bytes;
    size_t empties = 0, final = final_refusal(input);
    gw_status st = gwi_run_init(&run, input, &variant->settings, &device, card_bytes, err);
    *ret = (outcome){.failed_at = input->event_count};
    run.use_least = use_least;
    for (size_t i = 0; st == GW_OK && i < input->event_count && ret->failed_at == input->event_count; i++) {
        bool goes_on = true;
        for (; empties < variant->empty_count && variant->empty_before[empties] <= i; empties++)
            goes_on = goes_on && gwi_empty(&run.allocator);
        gwi_answer answer = goes_on ? gwi_run_event(&run, &input->event[i]) : GWI_STOPPED;
        bool was_refused_before = input->event[i].kind == GW_REPLAY_REFUSED && i != final;
        if (answer == GWI_REFUSED && !was_refused_before)
            ret->failed_at = i;
        if (answer == GWI_STOPPED)
            st = gw_fail(err, GW_NOMEM, "replay the allocator");
    }
    ret->reserved_peak = run.allocator.reserved_peak;
    ret->live_peak = run.allocator.live_peak;
    ret->retry_count = run.allocator.retry_count;
    gwi_run_free(&run);
    return st;
}

static bool has_unsure_sizes(const gw_replay_input *input)
{
    for (size_t i = 0; i < input->event_count; i++)
        if (input->event[i].least != input->event[i].bytes)
            return true;
    return false;
}

static void add(gw_replay_result *result, const outcome *one, size_t event_count)
{
    if (one->reserved_peak < result->reserved_least)
        result->reserved_least = one->reserved_peak;
    if (one->reserved_peak > result->reserved_most)
        result->reserved_most = one->reserved_peak;
    if (one->live_peak > result->live_peak)
        result->live_peak = one->live_peak;
    if (one->retry_count > result->retry_count)
        result->retry_count = one->retry_count;
    if (one->failed_at < result->failed_at)
        result->failed_at = one->failed_at;
    result->lives = result->lives && one->failed_at == event_count;
    result->fails = result->fails && one->failed_at != event_count;
}

gw_status gw_replay_try(const gw_replay_input *input, const gw_replay_variant *variant, gw_replay_result *ret_result,
                        gw_error *err)
{
    gw_replay_result result = {
        .reserved_least = UINT64_MAX, .lives = true, .fails = true, .failed_at = input->event_count};
    unsigned sizes = has_unsure_sizes(input) ? 2 : 1, orders = variant->settings.is_expandable ? 1 : 2;
    for (unsigned way = 0; way < sizes * orders; way++) {
        outcome one;
        gw_status st = replay(input, variant, way % sizes != 0, way / sizes != 0, &one, err);
        if (st != GW_OK)
            return st;
        add(&result, &one, input->event_count);
    }
    *ret_result = result;
    return GW_OK;
}
