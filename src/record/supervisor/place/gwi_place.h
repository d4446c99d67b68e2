/* Chooses and creates the places for the files of a run: the run folder, the libraries that the program loads, and the
 * recording. */
#ifndef GWI_PLACE_H
#define GWI_PLACE_H

#include "gw_place.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>

/* Create the folder with the mode `mode`, and create missing parent folders with mode 0700. An existing folder is not
 * changed. */
GW_MUST_CHECK gw_status gwi_folder_make(const char *path, unsigned mode, gw_error *err);

/* Create a run folder on a tmpfs, or on a local disk if no tmpfs has room. *ret_is_on_disk is then true, and recording
 * is slower: after each write-back by the kernel, the next write to a page faults. Returns GW_UNSUPPORTED if no folder
 * has room. */
GW_MUST_CHECK gw_status gwi_run_folder_make(gw_path out, bool *ret_is_on_disk, gw_error *err);
/* Remove a folder, the files in it, and its subfolders with their files. Folders on deeper levels are not removed.
 * Errors are not reported. */
void gwi_folder_remove(const char *path);

enum { GWI_FOLDER_FLAGS = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };
/* Return true if the file system of `path` is a tmpfs. */
bool gwi_is_in_memory(const char *path);

/* Lock run.meta in a run folder (left.c), without waiting. Returns its descriptor; closing it releases the lock.
 *
 * The run's supervisor takes a shared lock. A process that wants to remove the folder takes an exclusive lock
 * (`alone`). The lock also works between containers that share the folder but not the pids.
 *
 * Returns -1 on failure. errno is ENOENT if there is no run.meta, and EWOULDBLOCK if another process has a conflicting
 * lock. */
int gwi_run_folder_lock(const char *folder, bool alone);
/* Clean up the run folders of supervisors that were killed (left.c).
 * - A folder is left alone while a process may still write to its buffers.
 * - A folder with the last events of a recording in the state folder is kept as long as the recording. It is moved
 *   there from a tmpfs.
 * - Any other folder is removed when it is a day old. */
void gwi_run_folders_tidy(void);

/* Find or create folder number `index` for the libraries that the program loads. The caller tries 0 to GWI_CODE_FOLDERS
 * - 1; the last one is the run folder. Returns false unless the folder exists and:
 * - only this user and root may write to it
 * - its path contains no space and no colon, which separate the elements of LD_PRELOAD
 * - it is not mounted noexec
 *
 * Every user can read the other folders, except in a private home directory. Root takes such a folder, or one that
 * XDG_CACHE_HOME names, only if no other is usable. They are not removed after the run,
 * because child processes may still need the libraries. */
enum { GWI_CODE_FOLDERS = 6 };
bool gwi_code_folder(size_t index, const char *run_folder, gw_path out);

/* Store the path of a new recording in `out`: <state folder>/YYYYMMDD-HHMMSS-PID.gpuwhy. Runs in several containers may
 * have the same pid. If the file exists, try again with `again` = 1, 2 and so on, which appends "-2", "-3" and so on to
 * the pid. */
GW_MUST_CHECK gw_status gwi_recording_name(gw_path out, unsigned again, gw_error *err);
/* Remember in the state folder that a run writes this recording, until gwi_unfinished_clear(). Runs whose supervisor
 * was killed are found by this (gw_unfinished_visit()). Stores the path to clear in `out`; "": not remembered. */
void gwi_unfinished_set(const char *recording, gw_path out);
void gwi_unfinished_clear(gw_path path);

/* Store the path of a new recording in the user's folder in `out`: <folder>/HOST.RANK.PID.gpuwhy, or HOST.PID.gpuwhy
 * if the launcher has set no rank. Creates the folder, but not its parents, if it is missing. Errors: GW_IO, GW_USAGE
 * (the path is too long). */
GW_MUST_CHECK gw_status gwi_recording_name_in(const char *folder, gw_path out, gw_error *err);
/* True if `path` ends with a slash, or is a folder. */
bool gwi_is_folder(const char *path);
/* Store `path` as the last recording, which `gpuwhy explain` reads by default. Errors are ignored; the last recording
 * is then unchanged. */
void gwi_last_recording_set(const char *path);

#endif
