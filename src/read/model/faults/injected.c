/* Follows what the program did after each injected failure, and counts the calls that the fence refused. */
#include "gwi_inner.h"

enum { INJECTIONS_MAX = 4096, FENCES_MAX = 1024 };

void gwi_injected_event(gw_model *model, gwi_process *process, const gw_event *event)
{
    model->injected_total++;
    model->injected_slow_ns += event->arg[2];
    if (model->injection_count >= INJECTIONS_MAX || !gwi_room(model, &model->injection, model->injection_count,
                                                              &model->inner->injection_capacity, sizeof(gw_injection)))
        return;
    gw_injection *made = &model->injection[model->injection_count++];
    *made = (gw_injection){.t_ns = event->t_ns,
                           .pid = event->pid,
                           .tid = event->tid,
                           .fn = event->fn,
                           .result = (uint16_t)event->arg[0],
                           .order = event->arg[1],
                           .slow_ns = event->arg[2],
                           .closes = event->arg[3] != 0};
    if (event->text != NULL)
        made->rule = gwi_copy_bytes(model, event->text, event->text_bytes);
    if (made->result != 0)
        process->injection_plus_1 = (uint32_t)model->injection_count;
}

void gwi_fence_event(gw_model *model, const gw_event *event)
{
    if (model->fence_count >= FENCES_MAX ||
        !gwi_room(model, &model->fence, model->fence_count, &model->inner->fence_capacity, sizeof(gw_fence)))
        return;
    model->fence[model->fence_count++] = (gw_fence){.t_ns = event->t_ns,
                                                    .pid = event->pid,
                                                    .fn = event->fn,
                                                    .result = (uint16_t)event->arg[0],
                                                    .ends = event->arg[1] != 0};
}

void gwi_fenced_call(gw_model *model, const gw_event *event)
{
    for (size_t i = model->fence_count; i-- > 0;)
        if (model->fence[i].pid == event->pid) {
            model->fence[i].refused_count++;
            return;
        }
}

/* True if the call only ends an object, as a program does before it stops, or is a failed query. */
static bool is_no_work(const gw_event *event)
{
#define ENDS(name, price, effect, ...)                                                                                 \
    GW_KIND_BIT(name, GW_EFFECT_##effect == GW_EFFECT_ENDS || GW_EFFECT_##effect == GW_EFFECT_ENDS_PRIMARY)
    return gw_kind_is_in(GW_KINDS(ENDS), event->kind) || event->kind == GW_EV_CALL;
#undef ENDS
}

static uint64_t bytes_of(const gw_event *event)
{
    return gw_is_request(event->kind) || gw_is_pinning(event->kind) ? event->arg[1] : 0;
}

/* True if the event repeats the injected call, and the thread did nothing else since. */
static bool is_retry_of(const gw_injection *injection, const gw_event *event, uint32_t site)
{
    bool is_first_work = injection->work_count == injection->retry_count && !injection->retry_succeeded;
    bool freed_first = injection->bytes > 0 && injection->release_count > 0;
    return injection->has_call && is_first_work && event->fn == injection->fn && bytes_of(event) == injection->bytes &&
           (site == injection->site || freed_first);
}

/* Take the event of the injected call itself. */
static void take_call(gw_model *model, gw_injection *injection, const gw_event *event, uint32_t site)
{
    injection->has_call = true;
    injection->site = site;
    injection->bytes = bytes_of(event);
    for (const gw_injection *before = injection; before-- > model->injection;)
        if (before->pid == injection->pid && before->tid == injection->tid && before->result != 0) {
            injection->is_retry = is_retry_of(before, event, site);
            return;
        }
}

void gwi_injected_call(gw_model *model, gwi_process *process, const gw_event *event)
{
    gw_injection *last = &model->injection[process->injection_plus_1 - 1];
    uint32_t site = model->inner->event_site;
    if (event->tid != last->tid)
        return;
    if (!last->has_call && event->fn == last->fn && (event->flags & GW_EVF_INJECTED) != 0) {
        take_call(model, last, event, site);
        return;
    }
    if (is_retry_of(last, event, site)) {
        last->t_retry_ns = last->retry_count++ == 0 ? event->t_ns : last->t_retry_ns;
        last->retry_succeeded = event->result == 0;
    } else if (is_no_work(event)) {
        last->release_count++;
        return;
    }
    last->work_count++;
    if (last->next_count < GW_INJECTED_NEXT_MAX)
        last->next[last->next_count++] = (gw_injected_next){event->fn, event->result, site, event->t_ns};
}
