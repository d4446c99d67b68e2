/* The back end `cpu`: fp32 on the host with oneDNN. Every function has finished its work when it returns, so feed() and
 * settle() do not wait. Equal numbers of threads give bit-identical results, even without `deterministic`. */
#include "cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ALIGNMENT = 4096 };

static bool cpu_can(enum precision precision)
{
    return precision == PRECISION_FP32;
}

static void unload(struct cpu_state *state)
{
    for (size_t i = 0; state->works != NULL && i < state->schedule->step_count; i++)
        cpu_work_clear(&state->works[i]);
    free(state->works);
    free(state->memory);
    state->works = NULL;
    state->memory = NULL;
    state->schedule = NULL;
}

static bool cpu_close(void *of, gs_report **ret_report, struct reason *reason)
{
    (void)reason;
    struct cpu_state *state = of;
    unload(state);
    cpu_dnnl_close(state);
    free(state);
    if (ret_report != NULL)
        *ret_report = NULL;
    return true;
}

static bool cpu_open(const struct backend_options *options, void **ret_state, struct reason *reason)
{
    struct cpu_state *state = calloc(1, sizeof *state);
    if (state == NULL)
        return because(reason, "no memory for the back end");
    state->options = *options;
    if (!cpu_dnnl_open(state, reason)) {
        cpu_close(state, NULL, reason);
        return false;
    }
    *ret_state = state;
    return true;
}

/* True for convolutions and pooling. The other steps need no primitive of oneDNN. */
static bool is_dnnl(const struct step *step)
{
    return (step->kind == STEP_FORWARD || step->kind == STEP_BACKWARD) &&
           (step->layer->kind == LAYER_CONV || step->layer->kind == LAYER_MAXPOOL ||
            step->layer->kind == LAYER_AVERAGEPOOL);
}

static bool cpu_plan(void *of, const struct schedule_options *options, struct step *step, size_t budget_bytes,
                     struct reason *reason)
{
    step->algorithm = 0;
    step->workspace_bytes = 0;
    if (options->precision != PRECISION_FP32)
        return because(reason, "cpu: %s is not supported, only fp32", precision_text(options->precision));
    if (step->kind == STEP_FORWARD && step->layer->kind == LAYER_BATCHNORM &&
        options->images * step->layer->out.height * step->layer->out.width < 2)
        return because(reason, "line %d: the variance of a single value is not defined: use more images",
                       step->layer->line);
    return !is_dnnl(step) || cpu_dnnl_plan(of, options, step, budget_bytes, reason);
}

