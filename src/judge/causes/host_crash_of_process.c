/* The process crashed in its own host code: a bad pointer or an abort.
 *
 * Established only by: the process's death by SIGSEGV, SIGBUS, SIGILL, SIGFPE or SIGABRT, with none of these:
 * - a driver call that had failed, handled or not;
 * - a thread inside a driver call;
 * - a GPU core dump;
 * - a crash address inside device memory, or a bad access at an unknown address in a process that had device memory;
 * - a driver call of the process that was not recorded, or may not have been;
 * - SIGABRT, if stderr was not recorded: an uncaught exception may have ended the program.
 * Only host code faults like this. A signal from kill() looks the same unless the crash itself was recorded.
 *
 * A SIGBUS is only supported if its reason was not recorded, or if a page of /dev/shm was missing. /dev/shm may have
 * been full, and emptied by the death of the process.
 * Supported by: a crash after a failed call, or with a thread inside the driver. */
#include "gwi_coverage.h"
#include "gwi_crash.h"
#include "gwi_fault.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>

static const char *signal_name(int signal)
{
    switch (signal) {
    case 4:
        return "SIGILL, an illegal instruction";
    case 6:
        return "SIGABRT, the program or a library aborted";
    case 7:
        return "SIGBUS, a bad memory access";
    case 8:
        return "SIGFPE, an arithmetic fault";
    case 11:
        return "SIGSEGV, a bad memory access";
    default:
        return NULL;
    }
}

/* Return a thread that was inside a driver call when the program ended, or NULL. The crash may have happened in the
 * driver. */
static const gw_thread *inside_driver(const gwi_case *c)
{
    for (size_t i = 0; i < c->model->thread_count; i++) {
        const gw_thread *thread = &c->model->thread[i];
        if (c->process != NULL && thread->pid == c->process->pid && thread->inside_fn != NULL)
            return thread;
    }
    return NULL;
}

/* True if the driver calls of the process that crashed were recorded. */
static bool is_observed(const gwi_case *c)
{
    return gwi_is_observed(c, GWI_OF_PROCESS) && (c->process == c->model->command || gw_died_badly(c->process));
}

/* Report where the crash happened, if it was recorded. */
static void say_place(const gwi_case *c, gwi_finding *finding)
{
    const gw_crash *crash = gwi_crash_of(c);
    char at[GWI_PLACE_TEXT_MAX];
    if (crash == NULL && (c->signal == SIGSEGV || c->signal == SIGBUS) &&
        gw_model_meta(c->model, "option.catch_crash") == NULL)
        gwi_next(finding, "Run it with --catch-crash: gpuwhy then records the address and the stack of the crash");
    if (crash == NULL)
        return;
    gwi_at(c, crash->site, at);
    if (crash->has_address)
        gwi_evidence(finding, crash->t_ns, gwi_crash_source(crash), "the fault was at address 0x%" PRIx64 "%s%s",
                     crash->address, crash->address < 4096 ? ", the NULL page" : "", at);
    else if (crash->was_sent)
        gwi_evidence(finding, crash->t_ns, gwi_crash_source(crash),
                     "signal %d was sent to thread %u, by itself or by another process%s", crash->signal, crash->tid,
                     at);
    else if (at[0] != '\0')
        gwi_evidence(finding, crash->t_ns, gwi_crash_source(crash), "the fault was%s", at);
    if (crash->has_address && !crash->in_block && is_observed(c))
        gwi_rule_out(c, finding, GWI_OF_PROCESS,
                     "host code that used GPU memory (the address is in none of its blocks)");
    gwi_where(finding, crash->site, "the crash");
}

/* Advise what to check after SIGBUS. The usual reason for SIGBUS is a page that could not be provided; a misaligned
 * address is rare. */
