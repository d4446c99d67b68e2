/* Each pid has a linked list of its groups. A group joins its list with its first live bytes, and stays there until the
 * process ends, so a list is never longer than the number of changes since the last end of a process with that pid. */
#include "gwi_alive.h"

#include "gwi_escape.h"

#include <stdlib.h>

/* The end of a list. No group has this index. */
static const uint32_t list_end = UINT32_MAX;

static int compare_pids(const void *a, const void *b)
{
    const uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

/* Return the index of a pid, or pid_count if it has no group. */
static size_t find_pid(const gwi_alive *alive, uint32_t pid)
{
    const uint32_t *found = bsearch(&pid, alive->pid, alive->pid_count, sizeof *alive->pid, compare_pids);
    return found == NULL ? alive->pid_count : (size_t)(found - alive->pid);
}

static void list_pids(const gw_model *model, gwi_alive *alive)
{
    size_t kept = 0;
    for (size_t i = 0; i < model->group_count; i++)
        alive->pid[i] = model->group[i].pid;
    qsort(alive->pid, model->group_count, sizeof *alive->pid, compare_pids);
    for (size_t i = 0; i < model->group_count; i++)
        if (kept == 0 || alive->pid[kept - 1] != alive->pid[i])
            alive->pid[kept++] = alive->pid[i];
    alive->pid_count = kept;
    for (size_t i = 0; i < kept; i++)
        alive->first[i] = list_end;
    for (size_t i = 0; i < model->group_count; i++)
        alive->slot[i] = (uint32_t)find_pid(alive, model->group[i].pid);
}

bool gwi_alive_start(const gw_model *model, gwi_alive *ret_alive)
{
    size_t count = model->group_count;
    gwi_alive alive = {.bytes = calloc(count + 1, sizeof *alive.bytes),
                       .next = calloc(count + 1, sizeof *alive.next),
                       .slot = calloc(count + 1, sizeof *alive.slot),
                       .pid = calloc(count + 1, sizeof *alive.pid),
                       .first = calloc(count + 1, sizeof *alive.first),
                       .group_count = count};
    bool good =
        alive.bytes != NULL && alive.next != NULL && alive.slot != NULL && alive.pid != NULL && alive.first != NULL;
    if (good)
        list_pids(model, &alive);
    else
        gwi_alive_free(&alive);
    *ret_alive = alive;
    return good;
}

void gwi_alive_free(gwi_alive *alive)
{
    free(alive->bytes);
    free(alive->next);
    free(alive->slot);
    free(alive->pid);
    free(alive->first);
    *alive = (gwi_alive){0};
}

void gwi_alive_change(gwi_alive *alive, uint32_t group, uint64_t bytes, bool made)
{
    if (group >= alive->group_count)
        return;
    uint64_t *now = &alive->bytes[group];
    *now = made ? gwi_sum(*now, bytes) : *now > bytes ? *now - bytes : 0;
    if (group == 0 || alive->next[group] != 0) /* group 0 belongs to all processes */
        return;
    uint32_t *first = &alive->first[alive->slot[group]];
    alive->next[group] = *first;
    *first = group;
}

uint32_t gwi_alive_take(gwi_alive *alive, uint32_t pid, uint64_t *ret_bytes)
{
    size_t at = find_pid(alive, pid);
    uint32_t group = at == alive->pid_count ? list_end : alive->first[at];
    if (group == list_end)
        return 0;
    alive->steps++;
    alive->first[at] = alive->next[group];
    alive->next[group] = 0;
    *ret_bytes = alive->bytes[group];
    alive->bytes[group] = 0;
    return group;
}
