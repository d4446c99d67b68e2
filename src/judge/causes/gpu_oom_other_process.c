/* Another process held so much of the GPU's memory that the request did not fit.
 *
 * Established only by: the other processes' memory at the time of the refusal, counted by the card or the ledger, if:
 * - without it, the request would have fitted
 * - this process's memory plus the request is within the limit
 * - the other processes held at least half as much as this process
 * - no other memory in use, of unknown owner, is larger than both theirs and 4 GiB
 * - no unused cache of PyTorch's was large enough for the request, if another library made it
 * - there is no sign of a leak that would have filled the card a little later anyway (iterations left behind at least
 *   1/16 of this process's memory, live memory grew by that much between two requests from the same call site, or the
 *   call site of the refused request already holds as much as the other processes; if it is not known, the whole
 *   process counts)
 *
 * If no context exists yet, one condition is enough: the other processes leave less memory than a context needs.
 *
 * Only supported if:
 * - one of the last five conditions is not met (a hypothesis if the leak exceeds the others' memory)
 * - or the others' memory is known only as a difference: total minus free minus the known holders */
#include "gwi_cause.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Find the largest amount of free memory that was recorded for the device in this run. Returns false if no amount was
 * recorded. */
static bool find_free(const gwi_case *c, uint64_t *ret_bytes)
{
    bool any = false;
    const gw_device *device = &c->model->device[c->memory.device];
    if (device->known && device->has_total) {
        any = true;
        *ret_bytes = device->bytes_free_first;
    }
    for (size_t i = 0; i < c->model->info_count; i++) {
        const gw_memory_info *info = &c->model->info[i];
        if (info->device != c->memory.device)
            continue;
        *ret_bytes = !any || info->bytes_free > *ret_bytes ? info->bytes_free : *ret_bytes;
        any = true;
    }
    return any;
}

/* List the possible holders, for a verdict in which no holder is known. Also report if a pid namespace hides the
 * driver's own list of holders. */
static void say_candidates(const gwi_case *c, gwi_finding *finding)
{
    enum { SHOWN_MAX = 4 };
    const gw_model *model = c->model;
    uint64_t unmatched = 0;
    int shown = 0;
    for (size_t i = 0; i < model->machine.holder_count; i++) {
        const gw_holder *holder = &model->machine.holder[i];
        unmatched += holder->what == GW_FACT_CARD_HOLDER_UNMATCHED;
        if (holder->what != GW_FACT_DEVICE_HOLDER || shown == SHOWN_MAX || !holder->fact.has_pid ||
            gw_model_process(model, holder->fact.pid) != NULL)
            continue;
        gwi_evidence(finding, holder->t_ns, "host", "a process has a GPU's device file open: %s", holder->text);
        shown++;
    }
    if (unmatched > 0)
        gwi_evidence(finding, GWI_NO_TIME, "card",
                     "the driver lists %" PRIu64
                     " process%s on the cards with pids of another pid namespace: from inside this container, gpuwhy "
                     "cannot see which of them belong to this run",
                     unmatched, unmatched == 1 ? "" : "es");
}

/* True if neither the address space nor the data of the process was limited. */
static bool is_unlimited(const gwi_case *c)
{
    const char *as = gw_model_meta(c->model, "rlimit.as"), *data = gw_model_meta(c->model, "rlimit.data");
    return as != NULL && strcmp(as, "unlimited") == 0 && data != NULL && strcmp(data, "unlimited") == 0 &&
           c->process->address_limit_bytes == 0 && c->process->data_limit_bytes == 0;
}

/* The cause is established if the other processes leave no room for a context. The ledger counts only what the other
 * processes allocated. They also have at least one context, so add the least size of a context. */
