/* Copies between the host and the GPU take much time, because the host memory is not page-locked. This is not a fault.
 *
 * Never established: this is advice and never the cause of a failure. */
#include "gwi_pace.h"

enum { COPIES_MIN = 16 };
static const uint64_t run_bytes_min = 256u << 20, copy_bytes_min = 64u << 10;
static const double share_min = 0.2;

static bool has_pinned(const gw_process *process)
{
    for (int device = 0; device < GW_MODEL_DEVICE_PLACES; device++)
        if (process->usage[device].class_made[GW_CLASS_HOST] != 0 ||
            process->usage[device].class_made[GW_CLASS_REGISTERED] != 0)
            return true;
    return process->pinned_bytes_peak != 0;
}

static bool advise(const gwi_case *c, gw_string_list *advice)
{
    gwi_pace pace;
    char bytes[GW_BYTES_TEXT_MAX];
    if (c->model->is_virtual || !gwi_pace_find(c, &pace) || has_pinned(pace.process) || pace.process->lost_events > 0 ||
        pace.copy_bytes < run_bytes_min || pace.host_copy_count < COPIES_MIN || pace.copy_share < share_min ||
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
    .advise = advise,
};
