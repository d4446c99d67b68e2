/* Stores the phases that the program named, and groups memory by the phase in which it was allocated. */
#include "gw_growth.h"
#include "gwi_inner.h"

#include <string.h>

enum { PHASES_MAX = 1 << 16 };

static uint64_t live_bytes(const gw_process *process)
{
    uint64_t bytes = 0;
    for (int device = 0; device < GW_MODEL_DEVICE_PLACES; device++)
        bytes += process->usage[device].live_bytes + process->usage[device].class_bytes[GW_CLASS_MANAGED];
    return bytes;
}

void gwi_phase_event(gw_model *model, gwi_process *process, const gw_event *event)
{
    /* count the first failure of the new phase as new, even if it equals the last failure */
    process->last_failure = -1;
    if (model->phase_count >= PHASES_MAX ||
        !gwi_room(model, &model->phase, model->phase_count, &model->inner->phase_capacity, sizeof(gw_phase)))
        return;
    gw_phase *phase = &model->phase[model->phase_count];
    *phase = (gw_phase){.t_ns = event->arg[0] <= event->t_ns ? event->t_ns - event->arg[0] : 0,
                        .pid = event->pid,
                        .live_bytes = live_bytes(&model->process[process->index])};
    if (event->text != NULL)
        phase->name = gwi_copy_bytes(model, event->text, event->text_bytes);
    model->phase_count++;
}

/* ---- order ---- */

static int by_time(const void *left, const void *right)
{
    const gw_phase *a = left, *b = right;
    if (a->pid != b->pid)
        return a->pid < b->pid ? -1 : 1;
    if (a->t_ns != b->t_ns)
        return a->t_ns < b->t_ns ? -1 : 1;
    return a->alike < b->alike ? -1 : a->alike > b->alike;
}

static int by_name(const void *left, const void *right)
{
    const gw_phase *a = *(const gw_phase *const *)left, *b = *(const gw_phase *const *)right;
    if (a->pid != b->pid)
        return a->pid < b->pid ? -1 : 1;
    int order = strcmp(a->name == NULL ? "" : a->name, b->name == NULL ? "" : b->name);
    if (order != 0)
        return order;
    if (a < b)
        return -1;
    return a > b;
}

static bool is_alike(const gw_phase *a, const gw_phase *b)
{
    return a->pid == b->pid && strcmp(a->name == NULL ? "" : a->name, b->name == NULL ? "" : b->name) == 0;
}

void gwi_phases_sort(gw_model *model)
{
    if (model->phase_count == 0)
        return;
    for (size_t i = 0; i < model->phase_count; i++)
        /* by_time() sorts phases with equal times by this index, so the later one counts */
        model->phase[i].alike = (uint32_t)i;
    qsort(model->phase, model->phase_count, sizeof *model->phase, by_time);
    gw_phase **order = malloc(model->phase_count * sizeof *order);
    if (order == NULL) {
        model->inner->nomem = true;
        return;
    }
    for (size_t i = 0; i < model->phase_count; i++)
        order[i] = &model->phase[i];
    qsort(order, model->phase_count, sizeof *order, by_name);
    for (size_t i = 0, first = 0; i < model->phase_count; i++) {
        if (!is_alike(order[i], order[first]))
            first = i;
        order[i]->alike = (uint32_t)(order[first] - model->phase);
    }
    free(order);
}

const gw_phase *gw_model_phase_at(const gw_model *model, uint32_t pid, uint64_t t_ns)
{
    size_t low = 0, high = model->phase_count; /* the index of the first phase after `t_ns` is in low..high */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const gw_phase *phase = &model->phase[middle];
        if (phase->pid < pid || (phase->pid == pid && phase->t_ns <= t_ns))
            low = middle + 1;
        else
            high = middle;
    }
    const gw_phase *found = low == 0 ? NULL : &model->phase[low - 1];
    return found == NULL || found->pid != pid || found->name == NULL ? NULL : found;
}

/* ---- kept memory ---- */

static void kept_add(gw_kept *kept, const gw_live *live)
{
    if (kept->count == 0 || live->t_ns < kept->t_first_ns)
        kept->t_first_ns = live->t_ns;
    if (kept->count == 0 || live->t_ns > kept->t_last_ns)
        kept->t_last_ns = live->t_ns;
    kept->count++;
    kept->bytes += live->bytes;
}

static int by_bytes(const void *left, const void *right)
{
    const gw_kept *a = left, *b = right;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    return a->t_first_ns < b->t_first_ns ? -1 : a->t_first_ns > b->t_first_ns;
}

static bool names_phases(const gw_model *model, uint32_t pid)
{
    for (size_t i = 0; i < model->phase_count; i++) {
        if (model->phase[i].pid == pid && model->phase[i].name != NULL)
            return true;
    }
    return false;
}

size_t gw_model_kept(const gw_model *model, uint32_t pid, const gw_live *live, size_t count, gw_kept *ret_kept,
                     size_t room)
{
    if (!names_phases(model, pid))
        return 0;
    /* One group for each phase. Two more are for blocks allocated outside all phases, and for blocks with an unknown
     * allocation time. */
    size_t groups = model->phase_count + 2;
    gw_kept *kept = calloc(groups, sizeof *kept);
    if (kept == NULL)
        return 0;
    for (size_t i = 0; i < count; i++) {
        bool known = live[i].has_time;
        const gw_phase *phase = known ? gw_model_phase_at(model, pid, live[i].t_ns) : NULL;
        size_t at;
        if (phase != NULL)
            at = phase->alike;
        else if (known)
            at = groups - 2;
        else
            at = groups - 1;
        kept[at].phase = phase == NULL ? NULL : &model->phase[at];
        kept[at].time_known = known;
        kept_add(&kept[at], &live[i]);
    }
    qsort(kept, groups, sizeof *kept, by_bytes);
    size_t found = 0;
    while (found < room && found < groups && kept[found].count > 0) {
        ret_kept[found] = kept[found];
        found++;
    }
    free(kept);
    return found;
}
