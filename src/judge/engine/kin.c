/* Finds processes of a run that belong together, in sorted lists. */
#include "gwi_kin.h"
#include "gwi_roots.h"

#include <stdlib.h>
#include <string.h>

bool gwi_was_told_to_end(const gw_process *process)
{
    enum { HUP = 1, INT = 2, TERM = 15, SHELL = 128 };
    int signal = process->exit.signal, code = process->exit.exit_code;
    if (signal == 0 && code > SHELL && code <= SHELL + TERM)
        signal = code - SHELL;
    return signal == HUP || signal == INT || signal == TERM;
}

bool gwi_are_peers(const gw_process *a, const gw_process *b)
{
    return (a->has_rank && b->has_rank) || (a->parent_pid != 0 && a->parent_pid == b->parent_pid);
}

static bool has_worked(const gw_process *process)
{
    uint64_t work = gw_launches(process->counter) + process->counter[GW_COUNT_COPY] + process->counter[GW_COUNT_FILL];
    for (int device = 0; device < GW_MODEL_DEVICE_PLACES; device++)
        work += process->usage[device].alloc_count_total;
    return process->init_ok && work > 0;
}

static bool had_no_trouble(const gw_model *model, const gw_process *process)
{
    gwi_roots roots = gwi_roots_of(model, process->pid);
    return roots.sticky == NULL && roots.oom == NULL && (gw_ended_well(process) || !gw_died_badly(process));
}

/* ---- comparing processes ---- */

static int compare(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

/* Compare the roles of two processes: parent, program and rank. */
static int compare_places(const gw_process *a, const gw_process *b)
{
    int order = compare(a->parent_pid, b->parent_pid);
    order = order != 0 ? order : strcmp(a->exe, b->exe);
    order = order != 0 ? order : compare(a->has_rank, b->has_rank);
    return order != 0 ? order : compare(a->rank, b->rank);
}

static int by_place(const void *left, const void *right)
{
    const gw_process *a = *(const gw_process *const *)left, *b = *(const gw_process *const *)right;
    int order = compare_places(a, b);
    return order != 0 ? order : compare(a->t_seen_ns, b->t_seen_ns);
}

static int by_parent(const void *left, const void *right)
{
    const gw_process *a = *(const gw_process *const *)left, *b = *(const gw_process *const *)right;
    int order = compare(a->parent_pid, b->parent_pid);
    return order != 0 ? order : compare(a->t_exit_ns, b->t_exit_ns);
}

static int by_end(const void *left, const void *right)
{
    const gw_process *a = *(const gw_process *const *)left, *b = *(const gw_process *const *)right;
    return compare(a->t_exit_ns, b->t_exit_ns);
}

static int by_restart(const void *left, const void *right)
{
    const gw_process *a = *(const gw_process *const *)left, *b = *(const gw_process *const *)right;
    int order = compare(a->parent_pid, b->parent_pid);
    return order != 0 ? order : compare(a->restart, b->restart);
}

/* Return the index of the first element that is not before `wanted`. */
static size_t find_first(const gw_process *const *list, size_t count, const gw_process *wanted,
                         int (*order)(const void *, const void *))
{
    size_t low = 0;
    while (count > 0) {
        size_t half = count / 2;
        if (order(&list[low + half], &wanted) < 0) {
            low += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return low;
}

/* ---- lists ---- */

static void sort(const gw_process **list, size_t count, int (*order)(const void *, const void *))
{
    if (count > 1)
        qsort(list, count, sizeof *list, order);
}

void gwi_kin_open(gwi_kin *kin, const gw_model *model)
{
    *kin = (gwi_kin){0};
    size_t bytes = model->process_count * sizeof *kin->worker;
    kin->worker = malloc(bytes);
    kin->ended = malloc(bytes);
    kin->ranked = malloc(bytes);
    kin->counted = malloc(bytes);
    bool good = kin->worker != NULL && kin->ended != NULL && kin->ranked != NULL && kin->counted != NULL;
    for (size_t i = 0; good && i < model->process_count; i++) {
        const gw_process *process = &model->process[i];
        if (process->parent_pid != 0 && process->exe != NULL && has_worked(process) && had_no_trouble(model, process))
            kin->worker[kin->worker_count++] = process;
        if (process->parent_pid != 0 && process->has_restart)
            kin->counted[kin->counted_count++] = process;
        if (!gw_died_badly(process) || !gwi_was_told_to_end(process))
            continue;
        kin->ended[kin->ended_count++] = process;
        if (process->has_rank)
            kin->ranked[kin->ranked_count++] = process;
    }
    sort(kin->worker, kin->worker_count, by_place);
    sort(kin->ended, kin->ended_count, by_parent);
    sort(kin->ranked, kin->ranked_count, by_end);
    sort(kin->counted, kin->counted_count, by_restart);
}

void gwi_kin_close(gwi_kin *kin)
{
    free(kin->worker);
    free(kin->ended);
    free(kin->ranked);
    free(kin->counted);
    *kin = (gwi_kin){0};
}

const gw_process *gwi_kin_successor(const gwi_kin *kin, const gw_process *failed)
{
    if (!failed->exit_known || failed->parent_pid == 0 || failed->exe == NULL)
        return NULL;
    gw_process wanted = *failed;
    wanted.t_seen_ns = failed->t_last_event_ns;
    size_t at = find_first(kin->worker, kin->worker_count, &wanted, by_place);
    for (; at < kin->worker_count && compare_places(kin->worker[at], failed) == 0; at++)
        if (kin->worker[at] != failed)
            return kin->worker[at];
    return NULL;
}

/* True if another process of the list ended within a minute after `process`. With `same_parent`, only processes with
 * the same parent count. */
static bool has_soon_after(const gw_process *const *list, size_t count, const gw_process *process, bool same_parent,
                           int (*order)(const void *, const void *))
{
    const uint64_t soon_ns = 60000000000u;
    for (size_t i = find_first(list, count, process, order); i < count; i++) {
        const gw_process *other = list[i];
        if (other->t_exit_ns - process->t_exit_ns >= soon_ns ||
            (same_parent && other->parent_pid != process->parent_pid))
            return false;
        if (other != process)
            return true;
    }
    return false;
}

bool gwi_kin_ended_after(const gwi_kin *kin, const gw_process *process)
{
    return (process->parent_pid != 0 && has_soon_after(kin->ended, kin->ended_count, process, true, by_parent)) ||
           (process->has_rank && has_soon_after(kin->ranked, kin->ranked_count, process, false, by_end));
}

/* True if the parent of the process started processes again after it. */
static bool has_later_start(const gwi_kin *kin, const gw_process *process)
{
    if (!process->has_restart || process->parent_pid == 0)
        return false;
    gw_process wanted = {.parent_pid = process->parent_pid, .restart = process->restart + 1};
    size_t at = find_first(kin->counted, kin->counted_count, &wanted, by_restart);
    return at < kin->counted_count && kin->counted[at]->parent_pid == process->parent_pid;
}

bool gwi_kin_is_restarted(const gwi_kin *kin, const gw_model *model, const gw_process *process)
{
    enum { GENERATIONS_MAX = 8 };
    for (int i = 0; process != NULL && i < GENERATIONS_MAX; i++) {
        if (has_later_start(kin, process))
            return true;
        uint32_t parent = process->fork_parent_pid != 0 ? process->fork_parent_pid : process->parent_pid;
        process = parent == 0 || parent == process->pid ? NULL : gw_model_process(model, parent);
    }
    return false;
}