static gw_certainty decide_no_context(const gwi_case *c, bool has_free, uint64_t free_bytes)
{
    const gwi_memory *memory = &c->memory;
    const uint64_t plenty_bytes = (uint64_t)2 << 30; /* enough free memory for several contexts */
    /* Usual and least size of a context with its libraries. */
    const uint64_t context_bytes = (uint64_t)600 << 20, least_bytes = (uint64_t)500 << 20;
    const gw_around *around = &c->no_context->around;
    uint64_t held_by_run = around->other_bytes_total + around->process_count * least_bytes;
    uint64_t theirs = memory->foreign_bytes + (memory->foreign_by_ledger ? least_bytes : 0);
    if (memory->own_bytes > 0 || (has_free && free_bytes >= held_by_run + plenty_bytes))
        return GW_CERTAINTY_NONE;
    if (memory->foreign_known && memory->limit_bytes > 0 && theirs + context_bytes >= memory->limit_bytes)
        return GW_ESTABLISHED;
    if (memory->foreign_bytes > 0 && memory->foreign_bytes * 2 >= memory->limit_bytes && memory->limit_bytes > 0)
        return GW_SUPPORTED;
    return is_unlimited(c) && !c->model->is_virtual && !c->model->stderr_facts.host_memory.seen ? GW_SUPPORTED
                                                                                                : GW_HYPOTHESIS;
}

/* Judge the refusal of the first context. This process holds nothing on the device, so other processes hold the memory.
 * A limit on host memory has the same effect and must be ruled out. */
static gw_certainty judge_no_context(const gwi_case *c, gwi_finding *finding)
{
    const gwi_memory *memory = &c->memory;
    const gw_around *around = &c->no_context->around;
    char call[GWI_CALL_TEXT_MAX], bytes[GW_BYTES_TEXT_MAX];
    uint64_t free_bytes = 0;
    bool has_free = find_free(c, &free_bytes);
    gw_certainty certainty = decide_no_context(c, has_free, free_bytes);
    if (certainty == GW_CERTAINTY_NONE)
        return certainty;
    gwi_call_text(call, c->no_context->fn_name);
    if (around->process_count > 1) {
        gwi_headline(finding,
                     "%" PRIu32 " other processes of this run have a context on the GPU, and no further one fitted",
                     around->process_count);
        gwi_next(finding, "End each worker process before the next one starts, or let one process do their work: each "
                          "context takes about 0.5 GiB");
    } else if (memory->foreign_pid != 0)
        gwi_headline(finding,
                     "another process (pid %" PRIu32 ") held %s of the GPU's memory, and not even a context fitted",
                     memory->foreign_pid, gw_bytes_text(bytes, memory->foreign_bytes));
    else
        gwi_headline(finding, "the GPU was full before this program had anything on it: not even a context fitted");
    gwi_evidence(finding, c->no_context->t_ns, "driver",
                 "%s returned 2 (%s): a context takes about 0.5 GiB, and this was the first one of the process", call,
                 gw_result_name(2));
    gwi_measure(finding, c->no_context->t_ns, "ledger", 0, "bytes", "this process held nothing on the GPU");
    if (memory->foreign_pid != 0)
        gwi_measure(finding, memory->t_ns, memory->foreign_recorded ? "ledger" : "card", (double)memory->foreign_bytes,
                    "bytes", "other processes held %s; pid %" PRIu32 " held most of it%s%s",
                    gw_bytes_text(bytes, memory->foreign_bytes), memory->foreign_pid,
                    memory->foreign_command[0] != '\0' ? ": " : "", memory->foreign_command);
    else
        say_candidates(c, finding);
    if (around->process_count > 1)
        gwi_measure(finding, c->no_context->t_ns, "ledger", (double)around->other_bytes_total, "bytes",
                    "%" PRIu32 " processes of this run had a context then, and %s in blocks", around->process_count,
                    gw_bytes_text(bytes, around->other_bytes_total));
    if (has_free)
        gwi_measure(finding, GWI_NO_TIME, "driver", (double)free_bytes, "bytes",
                    "at most %s of the GPU's memory was ever free", gw_bytes_text(bytes, free_bytes));
    if (is_unlimited(c))
        gwi_rule_out(c, finding, GWI_OF_PROCESS, "a limit on the process (its address space and data are unlimited)");
    gwi_rule_out(c, finding, GWI_OF_PROCESS, "what this program needs (it had allocated nothing yet)");
    return certainty;
}

