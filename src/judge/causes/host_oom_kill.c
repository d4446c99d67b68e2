/* The kernel killed the program because the host or its control group had no memory left.
 *
 * Established only by: one of these:
 * - The kernel's log reports that it killed a process of the run for lack of memory, and the run ended because of this.
 *   In a text log, an error must follow.
 * - A control group's count of these kills, or of those by systemd-oomd, rose within 1.5 s of the program's death by
 * SIGKILL, and no driver call had failed. A user's SIGKILL does not raise the count.
 *
 * Supported by:
 * - the count, if it rose at another time;
 * - a killed worker, if the run ended for another reason. */
#include "gwi_coverage.h"
#include "gwi_machine.h"

#include <inttypes.h>

enum { KILL = 9 };
/* The death by SIGKILL and the rise of the count must be at most this far apart. The count is sampled only ten times a
 * second. */
static const uint64_t together_ns = 1500000000u;

/* True if a SIGKILL ended the program. A shell reports the signal as an exit status, and Python's multiprocessing
 * reports it as text. */
static bool was_killed(const gwi_case *c)
{
    return c->signal == KILL || c->exit_code == 128 + KILL || gwi_is_told(c, &gwi_cause_host_oom_kill);
}

static void say_memory(const gwi_case *c, gwi_finding *finding)
{
    const gw_model *model = c->model;
    char bytes[GW_BYTES_TEXT_MAX], limit[GW_BYTES_TEXT_MAX];
    const gw_series *most = gw_machine_known(model, GW_METRIC_CGROUP_MEMORY_LIMIT, GW_NO_DEVICE, 0);
    const gw_series *peak = gw_machine_known(model, GW_METRIC_CGROUP_MEMORY_PEAK, GW_NO_DEVICE, 0);
    if (most != NULL && most->last != UINT64_MAX && peak != NULL)
        gwi_measure(finding, peak->t_last_ns, "host", (double)peak->last, "bytes",
                    "the control group used up to %s of its limit of %s", gw_bytes_text(bytes, peak->last),
                    gw_bytes_text(limit, most->last));
    const gw_series *available = gw_machine_known(model, GW_METRIC_HOST_MEMORY_AVAILABLE, GW_NO_DEVICE, 0);
    if (available != NULL)
        gwi_measure(finding, available->t_min_ns, "host", (double)available->min, "bytes",
                    "lowest free memory of the whole host: %s", gw_bytes_text(bytes, available->min));
    const gw_process *command = model->command;
    const gw_series *own =
        command == NULL ? NULL : gw_machine_known(model, GW_METRIC_PROCESS_MEMORY, GW_NO_DEVICE, command->pid);
    if (own != NULL)
        gwi_measure(finding, own->t_max_ns, "host", (double)own->max, "bytes",
                    "the command itself used up to %s of host memory", gw_bytes_text(bytes, own->max));
}

/* True if the run ended because the kernel killed the process of `event`. A parent may instead have replaced a killed
 * worker and continued. */
static bool ended_by_it(const gwi_case *c, const gw_machine_event *event, bool killed)
{
    const gw_stderr_facts *facts = &c->model->stderr_facts;
    const gw_process *command = c->model->command;
    bool is_judged = c->process != NULL && event->pid == c->process->pid;
    bool is_command = command != NULL && event->pid == command->pid;
    if (is_judged || is_command || !event->is_ours) /* not ours: not recorded, but the program's output names the pid */
        return true;
    if (c->root != NULL || event->t_ns + together_ns < c->model->t_end_ns)
        return false;
    return killed || (c->signal == 0 && (c->exception != GW_EXCEPTION_SCRIPT || facts->exception_about_child));
}

static gw_certainty decide(const gwi_case *c, const gwi_oom_kill *kill)
{
    bool by_count = kill->group != NULL || kill->group_count > 0 || (!kill->is_group_known && kill->host_count > 0);
    if (!c->ended || !c->bad_end || (kill->log == NULL && !(was_killed(c) && by_count)))
        return GW_CERTAINTY_NONE;
    if (kill->log != NULL)
        return ended_by_it(c, kill->log, was_killed(c)) ? GW_ESTABLISHED : GW_SUPPORTED;
    uint64_t end_ns = c->model->t_end_ns;
    bool together =
        kill->group != NULL && kill->group->t_ns + together_ns >= end_ns && end_ns + together_ns >= kill->group->t_ns;
    return together && c->root == NULL ? GW_ESTABLISHED : GW_SUPPORTED;
}

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    const gwi_oom_kill kill = gwi_find_oom_kill(c);
    gw_certainty certainty = decide(c, &kill);
    if (certainty == GW_CERTAINTY_NONE)
        return certainty;
    const gw_series *limit = gw_machine_known(c->model, GW_METRIC_CGROUP_MEMORY_LIMIT, GW_NO_DEVICE, 0);
    bool by_group = kill.log != NULL ? kill.log->code == 1 : limit != NULL && limit->last != UINT64_MAX;
    if (kill.log == NULL && kill.group != NULL && kill.group->code == GW_OOM_BY_OOMD)
        gwi_headline(finding, "systemd-oomd killed the program because its control group was short of memory");
    else
        gwi_headline(finding, "the kernel killed %s because %s ran out of memory",
                     kill.log != NULL && kill.log->pid != 0 &&
                             (c->model->command == NULL || kill.log->pid != c->model->command->pid)
                         ? "a process of the program"
                         : "the program",
                     by_group ? "its control group" : "the host");
    if (kill.log != NULL)
        gwi_say_machine_event(c, finding, kill.log);
    if (kill.group != NULL)
        gwi_say_machine_event(c, finding, kill.group);
    else if (kill.group_count > 0)
        gwi_measure(finding, GWI_NO_TIME, "host", (double)kill.group_count, "count",
                    "the control group's oom_kill count rose by %" PRIu64 " during the run", kill.group_count);
    else if (kill.host_count > 0)
        gwi_measure(finding, GWI_NO_TIME, "host", (double)kill.host_count, "count",
                    "the machine's oom_kill count rose by %" PRIu64 " during the run", kill.host_count);
    if (c->signal == KILL)
        gwi_evidence(finding, c->model->t_end_ns, "exit", "ended by signal 9 (SIGKILL)");
    else
        gwi_evidence(finding, c->model->t_end_ns, "exit", "exited with status %d", c->exit_code);
    say_memory(c, finding);
    gwi_rule_out(c, finding, GWI_OF_MACHINE, "the GPU's memory (the host's memory ran out)");
    gwi_rule_out_gpu(c, finding, "no driver call failed");
    return certainty;
}

const gw_cause gwi_cause_host_oom_kill = {
    .id = "host-oom-kill",
    .summary = "The kernel's out-of-memory killer, or systemd-oomd, ended the program: the host's memory ran out, not "
               "the GPU's.",
    .proof = "a message in the kernel log that names a process of the run, or an oom_kill count of the control group "
             "that rose when SIGKILL ended the program",
    .fixes = {[GW_FRAMEWORK_RAW] =
                  "Give the job more memory (the scheduler's or the container's limit), or a larger machine\n"
                  "Check what grows on the host: data that is loaded as a whole, queues, copies in child processes",
              [GW_FRAMEWORK_TORCH] =
                  "Use fewer DataLoader workers (num_workers) or a smaller prefetch_factor: each worker copies the "
                  "memory it touches\n"
                  "Keep the data set as arrays or memory-mapped files instead of lists of Python objects\n"
                  "Give the job more memory (the scheduler's or the container's limit)"},
    .judge = judge,
};
