/* The main loop while the program runs. It drains the buffers into the recording, samples the cards and the machine,
 * and examines new processes. It passes signals on to the program and, if requested, judges failures and hangs. */
#include "gwi_state.h"

#include "gw_clock.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

/* A program that frees small blocks may suddenly write 500,000 events a second (measured on an H200). This fills its
 * buffer in 90 ms. So the fill levels are checked several times between two drains. */
enum { DRAIN_EVERY_MS = 100, GLANCE_EVERY_MS = 20, DRAIN_SOON_MS = 10, FIRST_LOOK_MS = 5 };
static const double fill_ratio_soon = 0.5, fill_ratio_now = 0.25;
/* The program may recover from a failure, so it is judged only failure_lasts_ns after its last failure. If failures
 * keep coming, it is judged every judge_again_ns. */
static const uint64_t failure_lasts_ns = 3000000000u;
static const uint64_t judge_again_ns = 10000000000u;

/* ---- --on-failure ---- */

static void judge_while_running(gw_supervisor *run)
{
    gwi_record_stderr(&run->record, &run->capture);
    gwi_cudnn_look(&run->cudnn);
    gwi_record_drain(&run->record, false);
    if (run->judges.failure != NULL && run->judges.failure(run, run->run_folder, run->judges.user))
        run->failure_told = true;
}

static void look_at_failures(gw_supervisor *run)
{
    if (run->command_pid > 0 && waitpid(run->command_pid, NULL, WNOHANG) == run->command_pid)
        run->command_pid = 0;
    uint64_t now = gwi_record_now_ns(&run->record), since = run->record.failure_at_ns;
    if (run->options.on_failure == NULL || run->failure_told || since == 0 || run->record.path[0] == '\0' ||
        run->run_folder[0] == '\0')
        return;
    if (now - since < failure_lasts_ns && now < run->judged_at_ns + judge_again_ns)
        /* wait, because the program may still recover; if failures keep coming, wait at most judge_again_ns */
        return;
    if (now < run->judged_at_ns + failure_lasts_ns)
        return;
    run->judged_at_ns = now;
    run->record.failure_at_ns = 0;
    judge_while_running(run);
}

/* ---- --end-with-parent ---- */

/* End the program when our parent has ended. Suppose that a server starts programs through gpuwhy. The program's parent
 * is gpuwhy, so the program cannot notice the end of the server. */
static void look_at_parent(gw_supervisor *run)
{
    static const uint64_t patience_ns = 5000000000u;
    if (!run->options.end_with_parent || getppid() == run->parent)
        return;
    uint64_t now = gw_monotonic_ns();
    if (run->parent_gone_at_ns == 0) {
        run->parent_gone_at_ns = now;
        kill(run->child, SIGTERM);
    } else if (now - run->parent_gone_at_ns > patience_ns) {
        kill(run->child, SIGKILL);
    }
}

bool gwi_is_asked_to_end(gw_supervisor *run)
{
    gwi_signals_pass_on(&run->signals, 0);
    if (run->options.end_with_parent && getppid() != run->parent && run->signals.stop_signal == 0)
        run->signals.stop_signal = SIGTERM;
    return run->signals.stop_signal != 0;
}

/* ---- the loop ---- */

static bool is_filled(const gw_supervisor *run, double ratio)
{
    return run->record.drain != NULL && gw_drain_fill_ratio(run->record.drain) > ratio;
}

void gwi_loop_wait(const gw_supervisor *run)
{
    /* Wake up when a recorded process ends: its exit status is easiest to read before its parent has waited for it. */
    struct pollfd waited[] = {
        {.fd = run->signals.fd, .events = POLLIN},
        {.fd = run->handout.fd, .events = POLLIN},
        {.fd = run->record.drain == NULL ? -1 : gw_drain_end_fd(run->record.drain), .events = POLLIN}};
    const nfds_t count = sizeof waited / sizeof waited[0];
    bool is_new = gwi_record_now_ns(&run->record) < run->started_at_ns + FIRST_LOOK_MS * UINT64_C(1000000);
    if (is_new || is_filled(run, fill_ratio_soon)) {
        poll(waited, count, is_new ? FIRST_LOOK_MS : DRAIN_SOON_MS);
        return;
    }
    for (int ms = 0; ms < DRAIN_EVERY_MS; ms += GLANCE_EVERY_MS) {
        if (poll(waited, count, GLANCE_EVERY_MS) != 0 || is_filled(run, fill_ratio_now))
            return;
    }
}

void gwi_loop_run(gw_supervisor *run)
{
    while (!gwi_child_ended(run->child, &run->status)) {
        gwi_loop_wait(run);
        gwi_signals_pass_on(&run->signals, run->child);
        gwi_handout_look(&run->handout);
        gwi_shared_file_look(&run->shared, &run->doors);
        gwi_relay_look(&run->capture);
        gwi_record_drain(&run->record, false);
        gwi_cudnn_look(&run->cudnn);
        gwi_holders_record(&run->record, &run->doors);
        gwi_memory_look(&run->memory, run->record.drain, gwi_record_now_ns(&run->record));
        gwi_alarm_look(run);
        gwi_live_look(run);
        gwi_senses_look(&run->senses, &run->record);
        gwi_around_look(&run->around, &run->record);
        gwi_watch_look(&run->watch, &run->record, &run->doors, run->child, false);
        look_at_failures(run);
        look_at_parent(run);
        gwi_rehearsal_look(run);
        gwi_hangs_look(&run->hangs, &run->record, &run->capture, run->run_folder, run->child);
    }
}
