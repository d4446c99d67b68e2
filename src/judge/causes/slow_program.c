/* Advice about programs that use the GPU inefficiently. None of this is a fault.
 *
 * Never established: this is advice and never the cause of a failure. */
#include "gwi_pace.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The host waits for the GPU after nearly every small piece of work. */
enum { SYNCS_MIN = 1000, GRAPHS_FEW = 10 };
static const uint64_t short_ns = 1000000; /* a median time of this or more between two waits is normal */

static bool advise_sync_storm(const gwi_case *c, gw_string_list *advice)
{
    gwi_pace pace;
    if (!gwi_pace_find(c, &pace) || pace.syncs < SYNCS_MIN || pace.syncs * 2 < pace.launches ||
        pace.graph_launches * GRAPHS_FEW > pace.launches)
        return true;
    if (pace.sync_count * 2 < pace.launch_count || pace.sync_period_ns == 0 || pace.sync_period_ns >= short_ns)
        return true;
    return gwi_list_addf(advice,
                         "sync-storm: %.1f synchronisations per launch over %.1f s (%" PRIu64
                         " in total), one every %.0f us; %.0f %% of the last %.1f s was spent inside them: read "
                         "results every N steps, not after each",
                         (double)pace.syncs / (double)pace.launches, pace.seconds, pace.syncs,
                         (double)pace.sync_period_ns / 1e3, 100 * pace.wait_share, (double)pace.span_ns / 1e9);
}

const gw_cause gwi_cause_sync_storm = {
    .id = "sync-storm",
    .summary = "The program waits for the GPU after nearly every small piece of work. Advice, never a fault.",
    .proof =
        "at least one synchronisation per two launches, at least a thousand in total, less than a millisecond apart",
    .fixes = {[GW_FRAMEWORK_RAW] = "Wait once per step, or on the events of the results you need; use streams\n"
                                   "Read results every N steps",
              [GW_FRAMEWORK_TORCH] =
                  "Do not call .item(), print() or .cpu() on tensors inside the loop; log every N steps\n"
                  "torch.cuda.set_sync_debug_mode(\"warn\") names the lines\n"
                  "Use fused or capturable optimizers",
              [GW_FRAMEWORK_JAX] = "Do not call block_until_ready() or float() inside the loop; log every N steps"},
    .advise = advise_sync_storm,
};

/* Small kernels are launched one by one, and each ends before the next is launched. */
enum { MANY_LAUNCHES = 20000, BUSY_PERCENT_OF_LAUNCHES = 60 };
static const double seconds_min = 5, gap_max_ns = 50000, wait_max = 0.3;

static bool advise_launch_bound(const gwi_case *c, gw_string_list *advice)
{
    gwi_pace pace;
    if (!gwi_pace_find(c, &pace) || !pace.busy_known || pace.busy_percent >= BUSY_PERCENT_OF_LAUNCHES ||
        pace.launches < MANY_LAUNCHES || pace.seconds < seconds_min || pace.launch_count * 2 < pace.call_count)
        return true;
    double gap_ns = (double)pace.span_ns / (double)pace.launch_count;
    if (gap_ns > gap_max_ns || pace.wait_share > wait_max)
        return true;
    return gwi_list_addf(advice,
                         "launch-bound: one launch every %.1f us (%" PRIu64
                         " in total), and the GPU was never more than %.0f %% busy: each kernel ends before the next "
                         "one is launched; use CUDA graphs, fused operations or a larger batch",
                         gap_ns / 1e3, pace.launches, pace.busy_percent);
}

const gw_cause gwi_cause_launch_bound = {
    .id = "launch-bound",
    .summary = "Kernels are so short that launching them takes longer than running them. Advice, never a fault.",
    .proof = "launches without waits in between, at least one every 50 us, and a card that NVML never reported more "
             "than 60 % busy",
    .fixes = {[GW_FRAMEWORK_RAW] = "Use CUDA graphs, fewer and larger kernels, or a larger batch",
              [GW_FRAMEWORK_TORCH] = "Use torch.compile, CUDA graphs (mode=\"reduce-overhead\"), or a larger batch\n"
                                     "Use optimizers with fused=True or foreach=True",
              [GW_FRAMEWORK_TENSORFLOW] = "Use jit_compile=True, or a larger batch",
              [GW_FRAMEWORK_JAX] = "Use jit on larger functions, or a larger batch"},
    .advise = advise_launch_bound,
};

