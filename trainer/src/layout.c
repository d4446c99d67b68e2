/* Find the last step that uses each block, and let gs_plan place the blocks. */
#include "layout.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCKS_OF_STEP = 10 };

static void blocks_of(struct step *step, size_t *ret_blocks[BLOCKS_OF_STEP])
{
    size_t *const blocks[] = {&step->x,
                              &step->x2,
                              &step->y,
                              &step->dx,
                              &step->dx2,
                              &step->dy,
                              &step->saved,
                              &step->inner_saved[0],
                              &step->inner_saved[1],
                              &step->workspace};
    _Static_assert(sizeof blocks / sizeof *blocks == BLOCKS_OF_STEP, "all of them");
    memcpy(ret_blocks, blocks, sizeof blocks);
}

/* The lifetime of each block, and its number in the plan. */
struct places {
    /* owned; index of the last step that uses each block; SIZE_MAX: never free the block, or it is already freed */
    size_t *last;
    size_t *number; /* owned; number of each block in the plan; NO_BLOCK: none yet */
    size_t *bytes;  /* owned; size of each block, indexed by number in the plan */
    size_t count;
};

static gs_status give_place(const struct schedule *schedule, struct places *places, size_t block)
{
    if (block == NO_BLOCK || places->number[block] != NO_BLOCK)
        return GS_OK;
    places->bytes[places->count++] = schedule->block_bytes[block];
    return gs_plan_alloc(schedule->plan, schedule->block_bytes[block], &places->number[block]);
}

static gs_status tell_plan(struct schedule *schedule, struct places *places)
{
    gs_status status = GS_OK;
    size_t *blocks[BLOCKS_OF_STEP];
    for (int i = 0; i < LASTING_COUNT && status == GS_OK; i++)
        status = give_place(schedule, places, schedule->lasting[i]);
    for (size_t i = 0; i < schedule->step_count && status == GS_OK; i++) {
        blocks_of(&schedule->steps[i], blocks);
        for (int k = 0; k < BLOCKS_OF_STEP && status == GS_OK; k++)
            status = give_place(schedule, places, *blocks[k]);
        for (int k = 0; k < BLOCKS_OF_STEP && status == GS_OK; k++)
            if (*blocks[k] != NO_BLOCK && places->last[*blocks[k]] == i) {
                status = gs_plan_free(schedule->plan, places->number[*blocks[k]]);
                places->last[*blocks[k]] = SIZE_MAX; /* free the block only once, even if the step uses it twice */
            }
    }
    return status == GS_OK ? gs_plan_close(schedule->plan, &schedule->size) : status;
}

static bool uses(struct step *step, size_t block)
{
    size_t *blocks[BLOCKS_OF_STEP];
    blocks_of(step, blocks);
    for (int k = 0; k < BLOCKS_OF_STEP; k++)
        if (*blocks[k] == block)
            return block != NO_BLOCK;
    return false;
}

/* Return true if the second step, which follows, writes to a block that the first one uses. */
static bool disturbs(struct step *first, const struct step *second)
{
    bool is_sum = second->kind == STEP_BACKWARD && second->layer->kind == LAYER_ADD;
    bool may_change_dy =
        second->kind == STEP_RELU || (is_sum && (second->inner[0] == NULL || second->inner[1] == NULL));
    bool writes_y = second->kind == STEP_INPUT || second->kind == STEP_FORWARD;
    return (writes_y && uses(first, second->y)) || uses(first, second->dx) || uses(first, second->dx2) ||
           (may_change_dy && uses(first, second->dy));
}

static void find_last(struct schedule *schedule, size_t *last)
{
    size_t *blocks[BLOCKS_OF_STEP];
    for (size_t i = 0; i < schedule->step_count; i++) {
        blocks_of(&schedule->steps[i], blocks);
        for (int k = 0; k < BLOCKS_OF_STEP; k++)
            if (*blocks[k] != NO_BLOCK)
                last[*blocks[k]] = i;
    }
    for (int i = 0; i < LASTING_COUNT; i++)
        if (schedule->lasting[i] != NO_BLOCK)
            last[schedule->lasting[i]] = SIZE_MAX;
}

/* Keep the blocks of a step in use until another step has ended. */
static void keep_until(struct step *step, size_t until, size_t *last)
{
    size_t *blocks[BLOCKS_OF_STEP];
    blocks_of(step, blocks);
    for (int k = 0; k < BLOCKS_OF_STEP; k++)
        if (*blocks[k] != NO_BLOCK && last[*blocks[k]] < until)
            last[*blocks[k]] = until;
}

/* Set `awaited` of every step. A step of the kind STEP_PARAMETERS uses its blocks until the step before the one that
 * awaits it. */
static void find_awaited(struct schedule *schedule, size_t *last)
{
    enum { ROOM = PARAMETERS_AHEAD + 1 };
    struct step *running[ROOM];
    size_t begun = 0, complete = 0;
    for (size_t i = 0; i < schedule->step_count; i++) {
        struct step *step = &schedule->steps[i];
        size_t awaited = schedule->options.overlaps ? complete : begun;
        if (step->kind == STEP_PARAMETERS && begun - awaited > PARAMETERS_AHEAD)
            awaited = begun - PARAMETERS_AHEAD;
        for (size_t k = awaited; k < begun; k++)
            if (disturbs(running[k % ROOM], step))
                awaited = k + 1;
        for (; complete < awaited; complete++)
            keep_until(running[complete % ROOM], i - 1, last);
        step->awaited = awaited;
        if (step->kind == STEP_PARAMETERS)
            running[begun++ % ROOM] = step;
    }
    for (; complete < begun; complete++)
        keep_until(running[complete % ROOM], schedule->step_count - 1, last);
}

/* Replace the numbers of all blocks by their numbers in the plan. */
static void renumber(struct schedule *schedule, struct places *places)
{
    size_t *blocks[BLOCKS_OF_STEP];
    for (size_t i = 0; i < schedule->step_count; i++) {
        blocks_of(&schedule->steps[i], blocks);
        for (int k = 0; k < BLOCKS_OF_STEP; k++)
            if (*blocks[k] != NO_BLOCK)
                *blocks[k] = places->number[*blocks[k]];
    }
    for (int i = 0; i < LASTING_COUNT; i++)
        if (schedule->lasting[i] != NO_BLOCK)
            schedule->lasting[i] = places->number[schedule->lasting[i]];
    free(schedule->block_bytes);
    schedule->block_bytes = places->bytes;
    schedule->block_count = places->count;
    places->bytes = NULL;
}

bool layout_find(struct schedule *schedule, struct reason *reason)
{
    size_t count = schedule->block_count;
    struct places places = {.last = calloc(count, sizeof *places.last),
                            .number = calloc(count, sizeof *places.number),
                            .bytes = calloc(count, sizeof *places.bytes)};
    gs_status status = GS_NO_HOST_MEMORY;
    if (places.last != NULL && places.number != NULL && places.bytes != NULL) {
        memset(places.number, 0xff, count * sizeof *places.number);
        find_last(schedule, places.last);
        find_awaited(schedule, places.last);
        status = gs_plan_new(0, &schedule->plan);
        if (status == GS_OK)
            status = tell_plan(schedule, &places);
        if (status == GS_OK)
            renumber(schedule, &places);
    }
    free(places.last);
    free(places.number);
    free(places.bytes);
    return status == GS_OK || because(reason, "no plan: %s", gs_status_text(status));
}
