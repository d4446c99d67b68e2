/* Where things lie: our libraries, the run folder, the recording, the last recording. */
#ifndef GWI_PLACE_H
#define GWI_PLACE_H

#include "gw_status.h"
#include "gw_text.h"

#include <limits.h>
#include <stdbool.h>

typedef char gwi_path[PATH_MAX];

/* Format a path. GW_USAGE when it is too long. */
__attribute__((format(printf, 3, 4))) GW_MUST_CHECK gw_status gwi_path_format(gwi_path out, gw_error *err,
                                                                              const char *format, ...);

/* Create the folder and those above it, 0700. */
GW_MUST_CHECK gw_status gwi_folder_make(const char *path, gw_error *err);

/* `file` of our own libraries: <folder of the program>/lib/gpuwhy or <folder>/../lib/gpuwhy. GW_MISSING. */
GW_MUST_CHECK gw_status gwi_library_find(const char *file, gwi_path out, gw_error *err);

/* Make a run folder on a tmpfs: nothing else can be mapped by the program without risk to it (a full disk kills it,
 * a slow one stalls it). GW_UNSUPPORTED: there is no tmpfs that we may write to. */
GW_MUST_CHECK gw_status gwi_run_folder_make(gwi_path out, gw_error *err);
/* Remove a folder and what is in it, two levels deep. Says nothing: it is a clean-up. */
void gwi_folder_remove(const char *path);

/* Remove run folders that supervisors left when they died, once they are a day old and no process writes into them any
 * more: they take memory. */
void gwi_run_folders_tidy(void);

/* Call `visit` for each run folder of this user on this machine. */
void gwi_run_folders_visit(void (*visit)(void *user, const char *folder), void *user);

/* ${XDG_STATE_HOME:-~/.local/state}/gpuwhy, made when missing. */
GW_MUST_CHECK gw_status gwi_state_folder(gwi_path out, gw_error *err);
/* A folder that holds code the program loads: no space or colon in its name (LD_PRELOAD separates at both), and not
 * mounted noexec. It outlives the run, because children may. */
GW_MUST_CHECK gw_status gwi_code_folder(const char *run_folder, gwi_path out, gw_error *err);

/* <state folder>/YYYYMMDD-HHMMSS-PID.gpuwhy */
GW_MUST_CHECK gw_status gwi_recording_name(gwi_path out, gw_error *err);
/* Remember `path` as the last recording; a failure only means that `gpuwhy explain` needs a name. */
void gwi_last_recording_set(const char *path);
/* GW_MISSING: there is none. */
GW_MUST_CHECK gw_status gwi_last_recording(gwi_path out, gw_error *err);

#endif
