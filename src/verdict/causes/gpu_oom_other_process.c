/* Somebody else holds the memory: with theirs the request would have fitted. */
#include "cause.h"

#include <inttypes.h>

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    const gwi_memory *memory = &c->memory;
    char bytes[GW_BYTES_TEXT_MAX], own[GW_BYTES_TEXT_MAX];
    if (!memory->known || memory->limit_is_framework || (memory->limit_is_guard && !memory->foreign_recorded))
        return GW_CERTAINTY_NONE;
    /* Without a word from the card: what is in use and not ours, less what contexts take. */
    const uint64_t context_bytes = (uint64_t)1 << 30;
    bool by_difference = !memory->foreign_known && memory->rest_known &&
                         memory->rest_bytes > context_bytes * (1 + memory->context_count) && memory->stream_count < 256;
    uint64_t foreign = memory->foreign_known ? memory->foreign_bytes : by_difference ? memory->rest_bytes : 0;
    if (foreign == 0 || foreign * 10 < memory->limit_bytes || !memory->has_free || !gwi_would_fit(memory, foreign) ||
        (memory->wanted_bytes == 0 && foreign * 4 < memory->limit_bytes))
        return GW_CERTAINTY_NONE;
    gw_bytes_text(bytes, foreign);
    if (memory->foreign_pid != 0)
        gwi_headline(finding, "another process (pid %" PRIu32 ") held %s of the GPU", memory->foreign_pid, bytes);
    else
        gwi_headline(finding, "%s of the GPU were in use by something that is not this program", bytes);
    gwi_say_request(c, finding);
    if (memory->foreign_pid != 0)
        gwi_measure(finding, memory->t_ns, memory->foreign_recorded ? "ledger" : "card", (double)foreign, "bytes",
                    "%s held by other processes, most by pid %" PRIu32 "%s%s", bytes, memory->foreign_pid,
                    memory->foreign_command[0] != '\0' ? ": " : "", memory->foreign_command);
    else
        gwi_measure(finding, memory->t_ns, "driver", (double)foreign, "bytes",
                    "%s in use that no recorded process asked for (total less free less our own)", bytes);
    gwi_measure(finding, memory->t_ns, "ledger", (double)memory->own_bytes, "bytes",
                "without that the request would have fitted: this process itself held %s",
                gw_bytes_text(own, memory->own_bytes));
    if (memory->foreign_pid != 0)
        gwi_next(finding, "End pid %" PRIu32 " (its whole process group), or wait for it", memory->foreign_pid);
    if (c->oom_last != NULL)
        gwi_say_consequences(c, finding, c->oom_last);
    if (by_difference)
        return memory->own_bytes * 2 < memory->limit_bytes ? GW_SUPPORTED : GW_HYPOTHESIS;
    return memory->own_bytes + memory->wanted_bytes <= memory->limit_bytes ? GW_ESTABLISHED : GW_SUPPORTED;
}

const gw_cause gwi_cause_gpu_oom_other_process = {
    .id = "gpu-oom-other-process",
    .summary = "Another process holds the GPU's memory.",
    .proof = "other processes held so much at the moment of the failure that without it the request would have fitted",
    .fixes = {[GW_FRAMEWORK_RAW] =
                  "Find the holders with nvidia-smi, or fuser -v /dev/nvidia* on the host, not in the container\n"
                  "End stale notebook kernels and orphaned workers: kill the process group\n"
                  "Choose another GPU with CUDA_VISIBLE_DEVICES, or let a scheduler give each job its own"},
    .judge = judge,
};
