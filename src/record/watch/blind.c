/* Decides which processes belong to a run, and whether their frameworks hide memory from gpuwhy (gwi_watch.h). This is
 * done here and not in the supervisor of the run, so that a run costs nothing for it while nobody watches. */
#include "gwi_watch.h"

#include "gw_frameworks.h"
#include "gw_process.h"

#include <errno.h>
#include <signal.h>

static const uint64_t check_every_ns = 10000000000u;

bool gwi_is_process_of(uid_t owner, uint32_t pid)
{
    if (owner != 0)
        return gw_process_is_of(owner, (int)pid);
    return kill((pid_t)pid, 0) == 0 || errno != ESRCH;
}

void gwi_run_confine(gw_live *live, uid_t owner)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < live->pid_count; i++) {
        if (!gwi_is_process_of(owner, live->pid[i]))
            continue;
        live->pid[kept] = live->pid[i];
        live->has_cache[kept++] = live->has_cache[i];
    }
    live->pid_count = kept;
}

static gwi_mapped *mapped_of(gwi_history *history, uint32_t pid)
{
    gwi_mapped *hole = NULL;
    for (size_t i = 0; i < GWI_SEEN_MAX; i++) {
        if (history->mapped[i].pid == pid)
            return &history->mapped[i];
        if (history->mapped[i].pid == 0 && hole == NULL)
            hole = &history->mapped[i];
    }
    if (hole != NULL)
        *hole = (gwi_mapped){.pid = pid};
    return hole;
}

static void check(gwi_mapped *mapped, uint64_t now_ns)
{
    mapped->is_used = true;
    if (mapped->checked_ns != 0 && mapped->is_known && now_ns < mapped->checked_ns + check_every_ns)
        return;
    mapped->checked_ns = now_ns;
    mapped->is_known = gw_frameworks_find(mapped->pid, &mapped->frameworks);
}

void gwi_run_look_blind(gw_watch_run *run, gwi_history *history, uint64_t now_ns)
{
    run->blind_pid = 0;
    run->is_unseen = false;
    for (uint32_t i = 0; i < run->is.pid_count && run->blind_pid == 0; i++) {
        gwi_mapped *mapped = mapped_of(history, run->is.pid[i]);
        if (mapped != NULL)
            check(mapped, now_ns);
        if (mapped == NULL || !mapped->is_known)
            run->is_unseen = true;
        else if ((mapped->frameworks & GW_FRAMEWORK_GREEDY) != 0 ||
                 ((mapped->frameworks & GW_FRAMEWORK_TORCH) != 0 && run->is.has_cache[i] == 0))
            run->blind_pid = run->is.pid[i];
    }
}
