/* Replays the events of an input on a device, once or in all the ways that the unknown sizes and addresses allow. */
#include "gw_array.h"
#include "gw_text.h"
#include "gwi_allocator.h"

#include <stdio.h>
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

/* The size that the allocator looks for. The size of a block is already rounded, by the recorded settings. */
static uint64_t size_of(const gwi_run *run, const gw_replay_event *event)
{
    uint64_t bytes = run->use_least ? event->least : event->bytes;
    const gw_replay_settings *settings = run->allocator.settings, *recorded = &run->input->settings;
    bool same_rounding = memcmp(settings->divisions, recorded->divisions, sizeof settings->divisions) == 0;
    return !event->is_requested && same_rounding ? bytes : gw_replay_round(settings, bytes);
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

/* Replays an input with its recorded settings, call by call.
 *
 * Recordings do not have every call of torch.cuda.empty_cache(), only what it freed. So before each request, if the
 * next recorded call is a cudaFree, and the wholly free segments are just those that are freed next, the program must
 * have emptied the cache here.
 *
 * On 64 recordings of runs on an H100 (PyTorch 2.11; with expandable segments, gloo, NCCL, torch.compile and Lightning
 * among them) all calls were equal, as were the addresses of the live blocks and the reserved bytes at the end. */

typedef struct check {
    gw_replay_input *input;
    gwi_recorded recorded;
    gwi_run run;
    size_t *emptied; /* owned; events before which the cache was emptied */
    size_t emptied_count;
    gw_replay_check *result;
} check;

/* ---- the input itself ---- */

static gw_status check_input(const gw_replay_input *input, gw_error *err)
{
    gw_status st = GW_OK;
    uint32_t requests = 0;
    unsigned char *state = calloc((size_t)input->block_count + 1, 1); /* 1: live, 2: freed */
    if (state == NULL)
        return gw_fail(err, GW_NOMEM, "check the allocator's events");
    for (size_t i = 0; st == GW_OK && i < input->event_count; i++) {
        const gw_replay_event *event = &input->event[i];
        bool is_sized = event->kind == GW_REPLAY_REQUEST || event->kind == GW_REPLAY_REFUSED;
        bool is_good = event->kind <= GW_REPLAY_EMPTY;
        if (is_sized)
            is_good = event->least > 0 && event->least <= event->bytes && event->bytes <= GWI_BYTES_MAX;
        if (event->kind == GW_REPLAY_REQUEST)
            is_good = is_good && event->block == requests++ && event->block < input->block_count;
        if (event->kind == GW_REPLAY_FREE)
            is_good = event->block < input->block_count && state[event->block] == 1;
        if (!is_good)
            st = gw_fail(err, GW_CORRUPT, "event %zu of the allocator contradicts earlier ones", i + 1);
        else if (event->kind <= GW_REPLAY_FREE)
            state[event->block] = event->kind == GW_REPLAY_REQUEST ? 1 : 2;
    }
    for (size_t i = 0; st == GW_OK && i < input->step_count; i++)
        if (input->step[i].kind >= GW_REPLAY_STEP_COUNT || input->step[i].bytes > GWI_BYTES_MAX)
            st = gw_fail(err, GW_CORRUPT, "call %zu to the driver is not valid", i + 1);
    free(state);
    return st;
}

/* ---- the cache, emptied by the program ---- */

/* True if the wholly free segments of the pool are those that are freed from step *at on. Advances *at. */
static bool frees_follow(const check *c, const gwi_pool *pool, size_t *at)
{
    const gwi_allocator *a = &c->run.allocator;
    for (uint32_t block = gwi_set_from(a, &pool->free, (gwi_key){0}); block != 0;
         block = gwi_set_after(a, &pool->free, block)) {
        const gwi_block *b = &a->block[block];
        const gw_replay_step *step = *at < c->input->step_count ? &c->input->step[*at] : NULL;
        if (b->prev != 0 || b->next != 0 || b->space != 0)
            continue;
        if (step == NULL || step->kind != GW_REPLAY_GIVE || step->address != b->address)
            return false;
        ++*at;
    }
    return true;
}

/* True if PyTorch's history shows that the cache was emptied before event `index`: memory was freed, and none was
 * requested before the event. Before a refused request, PyTorch itself empties the cache. */
static bool history_empties(const check *c, size_t index)
{
    const gw_replay_input *input = c->input;
    bool is_end = index == input->event_count;
    for (size_t at = c->recorded.at; at < input->step_at[index]; at++)
        if (input->step[at].kind == GW_REPLAY_TAKE || input->step[at].kind == GW_REPLAY_CREATE)
            return false;
    return c->recorded.at < input->step_at[index] && (is_end || input->event[index].kind != GW_REPLAY_REFUSED);
}

static bool was_emptied(const check *c, size_t index)
{
    enum { CLOCK_SLACK_NS = 1000000 };
    const gw_replay_input *input = c->input;
    const gw_replay_step *step = gwi_recorded_step(&c->recorded);
    size_t at = c->recorded.at;
    bool is_end = index == input->event_count;
    if (step == NULL || (step->kind != GW_REPLAY_GIVE && step->kind != GW_REPLAY_UNMAP))
        return false;
    if (input->steps_have_order)
        return history_empties(c, index);
    if (!is_end &&
        (input->event[index].kind == GW_REPLAY_FREE || input->event[index].t_ns + CLOCK_SLACK_NS < step->t_ns))
        return false;
    if (step->kind == GW_REPLAY_UNMAP)
        return true;
    return frees_follow(c, &c->run.allocator.large, &at) && frees_follow(c, &c->run.allocator.small, &at);
}

/* ---- one event ---- */

static void narrow(const check *c, gw_replay_event *event, uint64_t below)
{
    const gw_replay_settings *settings = &c->input->settings;
    bool is_oversize = event->bytes >= settings->max_split_bytes;
    uint64_t slack = is_oversize ? settings->non_split_rounding_bytes : GWI_SMALL_MAX;
    uint64_t least = event->bytes > slack ? event->bytes - slack : GWI_UNIT;
    event->least = event->bytes;
    if (event->is_requested || event->bytes <= GWI_SMALL_MAX || settings->is_expandable || c->run.allocator.was_split)
        return;
    least = least > below + GWI_UNIT ? least : below + GWI_UNIT; /* a smaller request would have got that block */
    least = least > GWI_SMALL_MAX + GWI_UNIT ? least : GWI_SMALL_MAX + GWI_UNIT;
    if (is_oversize && least < settings->max_split_bytes)
        least = settings->max_split_bytes;
    event->least = least < event->bytes ? least : event->bytes;
    c->result->unsure_count += event->least != event->bytes;
}

static void compare_place(check *c, const gw_replay_event *event)
{
    const gwi_block *block = &c->run.allocator.block[c->run.place[event->block]];
    char have[GW_BYTES_TEXT_MAX], want[GW_BYTES_TEXT_MAX];
    if (!event->is_requested && block->bytes != event->bytes)
        gwi_recorded_differ(&c->recorded, "request %u: the recorded block has %s, the replayed one %s",
                            event->block + 1, gw_bytes_text(have, event->bytes), gw_bytes_text(want, block->bytes));
    else if (event->address != 0 && block->address != event->address)
        gwi_recorded_differ(&c->recorded, "request %u of %s: its block is at another address than recorded",
                            event->block + 1, gw_bytes_text(have, event->bytes));
    c->result->place_count += event->address != 0;
}

static gwi_answer replay_event(check *c, gw_replay_event *event)
{
    char bytes[GW_BYTES_TEXT_MAX];
    uint64_t below =
        event->kind == GW_REPLAY_REQUEST ? gwi_largest_below(&c->run.allocator, event->bytes, event->stream) : 0;
    gwi_answer answer = gwi_run_event(&c->run, event);
    if (event->kind == GW_REPLAY_REQUEST && answer == GWI_GRANTED) {
        narrow(c, event, below);
        compare_place(c, event);
    } else if (event->kind == GW_REPLAY_REQUEST && answer == GWI_REFUSED) {
        gwi_recorded_differ(&c->recorded, "request %u of %s is refused in the replay", event->block + 1,
                            gw_bytes_text(bytes, event->bytes));
    } else if (event->kind == GW_REPLAY_REFUSED && answer == GWI_GRANTED) {
        gwi_recorded_differ(&c->recorded, "the refused request of %s is granted in the replay",
                            gw_bytes_text(bytes, event->bytes));
    }
    return answer;
}

static bool differs(const check *c)
{
    return c->recorded.difference[0] != '\0' || c->run.allocator.no_memory;
}

static bool empty_if_recorded(check *c, size_t index)
{
    if (!was_emptied(c, index))
        return true;
    if (!gw_array_more(&c->emptied, c->emptied_count, sizeof *c->emptied))
        return false;
    c->emptied[c->emptied_count++] = index;
    return gwi_empty(&c->run.allocator);
}

static void compare_end(check *c)
{
    const gw_replay_step *step = gwi_recorded_step(&c->recorded);
    char text[GWI_STEP_TEXT_MAX], have[GW_BYTES_TEXT_MAX], want[GW_BYTES_TEXT_MAX];
    uint64_t reserved = c->input->reserved_bytes;
    if (step != NULL)
        gwi_recorded_differ(&c->recorded, "call %zu: the recording has %s, the replay nothing more", c->recorded.at + 1,
                            gwi_step_text(text, step));
    else if (reserved != 0 && reserved != c->run.allocator.reserved_bytes)
        gwi_recorded_differ(&c->recorded, "PyTorch had reserved %s at the end, the replay %s",
                            gw_bytes_text(have, reserved), gw_bytes_text(want, c->run.allocator.reserved_bytes));
}

/* ---- the whole input ---- */

/* Insert the releases of the cache that were found. */
static gw_status insert_empties(check *c, gw_error *err)
{
    gw_replay_input *input = c->input;
    size_t count = input->event_count + c->emptied_count, next = 0, at = 0;
    gw_replay_event *event = c->emptied_count == 0 ? NULL : malloc(count * sizeof *event);
    if (c->emptied_count == 0)
        return GW_OK;
    if (event == NULL)
        return gw_fail(err, GW_NOMEM, "replay the allocator");
    for (size_t i = 0; i <= input->event_count; i++) {
        for (; next < c->emptied_count && c->emptied[next] == i; next++)
            event[at++] = (gw_replay_event){.kind = GW_REPLAY_EMPTY};
        if (i < input->event_count)
            event[at++] = input->event[i];
    }
    free(input->event);
    input->event = event;
    input->event_count = count;
    free(input->step_at); /* counted for the events before the insertions; not needed any more */
    input->step_at = NULL;
    return GW_OK;
}

static void replay_all(check *c)
{
    size_t count = c->input->event_count;
    for (size_t i = 0; i <= count && !differs(c); i++) {
        for (size_t at = c->input->step_count + 1; !differs(c) && at != c->recorded.at;) {
            at = c->recorded.at; /* empty_cache() may have been called more than once */
            if (!empty_if_recorded(c, i) && !differs(c))
                c->run.allocator.no_memory = true;
        }
        if (differs(c) || i == count)
            break;
        c->result->event = i;
        (void)replay_event(c, &c->input->event[i]);
    }
    if (!differs(c))
        compare_end(c);
}

gw_status gw_replay_check_input(gw_replay_input *input, gw_replay_check *ret_check, gw_error *err)
{
    *ret_check = (gw_replay_check){0};
    check c = {.input = input, .recorded = {.input = input, .difference = ret_check->difference}, .result = ret_check};
    gwi_device device = gwi_recorded_device(&c.recorded);
    gw_status st = check_input(input, err);
    if (st != GW_OK)
        return st;
    st = gwi_run_init(&c.run, input, &input->settings, &device, input->card_bytes, err);
    if (st == GW_OK)
        replay_all(&c);
    if (st == GW_OK && c.run.allocator.no_memory)
        st = gw_fail(err, GW_NOMEM, "replay the allocator");
    ret_check->is_exact = ret_check->difference[0] == '\0';
    ret_check->step_count = c.recorded.at;
    ret_check->reserved_peak = c.run.allocator.reserved_peak;
    ret_check->live_peak = c.run.allocator.live_peak;
    ret_check->live_bytes = c.run.allocator.live_bytes;
    if (st == GW_OK && ret_check->is_exact)
        st = insert_empties(&c, err);
    gwi_run_free(&c.run);
    free(c.emptied);
    return st;
}