static void advise_bus(const gwi_case *c, gwi_finding *finding)
{
    switch (gwi_bus_of(c)) {
    case GWI_BUS_FILE:
        gwi_next(finding,
                 "Check whether %s was truncated or replaced while it was mapped, and whether its disk is full or its "
                 "file server failed (ls -l, df, dmesg)",
                 gwi_crash_of(c)->file);
        return;
    case GWI_BUS_MEMORY:
        gwi_next(finding,
                 "The machine's memory is failing: look for \"Memory failure\" and \"Hardware Error\" in dmesg, "
                 "and have the memory replaced");
        return;
    case GWI_BUS_UNKNOWN:
    case GWI_BUS_SHM:
        gwi_next(finding,
                 "Check the files that it maps, such as memory-mapped data sets: one may have been truncated or "
                 "replaced while in use, its disk may be full, or its file server may have failed (ls -l, df, dmesg)");
        gwi_next(finding, "Check whether /dev/shm is large enough for the program (df /dev/shm while it runs), and "
                          "whether huge pages ran out");
        return;
    case GWI_BUS_OTHER:
        return;
    }
}

static gw_certainty decide(const gwi_case *c)
{
    if (c->sticky != NULL || c->oom != NULL ||
        (c->signal == SIGABRT && gwi_is_told_another(c, &gwi_cause_host_crash_of_process)))
        return GW_HYPOTHESIS; /* an earlier failure explains the crash better */
    const gw_crash *crash = gwi_crash_of(c);
    gwi_bus bus = gwi_bus_of(c);
    /* The program may have used the NULL pointer of a refused allocation, even if it had handled the refusal. */
    bool may_follow = c->root != NULL || c->handled != NULL;
    may_follow = may_follow || gwi_may_be_in_block(c) || (crash != NULL && crash->in_block);
    may_follow = may_follow || (c->signal == SIGBUS && (bus == GWI_BUS_UNKNOWN || bus == GWI_BUS_SHM));
    /* An uncaught exception of C++ aborts the program, too, and only stderr shows it. */
    may_follow = may_follow || (c->signal == SIGABRT && gw_model_fact(c->model, GW_FACT_STDERR_NOT_RECORDED) != NULL);
    return may_follow || inside_driver(c) != NULL || !is_observed(c) ? GW_SUPPORTED : GW_ESTABLISHED;
}

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    const gw_stderr_facts *facts = &c->model->stderr_facts;
    const char *name = c->ended ? signal_name(c->signal) : NULL;
    if (name == NULL || gwi_ended_by_dump(c))
        return GW_CERTAINTY_NONE; /* the driver aborted after a GPU core dump: the GPU fault is the cause */
    gwi_headline(finding, "the program crashed in host code (signal %d, %.*s)", c->signal, (int)strcspn(name, ","),
                 name);
    gwi_evidence(finding, c->model->t_end_ns, "exit", "ended by signal %d: %s", c->signal, name);
    gwi_say_line(c, finding, &facts->fatal, "");
    gwi_say_line(c, finding, &facts->terminate, "");
    say_place(c, finding);
    if (c->signal == SIGBUS) {
        gwi_say_bus(c, finding);
        advise_bus(c, finding);
    }
    const gw_thread *inside = inside_driver(c);
    if (inside != NULL) {
        char call[GWI_CALL_TEXT_MAX];
        gwi_evidence(finding, inside->inside_since_ns, "driver", "thread %u (%s) was inside %s when the program ended",
                     inside->tid, inside->name, gwi_call_text(call, inside->inside_fn));
    } else if (is_observed(c)) {
        gwi_rule_out(c, finding, GWI_OF_PROCESS, "a crash inside the driver (no thread was in a driver call)");
    }
    gwi_rule_out_gpu(c, finding, "no driver call failed before");
    return decide(c);
}

const gw_cause gwi_cause_host_crash_of_process = {
    .id = "host-crash-of-process",
    .summary = "The process crashed in host code: a bad memory access or an abort.",
    .proof = "a crash signal that ended the process, with no failed driver call before it, handled or not, and no "
             "thread inside the driver; for SIGBUS also a record of the fault itself (--catch-crash, a core dump)",
    .fixes = {[GW_FRAMEWORK_RAW] =
                  "Run it under a debugger, or with core dumps on (ulimit -c unlimited), and look at the "
                  "crashing thread's stack\nBuild with -fsanitize=address and run again",
              [GW_FRAMEWORK_TORCH] =
                  "Run with python -X faulthandler to see the Python line\n"
                  "Suspect extensions built for another version of PyTorch, Python or the C++ library\n"
                  "Check for two copies of one library (OpenMP, CUDA) in the process"},
    .depth = GWI_IS_END,
    .judge = judge,
};
