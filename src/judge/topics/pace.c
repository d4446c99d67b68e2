/* Measures how the busiest thread spent its time between launches, copies and waits. */
#include "gwi_pace.h"

#include "gwi_machine.h"

#include <stdlib.h>
#include <string.h>

enum { LAUNCHES_MIN = 1000, CALLS_MIN = 200, PERIODS_MIN = 32, SHARED_LOOK = 8 };
static const uint64_t pause_ns = 1000000;

static bool has(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

static const gw_process *busiest_process(const gw_model *model)
{
    const gw_process *best = NULL;
    for (size_t i = 0; i < model->process_count; i++) {
        const gw_process *process = &model->process[i];
        if (best == NULL || gw_launches(process->counter) > gw_launches(best->counter))
            best = process;
    }
    return best;
}

static const gw_thread *busiest_thread(const gw_model *model, uint32_t pid)
{
    const gw_thread *best = NULL;
    const gw_thread *thread = gw_model_first_thread(model, pid);
    for (; thread != NULL; thread = gw_model_next_thread(model, thread)) {
        if (thread->ring_count > 0 && (best == NULL || gw_launches(thread->counter) > gw_launches(best->counter)))
            best = thread;
    }
    return best;
}

static int by_size(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* Return the median of `count` times, which are sorted in place. Returns 0 if there are fewer than 32 times. */
static uint64_t median_of(uint64_t *times, size_t count)
{
    if (count < PERIODS_MIN)
        return 0;
    qsort(times, count, sizeof *times, by_size);
    return times[count / 2];
}

static bool is_host_copy(const gw_ring_call *call)
{
    return call->is_copy && (has(call->fn_name, "HtoD") || has(call->fn_name, "DtoH"));
}

/* True if call `at`, or one of the seven calls after it, copies to the device. These calls may share one clock reading,
 * so any of them may be the first after a pause. */
static bool is_before_upload(const gw_thread *thread, size_t at)
{
    for (size_t i = at; i < thread->ring_count && i < at + SHARED_LOOK; i++)
        if (has(thread->ring[i].fn_name, "HtoD"))
            return true;
    return false;
}

static void read_ring(gwi_pace *pace)
{
    const gw_thread *thread = pace->thread;
    uint64_t *period = malloc(thread->ring_count * sizeof *period), t_sync_ns = 0, waited_ns = 0, copied_ns = 0;
    size_t period_count = 0, timed_copies = 0;
    for (size_t i = 0; i < thread->ring_count; i++) {
        const gw_ring_call *call = &thread->ring[i], *next = i + 1 < thread->ring_count ? call + 1 : NULL;
        uint64_t after_ns = next != NULL && next->t_ns > call->t_ns ? next->t_ns - call->t_ns : 0;
        bool next_looks = next != NULL && (next->is_copy || next->is_sync);
        pace->launch_count += gw_is_any_launch(call);
        if (call->is_sync) {
            if (period != NULL && pace->sync_count > 0)
                period[period_count++] = call->t_ns - t_sync_ns;
            t_sync_ns = call->t_ns;
            pace->sync_count++;
            waited_ns += next_looks ? 0 : after_ns;
        }
        if (is_host_copy(call)) {
            pace->host_copy_count++;
            pace->host_copy_bytes += call->what;
            timed_copies += after_ns > 0;
            copied_ns += after_ns;
        }
        if (after_ns >= pause_ns && is_before_upload(thread, i + 1)) {
            pace->gap_ns += after_ns;
            pace->gap_count++;
        }
    }
    pace->call_count = thread->ring_count;
    pace->span_ns = thread->ring[thread->ring_count - 1].t_ns - thread->ring[0].t_ns;
    pace->sync_period_ns = period == NULL ? 0 : median_of(period, period_count);
    free(period);
    if (pace->span_ns == 0)
        return;
    pace->wait_share = (double)waited_ns / (double)pace->span_ns;
    if (timed_copies > 0)
        pace->copy_share =
            (double)copied_ns / (double)timed_copies * (double)pace->host_copy_count / (double)pace->span_ns;
    pace->copy_share = pace->copy_share > 1 ? 1 : pace->copy_share;
}

static void read_busy(const gwi_case *c, gwi_pace *pace)
{
    uint32_t card[GW_MODEL_DEVICES_MAX];
    size_t count = gwi_cards_used(c, card);
    for (size_t i = 0; i < count; i++) {
        const gw_series *busy = gw_machine_known(c->model, GW_METRIC_CARD_UTILISATION, card[i], 0);
        if (busy == NULL || busy->t_last_ns == busy->t_first_ns) {
            pace->busy_known = false;
            return;
        }
        pace->busy_known = true;
        pace->busy_percent = (double)busy->max > pace->busy_percent ? (double)busy->max : pace->busy_percent;
    }
}

bool gwi_pace_find(const gwi_case *c, gwi_pace *ret_pace)
{
    const gw_process *process = busiest_process(c->model);
    if (process == NULL || !c->ended || c->bad_end || c->sticky != NULL || c->hang.hang != NULL ||
        gw_launches(process->counter) < LAUNCHES_MIN)
        return false;
    uint64_t end_ns = process->exit_known ? process->t_exit_ns : c->model->t_end_ns;
    gwi_pace pace = {.process = process,
                     .thread = busiest_thread(c->model, process->pid),
                     .launches = gw_launches(process->counter),
                     .graph_launches = process->counter[GW_COUNT_GRAPH_LAUNCH],
                     .syncs = process->counter[GW_COUNT_SYNC],
                     .copies = process->counter[GW_COUNT_COPY],
                     .copy_bytes = process->counter[GW_COUNT_COPY_BYTES]};
    pace.seconds = end_ns > process->t_first_call_ns ? (double)(end_ns - process->t_first_call_ns) / 1e9 : 0;
    if (pace.thread == NULL || pace.thread->ring_count < CALLS_MIN)
        return false;
    read_ring(&pace);
    read_busy(c, &pace);
    *ret_pace = pace;
    return true;
}
