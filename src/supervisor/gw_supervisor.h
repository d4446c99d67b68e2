/* Runs a program under supervision: starts it with the hook inside, watches it and records it. Nothing is judged here:
 * if the options request a judgement during the run, the caller's functions are called.
 *
 * Order of calls: gw_supervisor_start(), gw_supervisor_watch(), the caller's additions to the recording,
 * gw_supervisor_close(), gw_supervisor_end(). One thread, and one program at a time, because signals and standard
 * descriptors belong to the process. Anything that a run has to do without is reported on stderr. */
#ifndef GW_SUPERVISOR_H
#define GW_SUPERVISOR_H

#include "gw_place.h"
#include "gw_run_options.h"

#include <stdbool.h>

/* Start the program. `argv` and the texts of `options` must outlive the run. GW_EXIT_OK: it runs. Otherwise it could
 * not be started; the reason was printed, the result is the exit status, and *ret_run is unchanged. */
int gw_supervisor_start(const gw_run_options *options, char *const *argv, const gw_run_judges *judges,
                        gw_supervisor **ret_run);
/* Watch the program until it has ended. The recording then has everything, and is still open. */
void gw_supervisor_watch(gw_supervisor *run);
/* Add one of the supervisor's facts. Only before gw_supervisor_close(). */
void gw_supervisor_note(gw_supervisor *run, const char *key, const char *value);
/* Finish and close the recording. */
void gw_supervisor_close(gw_supervisor *run);
/* Clean up, and end this process in the same way as the program ended. */
_Noreturn void gw_supervisor_end(gw_supervisor *run);

/* Return what can be judged while the recording is open: the run folder, or the recording's path. NULL: nothing is
 * recorded. Valid until the end of the run. */
const char *gw_supervisor_flush(gw_supervisor *run);
/* The recording's path, or "" if there is none; valid until the end of the run. *ret_is_kept: the file stays after the
 * run. */
const char *gw_supervisor_recording(const gw_supervisor *run, bool *ret_is_kept);

/* For gw_run_judges.failure: start `command` in a shell, with its output on our stderr, and with the name of the file
 * `json` in GPUWHY_VERDICT_JSON. The run folder stays until the command has ended. */
void gw_supervisor_command(gw_supervisor *run, const char *command, const char *json);

/* --blame: run the program a second time after gw_supervisor_watch(), with CUDA_LAUNCH_BLOCKING=1, without dumps, and
 * without its standard output. NULL: it ended with *ret_status, a status of waitpid(), and `recording` is its
 * recording. Otherwise the reason why it did not run (static). */
const char *gw_supervisor_again(gw_supervisor *first, gw_path recording, int *ret_status);

#endif