/* The GPU waits for its input. */
enum { PAUSES_MIN = 10, BUSY_PERCENT_OF_INPUT = 50 };
static const double share_min_of_pauses = 0.5;

static bool advise_input_bound(const gwi_case *c, gw_string_list *advice)
{
    gwi_pace pace;
    if (!gwi_pace_find(c, &pace) || !pace.busy_known || pace.busy_percent >= BUSY_PERCENT_OF_INPUT ||
        pace.span_ns == 0 || pace.gap_count < PAUSES_MIN || pace.seconds < seconds_min)
        return true;
    double share = (double)pace.gap_ns / (double)pace.span_ns;
    if (share < share_min_of_pauses)
        return true;
    return gwi_list_addf(advice,
                         "input-bound: the program spent %.0f %% of the last %.1f s in %zu pauses before copies to the "
                         "GPU, which was never more than %.0f %% busy: it waits for data; use more loader workers, "
                         "prefetching, a faster decoder or local copies of the data",
                         100 * share, (double)pace.span_ns / 1e9, pace.gap_count, pace.busy_percent);
}

const gw_cause gwi_cause_input_bound = {
    .id = "input-bound",
    .summary = "The GPU waits for its input. Advice, never a fault.",
    .proof = "pauses before copies to the device for half of the time, and a card that NVML never reported more than "
             "50 % busy",
    .fixes = {[GW_FRAMEWORK_RAW] = "Prepare the next batch while the GPU works on this one: threads, double buffers\n"
                                   "Decode less, cache on a local disk, use fewer and larger files",
              [GW_FRAMEWORK_TORCH] =
                  "DataLoader: a larger num_workers, persistent_workers=True, a larger prefetch_factor\n"
                  "Decode on the GPU (DALI), or decode once and cache",
              [GW_FRAMEWORK_TENSORFLOW] = "tf.data: .prefetch(AUTOTUNE), .cache(), .interleave()"},
    .advise = advise_input_bound,
};

/* Copies between the host and the GPU take much time, because the host memory is not page-locked. */
enum { COPIES_MIN = 16 };
static const uint64_t run_bytes_min = 256u << 20, copy_bytes_min = 64u << 10;
static const double share_min_of_copies = 0.2;

static bool has_pinned(const gw_process *process)
{
    for (int device = 0; device < GW_MODEL_DEVICE_PLACES; device++)
        if (process->usage[device].class_made[GW_CLASS_HOST] != 0 ||
            process->usage[device].class_made[GW_CLASS_REGISTERED] != 0)
            return true;
    return process->pinned_bytes_peak != 0;
}

static bool advise_pageable_copy(const gwi_case *c, gw_string_list *advice)
{
    gwi_pace pace;
    char bytes[GW_BYTES_TEXT_MAX];
    if (c->model->is_virtual || !gwi_pace_find(c, &pace) || has_pinned(pace.process) || pace.process->lost_events > 0 ||
        pace.copy_bytes < run_bytes_min || pace.host_copy_count < COPIES_MIN || pace.copy_share < share_min_of_copies ||
        pace.host_copy_bytes / pace.host_copy_count < copy_bytes_min)
        return true;
    return gwi_list_addf(
        advice,
        "pageable-copy: the program uses no page-locked memory, and about %.0f %% of the last %.1f s was spent in %zu "
        "copies between host and GPU (%s each): copy from page-locked memory, on a separate stream",
        100 * pace.copy_share, (double)pace.span_ns / 1e9, pace.host_copy_count,
        gw_bytes_text(bytes, pace.host_copy_bytes / pace.host_copy_count));
}

