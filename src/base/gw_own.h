/* Checks that no other user can have created or changed a file or a folder.
 *
 * Other users can guess the names of our run folders, cached libraries and recordings. So check the owner and the
 * permissions before anything is read or loaded from there.
 *
 * Open files are checked through their descriptor. "We" is the effective user. No function keeps state. Any thread may
 * call them. */
#ifndef GW_OWN_H
#define GW_OWN_H

#include "gw_status.h"
#include "gw_text.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* True if the user is root. In a user namespace, such as a container without root, users outside it have no number;
 * they count as root. */
bool gw_own_is_root(uid_t user);

/* True if the group is that of our user alone: it has the user's name, and no other member. Without accounts, as in a
 * container, the numbers must be equal. Looks the names up, which may take time on a network. */
bool gw_own_is_private_group(gid_t group);

/* True if other users cannot rename, replace or add entries in any folder of this absolute, existing path. Links are
 * resolved first; `out` (may be NULL) receives the result.
 * - Root is trusted.
 * - Sticky folders such as /tmp are accepted: only the owner of an entry can rename it there.
 * - Our own folders may be writable for our private group. */
bool gw_own_path(const char *path, char out[PATH_MAX]);

/* Open a folder that we own. The caller closes *ret_fd. Errors:
 * - GW_IO: cannot be opened, or is a link
 * - GW_UNSUPPORTED: not ours, or others may write to it; our private group may */
GW_MUST_CHECK gw_status gw_own_folder_open(const char *path, int *ret_fd, gw_error *err);

/* Check that an open file is a regular file of `owner`, and that only `owner` may write to it, or our private group. A
 * file with a second name is refused, because another user may have made that name as a hard link. Returns
 * GW_UNSUPPORTED then. `name` is for the message. */
GW_MUST_CHECK gw_status gw_own_file_check(int fd, uid_t owner, const char *name, gw_error *err);

/* True if every user can read the file at this path: the file is readable and all its folders can be entered. */
bool gw_own_is_public(const char *path);

/* Make sure that our own `folder` has a file `name` with these bytes, readable and executable for all. An equal file is
 * kept if only we may write to it. Otherwise one rename replaces it, so a program never reads a mixture.
 * Returns GW_IO if the file cannot be written, GW_UNSUPPORTED as gw_own_folder_open() does. */
GW_MUST_CHECK gw_status gw_own_file_put(const char *folder, const char *name, const void *data, size_t bytes,
                                        gw_error *err);

/* Like gw_own_file_put(), with the bytes of the file at `path`, which must not be larger than 64 MiB. */
GW_MUST_CHECK gw_status gw_own_file_copy(const char *folder, const char *name, const char *path, gw_error *err);

/* Open a regular file for reading. Never waits, and never opens a device, a FIFO or a socket. `may_be_link`: true for a
 * name from the user, false for one read from a file. `err` receives the reason, without the path. */
GW_MUST_CHECK gw_status gw_plain_open(const char *path, bool may_be_link, int *ret_fd, gw_error *err);

/* Open a regular file below an open folder. The path is relative and has no `..`, and no part of it may be a link.
 * Otherwise like gw_plain_open(). */
GW_MUST_CHECK gw_status gw_below_open(int folder, const char *path, int *ret_fd, gw_error *err);

/* Append a regular file of at most `bytes_max` bytes to `text`. Errors begin with the path. GW_IO: it cannot be read;
 * GW_UNSUPPORTED: it is longer; GW_NOMEM. */
GW_MUST_CHECK gw_status gw_plain_read(const char *path, size_t bytes_max, gw_text *text, gw_error *err);
/* Read the beginning of a regular file into `out`, with a zero byte at its end. Returns the number of bytes; 0 if the
 * file is empty or cannot be read. */
size_t gw_plain_peek(const char *path, char *out, size_t room);

/* Open for reading a regular file that another user named, for example in a recording. That user must not learn from us
 * what is in a file, so the file is opened only if
 * - the path is absolute, and no part of it is a link
 * - the modes of the file and its folders let `user` read it. Access lists (ACLs) are ignored.
 *
 * Returns the descriptor, or -1. Never waits, like gw_plain_open(), except for the service that knows the groups of
 * users. */
int gw_foreign_open(const char *path, uid_t user);

#endif
