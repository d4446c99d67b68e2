/* Several attempts of one run (`gpuwhy run --restart`): how an attempt ended, and the start of the next one. */
#include "gwi_place.h"
#include "gwi_state.h"

#include "gw_clock.h"
#include "gw_exit.h"
#include "gw_say.h"
#include "gw_supervisor.h"
#include "gw_text.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int gw_supervisor_status(const gw_supervisor *run)
{
    return run->status;
}

bool gw_supervisor_is_stopped(gw_supervisor *run)
{
    gwi_signals_pass_on(&run->signals, 0);
    bool by_signal = WIFSIGNALED(run->status) && gwi_signal_is_stop(WTERMSIG(run->status));
    return run->signals.stop_signal != 0 || run->parent_gone_at_ns != 0 || (by_signal && run->hangs.killed_at_ns == 0);
}

gw_wait_end gw_supervisor_wait_memory(gw_supervisor *run, int device, uint64_t bytes, uint64_t timeout_ns)
{
    const gwi_room_wanted wanted = {.device = device,
                                    .bytes = bytes,
                                    .timeout_ns = run->wanted.timeout_ns != 0 ? run->wanted.timeout_ns : timeout_ns};
    return gwi_room_wait(run, &wanted);
}

bool gw_supervisor_pause(gw_supervisor *run, unsigned pause_ms)
{
    enum { LOOK_MS = 1000 }; /* the end of the parent wakes nobody up */
    uint64_t until_ns = gw_monotonic_ns() + (uint64_t)pause_ms * 1000000;
    bool is_asked = gwi_is_asked_to_end(run);
    for (uint64_t now; !is_asked && (now = gw_monotonic_ns()) < until_ns; is_asked = gwi_is_asked_to_end(run)) {
        struct pollfd waited = {.fd = run->signals.fd, .events = POLLIN};
        uint64_t left_ms = (until_ns - now) / 1000000 + 1;
        poll(&waited, 1, left_ms < LOOK_MS ? (int)left_ms : LOOK_MS);
    }
    return !is_asked;
}

static _Noreturn void be_self(const gw_supervisor *run, char *const *argv, const gw_aside *aside)
{
    int null = open("/dev/null", O_RDWR);
    setpgid(0, 0); /* the terminal's ^C reaches only us, and we end it */
    gwi_signals_restore(&run->signals);
    for (int fd = 0; null >= 0 && fd <= 2; fd++)
        dup2(null, fd);
    if (aside->out_fd == GW_ASIDE_OUT_FD)
        fcntl(GW_ASIDE_OUT_FD, F_SETFD, 0);
    else
        dup2(aside->out_fd, GW_ASIDE_OUT_FD);
    if (gw_aside_works(aside) ? gw_aside_enter(aside) : aside->may_fail)
        execv("/proc/self/exe", argv);
    _exit(GW_EXIT_CANNOT_RUN);
}

bool gw_supervisor_run_self(gw_supervisor *run, char *const *argv, const gw_aside *aside, unsigned limit_ms)
{
    enum { LOOK_MS = 50, KILL_AFTER_MS = 5000 };
    uint64_t limit_ns = gw_monotonic_ns() + (uint64_t)limit_ms * 1000000;
    int status = 0, asked_ms = 0;
    bool goes_on = true;
    pid_t pid = fork();
    if (pid == 0)
        be_self(run, argv, aside);
    while (pid > 0 && waitpid(pid, &status, WNOHANG) == 0) {
        if (goes_on)
            goes_on = gw_supervisor_pause(run, LOOK_MS) && gw_monotonic_ns() < limit_ns;
        else
            poll(NULL, 0, LOOK_MS);
        if (!goes_on && asked_ms == 0)
            kill(pid, SIGTERM);
        asked_ms += goes_on ? 0 : LOOK_MS;
        if (asked_ms > KILL_AFTER_MS)
            kill(-pid, SIGKILL);
    }
    return pid > 0 && goes_on;
}

/* Name the recording of an attempt other than the first one: "run.2.gpuwhy" for -o run.gpuwhy. */
static gw_status name_output(gw_supervisor *run, const char *first, gw_error *err)
{
    static const char ending[] = ".gpuwhy";
    int bytes = (int)(strlen(first) - (gw_ends_with(first, ending) ? strlen(ending) : 0));
    gw_status st = gw_path_format(run->output, err, "%.*s.%u.gpuwhy", bytes, first, run->attempt);
    run->options.output = run->output;
    return st;
}

