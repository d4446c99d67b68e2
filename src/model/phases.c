/* Phases that the program names itself (gpuwhy.h): from each mark to the next one of the same process. */
#include "inner.h"

enum { PHASES_MAX = 1 << 16 };

void gwi_phase_event(gw_model *model, const gw_event *event)
{
    if (model->phase_count >= PHASES_MAX ||
        !gwi_room(model, &model->phase, model->phase_count, &model->inner->phase_capacity, sizeof(gw_phase)))
        return;
    bool named = event->text != NULL && event->text_bytes > 0;
    char *name = named ? gwi_copy_text(model, event->text) : NULL;
    if (named && name == NULL)
        return;
    model->phase[model->phase_count++] = (gw_phase){event->t_ns, event->pid, name};
}

void gwi_phases_free(gw_model *model)
{
    for (size_t i = 0; i < model->phase_count; i++)
        free(model->phase[i].name);
    free(model->phase);
}

const char *gw_model_phase(const gw_model *model, uint32_t pid, uint64_t t_ns)
{
    for (size_t i = model->phase_count; i-- > 0;) {
        if (model->phase[i].pid == pid && model->phase[i].t_ns <= t_ns)
            return model->phase[i].name;
    }
    return NULL;
}
