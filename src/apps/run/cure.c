/* The search for cures: a replay of PyTorch's allocations with other settings. */
#include "gwi_cure.h"

#include "gw_model_replay.h"
#include "gw_whatif.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A leak fills any card: a setting would only delay the failure. */
static bool can_be_cured(const gw_verdict *verdict)
{
    return verdict->cause != NULL && strncmp(verdict->cause, "gpu-oom", 7) == 0 &&
           strcmp(verdict->cause, "gpu-oom-leak") != 0;
}

/* Replay the allocations before the refused request. Returns false if the replay is not equal to the recording. */
static bool replay(const gw_model *model, gw_whatif *whatif)
{
    const gw_allocator_report *report = gw_model_replay_report(model);
    gw_replay_input input = {0};
    gw_whatif_options options = {.version = model->torch_version};
    if (report == NULL || !report->is_oom || gw_model_replay_input(model, report, &input, NULL) != GW_OK)
        return false;
    gw_status st = gw_whatif_make(&input, &options, whatif, NULL);
    gw_replay_input_free(&input);
    return st == GW_OK && whatif->check.is_exact && whatif->room_is_sure;
}

/* Settings that the user made stay; the new one comes last, and the last one counts. */
static bool write_value(const gw_whatif_row *row, const gw_model *model, gwi_cure *cure)
{
    char key[sizeof cure->name + 4];
    snprintf(cure->name, sizeof cure->name, "%s", gw_whatif_variable(model->torch_version));
    snprintf(key, sizeof key, "env.%s", cure->name);
    const char *now = gw_model_meta(model, key);
    if (now == NULL) /* PyTorch reads the old name only if the new one is not set */
        now = gw_model_meta(model, "env.PYTORCH_CUDA_ALLOC_CONF");
    bool is_set = now != NULL && now[0] != '\0';
    int bytes = snprintf(cure->value, sizeof cure->value, "%s%s%s", is_set ? now : "", is_set ? "," : "", row->name);
    return bytes > 0 && (size_t)bytes < sizeof cure->value;
}

static bool find(const gw_model *model, gwi_cure *cure)
{
    gw_whatif *whatif = calloc(1, sizeof *whatif); /* large */
    const gw_whatif_row *row = whatif != NULL && replay(model, whatif) ? gw_whatif_cure(whatif) : NULL;
    bool found = row != NULL && row->is_setting && !row->needs_fraction && write_value(row, model, cure);
    if (found) {
        cure->peak_bytes = row->result.reserved_most;
        cure->peak_bytes_before = whatif->unlimited.reserved_most;
    }
    free(whatif);
    return found;
}

static bool find_by_replay(const char *recording, const gw_verdict *verdict, gwi_cure *ret_cure)
{
    gw_reader *reader = NULL;
    gw_model *model = NULL;
    if (!can_be_cured(verdict) || gw_reader_open(recording, &reader, NULL) != GW_OK)
        return false;
    bool found = gw_model_build(reader, &model, NULL) == GW_OK && find(model, ret_cure);
    gw_model_free(model);
    gw_reader_close(reader);
    return found;
}

gwi_cure_find_fn *const gwi_cure_find = find_by_replay;
