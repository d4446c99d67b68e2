/* `gpuwhy run --hang-after`: detects hangs, records each one, reports the first, and ends the program if requested. */
#include "gw_hang_watch.h"
#include "gwi_run.h"

#include "gw_fact.h"
#include "gw_say.h"
#include "gw_stacks.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const uint64_t look_every_ns = 1000000000u;
/* --kill-on-hang: time between SIGTERM and SIGKILL. */
static const uint64_t kill_after_ns = 10000000000u;

gw_status gwi_hangs_begin(gwi_hangs *hangs, const gw_run_options *options, gw_error *err)
{
    const char *text = options->hang_after;
    *hangs = (gwi_hangs){0};
    /* the default is "off" at a terminal, where the user can see that the program hangs */
    if (text == NULL || strcmp(text, "auto") == 0)
        text = options->kill_on_hang || !isatty(STDERR_FILENO) ? "300" : "off";
    if (strcmp(text, "off") == 0) {
        return options->kill_on_hang ? gw_fail(err, GW_USAGE, "--kill-on-hang cannot be combined with --hang-after off")
                                     : GW_OK;
    }
    char *end = NULL;
    double seconds = strtod(text, &end);
    if (end == text || *end != '\0' || !(seconds >= 0.1 && seconds <= 1e6))
        return gw_fail(err, GW_USAGE,
                       "--hang-after %s: must be `auto`, `off` or a number of seconds from 0.1 to 1000000", text);
    hangs->kill = options->kill_on_hang;
    hangs->after_ns = (uint64_t)(seconds * 1e9);
    return GW_OK;
}

static void put_item(void *user, const gw_item *item)
{
    gwi_record_put(user, item);
}

static void tell_over(gwi_record *record, gw_watched_process *process)
{
    gw_item item = {.kind = GW_ITEM_SUPERVISOR, .t_ns = gwi_record_now_ns(record), .pid = process->pid};
    item.pair.key = gw_fact_key_text(GW_FACT_HANG_OVER);
    item.pair.value = "";
    gwi_record_put(record, &item);
    process->told = process->is_undecided = false;
    process->looks = 0;
}

/* True if nothing has happened in the process for long enough, and it was not looked at for long enough. The time
 * between two looks at a process that is undecided doubles, up to 64 times --hang-after. */
static bool is_due(const gwi_hangs *hangs, const gw_watched_process *process)
{
    /* limits, so that a program with long kernels or long rests does not fill its recording with hangs */
    enum { TOLD_MAX = 8, LOOKS_MAX = 32, DOUBLED_MAX = 6 };
    uint64_t now = hangs->watch.now_ns, between_ns = hangs->after_ns;
    uint64_t looked = process->looked_at_ns > process->since_ns ? process->looked_at_ns : process->since_ns;
    if (process->told && (!process->is_undecided || process->looks >= LOOKS_MAX))
        return false;
    if (!process->told && process->told_count >= TOLD_MAX)
        return false;
    if (process->told)
        between_ns <<= process->looks - 1 < DOUBLED_MAX ? process->looks - 1 : DOUBLED_MAX;
    return now - process->since_ns >= hangs->after_ns && now - looked >= between_ns;
}

/* Record a new hang of the process, and the end of a recorded one. Returns true if a hang was recorded. */
static bool note_hang(gwi_hangs *hangs, gwi_record *record, gw_watched_process *process)
{
    uint64_t now = hangs->watch.now_ns;
    if (process->told && process->since_ns == now)
        tell_over(record, process);
    if (!is_due(hangs, process))
        return false;
    process->looked_at_ns = now;
    if (!gw_hang_tell(&hangs->watch, process, false, put_item, record))
        return false;
    process->told_count += !process->told;
    process->looks++;
    process->told = true;
    process->is_undecided = false;
    return true;
}

/* Look again later at the processes that were looked at now: one verdict has judged them all, and found no hang. */
static void leave_undecided(gwi_hangs *hangs)
{
    for (size_t i = 0; i < hangs->watch.process_count; i++) {
        gw_watched_process *process = &hangs->watch.process[i];
        if (process->told && process->looked_at_ns == hangs->watch.now_ns)
            process->is_undecided = true;
    }
}

static void say_hang(gwi_hangs *hangs, gwi_record *record, gwi_stderr *capture, const char *run_folder, pid_t child)
{
    gwi_record_stderr(record, capture);
    gwi_record_drain(record, false);
    if (run_folder[0] == '\0')
        return;
    if (!hangs->judge(hangs->user, run_folder)) {
        leave_undecided(hangs);
        return;
    }
    hangs->told = true;
    if (hangs->kill) {
        gw_say("--kill-on-hang: SIGTERM to pid %d", (int)child);
        hangs->killed_at_ns = gwi_record_now_ns(record);
        kill(child, SIGTERM);
    }
}

/* Kill the command and every recorded process, because a hanging process does not end with its parent. */
static void kill_all(const gwi_record *record, pid_t child)
{
    enum { PIDS_MAX = 256 };
    uint32_t pid[PIDS_MAX];
    gw_say("--kill-on-hang: SIGKILL to pid %d and to every recorded process", (int)child);
    size_t count = gw_drain_alive(record->drain, pid, PIDS_MAX);
    kill(child, SIGKILL);
    for (size_t i = 0; i < count && i < PIDS_MAX; i++)
        kill((pid_t)pid[i], SIGKILL);
}

void gwi_hangs_look(gwi_hangs *hangs, gwi_record *record, gwi_stderr *capture, const char *run_folder, pid_t child)
{
    uint64_t now = gwi_record_now_ns(record), every_ns = hangs->after_ns / 10;
    gw_stacks_let_go();
    if (hangs->after_ns == 0 || record->drain == NULL)
        return;
    if (hangs->killed_at_ns != 0 && now - hangs->killed_at_ns > kill_after_ns) {
        hangs->killed_at_ns = now;
        kill_all(record, child);
    }
    every_ns = every_ns > look_every_ns ? look_every_ns : every_ns;
    if (now - hangs->looked_at_ns < every_ns)
        return;
    hangs->looked_at_ns = now;
    gw_hang_watch_begin(&hangs->watch, now);
    gw_drain_look(record->drain, gw_hang_watch_see, &hangs->watch);
    gw_hang_watch_end(&hangs->watch);
    bool any = false;
    for (size_t i = 0; i < hangs->watch.process_count; i++)
        any = note_hang(hangs, record, &hangs->watch.process[i]) || any;
    if (any && !hangs->told)
        say_hang(hangs, record, capture, run_folder, child);
}
