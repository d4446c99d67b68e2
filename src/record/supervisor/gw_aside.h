/* Lets a process, and those that it starts, write nothing that stays: a mount namespace of its own, in which some
 * folders are overlays that are forgotten when the last of these processes has ended, and everything else is read-only.
 * Shared memory (/dev/shm), sockets and devices are as ever. */
#ifndef GW_ASIDE_H
#define GW_ASIDE_H

#include <stdbool.h>
#include <stddef.h>

enum { GW_ASIDE_FOLDERS_MAX = 4, GW_ASIDE_OUT_FD = 3 };

typedef struct gw_aside {
    const char *folder[GW_ASIDE_FOLDERS_MAX]; /* absolute paths that can be written to; NULL: unused */
    const char *scratch;                      /* an empty folder for what is written, which is kept in memory */
    int out_fd;                               /* becomes GW_ASIDE_OUT_FD: files cannot be handed over otherwise */
    bool may_fail;                            /* go on without, if the system does not allow it */
} gw_aside;

/* In a child after fork(), before exec: enter the namespace. Returns false if the system does not allow it; the process
 * should then end. */
bool gw_aside_enter(const gw_aside *aside);
/* True if a child can enter it. A process that has failed to enter may see a file system that is partly read-only. */
bool gw_aside_works(const gw_aside *aside);

#endif
