/* Runs a program under supervision: starts it with the hook loaded, watches it and records it. The supervisor does not
 * judge the run itself. If the options request a verdict during the run, it calls the caller's functions.
 *
 * Order of calls: gw_supervisor_start(), gw_supervisor_watch(), gw_supervisor_note() if needed, gw_supervisor_close(),
 * gw_supervisor_end(). Use one thread, and run one program at a time, because signals and standard descriptors belong
 * to the whole process. Everything that could not be set up or recorded is reported on stderr. */
#ifndef GW_SUPERVISOR_H
#define GW_SUPERVISOR_H

#include "gw_place.h"
#include "gw_run_options.h"

#include <stdbool.h>

/* Start the program. `argv` and the strings of `options` must outlive the run. Returns GW_EXIT_OK if the program was
 * started. Otherwise the reason was printed, the result is the exit status, and *ret_run is unchanged. */
int gw_supervisor_start(const gw_run_options *options, char *const *argv, const gw_run_judges *judges,
                        gw_supervisor **ret_run);
/* Watch the program until it has ended. The recording is then complete, but still open. */
void gw_supervisor_watch(gw_supervisor *run);
/* Add a fact to the recording. Only valid before gw_supervisor_close(). */
void gw_supervisor_note(gw_supervisor *run, const char *key, const char *value);
/* Finish and close the recording. */
void gw_supervisor_close(gw_supervisor *run);
/* Clean up, and end this process as the program ended. */
_Noreturn void gw_supervisor_end(gw_supervisor *run);

/* Flush the recording and return the path to judge while it is open: the run folder, or the recording if there is
 * none. Returns NULL if nothing is recorded. The result is valid until the end of the run. */
const char *gw_supervisor_flush(gw_supervisor *run);
/* Return the recording's path, or "" if there is none. Valid until the end of the run. *ret_is_kept is true if the
 * file is kept after the run. */
const char *gw_supervisor_recording(const gw_supervisor *run, bool *ret_is_kept);

/* For gw_run_judges.failure: start `command` in a shell. Its output goes to our stderr, and GPUWHY_VERDICT_JSON is the
 * path `json`. The run folder is kept until the command has ended. */
void gw_supervisor_command(gw_supervisor *run, const char *command, const char *json);

/* --blame: run the program a second time after gw_supervisor_watch(), with CUDA_LAUNCH_BLOCKING=1, without dumps and
 * without its standard output. Returns NULL on success: *ret_status is then the program's status as from waitpid(),
 * and `recording` the path of its recording. Otherwise returns the reason for the failure, a static string. */
const char *gw_supervisor_again(gw_supervisor *first, gw_path recording, int *ret_status);

#endif
