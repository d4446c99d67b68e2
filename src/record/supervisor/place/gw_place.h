/* Finds paths for the supervisor and the commands: our libraries, the run folders, the state folder, the
 * configuration and the last recording. */
#ifndef GW_PLACE_H
#define GW_PLACE_H

#include "gw_status.h"

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

typedef char gw_path[PATH_MAX];

/* Format a path. Returns GW_USAGE if it is too long. */
__attribute__((format(printf, 3, 4))) GW_MUST_CHECK gw_status gw_path_format(gw_path out, gw_error *err,
                                                                             const char *format, ...);

/* Store the path of one of our own libraries in `out`. It is in lib/gpuwhy or ../lib/gpuwhy, relative to the gpuwhy
 * executable. GW_MISSING: it is in neither. GW_IO: the executable's path is unknown. */
GW_MUST_CHECK gw_status gw_library_find(const char *file, gw_path out, gw_error *err);

/* Call `visit` for each run folder of this user on this machine. Skips folders that another user owns or can read. */
void gw_run_folders_visit(void (*visit)(void *user, const char *folder), void *user);

/* Call `visit` for each run folder of any user that this process can see. Only `owner` and root can read what is in it.
 * In its name is the pid of its supervisor, which may have ended. */
typedef void gw_run_folder_visit(void *user, const char *folder, uid_t owner, pid_t supervisor);
void gw_run_folders_visit_all(gw_run_folder_visit *visit, void *user);

/* Read run.meta in a run folder. Stores the path of the recording ("" if none) and the supervisor's pid (0 if
 * unknown). Returns false if `folder` has no readable run.meta. */
bool gw_run_meta_read(const char *folder, gw_path ret_recording, pid_t *ret_supervisor);

/* True if the supervisor of a run folder is alive, even if it is in a container with pids of its own: it has a lock on
 * run.meta. `supervisor`: its pid, which decides if the file system has no locks. May wait for some milliseconds. */
bool gw_run_is_going(const char *folder, pid_t supervisor);

/* Store the path of the state folder in `out`: the folder of the configuration, or
 * ${XDG_STATE_HOME:-~/.local/state}/gpuwhy. It may not exist. GW_MISSING: there is no home directory. GW_UNSUPPORTED:
 * we are root, and another user could change the folder. GW_USAGE: the path is too long. */
GW_MUST_CHECK gw_status gw_state_path(gw_path out, gw_error *err);

/* Like gw_state_path(). Creates the folder if it is missing. Root ignores XDG_STATE_HOME and HOME if another user owns
 * the folder. Returns:
 * - GW_MISSING if neither variable names a usable folder;
 * - GW_UNSUPPORTED if another user owns the state folder or may write to it; of the site's folder, also if another user
 *   than root could replace it. */
GW_MUST_CHECK gw_status gw_state_folder(gw_path out, gw_error *err);

/* Store the path of the user's configuration file in `out`: ${XDG_CONFIG_HOME:-~/.config}/gpuwhy/config. It may not
 * exist. GW_MISSING: there is no home directory. */
GW_MUST_CHECK gw_status gw_config_path(gw_path out, gw_error *err);

/* Call `visit` for each recording whose run is not listed yet: its supervisor was killed, or the run may still be going
 * (`is_going`), even in another container or on another machine with the same state folder. `visit` returns true if the
 * recording of a killed one need not be visited again. */
typedef bool gw_unfinished_visitor(void *user, const char *recording, bool is_going);
void gw_unfinished_visit(gw_unfinished_visitor *visit, void *user);

/* Store the path of the last recording in `out`, from the link `last` in the state folder. GW_MISSING: there is
 * none, or it was removed. GW_UNSUPPORTED: another user owns the file by now. */
GW_MUST_CHECK gw_status gw_last_recording(gw_path out, gw_error *err);

#endif
