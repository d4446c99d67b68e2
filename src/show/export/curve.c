/* Device memory over time. */
#include "gwi_curve.h"

#include "gw_array.h"
#include "gw_model_facts.h"
#include "gw_names.h"
#include "gw_text.h"

#include <stdlib.h>

/* The last values that were passed on for one process of the model. */
typedef struct passed {
    uint64_t allocated[GW_MODEL_DEVICE_PLACES], managed[GW_MODEL_DEVICE_PLACES];
} passed;

struct gwi_curve {
    gw_model *model; /* fed, but never finished: only the usage of its processes is read */
    passed *last;    /* owned; by the index of the process in the model */
    size_t count, capacity;
    gwi_curve_sink *sink; /* these two during a call */
    void *user;
};

#define MORE_WORDS(name, text, words) words,
GW_WORDS(gwi_curve_name, gwi_curve_what, GWI_CURVES, "?")
GW_WORDS_BY(MORE_WORDS, gwi_curve_words, gwi_curve_what, GWI_CURVES, "?")

gw_status gwi_curve_new(gwi_curve **ret_memory, gw_error *err)
{
    gwi_curve *memory = calloc(1, sizeof *memory);
    if (memory == NULL)
        return gw_fail(err, GW_NOMEM, "no memory for the export");
    gw_status st = gw_model_new(&memory->model, err);
    if (st == GW_OK)
        *ret_memory = memory;
    else
        free(memory);
    return st;
}

void gwi_curve_free(gwi_curve *memory)
{
    if (memory == NULL)
        return;
    gw_model_free(memory->model);
    free(memory->last);
    free(memory);
}

static gw_status pass(gwi_curve *memory, uint64_t t_ns, gwi_curve_what what, uint32_t pid, uint64_t device,
                      uint64_t bytes, gw_error *err)
{
    gwi_curve_value value = {t_ns, what, pid, device > UINT32_MAX ? UINT32_MAX : (uint32_t)device, bytes};
    return memory->sink(memory->user, &value, err);
}

static gw_status pass_change(gwi_curve *memory, uint64_t t_ns, gwi_curve_what what, uint32_t pid, uint64_t device,
                             uint64_t bytes, uint64_t *last, gw_error *err)
{
    if (bytes == *last)
        return GW_OK;
    *last = bytes;
    return pass(memory, t_ns, what, pid, device, bytes, err);
}

/* Return the last values of a process, or NULL if there is no memory. */
static passed *last_of(gwi_curve *memory, size_t index)
{
    if (!gw_array_reach(&memory->last, index + 1, &memory->capacity, sizeof *memory->last))
        return NULL;
    for (; memory->count <= index; memory->count++)
        memory->last[memory->count] = (passed){0};
    return &memory->last[index];
}

/* Pass on what has changed in the usage of a process. After its end, everything is 0. */
static gw_status pass_usage(gwi_curve *memory, uint64_t t_ns, uint32_t pid, bool has_ended, gw_error *err)
{
    const gw_process *process = gw_model_process(memory->model, pid);
    gw_status st = GW_OK;
    if (process == NULL)
        return GW_OK;
    passed *last = last_of(memory, (size_t)(process - memory->model->process));
    if (last == NULL)
        return gw_fail(err, GW_NOMEM, "no memory for the export");
    for (unsigned i = 0; i < GW_MODEL_DEVICE_PLACES && st == GW_OK; i++) {
        const gw_usage *usage = &process->usage[i];
        st = pass_change(memory, t_ns, GWI_CURVE_ALLOCATED, pid, i, has_ended ? 0 : usage->live_bytes,
                         &last->allocated[i], err);
        if (st == GW_OK)
            st = pass_change(memory, t_ns, GWI_CURVE_MANAGED, pid, i,
                             has_ended ? 0 : usage->class_bytes[GW_CLASS_MANAGED], &last->managed[i], err);
    }
    return st;
}

/* Pass on a device's used memory, if both numbers are known. */
static gw_status pass_used(gwi_curve *memory, const gw_event *event, uint64_t device, uint64_t total, uint64_t unused,
                           gw_error *err)
{
    if (total == 0 || unused > total)
        return GW_OK;
    return pass(memory, event->t_ns, GWI_CURVE_DEVICE_USED, event->pid, device, total - unused, err);
}

static bool called_exec(const gwi_curve *memory, uint32_t pid)
{
    const gw_process *process = gw_model_process(memory->model, pid);
    return process != NULL && process->called_exec;
}

static gw_status pass_event(gwi_curve *memory, const gw_event *event, gw_error *err)
{
    const uint64_t *arg = event->arg;
    switch (event->kind) {
    case GW_EV_MEMORY_INFO:
        return pass_used(memory, event, arg[2], arg[1], arg[0], err);
    case GW_EV_DEVICE:
        return pass_used(memory, event, arg[0], arg[1], arg[2], err);
    case GW_EV_ALLOCATOR_STATE:
        if (arg[0] == GW_ALLOCATOR_ALLOCATED)
            return pass(memory, event->t_ns, GWI_CURVE_TORCH_ALLOCATED, event->pid, arg[2], arg[1], err);
        if (arg[0] == GW_ALLOCATOR_RESERVED)
            return pass(memory, event->t_ns, GWI_CURVE_TORCH_RESERVED, event->pid, arg[2], arg[1], err);
        return GW_OK;
    default:
        /* after exec(), the first event of the new program ends what the old one had */
        if (gw_event_kind_traits(event->kind)->effect == GW_EFFECT_NONE && !called_exec(memory, event->pid))
            return GW_OK;
        return pass_usage(memory, event->t_ns, event->pid, false, err);
    }
}

static gw_status pass_sample(gwi_curve *memory, const gw_item *item, gw_error *err)
{
    for (uint32_t i = 0; i < item->sample.count; i++) {
        const gw_sample_value *value = &item->sample.value[i];
        if (value->metric == GW_METRIC_CARD_MEMORY_USED && value->state == GW_SAMPLE_KNOWN)
            return pass(memory, item->t_ns, GWI_CURVE_CARD_USED, 0, item->sample.device, value->value, err);
    }
    return GW_OK;
}

gw_status gwi_curve_feed(gwi_curve *memory, const gw_item *item, gwi_curve_sink *sink, void *user, gw_error *err)
{
    memory->sink = sink;
    memory->user = user;
    switch (item->kind) {
    case GW_ITEM_SAMPLE:
        return pass_sample(memory, item, err);
    case GW_ITEM_EVENT:
    case GW_ITEM_PROCESS:
    case GW_ITEM_EXIT:
        break;
    default:
        return GW_OK;
    }
    gw_status st = gw_model_feed(memory->model, item, err);
    if (st == GW_OK && item->kind == GW_ITEM_EVENT)
        st = pass_event(memory, &item->event, err);
    else if (st == GW_OK && item->kind == GW_ITEM_EXIT)
        st = pass_usage(memory, item->t_ns, item->exit.pid, true, err);
    return st;
}