/* True if unknown holders have more memory than the known ones, even if contexts take some of it. Then the known
 * holders may not be the cause. */
static bool is_more_unseen(const gwi_memory *memory)
{
    const uint64_t contexts_bytes = (uint64_t)4 << 30;
    return memory->rest_known && memory->foreign_recorded && memory->rest_bytes > contexts_bytes &&
           memory->rest_bytes > memory->foreign_bytes;
}

/* True if there may be a leak that would have filled the card a little later anyway. */
static bool may_have_kept(const gw_growth *growth, uint64_t own_bytes)
{
    enum { KEPT_PART = 16 };
    uint64_t kept = growth->loop.leak_count > 0 ? growth->loop_bytes : 0;
    kept = kept > growth->loop.again_bytes ? kept : growth->loop.again_bytes;
    return kept > 0 && kept * KEPT_PART >= own_bytes;
}

/* Return the live bytes that the call site of the refused request had allocated before, or all live bytes if the call
 * site is not known. */
static uint64_t held_by_place(const gwi_case *c)
{
    const gwi_memory *memory = &c->memory;
    uint32_t site = gwi_request_site(c);
    uint64_t bytes = 0;
    for (size_t i = 0; i < memory->live_count; i++)
        bytes += site == 0 || memory->live[i].site == site ? memory->live[i].bytes : 0;
    return bytes;
}

#define CONTEXT_BYTES ((uint64_t)1 << 30) /* the most that a context with its libraries uses */

/* The memory of other processes. If they were not counted, it is the memory that no known process holds. This includes
 * this process's contexts, of unknown size but at most 1 GiB each. So `least_bytes` leaves out 1 GiB for each. */
typedef struct others {
    uint64_t bytes;       /* 0: not known */
    uint64_t least_bytes; /* the part that certainly belongs to them */
    bool by_difference;   /* they were not counted */
    bool is_more_unseen;  /* unknown holders have more */
    uint64_t own_bytes;   /* of this process, allocated where the refused request may have been made */
} others;

/* Look at the memory of other processes. A difference counts if more than 1 GiB is left beyond the contexts, and fewer
 * than 256 streams are alive. */
static others look(const gwi_case *c)
{
    const gwi_memory *memory = &c->memory;
    bool by_difference = !memory->foreign_known && memory->rest_known &&
                         memory->rest_bytes > CONTEXT_BYTES * (1 + memory->context_count) && memory->stream_count < 256;
    if (by_difference)
        return (others){memory->rest_bytes, memory->rest_bytes - CONTEXT_BYTES * memory->context_count, true, false, 0};
    uint64_t bytes = memory->foreign_known ? memory->foreign_bytes : 0;
    return (others){bytes, bytes, false, is_more_unseen(memory), held_by_place(c)};
}

