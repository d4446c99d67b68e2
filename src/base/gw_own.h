/* Check that no other user can have created or changed a file or a folder.
 *
 * A run folder on /dev/shm, a library in a cache and a recording in the state folder have names that other users can
 * guess. So these functions check who owns a file or folder and who may write to it, before anything is read from it
 * and before a program loads code from it. Open files are checked through their descriptor. "We" is the effective user.
 *
 * No function keeps state. Any thread may call them. */
#ifndef GW_OWN_H
#define GW_OWN_H

#include "gw_status.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* True if other users cannot rename, replace or add entries in any folder of this absolute path, after all links are
 * resolved. Root is trusted. The path must exist. Sticky folders such as /tmp are accepted, because only the owner of
 * an entry can rename the entry there. A folder that we own may be writable for our own group. The resolved path is
 * stored in `out` (may be NULL). */
bool gw_own_path(const char *path, char out[PATH_MAX]);

/* Open a folder that we own. Returns GW_IO if it cannot be opened or is a link, and GW_UNSUPPORTED if we do not own it
 * or if its group or others may write to it. The caller closes *ret_fd. */
GW_MUST_CHECK gw_status gw_own_folder_open(const char *path, int *ret_fd, gw_error *err);

/* Check that an open file is a regular file of `owner`, that only `owner` may write to it, and that it has only one
 * name: a second name may be a hard link that another user made. Returns GW_UNSUPPORTED otherwise. `name` is used only
 * in the message. */
GW_MUST_CHECK gw_status gw_own_file_check(int fd, uid_t owner, const char *name, gw_error *err);

/* True if every user can read the file at this path: the file is readable and all its folders can be entered. */
bool gw_own_is_public(const char *path);

/* Make sure that `folder`, which must be our own, contains a file `name` with these bytes, which every user may read
 * and execute. If there is such a file already, and only we may write to it, it is kept. Otherwise the file is replaced
 * by one rename: a program that opens it meanwhile reads either the old bytes or the new ones. Returns GW_IO if the
 * file cannot be written, and GW_UNSUPPORTED as gw_own_folder_open() does. */
GW_MUST_CHECK gw_status gw_own_file_put(const char *folder, const char *name, const void *data, size_t bytes,
                                        gw_error *err);

/* Like gw_own_file_put(), with the bytes of the file at `path`, which must not be larger than 64 MiB. */
GW_MUST_CHECK gw_status gw_own_file_copy(const char *folder, const char *name, const char *path, gw_error *err);

/* Open a regular file for reading. Never waits, and never opens a device, a FIFO or a socket. Links are followed only
 * if `may_be_link`: pass true for a name from the user, and false for a name that was read from a file. `err` receives
 * the reason of a failure, without the path. */
GW_MUST_CHECK gw_status gw_plain_open(const char *path, bool may_be_link, int *ret_fd, gw_error *err);

#endif
