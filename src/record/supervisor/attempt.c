/* Several attempts of one run (`gpuwhy run --restart`): how an attempt ended, and the start of the next one. */
#include "gwi_place.h"
#include "gwi_state.h"

#include "gw_clock.h"
#include "gw_exit.h"
#include "gw_say.h"
#include "gw_supervisor.h"
#include "gw_text.h"

#include <poll.h>
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
    const gwi_room_wanted wanted = {.device = device, .bytes = bytes, .timeout_ns = timeout_ns};
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

void gw_supervisor_end_like(int status)
{
    gwi_end_like(status);
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
