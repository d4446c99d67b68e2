/* A program under supervision: started with the hook in it, watched, recorded. Nothing is judged here: where the
 * options want a judgement in the middle of a run, the caller's functions are called.
 *
 * The order of calls is gw_supervisor_start(), gw_supervisor_watch(), what the caller has to add to the recording,
 * gw_supervisor_close(), gw_supervisor_end(). One thread, one program at a time: signals and standard descriptors
 * are the process's. What a run has to do without is said on stderr. */
#ifndef GW_SUPERVISOR_H
#define GW_SUPERVISOR_H

#include "gw_place.h"
#include "gw_run_options.h"

#include <stdbool.h>

/* Start the program. `argv` and the texts of `options` outlive the run. GW_EXIT_OK: it runs. Else it could not be
 * started, which was said; the answer is the exit status, nothing is left behind and *ret_run is untouched. */
int gw_supervisor_start(const gw_run_options *options, char *const *argv, const gw_run_judges *judges,
                        gw_supervisor **ret_run);
/* Watch the program until it has ended; the recording is then complete, and open. */
void gw_supervisor_watch(gw_supervisor *run);
/* Add a fact of the supervisor. Before gw_supervisor_close(). */
void gw_supervisor_note(gw_supervisor *run, const char *key, const char *value);
/* Write the end of the recording. */
void gw_supervisor_close(gw_supervisor *run);
/* Clean up, and end this process as the program ended. */
_Noreturn void gw_supervisor_end(gw_supervisor *run);

/* What can be judged while the recording is open: the run folder, or the recording's path. NULL: nothing is recorded.
 * Valid as long as the run. */
const char *gw_supervisor_flush(gw_supervisor *run);
/* The recording's path, "" when there is none: valid as long as the run. *ret_is_kept: it stays after the run. */
const char *gw_supervisor_recording(const gw_supervisor *run, bool *ret_is_kept);

/* For gw_run_judges.failure: start `command` in a shell, with our stderr for its output, and with the file `json` named
 * in GPUWHY_VERDICT_JSON. The run folder lives until it has ended. */
void gw_supervisor_command(gw_supervisor *run, const char *command, const char *json);

/* --blame: run the program once more after gw_supervisor_watch(), with CUDA_LAUNCH_BLOCKING=1, without dumps and with
 * its standard output thrown away. NULL: it ended with *ret_status, as waitpid() gives it, and `recording` holds it.
 * Else why it did not run (static). */
const char *gw_supervisor_again(gw_supervisor *first, gw_path recording, int *ret_status);

#endif
