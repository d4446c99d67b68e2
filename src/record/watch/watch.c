/* Collects a snapshot: the runs from their folders, the cards from NVML, the processes from /proc (gw_watch.h). */
#include "gwi_watch.h"

#include "gw_array.h"
#include "gw_clock.h"
#include "gw_data.h"
#include "gw_place.h"
#include "gw_process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct gw_watch {
    gwi_sources sources;
    gwi_history history;
    gw_watch_snapshot snapshot;
    size_t card_room, process_room, run_room;
    bool no_memory; /* during a look */
    uint64_t now_ns;
};

gw_status gw_watch_open(const gw_watch_options *options, gw_watch **ret_watch, gw_error *err)
{
    gw_watch *watch = calloc(1, sizeof *watch);
    if (watch == NULL)
        return gw_fail(err, GW_NOMEM, "the snapshot");
    watch->snapshot.alarm_ratio = options->alarm_ratio;
    watch->snapshot.alarm_bytes = options->alarm_bytes;
    watch->snapshot.sees_all = gw_process_reads_all();
    if (gethostname(watch->snapshot.host, sizeof watch->snapshot.host - 1) != 0)
        watch->snapshot.host[0] = '\0';
    gw_status st = gwi_sources_open(&watch->sources, err);
    if (st == GW_OK)
        *ret_watch = watch;
    else
        gw_watch_close(watch);
    return st;
}

void gw_watch_close(gw_watch *watch)
{
    if (watch == NULL)
        return;
    gwi_sources_close(&watch->sources);
    free(watch->snapshot.card);
    free(watch->snapshot.process);
    free(watch->snapshot.run);
    free(watch);
}

/* Copy a text into a fixed place and free it. */
static void store(char *out, size_t room, gw_text *text)
{
    snprintf(out, room, "%s", gw_text_str(text));
    gw_text_free(text);
}

/* ---- runs ---- */

/* Return the seconds from `then_ns` to `now_ns`. The clocks of a file may be wrong, so the future counts as now. */
static uint64_t seconds_since(uint64_t now_ns, uint64_t then_ns)
{
    return then_ns < now_ns ? (now_ns - then_ns) / 1000000000u : 0;
}

static void name_run(gw_watch_run *run)
{
    const char *name = gw_path_last(run->is.recording);
    int bytes = (int)strlen(name) - (gw_ends_with(name, ".gpuwhy") ? 7 : 0);
    if (name[0] == '\0')
        snprintf(run->id, sizeof run->id, "pid-%u", run->is.supervisor_pid);
    else
        snprintf(run->id, sizeof run->id, "%.*s", bytes, name);
}

static void take_uses(gw_watch_run *run)
{
    for (unsigned i = 0; i < GW_LIVE_DEVICES_MAX; i++) {
        const gw_live_device *device = &run->is.device[i];
        if (device->live_bytes == 0 && device->reserved_bytes == 0 && device->kept_bytes == 0 && !device->has_pci &&
            !device->is_mixed)
            continue;
        run->use[run->use_count++] = (gw_watch_use){.device = i, .card = GW_WATCH_NONE, .is = *device};
    }
}

static void take_run(gw_watch *watch, uid_t owner)
{
    gw_watch_snapshot *snapshot = &watch->snapshot;
    gw_watch_run *run = &snapshot->run[snapshot->run_count++];
    gw_text user = {0};
    gw_user_name_add(&user, owner);
    store(run->user, sizeof run->user, &user);
    run->use_count = 0;
    name_run(run);
    run->seconds = seconds_since(watch->now_ns, run->is.started_ns);
    run->stale_s = seconds_since(watch->now_ns, run->is.written_ns);
    run->idle_s = run->is.worked_ns == 0 ? GW_WATCH_UNKNOWN : seconds_since(watch->now_ns, run->is.worked_ns);
    run->failed_s = run->is.failure_count == 0 ? GW_WATCH_UNKNOWN : seconds_since(watch->now_ns, run->is.failed_ns);
    const gw_cuda_error *error = gw_data_cuda_error(run->is.failed_result);
    run->failed_as = error == NULL ? NULL : error->driver_name;
    gwi_run_confine(&run->is, owner);
    gwi_run_look_blind(run, &watch->history, watch->now_ns);
    take_uses(run);
    /* The virtual NVML writes to this folder, so root must not use it for the path that another user names. */
    if (owner == geteuid() && run->is.virtual_cards[0] != '\0' && run->is.virtual_folder[0] != '\0')
        (void)gwi_sources_virtual(&watch->sources, run->is.virtual_cards, run->is.virtual_folder);
}

static void hide_run(gw_watch_snapshot *snapshot, uid_t owner)
{
    gw_text user = {0};
    size_t used = strlen(snapshot->hidden_users);
    gw_user_name_add(&user, owner);
    snapshot->hidden_runs++;
    if (strstr(snapshot->hidden_users, gw_text_str(&user)) == NULL &&
        used + user.bytes + 3 < sizeof snapshot->hidden_users)
        snprintf(snapshot->hidden_users + used, sizeof snapshot->hidden_users - used, "%s%s", used == 0 ? "" : ", ",
                 gw_text_str(&user));
    gw_text_free(&user);
}

static void refuse_run(gw_watch_snapshot *snapshot, const char *why)
{
    snapshot->broken_runs++;
    snprintf(snapshot->broken_why, sizeof snapshot->broken_why, "%.250s", why);
}

