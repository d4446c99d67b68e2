/* Measure how an iteration's time is divided among the kinds of steps, with an event before and after each step. */
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
    return status;
}

gs_status times_mark(struct cuda *cuda, const struct cuda_times *times, size_t step)
{
    return times->events == NULL ? GS_OK : gs_record(times->events[step], cuda->card.compute);
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
    bool is_whole = times->count == schedule->step_count + 1;
    gs_status status = is_whole ? gs_record(times->events[schedule->step_count], cuda->card.compute) : GS_FAILED;
    if (status == GS_OK)
        status = gs_wait(cuda->card.compute);
    for (size_t i = 0; i < schedule->step_count && status == GS_OK; i++) {
        const struct step *step = &schedule->steps[i];
        float ms = 0;
        status = gs_elapsed(times->events[i], times->events[i + 1], &ms);
        sums[step->kind][step->layer->kind] += (double)ms;
        counts[step->kind][step->layer->kind]++;
    }
    if (status == GS_OK)
        tell(cuda, sums, counts);
    while (times->count > 0)
        gs_event_close(cuda->card.scope, times->events[--times->count]);
    free(times->events);
    times->events = NULL;
    return status;
}
