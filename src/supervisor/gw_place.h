/* Paths that both the supervisor and the commands need: our libraries, the run folders, the state folder, the
 * configuration, the last recording. */
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

/* Store the path of one of our own libraries in `out`. It is in the folder lib/gpuwhy or ../lib/gpuwhy, relative to the
 * folder of the gpuwhy executable. Returns GW_MISSING if it is in neither, and GW_IO if the executable's own path is
 * unknown. */
GW_MUST_CHECK gw_status gw_library_find(const char *file, gw_path out, gw_error *err);

/* Call `visit` for each run folder of this user on this machine. Folders that are named like run folders, but belong to
 * another user or can be read by other users, are skipped. */
void gw_run_folders_visit(void (*visit)(void *user, const char *folder), void *user);

/* Read run.meta in a run folder. Stores the path of the run's recording ("" if none) and the pid of the run's
 * supervisor (0 if unknown). Returns false if run.meta is missing or cannot be read: `folder` is then not a run
 * folder. */
bool gw_run_meta_read(const char *folder, gw_path ret_recording, pid_t *ret_supervisor);

/* Store the path of the state folder, ${XDG_STATE_HOME:-~/.local/state}/gpuwhy, in `out`. Creates the folder if it is
 * missing. If we run as root, XDG_STATE_HOME and HOME are ignored if they name a folder of another user. GW_MISSING:
 * neither variable names a folder. GW_UNSUPPORTED: another user owns the folder or may write to it. */
GW_MUST_CHECK gw_status gw_state_folder(gw_path out, gw_error *err);

/* Store the path of the user's configuration, ${XDG_CONFIG_HOME:-~/.config}/gpuwhy/config (docs/config.md), in `out`.
 * The file may not exist. GW_MISSING: there is no home directory. */
GW_MUST_CHECK gw_status gw_config_path(gw_path out, gw_error *err);

/* Store the path of the last recording in `out`: the target of the link `last` in the state folder. GW_MISSING: nothing
 * was recorded yet, or the last recording was removed. */
GW_MUST_CHECK gw_status gw_last_recording(gw_path out, gw_error *err);

#endif