static bool take_memory(struct cpu_state *state, struct reason *reason)
{
    uint64_t bytes = (state->schedule->size.arena_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    char wanted[EXACT_TEXT_BYTES], limit[EXACT_TEXT_BYTES];
    if (state->options.memory_bytes != 0 && bytes > state->options.memory_bytes)
        because(reason, "cpu: %s exceed the limit of %s", exact_text(bytes, wanted),
                exact_text(state->options.memory_bytes, limit));
    else if ((state->memory = aligned_alloc(ALIGNMENT, bytes)) == NULL)
        because(reason, "cpu: cannot allocate %s", exact_text(bytes, wanted));
    else
        memset(state->memory, 0, bytes); /* allocate the pages now instead of in the middle of a step */
    reason->is_memory = state->memory == NULL;
    return state->memory != NULL;
}

static bool cpu_load(void *of, const struct schedule *schedule, struct reason *reason)
{
    struct cpu_state *state = of;
    unload(state);
    state->schedule = schedule;
    if (!take_memory(state, reason))
        goto failed;
    state->works = calloc(schedule->step_count, sizeof *state->works);
    if (state->works == NULL) {
        because(reason, "no memory for the steps");
        goto failed;
    }
    for (size_t i = 0; i < schedule->step_count; i++)
        if (is_dnnl(&schedule->steps[i]) && !cpu_dnnl_build(state, &schedule->steps[i], &state->works[i], reason))
            goto failed;
    return true;
failed:
    unload(state);
    return false;
}

static bool is_inside(const struct cpu_state *state, size_t block, size_t bytes, struct reason *reason)
{
    if (state->schedule == NULL)
        return because(reason, "cpu: nothing is loaded");
    if (block >= state->schedule->block_count || bytes > state->schedule->block_bytes[block])
        return because(reason, "cpu: no block %zu of %zu bytes", block, bytes);
    return true;
}

static bool cpu_put(void *of, size_t block, const void *data, size_t bytes, struct reason *reason)
{
    struct cpu_state *state = of;
    if (!is_inside(state, block, bytes, reason))
        return false;
    memcpy(cpu_block(state, block), data, bytes);
    return true;
}

static bool cpu_get(void *of, size_t block, void *data, size_t bytes, struct reason *reason)
{
    struct cpu_state *state = of;
    if (!is_inside(state, block, bytes, reason))
        return false;
    memcpy(data, cpu_block(state, block), bytes);
    return true;
}

static bool cpu_host_alloc(void *of, size_t bytes, void **ret, struct reason *reason)
{
    (void)of;
    void *memory = aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    if (memory == NULL) {
        char wanted[EXACT_TEXT_BYTES];
        because(reason, "cpu: cannot allocate %s", exact_text(bytes, wanted));
        reason->is_memory = true;
        return false;
    }
    *ret = memory;
    return true;
}

static void cpu_host_free(void *of, void *memory)
{
    (void)of;
    free(memory);
}

static bool cpu_feed(void *of, unsigned turn, const float *images, const int32_t *labels, struct reason *reason)
{
    const struct cpu_state *state = of;
    if (state->schedule == NULL)
        return because(reason, "cpu: nothing is loaded");
    const struct schedule *schedule = state->schedule;
    size_t images_block = schedule_input(schedule, turn), labels_block = schedule_labels(schedule, turn);
    memcpy(cpu_block(state, images_block), images, schedule->block_bytes[images_block]);
    memcpy(cpu_block(state, labels_block), labels, schedule->block_bytes[labels_block]);
    return true;
}

static bool cpu_fed(void *of, unsigned turn, struct reason *reason)
{
    (void)of;
    (void)turn;
    (void)reason;
    return true;
}

/* ---- steps ---- */

static size_t floats_in(const struct cpu_state *state, size_t block)
{
    return state->schedule->block_bytes[block] / sizeof(float);
}

static bool forward(struct cpu_state *state, const struct step *step, const struct cpu_work *work,
                    const struct iteration *iteration, struct reason *reason)
{
    switch (step->layer->kind) {
    case LAYER_BATCHNORM:
        cpu_batchnorm_forward(state, step, iteration->is_evaluation);
        return true;
    case LAYER_ACTIVATION:
        cpu_activation_forward(state, step);
        return true;
    case LAYER_MULTIPLY:
        cpu_multiply_forward(state, step);
        return true;
    case LAYER_DROPOUT:
        cpu_dropout(state, step, iteration);
        return true;
    case LAYER_ADD:
        cpu_add_forward(state, step);
        return true;
    case LAYER_LINEAR:
        return cpu_linear_forward(state, step, reason);
    default:
        return cpu_dnnl_run(state, work, reason);
    }
}

static bool backward(struct cpu_state *state, const struct step *step, const struct cpu_work *work,
                     const struct iteration *iteration, struct reason *reason)
{
    switch (step->layer->kind) {
    case LAYER_BATCHNORM:
        cpu_batchnorm_backward(state, step);
        return true;
    case LAYER_ACTIVATION:
        cpu_activation_backward(state, step);
        return true;
    case LAYER_MULTIPLY:
        cpu_multiply_backward(state, step);
        return true;
    case LAYER_DROPOUT:
        cpu_dropout(state, step, iteration);
        return true;
    case LAYER_ADD:
        return because(reason, "cpu: an addition has no backward step of its own");
    case LAYER_LINEAR:
        return cpu_linear_backward(state, step, reason);
    default:
        return cpu_dnnl_run(state, work, reason);
    }
}

static bool run_step(struct cpu_state *state, size_t index, const struct iteration *iteration, struct reason *reason)
{
    const struct step *step = &state->schedule->steps[index];
    const struct cpu_work *work = &state->works[index];
    switch (step->kind) {
    case STEP_INPUT:
        cpu_copy(cpu_block(state, step->y), cpu_block(state, schedule_input(state->schedule, iteration->turn)),
                 floats_in(state, step->y));
        return true;
    case STEP_FORWARD:
        return forward(state, step, work, iteration, reason);
    case STEP_LOSS:
        return cpu_loss(state, step, iteration, reason);
    case STEP_RELU:
        cpu_relu_backward(state, step);
        return true;
    case STEP_BACKWARD:
        return backward(state, step, work, iteration, reason);
    case STEP_COPY:
        cpu_copy(cpu_block(state, step->dx), cpu_block(state, step->dy), floats_in(state, step->dx));
        return true;
    case STEP_SUM:
        cpu_add(cpu_block(state, step->dx), cpu_block(state, step->dy), floats_in(state, step->dx));
        return true;
    default:
        return because(reason, "cpu: unknown step kind %d", (int)step->kind);
    }
}

static bool cpu_iterate(void *of, const struct iteration *iteration, struct reason *reason)
{
    struct cpu_state *state = of;
    if (state->schedule == NULL)
        return because(reason, "cpu: nothing is loaded");
    if (iteration->is_first) {
        memset(cpu_lasting(state, LASTING_RESULTS), 0, sizeof(struct results));
        if (!iteration->is_evaluation)
            memset(cpu_lasting(state, LASTING_GRADIENTS), 0,
                   state->schedule->block_bytes[state->schedule->lasting[LASTING_GRADIENTS]]);
    }
    for (size_t i = 0; i < state->schedule->step_count; i++) {
        if (!run_step(state, i, iteration, reason))
            return false;
        if (iteration->is_evaluation && state->schedule->steps[i].kind == STEP_LOSS)
            break;
    }
    return true;
}

static bool cpu_take_step(void *of, const struct update *update, struct reason *reason)
{
    struct cpu_state *state = of;
    if (state->schedule == NULL)
        return because(reason, "cpu: nothing is loaded");
    if (update->optimizer != state->schedule->options.optimizer)
        return because(reason, "cpu: %s was not planned", optimizer_text(update->optimizer));
    if (update->clip > 0 && !state->schedule->options.clips)
        return because(reason, "cpu: clipping was not planned");
    cpu_update(state, update);
    return true;
}

static bool cpu_swap_average(void *of, struct reason *reason)
{
    struct cpu_state *state = of;
    if (state->schedule == NULL || cpu_lasting(state, LASTING_AVERAGE) == NULL)
        return because(reason, "cpu: no average was planned");
    cpu_swap(cpu_lasting(state, LASTING_PARAMETERS), cpu_lasting(state, LASTING_AVERAGE),
             state->schedule->model->parameter_count);
    return true;
}

static bool cpu_settle(void *of, struct results *ret_results, struct reason *reason)
{
    struct cpu_state *state = of;
    if (state->schedule == NULL)
        return because(reason, "cpu: nothing is loaded");
    memcpy(ret_results, cpu_lasting(state, LASTING_RESULTS), sizeof *ret_results);
    return true;
}

/* ---- the host ---- */

/* Read the value in KiB after `name` from a file such as /proc/meminfo. Returns the value in bytes, or -1 if the file
 * does not contain it. */
static int64_t kilobytes(const char *path, const char *name)
{
    char line[256];
    long long found = -1;
    FILE *file = fopen(path, "re");
    while (file != NULL && found < 0 && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, name, strlen(name)) == 0)
            found = strtoll(line + strlen(name), NULL, 10);
    if (file != NULL)
        fclose(file);
    return found < 0 ? -1 : found * 1024;
}

/* Report the host's memory. The temperature is reported as unknown, because a host has more than one sensor. */
static void cpu_watch(int device, struct backend_watch *ret_watch)
{
    (void)device;
    ret_watch->free_bytes = kilobytes("/proc/meminfo", "MemAvailable:");
    ret_watch->total_bytes = kilobytes("/proc/meminfo", "MemTotal:");
    ret_watch->own_bytes = kilobytes("/proc/self/status", "VmRSS:");
    ret_watch->temperature = -1;
}

const struct backend backend_cpu = {
    .name = "cpu",
    .can = cpu_can,
    .open = cpu_open,
    .close = cpu_close,
    .plan = cpu_plan,
    .load = cpu_load,
    .put = cpu_put,
    .get = cpu_get,
    .host_alloc = cpu_host_alloc,
    .host_free = cpu_host_free,
    .feed = cpu_feed,
    .fed = cpu_fed,
    .iterate = cpu_iterate,
    .update = cpu_take_step,
    .swap_average = cpu_swap_average,
    .settle = cpu_settle,
    .watch = cpu_watch,
};
