/* A signal from outside ended the program.
 *
 * Established only by: death by SIGHUP, SIGINT, SIGQUIT or SIGTERM, if:
 * - gpuwhy received this signal, too, less than two seconds before the end, and its sender does not belong to the
 * program (fact "stop.signal")
 * - no driver call failed, and nothing hung
 * - no stream had work that the program never waits for
 * - stderr was recorded and does not explain a failure (KeyboardInterrupt is Python's report of SIGINT)
 *
 * A failing program may end its own process group with such a signal, but it then prints a reason.
 *
 * Supported by:
 * - such a signal that only the program received: it may have sent the signal itself (raise, kill, alarm)
 * - SIGKILL, which the kernel may have sent
 * - an exit status that stands for a signal, or another one right after gpuwhy received a signal from outside
 * - a signal after an exception
 * - an error that a closed terminal causes (EIO)
 * - a signal while a stream had unawaited work: a kernel that never finishes may be why someone ended the program */
#include "gw_fact.h"
#include "gwi_alone.h"
#include "gwi_coverage.h"
#include "gwi_machine.h"

#include <stdio.h>
#include <string.h>

static const char *sender_of(int signal)
{
    switch (signal) {
    case 1:
        return "SIGHUP: its terminal or session was closed";
    case 2:
        return "SIGINT: Ctrl-C, or another process sent it";
    case 3:
        return "SIGQUIT: Ctrl-\\, or another process sent it";
    case 9:
        return "SIGKILL: a user, a scheduler or the kernel's out-of-memory killer";
    case 15:
        return "SIGTERM: a user or a scheduler (time limit, preemption)";
    case 24:
        return "SIGXCPU: the CPU time limit";
    default:
        return NULL;
    }
}

/* Return the signal that ended the program, or 0. Shells and Python turn a signal into the exit status 128 + n, which
 * is 130 for Ctrl-C. */
static int signal_of(const gwi_case *c)
{
    if (c->signal != 0)
        return c->signal;
    bool interrupted = c->model->stderr_facts.exception.seen && c->exit_code == 130;
    return interrupted || c->exit_code == 128 + 15 || c->exit_code == 128 + 9 ? c->exit_code - 128 : 0;
}

/* True if the program may have printed why it failed. A failing program may print the reason and then end itself or its
 * process group with a signal. */
static bool may_have_said_why(const gwi_case *c)
{
    const gw_stderr_facts *facts = &c->model->stderr_facts;
    bool interrupted = strcmp(facts->exception_type, "KeyboardInterrupt") == 0;
    if (facts->bytes == 0 && gw_model_fact(c->model, GW_FACT_STDERR_NOT_RECORDED) != NULL)
        return true; /* stderr was not recorded, so it may contain a reason */
    return (facts->exception.seen && !interrupted) || facts->terminate.seen || facts->fatal.seen;
}

/* Report who sent the signal, if gpuwhy received it, too. Returns true if that was not the program itself. A program
 * that survived the signal for a while may have sent itself another one later. */
static bool say_sender(const gwi_case *c, gwi_finding *finding, int signal)
{
    enum { EARLY_S = 2 }; /* early_s is rounded down */
    const gw_pair *pair = gw_model_fact(c->model, GW_FACT_STOP_SIGNAL);
    if (pair == NULL)
        return false;
    gw_fact_stop stop;
    gw_fact_stop_read(gw_fact_text_of(pair->value), &stop);
    if (stop.signal != (uint32_t)signal || !stop.outside)
        return false;
    char pid[32] = "";
    if (stop.has_pid)
        snprintf(pid, sizeof pid, "pid %u, ", stop.pid);
    char early[96] = "";
    bool is_early = stop.has_early_s && stop.early_s >= EARLY_S;
    if (is_early)
        snprintf(early, sizeof early, ", %u s before the end; the program may have sent itself another", stop.early_s);
    gwi_evidence(finding, GWI_NO_TIME, "exit", "the signal was sent by %s%.*s%s", pid, (int)stop.from.bytes,
                 stop.from.data, early);
    return !is_early;
}

/* Report the command of --alarm-at if it was started before the end: it may be what sent the signal. */
static bool say_alarm(const gwi_case *c, gwi_finding *finding)
{
    const gw_pair *alarm = gw_model_fact(c->model, GW_FACT_MEMORY_ALARM);
    gw_fact_memory_alarm read;
    if (alarm == NULL)
        return false;
    gw_fact_memory_alarm_read(gw_fact_text_of(alarm->value), &read);
    if (!read.command)
        return false;
    gwi_evidence(finding, alarm->t_ns, "host", "the command of --alarm-at was started; it may have sent the signal");
    return true;
}

static void say_survive(gwi_finding *finding)
{
    gwi_next(finding,
             "To let it survive a closed terminal, start it with nohup, in tmux or screen, or with systemd-run "
             "--user --scope");
}

/* The terminal was closed, and the program ended with an error instead of a signal: every read and write on a closed
 * terminal fails with EIO. Without a message about EIO, this is only a hypothesis. */
