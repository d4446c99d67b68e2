/* Paths that the commands need too: our libraries, run folders, the last recording. */
#ifndef GW_PLACE_H
#define GW_PLACE_H

#include "gw_status.h"

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

typedef char gw_path[PATH_MAX];

/* Format a path. GW_USAGE: it is too long. */
__attribute__((format(printf, 3, 4))) GW_MUST_CHECK gw_status gw_path_format(gw_path out, gw_error *err,
                                                                             const char *format, ...);

/* Find one of our own libraries: in <folder of the program>/lib/gpuwhy or <folder>/../lib/gpuwhy. GW_MISSING: it is not
 * there. */
GW_MUST_CHECK gw_status gw_library_find(const char *file, gw_path out, gw_error *err);

/* Call `visit` for each run folder of this user on this machine. Folders that another user made under such a name are
 * skipped. */
void gw_run_folders_visit(void (*visit)(void *user, const char *folder), void *user);

/* Read a folder's run.meta: the path of the run's recording ("": none), and its supervisor (0: unknown). False: it has
 * no run.meta, so that it is no run folder. */
bool gw_run_meta_read(const char *folder, gw_path ret_recording, pid_t *ret_supervisor);

/* ${XDG_STATE_HOME:-~/.local/state}/gpuwhy, created if it is missing. For root, variables that name another user's
 * folder are ignored. GW_UNSUPPORTED: other users may write to the folder. */
GW_MUST_CHECK gw_status gw_state_folder(gw_path out, gw_error *err);

/* The user's configuration: ${XDG_CONFIG_HOME:-~/.config}/gpuwhy/config (docs/config.md). It need not exist.
 * GW_MISSING: there is no home. */
GW_MUST_CHECK gw_status gw_config_path(gw_path out, gw_error *err);

/* The newest recording. GW_MISSING: there is none. */
GW_MUST_CHECK gw_status gw_last_recording(gw_path out, gw_error *err);

#endif
