/* Determines what was observed of a run. A verdict rules out an explanation only if everything was observed that could
 * confirm it. */
#include "gwi_cause.h"

#include <string.h>

static bool has_calls(const gw_process *process)
{
    return process->t_first_call_ns != 0 || process->init_ok;
}

size_t gwi_observed_count(const gw_model *model)
{
    size_t count = 0;
    for (size_t i = 0; i < model->process_count; i++)
        count += has_calls(&model->process[i]);
    return count;
}

static bool is_unseen_driver(const gw_pair *fact)
{
    return fact->what == GW_FACT_UNOBSERVED_DRIVER || fact->what == GW_FACT_UNOBSERVED_PROGRAM ||
           fact->what == GW_FACT_RECORDING_STOPPED ||
           (fact->what == GW_FACT_DOORS_CLOSED && strcmp(fact->value, "no driver") != 0);
}

static bool is_unseen(const gw_pair *fact)
{
    return is_unseen_driver(fact) || fact->what == GW_FACT_UNOBSERVED_CHILD || fact->what == GW_FACT_UNOBSERVED_NESTED;
}

static const gw_pair *find(const gw_model *model, size_t first, bool (*is_wanted)(const gw_pair *fact))
{
    for (size_t i = first; i < model->fact_count; i++)
        if (model->fact[i].value != NULL && is_wanted(&model->fact[i]))
            return &model->fact[i];
    return NULL;
}

const gw_pair *gwi_unseen(const gw_model *model, const gw_pair *after)
{
    return find(model, after == NULL ? 0 : (size_t)(after - model->fact) + 1, is_unseen);
}

const gw_pair *gwi_unseen_driver(const gw_model *model)
{
    return find(model, 0, is_unseen_driver);
}

/* ---- what can be ruled out ---- */

bool gwi_is_whole(const gw_model *model)
{
    bool is_whole = !model->truncated && model->damaged_count == 0;
    for (size_t i = 0; i < model->process_count; i++)
        is_whole = is_whole && model->process[i].lost_failures == 0 && model->process[i].lost_threads == 0;
    return is_whole;
}

bool gwi_lost_after(const gwi_case *c, uint64_t t_ns)
{
    return c->model->damaged_count > 0 ||
           (c->process != NULL && c->process->lost_events > 0 && c->process->t_lost_ns >= t_ns);
}

static bool is_process_observed(const gwi_case *c)
{
    if (gw_model_meta(c->model, GW_META_SNAPSHOT) != NULL)
        return true; /* PyTorch saved the state of its allocator, and the claim is about this state */
    return c->process != NULL && has_calls(c->process) && !c->process->is_several && c->process->lost_events == 0;
}

bool gwi_is_observed(const gwi_case *c, gwi_concerns concerns)
{
    if (!gwi_is_whole(c->model))
        return false;
    switch (concerns) {
    case GWI_OF_MACHINE:
        return true;
    case GWI_OF_PROCESS:
        return is_process_observed(c);
    case GWI_OF_RUN:
        return gwi_observed_count(c->model) > 0 && gwi_unseen(c->model, NULL) == NULL;
    }
    return false;
}
