/* Measure the time of each step of one iteration, with an event before and after each step. Meanwhile no step runs
 * beside another one. */
#include "cuda_state.h"

#include <stdio.h>
#include <stdlib.h>

gs_status times_begin(struct cuda *cuda, struct cuda_times *ret_times)
{
    const char *wanted = getenv("TRAINER_TELL_TIMES");
    size_t count = cuda->card.schedule->step_count + 1;
    gs_status status = GS_OK;
    cuda->iterations++;
    if (wanted == NULL || cuda->options.log == NULL || strtoull(wanted, NULL, 10) != cuda->iterations)
        return GS_OK;
    ret_times->events = calloc(count, sizeof *ret_times->events);
    if (ret_times->events == NULL)
        return GS_NO_HOST_MEMORY;
    while (ret_times->count < count && status == GS_OK) {
        status = gs_event(cuda->card.scope, 1, &ret_times->events[ret_times->count]);
        ret_times->count += status == GS_OK;
    }
    cuda->times = ret_times;
    return status;
}

gs_status times_mark(struct cuda *cuda, size_t step)
{
    return cuda->times == NULL ? GS_OK : gs_record(cuda->times->events[step], cuda->card.compute);
}

/* ---- the lines ---- */

/* A part of a step, with the least work that it can do. */
struct part {
    const char *name;
    double ms, bytes, operations;
};

static void tell_part(const struct cuda *cuda, const struct layer *layer, const struct part *part)
{
    char line[300];
    snprintf(line, sizeof line,
             "layer: line %d, %s %zux%zux%zu to %zux%zux%zu, %zux%zu/%zu, %s: %.4f ms, %.0f bytes, %.0f operations",
             layer->line, layer_kind_text(layer->kind), layer->in.channels, layer->in.height, layer->in.width,
             layer->out.channels, layer->out.height, layer->out.width, layer->kernel, layer->kernel, layer->stride,
             part->name, part->ms, part->bytes, part->operations);
    cuda->options.log(cuda->options.log_user, line);
}

static double bytes_of(const struct schedule *schedule, size_t block)
{
    return block == NO_BLOCK ? 0 : (double)schedule->block_bytes[block];
}

/* Return the size of all blocks that the step reads or writes, each counted once, or twice if it is read and written.
 */
static double least_bytes(const struct schedule *schedule, const struct step *step)
{
    const size_t blocks[] = {step->x,
                             step->x2,
                             step->y,
                             step->dx,
                             step->dx2,
                             step->dy,
                             step->saved,
                             step->inner_saved[0],
                             step->inner_saved[1]};
    double sum = step->adds || step->kind == STEP_SUM ? bytes_of(schedule, step->dx) : 0;
    if (step->kind == STEP_RELU)
        sum += bytes_of(schedule, step->dy);
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        sum += bytes_of(schedule, blocks[i]);
    return sum;
}

static double weight_bytes(const struct schedule *schedule, const struct layer *layer)
{
    return (double)layer->weight_count * (double)precision_bytes(schedule->options.precision);
}

/* Return the number of multiplications and additions of a convolution or matrix product. */
static double operations_of(const struct schedule *schedule, const struct layer *layer)
{
    double pixels = (double)schedule->options.images * (double)(layer->out.height * layer->out.width);
    if (layer->kind != LAYER_CONV && layer->kind != LAYER_LINEAR)
        return 0;
    return 2 * pixels * (double)layer->weight_count;
}

static const char *part_name(const struct step *step)
{
    bool has_two = step->layer->kind == LAYER_CONV || step->layer->kind == LAYER_LINEAR;
    if (step->kind == STEP_PARAMETERS)
        return "weight gradient";
    return step->kind == STEP_BACKWARD && has_two ? "input gradient" : step_kind_text(step->kind);
}

static void tell_layer(const struct cuda *cuda, const struct step *step, float ms)
{
    const struct schedule *schedule = cuda->card.schedule;
    const struct layer *layer = step->layer;
    bool is_product = step->kind == STEP_FORWARD || step->kind == STEP_BACKWARD || step->kind == STEP_PARAMETERS;
    /* the gradients of the weights are fp32, and are read and written */
    double weights =
        step->kind == STEP_PARAMETERS ? 2 * sizeof(float) * (double)layer->weight_count : weight_bytes(schedule, layer);
    const struct part part = {part_name(step), (double)ms, least_bytes(schedule, step) + weights,
                              is_product ? operations_of(schedule, layer) : 0};
    tell_part(cuda, layer, &part);
}

static void tell(const struct cuda *cuda, double sums[STEP_KIND_COUNT][LAYER_KIND_COUNT],
                 size_t counts[STEP_KIND_COUNT][LAYER_KIND_COUNT])
{
    char line[160];
    double all = 0;
    for (int kind = 0; kind < STEP_KIND_COUNT; kind++)
        for (int layer = 0; layer < LAYER_KIND_COUNT; layer++)
            all += sums[kind][layer];
    for (int kind = 0; kind < STEP_KIND_COUNT; kind++)
        for (int layer = 0; layer < LAYER_KIND_COUNT; layer++)
            if (counts[kind][layer] != 0) {
                snprintf(line, sizeof line, "times: %s %s: %.3f ms in %zu steps, %.1f %%",
                         step_kind_text((enum step_kind)kind), layer_kind_text((enum layer_kind)layer),
                         sums[kind][layer], counts[kind][layer], 100 * sums[kind][layer] / all);
                cuda->options.log(cuda->options.log_user, line);
            }
    snprintf(line, sizeof line, "times: all steps: %.3f ms", all);
    cuda->options.log(cuda->options.log_user, line);
}

gs_status times_end(struct cuda *cuda, struct cuda_times *times)
{
    const struct schedule *schedule = cuda->card.schedule;
    double sums[STEP_KIND_COUNT][LAYER_KIND_COUNT] = {0};
    size_t counts[STEP_KIND_COUNT][LAYER_KIND_COUNT] = {0};
    bool is_whole = times->count == schedule->step_count + 1, tells_layers = getenv("TRAINER_TELL_LAYERS") != NULL;
    gs_status status = is_whole ? gs_record(times->events[schedule->step_count], cuda->card.compute) : GS_FAILED;
    if (status == GS_OK)
        status = gs_wait(cuda->card.compute);
    for (size_t i = 0; i < schedule->step_count && status == GS_OK; i++) {
        const struct step *step = &schedule->steps[i];
        float ms = 0;
        status = gs_elapsed(times->events[i], times->events[i + 1], &ms);
        sums[step->kind][step->layer->kind] += (double)ms;
        counts[step->kind][step->layer->kind]++;
        if (status == GS_OK && tells_layers)
            tell_layer(cuda, step, ms);
    }
    if (status == GS_OK)
        tell(cuda, sums, counts);
    while (times->count > 0)
        gs_event_close(cuda->card.scope, times->events[--times->count]);
    free(times->events);
    times->events = NULL;
    cuda->times = NULL;
    return status;
}