static gw_certainty decide(const gwi_memory *memory, const others *they)
{
    if (!memory->known || memory->limit_is_framework || (memory->limit_is_guard && !memory->foreign_recorded))
        return GW_CERTAINTY_NONE;
    if (they->bytes == 0 || they->bytes * 10 < memory->limit_bytes || !memory->has_free ||
        !gwi_would_fit(memory, they->least_bytes) ||
        (memory->wanted_bytes == 0 && they->bytes * 4 < memory->limit_bytes))
        return GW_CERTAINTY_NONE;
    /* A difference includes a context of the other processes, but the ledger does not. */
    uint64_t requested = they->by_difference ? they->least_bytes - CONTEXT_BYTES : they->bytes;
    uint64_t held = gwi_kept_from_others(memory);
    /* A leak, which lost events may hide, would have filled the card a little later anyway. */
    if (gwi_may_leak_more(memory, requested))
        return GW_HYPOTHESIS;
    if (they->by_difference)
        return held * 2 < memory->limit_bytes && !gwi_objects_may_hold(memory) ? GW_SUPPORTED : GW_HYPOTHESIS;
    bool would_fit_alone = held + memory->wanted_bytes <= memory->limit_bytes;
    /* If this process holds more than twice as much as the others, it may simply need too much. */
    bool is_less = memory->foreign_bytes * 2 < held;
    bool may_leak = may_have_kept(&memory->growth, memory->own_bytes) || they->own_bytes >= they->bytes;
    bool is_clear = !is_less && !may_leak && !they->is_more_unseen && !gwi_cache_may_explain(memory);
    return would_fit_alone && is_clear ? GW_ESTABLISHED : GW_SUPPORTED;
}

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    const gwi_memory *memory = &c->memory;
    char bytes[GW_BYTES_TEXT_MAX], own[GW_BYTES_TEXT_MAX];
    if (c->no_context != NULL)
        return judge_no_context(c, finding);
    const others they = look(c);
    gw_certainty certainty = decide(memory, &they);
    if (certainty == GW_CERTAINTY_NONE)
        return certainty;
    gw_bytes_text(bytes, they.bytes);
    if (memory->foreign_pid != 0)
        gwi_headline(finding, "another process (pid %" PRIu32 ") held %s of the GPU", memory->foreign_pid, bytes);
    else
        gwi_headline(
            finding,
            "%s of the GPU's memory was in use but not allocated by this program (its own contexts are included)",
            bytes);
    gwi_say_request(c, finding);
    if (memory->foreign_pid != 0)
        gwi_measure(finding, memory->t_ns, memory->foreign_recorded ? "ledger" : "card", (double)they.bytes, "bytes",
                    "other processes held %s; pid %" PRIu32 " held most of it%s%s", bytes, memory->foreign_pid,
                    memory->foreign_command[0] != '\0' ? ": " : "", memory->foreign_command);
    else
        gwi_measure(finding, memory->t_ns, "driver", (double)they.bytes, "bytes",
                    "%s in use was not allocated by any recorded process; this includes the contexts of this program "
                    "(total minus free minus its allocations)",
                    bytes);
    if (memory->foreign_pid == 0)
        say_candidates(c, finding);
    uint64_t held = gwi_kept_from_others(memory);
    gwi_measure(finding, memory->t_ns, "ledger", (double)held, "bytes",
                "without this, the request would have fitted: this process itself held %s", gw_bytes_text(own, held));
    if (they.is_more_unseen)
        gwi_measure(
            finding, memory->t_ns, "driver", (double)memory->rest_bytes, "bytes",
            "another %s in use was not allocated by any recorded process; this includes the contexts of this run",
            gw_bytes_text(own, memory->rest_bytes));
    if (memory->foreign_pid != 0)
        gwi_next(finding, "End pid %" PRIu32 " (its whole process group), or wait for it", memory->foreign_pid);
    if (c->oom_last != NULL)
        gwi_say_consequences(c, finding, c->oom_last);
    return certainty;
}

const gw_cause gwi_cause_gpu_oom_other_process = {
    .id = "gpu-oom-other-process",
    .summary = "Another process holds the GPU's memory.",
    .proof = "other processes that held so much memory at the moment of the failure that this one would have fitted "
             "without them, while its own memory was not growing",
    .fixes = {[GW_FRAMEWORK_RAW] =
                  "Find the holders with nvidia-smi, or fuser -v /dev/nvidia* on the host, not in the container\n"
                  "End stale notebook kernels and orphaned workers: kill the process group\n"
                  "Choose another GPU with CUDA_VISIBLE_DEVICES, or let a scheduler give each job its own",
              [GW_FRAMEWORK_JAX] =
                  "Give each JAX process on the card its share, such as XLA_PYTHON_CLIENT_MEM_FRACTION=.4 for two of "
                  "them; otherwise each takes three quarters\n"
                  "Find the holders with nvidia-smi, or fuser -v /dev/nvidia* on the host, not in the container\n"
                  "Choose another GPU with CUDA_VISIBLE_DEVICES, or let a scheduler give each job its own"},
    .excludes = "gpu-oom-library-handle", /* the library only reports the refusal that the other processes caused */
    .judge = judge,
};