static gw_certainty judge_closed_terminal(const gwi_case *c, gwi_finding *finding)
{
    const uint64_t soon_ns = 5000000000u;
    const gw_pair *closed = gw_model_fact(c->model, GW_FACT_TERMINAL_CLOSED);
    const gw_stderr_facts *facts = &c->model->stderr_facts;
    if (closed == NULL || !c->ended || !c->bad_end || c->signal != 0 || c->root != NULL)
        return GW_CERTAINTY_NONE;
    bool is_told = gw_stderr_said(facts, GW_SAYS_IO_ERROR, NULL) != NULL;
    uint64_t end_ns = c->model->t_end_ns, t_ns = closed->t_ns;
    bool is_near = end_ns < t_ns + soon_ns && t_ns < end_ns + soon_ns;
    if (!is_told && (facts->exception.seen || !is_near))
        return GW_CERTAINTY_NONE;
    gwi_headline(finding, "its terminal was closed, and the program ended with status %d", c->exit_code);
    gwi_evidence(finding, t_ns, "host",
                 "the terminal was closed: every read and write on it failed from then on (EIO)");
    if (is_told)
        gwi_evidence(finding, GWI_NO_TIME, "stderr", "the program reported EIO (input/output error)");
    say_survive(finding);
    gwi_rule_out_gpu(c, finding, "no driver call failed");
    finding->refutes_text = is_told && is_near; /* the same message may also mean a broken disk */
    return is_told && is_near ? GW_SUPPORTED : GW_HYPOTHESIS;
}

/* The program ended by itself, with an error status and without a reason, right after somebody else had asked it to end
 * by a signal that gpuwhy received, too. It may have been about to end anyway. */
static gw_certainty judge_asked_to_end(const gwi_case *c, gwi_finding *finding)
{
    const gw_pair *pair = gw_model_fact(c->model, GW_FACT_STOP_SIGNAL);
    gw_fact_stop stop;
    if (pair == NULL || !c->ended || !c->bad_end || c->signal != 0 || c->root != NULL || may_have_said_why(c) ||
        c->hang.kind != GWI_HANG_NONE)
        return GW_CERTAINTY_NONE;
    gw_fact_stop_read(gw_fact_text_of(pair->value), &stop);
    if (!say_sender(c, finding, (int)stop.signal))
        return GW_CERTAINTY_NONE;
    gwi_headline(finding, "signal %u from outside asked the program to end, and it exited with status %d", stop.signal,
                 c->exit_code);
    if (stop.signal == 1)
        say_survive(finding);
    gwi_rule_out_gpu(c, finding, "no driver call failed");
    return GW_SUPPORTED;
}

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    int signal = c->ended ? signal_of(c) : 0;
    const char *sender = sender_of(signal);
    if (sender == NULL) {
        gw_certainty certainty = judge_closed_terminal(c, finding);
        return certainty != GW_CERTAINTY_NONE ? certainty : judge_asked_to_end(c, finding);
    }
    bool is_outside = say_sender(c, finding, signal);
    gwi_headline(finding, is_outside ? "signal %d from outside ended the program" : "signal %d ended the program",
                 signal);
    if (signal == 1)
        say_survive(finding);
    bool is_alarm = !is_outside && say_alarm(c, finding);
    if (!is_outside && signal != 9 && !is_alarm)
        gwi_next(finding, "Who sent the signal is not known: search the program and its libraries for kill, raise, "
                          "alarm and watchdogs of their own");
    if (c->signal == 0)
        gwi_evidence(finding, c->model->t_end_ns, "exit", "exit status %d means that signal", c->exit_code);
    const gwi_oom_kill kill = gwi_find_oom_kill(c);
    bool no_oom_kill = kill.log == NULL && kill.group == NULL && kill.is_group_known && kill.group_count == 0 &&
                       (!kill.is_host_known || kill.host_count == 0);
    gwi_evidence(finding, c->model->t_end_ns, "exit", "%s",
                 signal == 9 && no_oom_kill ? "SIGKILL: a user or a scheduler" : sender);
    if (signal == 9 && no_oom_kill)
        gwi_rule_out(c, finding, GWI_OF_MACHINE, "the kernel's out-of-memory killer (oom_kill did not rise)");
    else if (signal == 9)
        gwi_next(finding, "Search the kernel log for \"Out of memory: Killed process\", and check oom_kill in the "
                          "cgroup's memory.events: either means that the host's memory ran out");
    gwi_rule_out_gpu(c, finding, "no driver call failed");
    if (c->sticky != NULL || c->oom != NULL || c->hang.kind != GWI_HANG_NONE)
        return GW_HYPOTHESIS; /* the program may have been ended because of this failure or hang */
    bool direct = c->signal != 0 && signal != 9 && !gwi_is_any_alone(c);
    return is_outside && direct && c->root == NULL && !may_have_said_why(c) ? GW_ESTABLISHED : GW_SUPPORTED;
}

const gw_cause gwi_cause_killed_by_scheduler_or_user = {
    .id = "killed-by-scheduler-or-user",
    .summary = "A user, a scheduler or a time limit ended the program.",
    .proof =
        "a signal from outside that ended the process, with no failed driver call and no reported failure before it",
    .fixes = {[GW_FRAMEWORK_RAW] = "Check the scheduler's record of the job: time limit, memory limit, preemption\n"
                                   "Write checkpoints, and handle SIGTERM by writing a last one"},
    .depth = GWI_IS_END,
    .judge = judge,
};
