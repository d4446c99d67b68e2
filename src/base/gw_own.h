/* Files and folders that no other user can have put there.
 *
 * A run folder on /dev/shm, a library in a cache and a recording in the state folder have names that other users can
 * guess. So before anything is read from them, and before a program loads code from them, these functions check who
 * owns them and who may write to them. The checks of open files are made on the descriptor. "We" is the effective user.
 *
 * Nothing here keeps state. Any thread. */
#ifndef GW_OWN_H
#define GW_OWN_H

#include "gw_status.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* True if other users cannot rename, replace or add entries in any folder of this absolute path, links resolved. The
 * path must exist. Sticky folders such as /tmp are accepted, because only an owner can rename its entries there. A
 * folder of ours may be writable for our own group. `out` (may be NULL) receives the resolved path. */
bool gw_own_path(const char *path, char out[PATH_MAX]);

/* Open a folder. GW_IO: it cannot be opened or is a link. GW_UNSUPPORTED: somebody else owns it, or may write to it.
 * The caller closes *ret_fd. */
GW_MUST_CHECK gw_status gw_own_folder_open(const char *path, int *ret_fd, gw_error *err);

/* Check an open file: plain, owned by `owner`, not writable for others, with one name only (a second name may be a link
 * that somebody made to a file of the owner). GW_UNSUPPORTED: it is not; `name` is for the message. */
GW_MUST_CHECK gw_status gw_own_file_check(int fd, uid_t owner, const char *name, gw_error *err);

/* True if every user can read the file at this absolute path. */
bool gw_own_is_public(const char *path);

/* Make sure that `folder`, which must be our own, contains a file `name` with these bytes, which every user may read
 * and execute. A file that has them already, and that only we may write to, is left alone; otherwise it is replaced by
 * one rename, so that a program that opens it meanwhile finds either the old bytes or the new ones. GW_IO: it cannot be
 * written. GW_UNSUPPORTED: as for gw_own_folder_open(). */
GW_MUST_CHECK gw_status gw_own_file_put(const char *folder, const char *name, const void *data, size_t bytes,
                                        gw_error *err);

/* As gw_own_file_put(), with the bytes of the file at `path`, at most 64 MiB. */
GW_MUST_CHECK gw_status gw_own_file_copy(const char *folder, const char *name, const char *path, gw_error *err);

/* Open a plain file for reading without ever waiting: never a device, a FIFO or a socket. `may_be_link`: follow links,
 * which is right for names that the user gave and wrong for names that a file contains. `err` has the reason, without
 * the path. */
GW_MUST_CHECK gw_status gw_plain_open(const char *path, bool may_be_link, int *ret_fd, gw_error *err);

#endif
