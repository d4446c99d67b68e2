/* Report environment variables that slow programs down or make them fail. They are often left over from debugging. */
#include "gwi_doctor.h"

#include "gw_text.h"

#include <stdio.h>
#include <string.h>

static const char section[] = "environment";

/* A row applies if the value of the variable `name` is `when`. If `when` is NULL, the row applies to any value except
 * "" and "0". */
static const struct {
    const char *name, *when;
    const char *text;
} knobs[] = {
    {"CUDA_LAUNCH_BLOCKING", NULL, "every launch blocks: several times slower"},
    {"CUDA_DISABLE_JIT", NULL, "PTX is not compiled: modules without native code fail (223)"},
    {"CUDA_FORCE_PTX_JIT", NULL, "native code is ignored: every start compiles PTX"},
    {"CUDA_ENABLE_COREDUMP_ON_EXCEPTION", NULL, "a GPU exception writes a dump and ends the program"},
    {"CUDA_CACHE_DISABLE", NULL, "compiled PTX is not cached: every start compiles it again"},
    {"CUDA_MODULE_LOADING", "EAGER",
     "all kernels are loaded at the start, which is slower and takes hundreds of MiB of GPU memory"},
    {"PYTORCH_NO_CUDA_MEMORY_CACHING", NULL, "PyTorch calls the driver for every tensor: very slow"},
    {"NCCL_P2P_DISABLE", NULL, "copies between cards go through the host: slower"},
    {"NCCL_IB_DISABLE", NULL, "InfiniBand is not used: communication between hosts is slower"},
    {"NCCL_SHM_DISABLE", NULL, "processes on one host communicate over the network"},
    {"NCCL_DEBUG", "TRACE", "NCCL logs every operation"},
    {"NVIDIA_TF32_OVERRIDE", "0", "TF32 is off: matrix products in FP32 are several times slower"},
    {"TF_GPU_ALLOCATOR", "cuda_malloc", "TensorFlow calls the driver for every tensor: very slow"},
};

void gwi_check_environment(const gw_facts *facts, gw_checkup *checkup)
{
    const char *mask = gw_facts_get(facts, "env.CUDA_VISIBLE_DEVICES");
    size_t before = checkup->count;
    if (mask != NULL && (mask[0] == '\0' || gw_begins(mask, "-1") || strcmp(mask, "NoDevFiles") == 0))
        gwi_check(checkup, section, "no-device-visible", GW_CHECK_FAIL, "unset CUDA_VISIBLE_DEVICES",
                  "CUDA_VISIBLE_DEVICES=\"%s\" hides all cards", mask);
    for (size_t i = 0; i < sizeof knobs / sizeof knobs[0]; i++) {
        const char *value = gw_facts_getf(facts, "env.%s", knobs[i].name);
        bool set = value != NULL && (knobs[i].when != NULL ? strcmp(value, knobs[i].when) == 0
                                                           : value[0] != '\0' && strcmp(value, "0") != 0);
        if (set) {
            char todo[96];
            snprintf(todo, sizeof todo, "unset %s, unless it is intended", knobs[i].name);
            gwi_check(checkup, section, "debug-knob-left-on", GW_CHECK_WARN, todo, "%s=%.100s: %s", knobs[i].name,
                      value, knobs[i].text);
        }
    }
    if (checkup->count == before)
        gwi_check(checkup, section, "debug-knob-left-on", GW_CHECK_PASS, NULL,
                  "no variable that slows programs down is set");
}
