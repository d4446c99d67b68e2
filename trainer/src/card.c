/* Manage the scope, the arena, the streams and the copies of a back end on a GPU. */
#include "card.h"

bool card_well(const struct card *card, gs_status status, const char *doing, struct reason *reason)
{
    gs_failure failure;
    char text[480];
    if (status == GS_OK)
        return true;
    /* Check the scope of the memory first. It is the innermost scope, so it stores the failures of the compute
     * stream. */
    if ((card->memory != NULL && gs_first_failure(card->memory, &failure)) ||
        (card->scope != NULL && gs_first_failure(card->scope, &failure)))
        because(reason, "%s: %s", doing, gs_failure_text(&failure, text, sizeof text));
    else
        because(reason, "%s: %s", doing, gs_status_text(status));
    reason->is_memory = status == GS_NO_MEMORY;
    return false;
}

static gs_status open_things(struct card *card)
{
    gs_status status = gs_stream(card->scope, &card->compute);
    if (status == GS_OK)
        status = gs_stream(card->scope, &card->copy);
    for (int i = 0; i < 2 && status == GS_OK; i++) {
        status = gs_event(card->scope, 0, &card->fed[i]);
        if (status == GS_OK)
            status = gs_event(card->scope, 0, &card->used[i]);
    }
    for (int i = 0; i < CARD_WAITS && status == GS_OK; i++) {
        status = gs_event(card->scope, 1, &card->idle[i]);
        if (status == GS_OK)
            status = gs_event(card->scope, 1, &card->arrived[i]);
    }
    return status;
}

bool card_open(struct card *card, const struct backend_options *options, struct reason *reason)
{
    gs_options scope_options = {.name = options->name,
                                .device = options->device,
                                .memory_bytes = options->memory_bytes,
                                .log = options->log,
                                .log_user = options->log_user};
    gs_failure failure;
    char text[480];
    *card = (struct card){0};
    gs_status status = gs_open(&scope_options, &card->scope, &failure);
    if (status != GS_OK) {
        card->scope = NULL;
        because(reason, "GPU: %s", gs_failure_text(&failure, text, sizeof text));
        reason->is_memory = status == GS_NO_MEMORY;
        return false;
    }
    if (card_well(card, open_things(card), "streams and events", reason))
        return true;
    gs_end(card->scope, NULL);
    card->scope = NULL;
    return false;
}

bool card_close(struct card *card, gs_report **ret_report, struct reason *reason)
{
    gs_report *report = NULL;
    char text[480];
    gs_status status = gs_end(card->scope, &report);
    *card = (struct card){0};
    bool is_well = card_well(card, status, "releasing the GPU's objects", reason);
    if (!is_well && report != NULL && report->has_failure)
        because(reason, "releasing the GPU's objects: %s", gs_failure_text(&report->failure, text, sizeof text));
    if (ret_report != NULL)
        *ret_report = report;
    else
        gs_report_free(report);
    return is_well;
}

/* Allocate the schedule's memory in a scope of its own, so that a later call can release it and load another
 * schedule. */
bool card_load(void *state, const struct schedule *schedule, struct reason *reason)
{
    struct card *card = state;
    gs_options options = {0};
    gs_status status = GS_OK;
    if (card->memory != NULL) {
        status = gs_end(card->memory, NULL);
        card->memory = NULL;
        card->schedule = NULL;
    }
    if (status == GS_OK)
        status = gs_begin(card->scope, &options, &card->memory);
    if (status == GS_OK)
        status = gs_arena_open(card->memory, schedule->plan, &card->arena);
    if (!card_well(card, status, "the run's memory", reason))
        return false;
    card->schedule = schedule;
    card->fed_count = card->expected_count = card->measured_count = 0;
    card->waited_s = 0;
    return true;
}

CUdeviceptr card_at(const struct card *card, size_t block)
{
    return block == NO_BLOCK ? 0 : gs_arena_at(card->arena, block);
}

bool card_put(void *state, size_t block, const void *data, size_t bytes, struct reason *reason)
{
    struct card *card = state;
    gs_status status = gs_copy_in(card_at(card, block), data, bytes, card->compute);
    if (status == GS_OK)
        status = gs_wait(card->compute);
    return card_well(card, status, "a copy to the GPU", reason);
}

