/* Replays PyTorch's allocator with other settings, for the verdict. */
#include "gwi_whatif.h"

#include "gw_model_replay.h"
#include "gw_whatif.h"

#include <stdio.h>
#include <stdlib.h>

/* Replay. Returns false unless the replay is equal to the recording and its memory is sure. */
static bool replay(const gwi_case *c, gw_whatif *whatif)
{
    const gw_allocator_report *report = c->memory.report;
    gw_replay_input input = {0};
    gw_whatif_options options = {.version = c->model->torch_version};
    if (gw_model_replay_input(c->model, report, &input, NULL) != GW_OK)
        return false;
    size_t *phases = gw_model_replay_phases(c->model, report, &input, &options.phase_count);
    options.phase = phases;
    gw_status st = gw_whatif_make(&input, &options, whatif, NULL);
    free(phases);
    gw_replay_input_free(&input);
    return st == GW_OK && whatif->check.is_exact && whatif->room_is_sure;
}

static void add_cure(const gwi_case *c, gwi_finding *finding, const gw_whatif *whatif, const gw_whatif_row *cure)
{
    char peak[GW_BYTES_TEXT_MAX], instead[GW_BYTES_TEXT_MAX], what[GW_WHATIF_NAME_MAX + 64];
    const char *name = gw_whatif_variable(c->model->torch_version), *now = NULL;
    char key[64];
    snprintf(key, sizeof key, "env.%s", name);
    now = gw_model_meta(c->model, key);
    if (!cure->is_setting)
        snprintf(what, sizeof what, "Call %s", cure->name);
    else if (now != NULL && now[0] != '\0')
        snprintf(what, sizeof what, "Add %s to %s", cure->name, name);
    else
        snprintf(what, sizeof what, "Set %s=%s", name, cure->name);
    gwi_next(finding, "%s%s: replayed, this run peaks at %s instead of %s reserved and is not refused", what,
             cure->needs_fraction ? ", and call torch.cuda.set_per_process_memory_fraction(1.0)" : "",
             gw_bytes_text(peak, cure->result.reserved_most), gw_bytes_text(instead, whatif->unlimited.reserved_most));
}

bool gwi_say_whatif(const gwi_case *c, gwi_finding *finding, bool is_leak)
{
    gw_whatif whatif;
    char sentence[GW_WHATIF_TEXT_MAX];
    const gw_allocator_report *report = c->memory.report;
    if (report == NULL || !report->is_oom || !replay(c, &whatif))
        return false;
    const gw_whatif_row *cure = gw_whatif_cure(&whatif);
    gw_whatif_sentence(sentence, &whatif);
    uint64_t peak_bytes = cure != NULL ? cure->result.reserved_most : whatif.need_bytes;
    gwi_measure(finding, report->t_ns, "replay", (double)peak_bytes, "bytes", "%s%s", sentence,
                cure != NULL && is_leak ? ", but as the program keeps memory, it would only have failed later" : "");
    if (c->memory.cached_bytes >= c->memory.wanted_bytes)
        gwi_weigh(finding, GW_WEIGHT_DECIDES);
    if (cure != NULL && !is_leak)
        add_cure(c, finding, &whatif, cure);
    return true;
}