const gw_cause gwi_cause_pageable_copy = {
    .id = "pageable-copy",
    .summary = "Copies from memory that is not page-locked slow the program down. Advice, never a fault.",
    .proof =
        "a program that never allocated page-locked memory and spent a fifth of the time in copies of at least 64 KiB",
    .fixes = {[GW_FRAMEWORK_RAW] = "Use page-locked buffers (cuMemHostAlloc), asynchronous copies and double buffering",
              [GW_FRAMEWORK_TORCH] = "Use DataLoader(pin_memory=True) and .to(device, non_blocking=True)",
              [GW_FRAMEWORK_TENSORFLOW] = "Prefetch to the device with tf.data"},
    .advise = advise_pageable_copy,
};

/* The program keeps allocating and freeing device memory by driver calls. */
enum { MADE_MIN = 1000, LAUNCHES_EACH = 20 };
static const double share_min_of_allocations = 0.1;

typedef struct churn {
    uint64_t made, freed;
    uint64_t t_first_ns, t_last_ns;
    const gw_group *most;
} churn;

static churn find_churn(const gw_model *model, uint32_t pid)
{
    churn found = {.t_first_ns = UINT64_MAX};
    for (size_t i = 0; i < model->group_count; i++) {
        const gw_group *group = &model->group[i];
        if (group->pid != pid || group->cls != GW_CLASS_PLAIN || group->alloc_count == 0)
            continue;
        found.made += group->alloc_count;
        found.freed += group->free_count - group->buried_count;
        found.t_first_ns = group->t_first_ns < found.t_first_ns ? group->t_first_ns : found.t_first_ns;
        found.t_last_ns = group->t_last_ns > found.t_last_ns ? group->t_last_ns : found.t_last_ns;
        if (found.most == NULL || group->alloc_count > found.most->alloc_count)
            found.most = group;
    }
    return found;
}

static bool advise_alloc_churn(const gwi_case *c, gw_string_list *advice)
{
    gwi_pace pace;
    char at[GWI_PLACE_TEXT_MAX];
    /* Give no advice for the virtual GPU: the durations of its calls do not predict those of a real card. */
    if (c->model->is_virtual || !gwi_pace_find(c, &pace))
        return true;
    churn found = find_churn(c->model, pace.process->pid);
    uint64_t end_ns = pace.thread->ring[pace.thread->ring_count - 1].t_ns;
    bool goes_on = found.made > 0 && found.t_first_ns < end_ns &&
                   found.t_last_ns >= found.t_first_ns + (end_ns - found.t_first_ns) / 10 * 8;
    double share = goes_on ? (double)pace.process->allocation_us * 1e3 / (double)(end_ns - found.t_first_ns) : 0;
    if (found.made < MADE_MIN || found.freed < found.made / 10 * 9 || found.made * LAUNCHES_EACH < pace.launches ||
        share < share_min_of_allocations)
        return true;
    return gwi_list_addf(advice,
                         "alloc-churn: the program allocated device memory %" PRIu64 " times and freed it %" PRIu64
                         " times, one allocation per %.1f launches, until the end of the run%s; at least %.0f %% of "
                         "the time was spent in these calls: reuse buffers, or use stream-ordered memory",
                         found.made, found.freed, (double)pace.launches / (double)found.made,
                         gwi_at(c, found.most->site, at), 100 * share);
}

const gw_cause gwi_cause_alloc_churn = {
    .id = "alloc-churn",
    .summary = "The program keeps allocating and freeing device memory while it works. Advice, never a fault.",
    .proof = "at least a thousand driver allocations until the end of the run, at least one per 20 launches, nine in "
             "ten of them freed again, and a tenth of the time spent inside these calls",
    .fixes = {[GW_FRAMEWORK_RAW] =
                  "Reuse buffers between steps, or use cuMemAllocAsync with a pool that keeps its memory",
              [GW_FRAMEWORK_TORCH] = "Do not call torch.cuda.empty_cache() inside the loop\n"
                                     "Use constant shapes, or PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n"
                                     "Lower the peak: PyTorch flushes its cache when it reaches the limit"},
    .advise = advise_alloc_churn,
};

/* A debugging setting was switched on. */
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

static bool advise_debug_knob_left_on(const gwi_case *c, gw_string_list *advice)
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
    .advise = advise_debug_knob_left_on,
};
