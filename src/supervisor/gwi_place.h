/* Where a run puts its files: the run folder, the libraries that it writes, and the recording. */
#ifndef GWI_PLACE_H
#define GWI_PLACE_H

#include "gw_place.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>

/* Create the folder with this mode, and missing parent folders with mode 0700. An existing folder is not changed. */
GW_MUST_CHECK gw_status gwi_folder_make(const char *path, unsigned mode, gw_error *err);

/* Create a run folder on a tmpfs, or on a local disk if no tmpfs has room. On a disk, the kernel writes the buffers
 * back every few seconds, and the program's next write to each of their pages then causes a page fault.
 * GW_UNSUPPORTED: no folder has room. */
GW_MUST_CHECK gw_status gwi_run_folder_make(gw_path out, bool *ret_is_on_disk, gw_error *err);
/* Remove a folder and its contents, two levels deep. Errors are not reported. */
void gwi_folder_remove(const char *path);

enum { GWI_FOLDER_FLAGS = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };
/* Return true if the file system of `path` is a tmpfs. */
bool gwi_is_in_memory(const char *path);

/* Lock the folder's run.meta (left.c). The folder's supervisor takes a shared lock. A process that wants to remove the
 * folder takes an exclusive lock (`alone`). The lock is released when its process ends. It also works between
 * containers that share the folder but have separate pids. The caller closes the descriptor. On -1, `errno` is ENOENT
 * if there is no run.meta, and EWOULDBLOCK if another process has the lock. */
int gwi_run_folder_lock(const char *folder, bool alone);
/* Clean up the run folders of supervisors that were killed, unless a process may still write to their buffers
 * (left.c). Such a folder may contain the last events of a recording in the state folder. In that case it is kept as
 * long as the recording, and a folder on a tmpfs is moved to the state folder. Any other folder is removed when it is
 * a day old. */
void gwi_run_folders_tidy(void);

/* Find or create folder number `index` for the libraries that the program loads. Number 0 is the best one, and the
 * last of GWI_CODE_FOLDERS is the run folder. Only this user and root may write to the folder. Its path contains no
 * space and no colon, because both separate the elements of LD_PRELOAD, and it is not mounted noexec. The folders
 * other than the run folder outlive the run, because child processes may. Every user can read them unless they are in
 * a private home directory. Returns false if there is no such folder. */
enum { GWI_CODE_FOLDERS = 4 };
bool gwi_code_folder(size_t index, const char *run_folder, gw_path out);

/* Return <state folder>/YYYYMMDD-HHMMSS-PID.gpuwhy. `again` is the number of such names that already exist, because
 * runs in several containers may have the same pid. If it is not 0, the suffix "-2", "-3" and so on follows the pid. */
GW_MUST_CHECK gw_status gwi_recording_name(gw_path out, unsigned again, gw_error *err);
/* Store `path` as the last recording. Errors are ignored: `gpuwhy explain` then needs the path of a recording. */
void gwi_last_recording_set(const char *path);

#endif
