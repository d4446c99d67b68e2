/* Paths that the commands need too: our libraries, the run folders, the last recording. */
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

/* Find one of our own libraries in <folder of the program>/lib/gpuwhy or <folder of the program>/../lib/gpuwhy.
 * Returns GW_MISSING if it is not there. */
GW_MUST_CHECK gw_status gw_library_find(const char *file, gw_path out, gw_error *err);

/* Call `visit` for each run folder of this user on this machine. Skips folders with such a name that belong to another
 * user. */
void gw_run_folders_visit(void (*visit)(void *user, const char *folder), void *user);

/* Read a folder's run.meta: the path of the run's recording ("" if none), and the pid of its supervisor (0 if
 * unknown). Returns false if there is no run.meta, so this is not a run folder. */
bool gw_run_meta_read(const char *folder, gw_path ret_recording, pid_t *ret_supervisor);

/* Return ${XDG_STATE_HOME:-~/.local/state}/gpuwhy, which is created if missing. If we run as root, variables that name
 * another user's folder are ignored. GW_UNSUPPORTED: other users may write to the folder. */
GW_MUST_CHECK gw_status gw_state_folder(gw_path out, gw_error *err);

/* Return the path of the user's configuration, ${XDG_CONFIG_HOME:-~/.config}/gpuwhy/config (docs/config.md). The file
 * may not exist. GW_MISSING: there is no home directory. */
GW_MUST_CHECK gw_status gw_config_path(gw_path out, gw_error *err);

/* Return the path of the newest recording. GW_MISSING: there is none. */
GW_MUST_CHECK gw_status gw_last_recording(gw_path out, gw_error *err);

#endif
