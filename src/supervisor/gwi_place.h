/* Where a run puts its files: the run folder, the libraries that it writes, and the recording. */
#ifndef GWI_PLACE_H
#define GWI_PLACE_H

#include "gw_place.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>

/* Create the folder with this mode, and missing parent folders with mode 0700. An existing folder is not changed. */
GW_MUST_CHECK gw_status gwi_folder_make(const char *path, unsigned mode, gw_error *err);

/* Create a run folder on a tmpfs, or on a local disk if no tmpfs has room; *ret_is_on_disk is true for a disk. On a
 * disk, the kernel writes the buffers back every few seconds, and the program's next write to each page of a buffer
 * then causes a page fault. GW_UNSUPPORTED: no folder has room. */
GW_MUST_CHECK gw_status gwi_run_folder_make(gw_path out, bool *ret_is_on_disk, gw_error *err);
/* Remove a folder, its files, and its subfolders with their files. Folders on deeper levels are not removed. Errors are
 * not reported. */
void gwi_folder_remove(const char *path);

enum { GWI_FOLDER_FLAGS = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };
/* Return true if the file system of `path` is a tmpfs. */
bool gwi_is_in_memory(const char *path);

/* Lock run.meta in a run folder (left.c), and return its descriptor. The run's supervisor takes a shared lock. A
 * process that wants to remove the folder takes an exclusive lock (`alone`). Does not wait for the lock. The lock is
 * released when the descriptor is closed or when the process that holds it ends. The lock also works between containers
 * that share the folder but have separate pids. The caller closes the descriptor. On -1, `errno` is ENOENT if there is
 * no run.meta, and EWOULDBLOCK if another process has a lock that excludes this one. */
int gwi_run_folder_lock(const char *folder, bool alone);
/* Clean up the run folders of supervisors that were killed (left.c). A folder is left alone while a process may still
 * write to its buffers. If a folder contains the last events of a recording in the state folder, it is kept as long as
 * the recording, and moved to the state folder if it is on a tmpfs. Any other folder is removed when it is a day
 * old. */
void gwi_run_folders_tidy(void);

/* Find or create folder number `index` for the libraries that the program loads. The caller tries the numbers from 0 to
 * GWI_CODE_FOLDERS - 1; the last one is the run folder. Only this user and root may write to the folder. Its path
 * contains no space and no colon, because both separate the elements of LD_PRELOAD, and it is not mounted noexec. The
 * folders other than the run folder are not removed after the run, because child processes of the program may still
 * need them. Every user can read them unless they are in a private home directory. Returns false if the folder cannot
 * be created or does not meet these conditions. */
enum { GWI_CODE_FOLDERS = 4 };
bool gwi_code_folder(size_t index, const char *run_folder, gw_path out);

/* Store the path of a new recording in `out`: <state folder>/YYYYMMDD-HHMMSS-PID.gpuwhy. If a file with this name
 * exists, because runs in several containers may have the same pid, the caller tries again with `again` = 1, 2, ..,
 * which appends "-2", "-3", .. to the pid. */
GW_MUST_CHECK gw_status gwi_recording_name(gw_path out, unsigned again, gw_error *err);
/* Store `path` as the last recording, which `gpuwhy explain` reads by default. Errors are ignored: the last recording
 * is then still the previous one. */
void gwi_last_recording_set(const char *path);

#endif
