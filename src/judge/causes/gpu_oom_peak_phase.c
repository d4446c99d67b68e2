/* A late phase needs more memory than the earlier ones. Examples are validation that keeps the autograd graph, the
 * first optimizer step, and a checkpoint loaded onto the GPU.
 *
 * Never established: a peak that was level and then rose does not show why more memory was needed. It makes the cause
 * supported at most. */
#include "gwi_cause.h"
#include "gwi_plateau.h"

#include <inttypes.h>

static gw_certainty judge_observed(const gwi_case *c, gwi_finding *finding)
{
    const gwi_memory *memory = &c->memory;
    gwi_plateau plateau;
    char text[GW_BYTES_TEXT_MAX], own[GW_BYTES_TEXT_MAX];
    if (!gwi_find_plateau(memory->report, &plateau) || memory->own_bytes < plateau.bytes + plateau.bytes / 4)
        return GW_CERTAINTY_NONE;
    if (gwi_cache_is_much(memory))
        return GW_CERTAINTY_NONE;
    /* If the request was first refused while the peak was still level, a later phase is not the reason. */
    if (c->oom != NULL && c->oom->repeat_count > 1 && c->oom->t_ns < plateau.end_ns)
        return GW_CERTAINTY_NONE;
    /* The phase itself must have filled the card. If the card is nearly empty and a single request is too large, that
     * request is not a phase. */
    if (memory->own_bytes < memory->limit_bytes / 2)
        return GW_CERTAINTY_NONE;
    /* The phase must have made many requests. One request as large as all the others together is a step with a larger
     * input, not a phase. */
    if (memory->wanted_bytes > (memory->own_bytes - plateau.bytes) / 4)
        return GW_CERTAINTY_NONE;
    gw_bytes_text(text, plateau.bytes);
    const char *name = gwi_later_phase(c, plateau.end_ns / 2);
    gwi_headline(finding, "%s%s needs more memory than all earlier phases, which needed at most %s (until %.1f s)",
                 name == NULL ? "a later phase" : "phase ", name == NULL ? "" : name, text,
                 (double)plateau.end_ns / 1e9);
    gwi_say_request(c, finding);
    gwi_measure(finding, plateau.end_ns, "observer", (double)plateau.bytes, "bytes",
                "until %.2f s the peak stayed near %s; then it rose to %s", (double)plateau.end_ns / 1e9, text,
                gw_bytes_text(own, memory->own_bytes));
    size_t later = 0; /* index of the first block after the level; blocks are sorted by time */
    while (later < memory->live_count && memory->live[later].t_ns <= plateau.end_ns)
        later++;
    gwi_say_holder(c, finding, memory->t_ns, "observer", memory->live + later, memory->live_count - later,
                   "the memory allocated after that");
    return GW_SUPPORTED;
}

static gw_certainty judge_ledger(const gwi_case *c, gwi_finding *finding)
{
    const gwi_memory *memory = &c->memory;
    const gw_growth *growth = &memory->growth;
    char first[GW_BYTES_TEXT_MAX], last[GW_BYTES_TEXT_MAX];
    if (c->framework != GW_FRAMEWORK_RAW || growth->span_count != 2 || growth->repeats || growth->steps ||
        growth->last_bytes * 2 < growth->first_bytes || !gwi_would_fit(memory, growth->last_bytes))
        return GW_CERTAINTY_NONE;
    /* If one block is much larger than all others, that block explains the failure better. */
    if (growth->largest_bytes * 3 >= memory->own_bytes)
        return GW_CERTAINTY_NONE;
    gw_bytes_text(last, growth->last_bytes);
    const char *name = gwi_later_phase(c, growth->first_begin_ns);
    gwi_headline(finding, "%s%s needs %s more than the earlier phases, which succeeded",
                 name == NULL ? "a later phase" : "phase ", name == NULL ? "" : name, last);
    gwi_say_request(c, finding);
    gwi_measure(finding, growth->last_begin_ns, "ledger", (double)growth->last_bytes, "bytes",
                "%s was allocated from %.2f s on, after work that kept no memory; before that, %s was enough", last,
                (double)growth->last_begin_ns / 1e9, gw_bytes_text(first, growth->first_bytes));
    gwi_say_holder(c, finding, memory->t_ns, "ledger", memory->live + growth->first_count,
                   memory->live_count - growth->first_count, "these");
    return GW_HYPOTHESIS; /* without call sites, it is not known what allocated the memory */
}

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    const gwi_memory *memory = &c->memory;
    if (!memory->known || (c->oom == NULL && c->sticky != NULL) || memory->growth.steps || memory->growth.repeats)
        return GW_CERTAINTY_NONE;
    gw_certainty certainty = judge_observed(c, finding);
    if (certainty == GW_CERTAINTY_NONE)
        certainty = judge_ledger(c, finding);
    if (certainty != GW_CERTAINTY_NONE)
        gwi_say_memory_ruled_out(c, finding, GWI_NOT_FOREIGN | GWI_NOT_FRAGMENTED | GWI_NOT_GROWTH);
    return certainty;
}

const gw_cause gwi_cause_gpu_oom_peak_phase = {
    .id = "gpu-oom-peak-phase",
    .summary = "One phase needs more memory than the rest: validation, the first optimizer step, loading a checkpoint.",
    .proof = "a peak of live memory that was flat for most of the run, and a failing phase that needs far more",
    .fixes = {[GW_FRAMEWORK_RAW] = "Free the memory of the earlier phase before the later one begins\n"
                                   "Use a smaller batch in that phase",
              [GW_FRAMEWORK_TORCH] = "Wrap validation in torch.inference_mode() or torch.no_grad()\n"
                                     "Load checkpoints with torch.load(map_location=\"cpu\")\n"
                                     "Use a smaller batch for evaluation; sort or limit lengths"},
    .judge = judge,
};
