/* Runs the program a second time for --blame. Each kernel launch then waits until the kernel has ended. */
#include "gwi_state.h"

#include "gw_exit.h"
#include "gw_say.h"
#include "gw_supervisor.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

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
