/* What the hook tells about a rehearsal: see gw_model_facts.h. */
#include "gwi_inner.h"

#include "gw_array.h"

#include <string.h>

static gw_rehearsed *card_of(gw_model *model, uint32_t pid, uint64_t device)
{
    gw_rehearsal *it = &model->rehearsal;
    for (size_t i = 0; i < it->card_count; i++)
        if (it->card[i].pid == pid && (uint64_t)it->card[i].device == device)
            return &it->card[i];
    if (device > INT32_MAX || !gw_array_resize(&it->card, it->card_count + 1, sizeof *it->card)) {
        model->inner->nomem = model->inner->nomem || device <= INT32_MAX;
        return NULL;
    }
    it->card[it->card_count] = (gw_rehearsed){.pid = pid, .device = (int)device};
    return &it->card[it->card_count++];
}

static void limit(gw_model *model, const gw_event *event)
{
    gw_rehearsed *card = card_of(model, event->pid, event->arg[3]);
    if (card == NULL)
        return;
    card->limit_bytes = event->arg[1];
    card->real_bytes = event->arg[2];
    if (event->arg[3] >= GW_MODEL_DEVICES_MAX)
        return;
    model->device[event->arg[3]].has_limit = true;
    model->device[event->arg[3]].bytes_limit = event->arg[1];
}

static void peak(gw_model *model, const gw_event *event)
{
    gw_rehearsed *card = card_of(model, event->pid, event->arg[3]);
    if (card == NULL || event->arg[1] > UINT64_MAX - event->arg[2] || event->arg[1] + event->arg[2] <= card->peak_bytes)
        return;
    card->asked_bytes = event->arg[1];
    card->driver_bytes = event->arg[2];
    card->peak_bytes = card->asked_bytes + card->driver_bytes;
    card->t_peak_ns = event->t_ns;
    card->site_due = true;
}

static void refused(gw_model *model, const gw_event *event)
{
    gw_rehearsal *it = &model->rehearsal;
    if (event->text == NULL || it->refused_count == GW_REHEARSAL_REFUSED_MAX)
        return;
    for (size_t i = 0; i < it->refused_count; i++)
        if (strcmp(it->refused[i], event->text) == 0)
            return;
    it->refused[it->refused_count] = gwi_copy_text(model, event->text);
    it->refused_count += it->refused[it->refused_count] != NULL;
}

void gwi_rehearsal_event(gw_model *model, const gw_event *event)
{
    gw_rehearsal *it = &model->rehearsal;
    switch (event->arg[0]) {
    case GW_REHEARSAL_LIMIT:
        limit(model, event);
        break;
    case GW_REHEARSAL_PEAK:
        peak(model, event);
        break;
    case GW_REHEARSAL_REFUSED:
        refused(model, event);
        break;
    case GW_REHEARSAL_READ:
        if (model->inner->event_site != 0 && it->read_count < GW_REHEARSAL_READS_MAX)
            it->read_site[it->read_count++] = model->inner->event_site;
        break;
    case GW_REHEARSAL_TIMED:
        it->timed = true;
        break;
    case GW_REHEARSAL_STEADY:
        it->equal_iterations = event->arg[1];
        it->launches_each = event->arg[2];
        it->t_steady_ns = event->t_ns;
        break;
    case GW_REHEARSAL_TORCH:
        it->torch_live_bytes = event->arg[1];
        it->torch_reserved_bytes = event->arg[2];
        break;
    default:
        break;
    }
}

void gwi_rehearsal_request(gw_model *model, const gw_event *event)
{
    for (size_t i = 0; i < model->rehearsal.card_count; i++) {
        gw_rehearsed *card = &model->rehearsal.card[i];
        if (card->pid != event->pid || !card->site_due)
            continue;
        card->peak_site = model->inner->event_site;
        card->site_due = false;
    }
}
