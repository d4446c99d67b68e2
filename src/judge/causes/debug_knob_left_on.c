/* A debugging setting was switched on. This is not a fault.
 *
 * Never established: this is advice and never the cause of a failure. */
#include "gwi_cause.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *on;
    const char *what;
} knobs[] = {
    {"CUDA_LAUNCH_BLOCKING", "1", "the program waits for every launch"},
    {"NCCL_P2P_DISABLE", "1", "cards do not copy directly to each other"},
    {"NCCL_SHM_DISABLE", "1", "processes on one machine communicate over the network"},
    {"NCCL_IB_DISABLE", "1", "InfiniBand is not used"},
    {"NVIDIA_TF32_OVERRIDE", "0", "the matrix units may not use TF32"},
    {"PYTORCH_NO_CUDA_MEMORY_CACHING", "1", "every tensor is a separate driver allocation"},
    {"CUDA_DEVICE_WAITS_ON_EXCEPTION", "1", "a GPU fault stops the program until a debugger attaches"},
    {"TORCH_DISTRIBUTED_DEBUG", "DETAIL", "collectives are checked against each other"},
};

static bool has_launched(const gw_model *model)
{
    for (size_t i = 0; i < model->process_count; i++)
        if (gw_launches(model->process[i].counter) > 0)
            return true;
    return false;
}

static bool advise(const gwi_case *c, gw_string_list *advice)
{
    bool good = true;
    if (!c->ended || c->bad_end || c->sticky != NULL || !has_launched(c->model))
        return true;
    for (size_t i = 0; i < sizeof knobs / sizeof knobs[0] && good; i++) {
        char key[96];
        snprintf(key, sizeof key, "env.%s", knobs[i].name);
        const char *value = gw_model_meta(c->model, key);
        if (value != NULL && strcmp(value, knobs[i].on) == 0)
            good = gwi_list_addf(advice, "debug-knob-left-on: %s=%s: %s; unset it for real runs", knobs[i].name, value,
                                 knobs[i].what);
    }
    return good;
}

const gw_cause gwi_cause_debug_knob_left_on = {
    .id = "debug-knob-left-on",
    .summary = "A debugging setting slows the program down. Advice, never a fault.",
    .proof = "the environment variables of the run",
    .fixes = {[GW_FRAMEWORK_RAW] = "Unset it, except while you debug"},
    .advise = advise,
};
