/* Finishes the recording after the program has ended: records its exit status and the last facts about its processes,
 * cards and dumps. */
#include "gw_virt_spec.h"
#include "gwi_state.h"

#include "gw_clock.h"
#include "gw_fact.h"
#include "gw_text.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

/* Maximum time to wait, after the end of the command, for the end of other recorded processes. */
static const uint64_t others_end_ns = 1000000000u;

/* Record each line of the file "notes", which the virtual cards write, as one fact. If runs share the cards, the file
 * has lines of others, too: a line about the host's memory names its run. */
static void take_virtual_notes(gw_supervisor *run)
{
    gw_path path, full;
    if (run->doors.virtual_folder[0] == '\0' ||
        gw_path_format(path, NULL, "%s/notes", run->doors.virtual_folder) != GW_OK ||
        gw_path_format(full, NULL, GW_VIRT_NOTE_HOST " %s: ", run->run_folder) != GW_OK)
        return;
    char line[1024];
    FILE *notes = fopen(path, "re");
    while (notes != NULL && fgets(line, sizeof line, notes) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (!gw_begins(line, GW_VIRT_NOTE_HOST)) {
            gwi_record_fact(&run->record, "virtual.note", "%s", line);
        } else if (gw_begins(line, full) && !run->is_host_full) {
            run->is_host_full = true;
            gwi_record_fact(&run->record, gw_fact_key_text(GW_FACT_HOST_FULL), "%s", line + strlen(full));
        }
    }
    if (notes != NULL)
        fclose(notes);
}

/* What the loop does, without the command. */
static void wait_a_bit(gw_supervisor *run)
{
    gwi_loop_wait(run);
    gwi_handout_look(&run->handout);
    gwi_signals_pass_on(&run->signals, 0); /* drop the signals, because the program has ended */
    gwi_record_drain(&run->record, false);
}

/* After --kill-on-hang, end the ranks and the recorded processes that outlive the command. Some of them take SIGTERM as
 * a notice only, as JAX does. */
static void end_hung(gw_supervisor *run)
{
    uint64_t until_ns = gw_monotonic_ns() + GWI_KILL_AFTER_NS;
    if (gwi_hangs_signal(&run->hangs, &run->record, SIGTERM) == 0)
        return;
    while (gwi_hangs_signal(&run->hangs, &run->record, 0) > 0 && gw_monotonic_ns() < until_ns)
        wait_a_bit(run);
    (void)gwi_hangs_signal(&run->hangs, &run->record, SIGKILL);
}

/* Wait for recorded processes that still run after the command's end, such as a launcher's workers. They often end
 * soon. Wait only for a short time: a service does not end. */
static void see_others_end(gw_supervisor *run)
{
    enum { PIDS_MAX = 64 };
    uint32_t pid[PIDS_MAX];
    if (run->record.drain == NULL)
        return;
    uint64_t until_ns = gw_monotonic_ns() + others_end_ns;
    gwi_record_drain(&run->record, false);
    size_t count = gw_drain_alive(run->record.drain, pid, PIDS_MAX);
    while (count > 0 && gw_monotonic_ns() < until_ns) {
        wait_a_bit(run);
        count = gw_drain_alive(run->record.drain, pid, PIDS_MAX);
    }
    for (size_t i = 0; i < count && i < PIDS_MAX; i++) {
        gw_item item = {.kind = GW_ITEM_SUPERVISOR, .t_ns = gwi_record_now_ns(&run->record), .pid = pid[i]};
        item.pair.key = gw_fact_key_text(GW_FACT_PROCESS_ALIVE);
        item.pair.value = "when the command had ended";
        gwi_record_put(&run->record, &item);
    }
}

/* Record which gpuwhy runs were started inside this one. Each of them wrote one line to the file "nested": see
 * say_nested() in supervisor.c. */
static void take_nested(gw_supervisor *run)
{
    gw_path path;
    char line[PATH_MAX + 128];
    if (run->run_folder[0] == '\0' || gw_path_format(path, NULL, "%s/nested", run->run_folder) != GW_OK)
        return;
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        gwi_record_fact(&run->record, "unobserved.nested", "%s", line);
    }
    if (file != NULL)
        fclose(file);
}

/* Record who asked the program to end, if that signal reached us, too. */
static void take_stop_signal(gw_supervisor *run, uint64_t ended_ns)
{
    const gwi_signals *signals = &run->signals;
    gwi_signals_pass_on(&run->signals, 0);
    bool is_parent = run->parent_gone_at_ns != 0;
    if (signals->stop_signal == 0 && !is_parent)
        return;
    const uint64_t second_ns = 1000000000u;
    bool is_early = !is_parent && signals->stop_ns != 0 && signals->stop_ns < ended_ns;
    gw_fact_stop fact = {
        GW_FACT_SET(signal, is_parent ? SIGTERM : (uint32_t)signals->stop_signal),
        GW_FACT_SET(outside, is_parent || signals->is_from_outside),
        GW_FACT_SET(early_s, is_early ? (uint32_t)((ended_ns - signals->stop_ns) / second_ns) : 0),
        .has_pid = !is_parent && signals->sender != 0,
        .pid = (uint32_t)signals->sender,
        GW_FACT_SET(from, gw_fact_text_of(is_parent ? "gpuwhy, because its own parent had ended (--end-with-parent)"
                                                    : signals->sender_name)),
    };
    gw_text text = {0};
    gw_fact_stop_write(&fact, &text);
    gwi_record_fact(&run->record, gw_fact_key_text(GW_FACT_STOP_SIGNAL), "%s", gw_text_str(&text));
    gw_text_free(&text);
}

void gwi_finish_recording(gw_supervisor *run)
{
    uint64_t ended_at_ns = gwi_record_now_ns(&run->record), ended_ns = gw_monotonic_ns();
    gwi_around_look(&run->around, &run->record);
    end_hung(run);
    see_others_end(run);
    gwi_stderr_settle(&run->capture);
    gwi_record_drain(&run->record, true);
    gwi_watch_last(&run->watch, &run->record);
    gwi_holders_record(&run->record, &run->doors);
    gwi_senses_last(&run->senses, &run->record, run->status);
    gwi_record_stderr(&run->record, &run->capture);
    gwi_cudnn_end(&run->cudnn);
    take_virtual_notes(run);
    take_nested(run);
    take_stop_signal(run, ended_ns);
    gwi_dumps_take(&run->dumps, &run->record, run->child);
    gwi_host_cores_take(&run->record, run->child, run->status);
    if (!run->options.no_sense)
        gwi_flights_take(&run->record);
    gw_item item = {.kind = GW_ITEM_EXIT, .t_ns = ended_at_ns};
    item.pid = (uint32_t)run->child;
    item.exit = (gw_exit_fact){.pid = (uint32_t)run->child,
                               .is_command = true,
                               .status_known = true,
                               .exit_code = WIFEXITED(run->status) ? WEXITSTATUS(run->status) : -1,
                               .signal = WIFSIGNALED(run->status) ? WTERMSIG(run->status) : 0,
                               .core_dumped = WIFSIGNALED(run->status) && WCOREDUMP(run->status)};
    gwi_record_put(&run->record, &item);
    gwi_record_names(&run->record); /* last: if the user interrupts this step, everything else is already recorded */
}
