/* Where a run puts things: its run folder, the libraries that it writes, its recording. */
#ifndef GWI_PLACE_H
#define GWI_PLACE_H

#include "gw_place.h"

#include <stdbool.h>

/* Create the folder and those above it, 0700. */
GW_MUST_CHECK gw_status gwi_folder_make(const char *path, gw_error *err);

/* Make a run folder on a tmpfs: nothing else can be mapped by the program without risk to it (a full disk kills it,
 * a slow one stalls it). GW_UNSUPPORTED: there is no tmpfs that we may write to. */
GW_MUST_CHECK gw_status gwi_run_folder_make(gw_path out, gw_error *err);
/* Remove a folder and what is in it, two levels deep. Says nothing: it is a clean-up. */
void gwi_folder_remove(const char *path);

/* Remove run folders that supervisors left when they died, once they are a day old and no process writes into them any
 * more: they take memory. */
void gwi_run_folders_tidy(void);

/* A folder that holds code the program loads: no space or colon in its name (LD_PRELOAD separates at both), and not
 * mounted noexec. It outlives the run, because children may. */
GW_MUST_CHECK gw_status gwi_code_folder(const char *run_folder, gw_path out, gw_error *err);

/* <state folder>/YYYYMMDD-HHMMSS-PID.gpuwhy */
GW_MUST_CHECK gw_status gwi_recording_name(gw_path out, gw_error *err);
/* Remember `path` as the last recording; a failure only means that `gpuwhy explain` needs a name. */
void gwi_last_recording_set(const char *path);

#endif
