/* Runs a program under supervision: starts it with the hook loaded, watches it and records it. To judge during the run,
 * the supervisor calls the functions in gw_run_judges.
 *
 * Call gw_supervisor_start(), gw_supervisor_watch(), gw_supervisor_note() if needed, gw_supervisor_close(),
 * gw_supervisor_end(), in this order and from one thread. Run only one program at a time, because a process has one set
 * of signal handlers and standard descriptors. What cannot be set up or recorded is reported on stderr. */
#ifndef GW_SUPERVISOR_H
#define GW_SUPERVISOR_H

#include "gw_aside.h"
#include "gw_place.h"
#include "gw_run_options.h"
#include "gw_text.h"

#include <stdbool.h>
#include <stdint.h>

/* Start the program. `argv` and the strings of `options` must stay valid until the run ends. Returns GW_EXIT_OK.
 * Otherwise, the reason was printed and *ret_run is unchanged; exit with the returned status. */
int gw_supervisor_start(const gw_run_options *options, char *const *argv, const gw_run_judges *judges,
                        gw_supervisor **ret_run);
/* Watch the program until it has ended. The recording is then complete, but still open. */
void gw_supervisor_watch(gw_supervisor *run);
/* After gw_supervisor_watch(): true if a virtual card has ended a process because the host had no memory left. The
 * status of the run is then GW_EXIT_HOST_FULL, and there is nothing to judge. */
bool gw_supervisor_is_host_full(gw_supervisor *run);
/* Add a fact to the recording. Only valid before gw_supervisor_close(). */
void gw_supervisor_note(gw_supervisor *run, const char *key, const char *value);
/* Finish and close the recording. */
void gw_supervisor_close(gw_supervisor *run);
/* Clean up, free `run`, which may be NULL, and end this process with an exit status or signal, as from waitpid(). */
_Noreturn void gw_supervisor_end(gw_supervisor *run, int status);

/* How the sentence about processes that a rehearsed program has left behind begins; their number follows. */
#define GW_LEFT_BEHIND "the program left "
/* Clean up and free `run`, and return to the caller. If processes that a rehearsed program had left behind were ended,
 * append a sentence that names them. */
void gw_supervisor_leave(gw_supervisor *run, gw_text *left_behind);
/* ---- several attempts (attempt.c) ----
 *
 * After gw_supervisor_close(), gw_supervisor_next() may take the place of gw_supervisor_end(): it starts the program
 * again, and everything goes on as after gw_supervisor_start(). */

/* Clean up after the attempt *run, and start the next one with the command line `argv`. It has its own run folder and
 * recording; with -o, the number of the attempt becomes part of the recording's name. Standard input is read again from
 * the same position if it is a file. Returns GW_EXIT_OK if the program was started. Otherwise *run is NULL, the reason
 * was printed, and the caller should call gw_supervisor_end() with the status of an earlier attempt. */
int gw_supervisor_next(gw_supervisor **run, const gw_run_options *options, char *const *argv);
/* Return the program's status as from waitpid(). Valid after gw_supervisor_watch(). */
int gw_supervisor_status(const gw_supervisor *run);
typedef enum gw_wait_end {
    GW_WAIT_FREE,
    GW_WAIT_TIMEOUT,
    GW_WAIT_STOPPED, /* a signal asked us to end */
    GW_WAIT_UNKNOWN, /* the free memory is not known; returned at once */
    GW_WAIT_WAS_FREE /* it was free at the first look */
} gw_wait_end;
/* Wait until a card has `bytes` free: the one with CUDA's number `device` in the program, or, if it is negative, each
 * card that the program sees. Waits at most `timeout_ns` (0: no limit), or as long as --wait-memory says. Prints who
 * holds the memory, and records the wait. Call it between gw_supervisor_watch() and gw_supervisor_close(). */
gw_wait_end gw_supervisor_wait_memory(gw_supervisor *run, int device, uint64_t bytes, uint64_t timeout_ns);
/* Run gpuwhy itself with other arguments (execv()), without input and output, and wait for its end. What it writes into
 * the folders of `aside` is forgotten. Returns false if it could not be started in this way, or if a signal asked us to
 * end, or after `limit_ms`: it is then ended, too. Call it between gw_supervisor_watch() and gw_supervisor_close(). */
bool gw_supervisor_run_self(gw_supervisor *run, char *const *argv, const gw_aside *aside, unsigned limit_ms);
/* Wait `pause_ms`. Returns false if a signal asked us to end. */
bool gw_supervisor_pause(gw_supervisor *run, unsigned pause_ms);
/* True if a user or another program asked the run to end, by a signal to gpuwhy or to the program, or by ending the
 * parent process (--end-with-parent). Signals that have arrived up to this call count. A signal that gpuwhy itself sent
 * because of --kill-on-hang does not count. Valid after gw_supervisor_watch(). */
bool gw_supervisor_is_stopped(gw_supervisor *run);

/* Flush the recording, and return the path to judge while the recording is open: the run folder, or the recording
 * itself if there is no run folder. Returns NULL if nothing is recorded or if flushing fails. The result is valid until
 * gw_supervisor_end(). */
const char *gw_supervisor_flush(gw_supervisor *run);
/* Return the recording's path, or "" if there is none. Valid until gw_supervisor_end(). *ret_is_kept is false if there
 * is no recording, or if it is temporary and will be removed. */
const char *gw_supervisor_recording(const gw_supervisor *run, bool *ret_is_kept);

/* Start `command` in a shell, for gw_run_judges.failure. Its output goes to our stderr. Its variable
 * GPUWHY_VERDICT_JSON contains the path `json`. The run folder is kept until the command has ended. */
void gw_supervisor_command(gw_supervisor *run, const char *command, const char *json);

/* --blame: run the program a second time, after gw_supervisor_watch(), with CUDA_LAUNCH_BLOCKING=1. The second run
 * writes no GPU core dumps, and its standard output is discarded. Returns NULL on success: *ret_status is then the
 * program's status as from waitpid(), and `recording` receives the path of the second recording. Otherwise returns why
 * the second run failed, as a static string. */
const char *gw_supervisor_again(gw_supervisor *first, gw_path recording, int *ret_status);

#endif
