/* Paths that the commands need too: our libraries, run folders, the last recording. */
#ifndef GW_PLACE_H
#define GW_PLACE_H

#include "gw_status.h"

#include <limits.h>

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

/* ${XDG_STATE_HOME:-~/.local/state}/gpuwhy, created if it is missing. For root, variables that name another user's
 * folder are ignored. GW_UNSUPPORTED: other users may write to the folder. */
GW_MUST_CHECK gw_status gw_state_folder(gw_path out, gw_error *err);

/* The newest recording. GW_MISSING: there is none. */
GW_MUST_CHECK gw_status gw_last_recording(gw_path out, gw_error *err);

#endif
