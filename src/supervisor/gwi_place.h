/* Where a run puts its files: the run folder, the libraries that it writes, the recording. */
#ifndef GWI_PLACE_H
#define GWI_PLACE_H

#include "gw_place.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>

/* Create the folder with this mode, and the folders above it with mode 0700. An existing folder is left as it is. */
GW_MUST_CHECK gw_status gwi_folder_make(const char *path, unsigned mode, gw_error *err);

/* Create a run folder on a tmpfs, or, if no tmpfs has room, on a local disk. There the kernel writes the buffers to the
 * disk every few seconds, which costs the program a page fault for each page that it writes afterwards.
 * GW_UNSUPPORTED: no folder has room. */
GW_MUST_CHECK gw_status gwi_run_folder_make(gw_path out, bool *ret_is_on_disk, gw_error *err);
/* Remove a folder and its contents, two levels deep. Reports nothing. */
void gwi_folder_remove(const char *path);

enum { GWI_FOLDER_FLAGS = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };
/* True if the file system of `path` is a tmpfs. */
bool gwi_is_in_memory(const char *path);

/* left.c. Lock the folder's run.meta: shared, as the folder's supervisor does, or `alone`, as a process does that takes
 * the folder away. A lock ends with its process, and works between containers that share the folder but see different
 * pids. The caller closes the descriptor. -1: `errno` is ENOENT if there is no run.meta, and EWOULDBLOCK if another
 * process has the lock. */
int gwi_run_folder_lock(const char *folder, bool alone);
/* left.c. Take away the run folders of supervisors that were killed, unless a process still writes into their buffers.
 * If its recording is in the state folder, a folder in memory is moved there, because it has the last events of the
 * recording, and it stays as long as the recording does. Any other folder is removed when it is a day old. */
void gwi_run_folders_tidy(void);

/* Find or create folder number `index` for code that the program loads; 0 is the best, and the last of
 * GWI_CODE_FOLDERS is the run folder. Only we and root may write to it, and every user can read it, unless it is in a
 * private home. Its name contains no space and no colon, because both separate the elements of LD_PRELOAD, and it is
 * not mounted noexec. It outlives the run, because child processes may. False: there is no such folder. */
enum { GWI_CODE_FOLDERS = 4 };
bool gwi_code_folder(size_t index, const char *run_folder, gw_path out);

/* <state folder>/YYYYMMDD-HHMMSS-PID.gpuwhy. `again`, from 0: the number of such names that exist already, because runs
 * of several containers have the same pid; from 1 on, "-2" and so on follows the pid. */
GW_MUST_CHECK gw_status gwi_recording_name(gw_path out, unsigned again, gw_error *err);
/* Remember `path` as the last recording. If this fails, `gpuwhy explain` needs a name, and nothing else is lost. */
void gwi_last_recording_set(const char *path);

#endif
