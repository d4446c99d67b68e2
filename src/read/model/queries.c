/* Functions that look up or compute a value from the model's facts alone. */
#include "gwi_inner.h"

#include "gw_text.h"

#include <stdio.h>
#include <string.h>

GW_WORDS(gw_class_text, gw_class, GW_CLASSES, "memory")

bool gw_class_has_addresses(gw_class cls)
{
    switch (cls) {
    case GW_CLASS_PLAIN:
    case GW_CLASS_PITCHED:
    case GW_CLASS_POOL:
    case GW_CLASS_MANAGED:
    case GW_CLASS_IMPORT:
    case GW_CLASS_MAPPING:
        return true;
    default:
        return false;
    }
}

const char *gw_model_fn_name(const gw_model *model, uint16_t fn)
{
    return fn < model->inner->fn_names.count ? model->inner->fn_names.item[fn] : "?";
}

const gw_process *gw_model_process(const gw_model *model, uint32_t pid)
{
    const gwi_process *process = gwi_process_known(model, pid);
    return process == NULL ? NULL : &model->process[process->index];
}

static const gw_thread *thread_at(const gw_model *model, uint32_t plus_1)
{
    return plus_1 == 0 ? NULL : &model->thread[plus_1 - 1];
}

const gw_thread *gw_model_first_thread(const gw_model *model, uint32_t pid)
{
    const gwi_pid *entry = gwi_pid_find(model, pid);
    return entry == NULL ? NULL : thread_at(model, entry->thread_plus_1);
}

const gw_thread *gw_model_next_thread(const gw_model *model, const gw_thread *thread)
{
    return thread_at(model, thread->next_plus_1);
}

static const gw_failure *failure_at(const gw_model *model, uint32_t plus_1)
{
    return plus_1 == 0 ? NULL : &model->failure[plus_1 - 1];
}

const gw_failure *gw_model_first_failure(const gw_model *model, uint32_t pid)
{
    const gwi_pid *entry = gwi_pid_find(model, pid);
    return entry == NULL ? NULL : failure_at(model, entry->failure_plus_1);
}

const gw_failure *gw_model_next_failure(const gw_model *model, const gw_failure *failure)
{
    return failure_at(model, failure->next_plus_1);
}

const char *gw_model_meta(const gw_model *model, const char *key)
{
    for (size_t i = 0; i < model->meta_count; i++) {
        if (model->meta[i].key != NULL && strcmp(model->meta[i].key, key) == 0)
            return model->meta[i].value;
    }
    return NULL;
}

const gw_pair *gw_model_fact(const gw_model *model, gw_fact_key what)
{
    for (size_t i = 0; i < model->fact_count; i++) {
        if (model->fact[i].what == what)
            return &model->fact[i];
    }
    return NULL;
}

char *gw_device_text(char out[GW_DEVICE_TEXT_MAX], int device)
{
    if (device < GW_MODEL_DEVICES_MAX)
        snprintf(out, GW_DEVICE_TEXT_MAX, "GPU %d", device);
    else
        snprintf(out, GW_DEVICE_TEXT_MAX, "a GPU beyond the first %d", GW_MODEL_DEVICES_MAX);
    return out;
}

gw_framework gw_model_framework(const gw_model *model)
{
    for (int i = GW_FRAMEWORK_TORCH; i < GW_FRAMEWORK_COUNT; i++) {
        if (model->framework_mapped[i])
            return (gw_framework)i;
    }
    return GW_FRAMEWORK_RAW;
}

bool gw_model_device_limit(const gw_model *model, int device, uint64_t *ret_bytes)
{
    const gw_device *it = &model->device[device < 0 ? 0 : gwi_device_place((uint64_t)device)];
    if (!it->has_limit && !it->has_total)
        return false;
    *ret_bytes = it->has_limit ? it->bytes_limit : it->bytes_total;
    return true;
}
