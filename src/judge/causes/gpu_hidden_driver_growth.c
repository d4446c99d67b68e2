/* The driver itself took memory of the card, for kernels' local memory, graphs or communicators, for example. No call
 * requested this memory.
 *
 * Never established: this memory is only a difference of two numbers. Nothing shows which part of the driver holds
 * it. */
#include "gwi_cause.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { STREAMS_MANY = 64 };
static const uint64_t growth_min = 512u << 20;

static bool has_managed(const gw_process *process, int device)
{
    return process->usage[device].class_made[GW_CLASS_MANAGED] != 0;
}

/* True if no other process was recorded as a holder of the cards at any time of the run. A process that has ended may
 * have held memory before. */
static bool is_alone(const gwi_case *c)
{
    for (size_t i = 0; i < c->model->machine.holder_count; i++) {
        const gw_holder *holder = &c->model->machine.holder[i];
        bool is_this =
            holder->what == GW_FACT_CARD_HOLDER && holder->fact.has_pid && holder->fact.pid == c->process->pid;
        if (holder->what != GW_FACT_DEVICE_HOLDER && !is_this)
            return false;
    }
    return true;
}

/* Compute a lower bound of the driver's growth. It is the memory in use outside the ledger and other processes,
 * minus all memory in use when the device was first seen. Returns false if other processes, managed memory or
 * objects may explain the growth. */
static bool find_growth(const gwi_case *c, uint64_t *ret_bytes, uint64_t *ret_first)
{
    const gwi_memory *m = &c->memory;
    if (!m->known || m->has_losses || m->has_gaps || m->from_stderr || !m->rest_known || !m->foreign_known ||
        m->limit_is_guard || !m->has_total || m->device < 0 || m->device >= GW_MODEL_DEVICES_MAX ||
        c->process == NULL || c->oom_last == NULL)
        return false;
    const gw_device *device = &c->model->device[m->device];
    if (device->bytes_free_first == 0 || device->bytes_free_first > m->total_bytes || device->t_first_ns >= m->t_ns ||
        c->oom_last->around.process_count > 1 || has_managed(c->process, m->device) || m->made_context_count > 0 ||
        m->stream_count > STREAMS_MANY || !is_alone(c))
        return false;
    *ret_first = m->total_bytes - device->bytes_free_first;
    *ret_bytes = m->rest_bytes > *ret_first ? m->rest_bytes - *ret_first : 0;
    return true;
}

static void say_suspects(const gwi_case *c, gwi_finding *finding)
{
    const gw_usage *usage = &c->process->usage[c->memory.device];
    uint64_t graphs = usage->class_count[GW_CLASS_GRAPH_EXEC], modules = usage->class_count[GW_CLASS_MODULE];
    if (graphs > 0)
        gwi_measure(finding, c->memory.t_ns, "ledger", (double)graphs, "count",
                    "%" PRIu64 " executable graph%s alive: each has its own memory", graphs, GWI_PLURAL(graphs));
    if (modules > 0)
        gwi_measure(finding, c->memory.t_ns, "ledger", (double)modules, "count",
                    "%" PRIu64 " module%s loaded: a kernel with much local memory enlarges the stack of all threads of "
                    "the card, and the stack never shrinks",
                    modules, GWI_PLURAL(modules));
}

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    const gwi_memory *m = &c->memory;
    uint64_t growth = 0, first = 0;
    char text[GW_BYTES_TEXT_MAX], before[GW_BYTES_TEXT_MAX];
    if (!find_growth(c, &growth, &first) || growth < growth_min || growth < m->total_bytes / 10 ||
        !gwi_would_fit(m, growth))
        return GW_CERTAINTY_NONE;
    gwi_headline(finding,
                 "during the run, the driver itself took at least %s of the card's memory that no call had requested",
                 gw_bytes_text(text, growth));
    gwi_say_request(c, finding);
    gwi_measure(finding, m->t_ns, "driver", (double)m->rest_bytes, "bytes",
                "in use, but not requested by any process: %s; when the device was first used, %s was in use in total",
                gw_bytes_text(text, m->rest_bytes), gw_bytes_text(before, first));
    say_suspects(c, finding);
    gwi_say_memory_ruled_out(c, finding, GWI_NOT_FOREIGN);
    gwi_say_consequences(c, finding, c->oom_last);
    /* a process whose calls were not recorded may hold this memory */
    return gwi_unseen_driver(c->model) != NULL ? GW_HYPOTHESIS : GW_SUPPORTED;
}

const gw_cause gwi_cause_gpu_hidden_driver_growth = {
    .id = "gpu-hidden-driver-growth",
    .summary = "The driver itself used GPU memory for kernel stacks, graphs or communicators.",
    .proof = "memory in use beyond all allocations and all other processes that grew by a tenth of the card, and a "
             "refused request that would have fitted without that growth; never more than supported",
    .fixes = {[GW_FRAMEWORK_RAW] = "Find the kernel with large local memory (cuobjdump -res-usage): it enlarges the "
                                   "stack, which never shrinks\n"
                                   "Destroy executable graphs, or trim their memory (cuDeviceGraphMemTrim)\n"
                                   "Use fewer communicators and channels: set NCCL_MAX_NCHANNELS, NCCL_BUFFSIZE",
              [GW_FRAMEWORK_TORCH] = "Let CUDA graphs share one pool (torch.cuda.graph_pool_handle())\n"
                                     "Use fewer process groups; set NCCL_MAX_NCHANNELS, NCCL_BUFFSIZE"},
    .judge = judge,
};
