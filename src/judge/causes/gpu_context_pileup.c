/* All workers use one GPU while another GPU is idle.
 *
 * Established only by: a refused request on a GPU where three or more processes of this run have a context. All of this
 * must be true, too:
 * - Another GPU has no context of this run.
 * - The other processes hold at least as much memory as this process.
 * - This process alone would have fitted.
 * - The request would have fitted without the others.
 * - This process has no leak larger than the memory of the others.
 * Supported by: a weaker case. There are only two processes, which may share a card on purpose. Or the others hold
 * only half as much memory as this process. Or this process might not have fitted alone. */
#include "gwi_cause.h"

#include <inttypes.h>

/* Decide whether the other processes are the cause. The last request of a leak is small, and may fit if the others
 * hold a little less. So this process must fit alone, and must not leak more than the others hold. */
static gw_certainty certainty_of(const gwi_case *c, uint32_t processes)
{
    enum { MANY = 3 }; /* two processes may share a card on purpose */
    const gwi_memory *memory = &c->memory;
    if (!memory->foreign_known || !gwi_would_fit(memory, memory->foreign_bytes) ||
        gwi_may_leak_more(memory, memory->foreign_bytes))
        return GW_HYPOTHESIS;
    bool alone_fits = memory->limit_bytes != 0 && memory->own_bytes + memory->wanted_bytes <= memory->limit_bytes;
    if (memory->foreign_bytes * 2 < memory->own_bytes)
        return GW_HYPOTHESIS;
    bool is_less = memory->foreign_bytes < memory->own_bytes;
    return processes >= MANY && alone_fits && !is_less ? GW_ESTABLISHED : GW_SUPPORTED;
}

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    const gw_failure *oom = c->oom_last;
    const gwi_memory *memory = &c->memory;
    char others[GW_BYTES_TEXT_MAX];
    if (oom == NULL || oom->around.process_count < 2 || oom->around.devices_idle == 0 ||
        oom->device == GW_MODEL_DEVICE_BEYOND)
        return GW_CERTAINTY_NONE;
    int idle = 0;
    while ((oom->around.devices_idle >> idle & 1) == 0)
        idle++;
    gwi_headline(finding, "%" PRIu32 " processes of this run have a context on GPU %d while GPU %d is idle",
                 oom->around.process_count, memory->device, idle);
    gwi_say_request(c, finding);
    gwi_measure(finding, oom->t_ns, "ledger", (double)oom->around.process_count, "count",
                "%" PRIu32 " processes of this run had a context on GPU %d at that moment", oom->around.process_count,
                memory->device);
    gwi_measure(finding, oom->t_ns, "ledger", (double)oom->around.other_bytes_total, "bytes",
                "the others held %s of its memory; pid %" PRIu32 " held most of that",
                gw_bytes_text(others, oom->around.other_bytes_total), oom->around.other_pid);
    gwi_evidence(finding, oom->t_ns, "ledger", "no process of this run had a context on GPU %d", idle);
    gwi_say_memory_ruled_out(c, finding, GWI_NOT_FRAGMENTED | GWI_NOT_GROWTH);
    gwi_say_consequences(c, finding, oom);
    return certainty_of(c, oom->around.process_count);
}

const gw_cause gwi_cause_gpu_context_pileup = {
    .id = "gpu-context-pileup",
    .summary = "Many processes of one run use the same GPU while another GPU is idle.",
    .proof = "a failed allocation on a GPU where several processes of the run have a context, the others hold most of "
             "the memory and this process alone would have fitted, and another visible GPU without a context",
    .fixes = {[GW_FRAMEWORK_RAW] = "Give each worker its own GPU: choose the device by the local rank before the first "
                                   "call, or set CUDA_VISIBLE_DEVICES for each",
              [GW_FRAMEWORK_TORCH] = "Call torch.cuda.set_device(local_rank) before any other CUDA call\n"
                                     "Load checkpoints with map_location; do not use CUDA in DataLoader workers\n"
                                     "Or set CUDA_VISIBLE_DEVICES for each rank"},
    .excludes = "gpu-oom-other-process", /* the other processes are workers of this run */
    .judge = judge,
};