static void visit_run(void *user, const char *folder, uid_t owner, pid_t supervisor)
{
    /* so that root's memory does not depend on the folders that another user makes */
    enum { RUNS_MAX = 1024 };
    gw_watch *watch = user;
    gw_watch_snapshot *snapshot = &watch->snapshot;
    gw_error why;
    if (!gwi_is_process_of(owner, (uint32_t)supervisor)) /* it has ended, and its pid may be in use again */
        return;
    if (owner != geteuid() && !snapshot->sees_all) {
        hide_run(snapshot, owner);
        return;
    }
    if (snapshot->run_count >= RUNS_MAX) {
        refuse_run(snapshot, "only 1024 runs are shown");
        return;
    }
    if (!gw_array_room(&snapshot->run, snapshot->run_count, &watch->run_room, sizeof *snapshot->run)) {
        watch->no_memory = true;
        return;
    }
    gw_status st = gw_live_read(folder, owner, &snapshot->run[snapshot->run_count].is, &why);
    if (st == GW_OK && snapshot->run[snapshot->run_count].is.supervisor_pid != (uint32_t)supervisor)
        refuse_run(snapshot, "a run folder has the name of another process");
    else if (st == GW_OK)
        take_run(watch, owner);
    else if (st != GW_MISSING) /* it has none in its first moments, and if an older gpuwhy started it */
        refuse_run(snapshot, why.text);
}

/* Recordings of two users, or in two folders, may have the same name. */
static void name_apart(gw_watch_snapshot *snapshot)
{
    for (size_t i = 0; i < snapshot->run_count; i++) {
        gw_watch_run *run = &snapshot->run[i];
        char name[sizeof run->id];
        bool is_alone = true;
        for (size_t k = 0; k < snapshot->run_count; k++)
            is_alone = is_alone && (k == i || strcmp(run->id, snapshot->run[k].id) != 0);
        if (is_alone)
            continue;
        snprintf(name, sizeof name, "%s", run->id);
        snprintf(run->id, sizeof run->id, "%.*s pid %u", (int)sizeof run->id - 20, name, run->is.supervisor_pid);
    }
}

/* ---- processes ---- */

static void describe(gw_watch_process *process)
{
    gw_text user = {0}, command = {0}, origin = {0};
    gw_process_user_add(&user, (int)process->pid);
    gw_process_command_add(&command, (int)process->pid);
    gwi_origin_add(&origin, "", process->pid);
    store(process->user, sizeof process->user, &user);
    store(process->command, sizeof process->command, &command);
    store(process->started_by, sizeof process->started_by, &origin);
}

static void add_processes(gw_watch *watch, int card)
{
    gw_watch_snapshot *snapshot = &watch->snapshot;
    const gw_room_card *is = &snapshot->card[card].is;
    for (size_t i = 0; i < is->holder_count; i++) {
        if (!gw_array_room(&snapshot->process, snapshot->process_count, &watch->process_room,
                           sizeof *snapshot->process)) {
            watch->no_memory = true;
            return;
        }
        gw_watch_process *process = &snapshot->process[snapshot->process_count++];
        *process =
            (gw_watch_process){.pid = is->holder[i].pid,
                               .card = card,
                               .run = GW_WATCH_NONE,
                               .bytes = is->holder[i].bytes,
                               .pid_is_ours = gwi_sources_pids_are_ours(&watch->sources, snapshot->card[card].source)};
        if (process->pid_is_ours)
            describe(process);
    }
}

/* ---- the look ---- */

static void clear(gw_watch_snapshot *snapshot)
{
    snapshot->card_count = snapshot->process_count = snapshot->run_count = 0;
    snapshot->hidden_runs = snapshot->broken_runs = 0;
    snapshot->hidden_users[0] = snapshot->broken_why[0] = snapshot->no_cards_why[0] = '\0';
}

static int by_start(const void *a, const void *b)
{
    const gw_watch_run *left = a, *right = b;
    if (left->is.started_ns != right->is.started_ns)
        return left->is.started_ns < right->is.started_ns ? -1 : 1;
    return left->is.supervisor_pid < right->is.supervisor_pid ? -1 : 1;
}

gw_status gw_watch_look(gw_watch *watch, const gw_watch_snapshot **ret_snapshot, gw_error *err)
{
    gw_watch_snapshot *snapshot = &watch->snapshot;
    watch->no_memory = false;
    watch->now_ns = gw_monotonic_ns();
    clear(snapshot);
    gw_run_folders_visit_all(visit_run, watch);
    if (snapshot->run_count > 1)
        qsort(snapshot->run, snapshot->run_count, sizeof *snapshot->run, by_start);
    name_apart(snapshot);
    gw_status st = gwi_sources_read(&watch->sources, snapshot, &watch->card_room, err);
    for (size_t i = 0; st == GW_OK && i < snapshot->card_count; i++)
        add_processes(watch, (int)i);
    if (st != GW_OK || watch->no_memory)
        return st != GW_OK ? st : gw_fail(err, GW_NOMEM, "the snapshot");
    snapshot->t_realtime_ns = gw_realtime_ns();
    gwi_snapshot_judge(snapshot, &watch->history);
    *ret_snapshot = snapshot;
    return GW_OK;
}