/* Measure how long the device waited for the first `count` inputs. Both events of each must be complete. */
static gs_status measure(struct card *card, uint64_t count)
{
    gs_status status = GS_OK;
    for (; card->measured_count < count && status == GS_OK; card->measured_count++) {
        uint64_t index = card->measured_count % CARD_WAITS;
        float ms = 0;
        status = gs_elapsed(card->idle[index], card->arrived[index], &ms);
        card->waited_s += status == GS_OK && ms > 0 ? (double)ms / 1e3 : 0;
    }
    return status;
}

gs_status card_settle(struct card *card)
{
    gs_status status = gs_wait(card->compute);
    return status == GS_OK ? measure(card, card->expected_count) : status;
}

bool card_get(void *state, size_t block, void *data, size_t bytes, struct reason *reason)
{
    struct card *card = state;
    gs_status status = gs_copy_out(data, card_at(card, block), bytes, card->compute);
    if (status == GS_OK)
        status = card_settle(card);
    return card_well(card, status, "a copy from the GPU", reason);
}

bool card_host_alloc(void *state, size_t bytes, void **ret, struct reason *reason)
{
    struct card *card = state;
    return card_well(card, gs_alloc_pinned(card->scope, bytes, ret), "page-locked memory", reason);
}

void card_host_free(void *state, void *memory)
{
    struct card *card = state;
    if (memory != NULL)
        gs_free_host(card->scope, memory);
}

static gs_status copy_inputs(struct card *card, unsigned turn, const float *images, const int32_t *labels)
{
    const struct schedule *schedule = card->schedule;
    size_t images_block = schedule_input(schedule, turn), labels_block = schedule_labels(schedule, turn);
    gs_status status = gs_follow(card->copy, card->used[turn % 2]);
    if (status == GS_OK)
        status = gs_copy_in(card_at(card, images_block), images, schedule->block_bytes[images_block], card->copy);
    if (status == GS_OK)
        status = gs_copy_in(card_at(card, labels_block), labels, schedule->block_bytes[labels_block], card->copy);
    if (status == GS_OK)
        status = gs_record(card->arrived[card->fed_count++ % CARD_WAITS], card->copy);
    return status == GS_OK ? gs_record(card->fed[turn % 2], card->copy) : status;
}

/* Called by a loader's thread, which may not have entered any scope, so enter one during the call. */
bool card_feed(void *state, unsigned turn, const float *images, const int32_t *labels, struct reason *reason)
{
    struct card *card = state;
    gs_status status = gs_enter(card->scope);
    if (status == GS_OK) {
        status = copy_inputs(card, turn, images, labels);
        gs_leave(card->scope);
    }
    return card_well(card, status, "a copy of inputs", reason);
}

bool card_fed(void *state, unsigned turn, struct reason *reason)
{
    struct card *card = state;
    gs_status status = gs_enter(card->scope);
    if (status == GS_OK) {
        status = gs_wait_event(card->fed[turn % 2]);
        gs_leave(card->scope);
    }
    return card_well(card, status, "a copy of inputs", reason);
}

/* All inputs before those numbered `number` were fed. Before the last of these (number - 1) were fed, the loader waited
 * for the copy of inputs number - 3, which used the same buffers. That copy waited for the steps of inputs number - 5.
 * So both events of inputs number - 5, and of all before them, are complete. */
bool card_expect(void *state, struct reason *reason)
{
    struct card *card = state;
    uint64_t number = card->expected_count++;
    gs_status status = gs_record(card->idle[number % CARD_WAITS], card->compute);
    if (status == GS_OK && number >= 5)
        status = measure(card, number - 4);
    return card_well(card, status, "the time of inputs", reason);
}

double card_waited(void *state)
{
    const struct card *card = state;
    return card->waited_s;
}

bool card_begin(struct card *card, unsigned turn, struct reason *reason)
{
    return card_well(card, gs_follow(card->compute, card->fed[turn % 2]), "waiting for inputs", reason);
}

bool card_end(struct card *card, unsigned turn, struct reason *reason)
{
    return card_well(card, gs_record(card->used[turn % 2], card->compute), "marking inputs as used", reason);
}