static gw_supervisor *prepare_next(const gw_supervisor *old, const gw_run_options *options, char *const *argv)
{
    gw_supervisor *run = calloc(1, sizeof *run);
    gw_error err;
    if (run == NULL) {
        gw_say("cannot start the next attempt: out of memory");
        return NULL;
    }
    gwi_supervisor_init(run, options, argv);
    run->judges = old->judges;
    run->attempt = old->attempt + 1;
    run->parent = old->parent;
    run->input_at = old->input_at;
    if (options->output != NULL && !gwi_is_folder(options->output) &&
        name_output(run, options->output, &err) != GW_OK) {
        gw_say("cannot start the next attempt: %s", err.text);
        free(run);
        return NULL;
    }
    return run;
}

int gw_supervisor_next(gw_supervisor **run, const gw_run_options *options, char *const *argv)
{
    gw_supervisor *old = *run, *next = prepare_next(old, options, argv);
    gwi_supervisor_release_signals(old);
    gwi_supervisor_clean_up(old);
    free(old);
    *run = NULL;
    if (next == NULL)
        return GW_EXIT_CANNOT_RUN;
    if (next->input_at >= 0)
        (void)!lseek(STDIN_FILENO, next->input_at, SEEK_SET);
    int status = gwi_supervisor_start_or_clean_up(next);
    if (status == GW_EXIT_OK)
        *run = next;
    else
        free(next);
    return status;
}

/* Runs the program a second time for --blame. Each kernel launch then waits until the kernel has ended. */

/* Discard the standard output of the second run, which must not look like output of the first one. Returns a copy of
 * the old descriptor for output_back(), or -1 if there is none. */
static int output_to_nowhere(void)
{
    int kept = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (kept >= 0 && null >= 0)
        dup2(null, STDOUT_FILENO);
    if (null >= 0)
        close(null);
    return kept;
}

static void output_back(int kept)
{
    if (kept < 0)
        return;
    dup2(kept, STDOUT_FILENO);
    close(kept);
}

static gw_status name_second(const gw_supervisor *first, gw_path out)
{
    if (first->record.is_temporary || first->record.path[0] == '\0')
        return first->run_folder[0] == '\0' ? GW_MISSING
                                            : gw_path_format(out, NULL, "%s/blame.gpuwhy", first->run_folder);
    return gw_path_format(out, NULL, "%.*s.blame.gpuwhy", gwi_record_stem_bytes(&first->record), first->record.path);
}

/* Run the program again. If this returns GW_EXIT_OK, second->status is the program's status, and the file `recording`
 * is complete. */
static int run_second(const gw_supervisor *first, gw_supervisor *second, const char *recording)
{
    gwi_supervisor_init(second, &first->options, first->argv);
    second->is_second = true;
    second->input_at = -1;
    second->parent = first->parent;
    second->options.output = recording;
    second->options.blame = second->options.core = false;
    second->options.on_failure = second->options.json = second->options.alarm_at = second->options.wait_memory = NULL;
    second->options.quiet = true;
    bool was_set = getenv("CUDA_LAUNCH_BLOCKING") != NULL; /* then it was "0", otherwise there is no second run */
    setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
    /* without dumps, a failing launch returns its error; with dumps, the driver aborts the process */
    gwi_dumps_forbid();
    if (first->input_at >= 0)
        (void)!lseek(STDIN_FILENO, first->input_at, SEEK_SET);
    int output = output_to_nowhere();
    int status = gwi_supervisor_start(second);
    if (status == GW_EXIT_OK)
        gw_supervisor_watch(second);
    output_back(output);
    gwi_supervisor_clean_up(second);
    if (was_set)
        setenv("CUDA_LAUNCH_BLOCKING", "0", 1);
    else
        unsetenv("CUDA_LAUNCH_BLOCKING"); /* another attempt (--restart) may follow */
    return status;
}

const char *gw_supervisor_again(gw_supervisor *first, gw_path recording, int *ret_status)
{
    if (name_second(first, recording) != GW_OK)
        return "its recording cannot be named";
    gw_say("a fault on the GPU ended the run; running it again with CUDA_LAUNCH_BLOCKING=1 (--blame), without its "
           "standard output");
    gwi_supervisor_release_signals(first);
    gw_supervisor *second = calloc(1, sizeof *second);
    int status = second == NULL ? GW_EXIT_CANNOT_RUN : run_second(first, second, recording);
    *ret_status = second == NULL ? 0 : second->status;
    if (second != NULL && second->signals.stop_signal != 0)
        first->signals.stop_signal = second->signals.stop_signal;
    free(second);
    return status == GW_EXIT_OK ? NULL : "it could not be started";
}
