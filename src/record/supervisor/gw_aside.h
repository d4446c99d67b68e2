/* Lets a process, and those that it starts, write into a copy of some folders, which is forgotten when they have ended:
 * an overlay in a mount namespace of its own. What they write elsewhere stays. */
#ifndef GW_ASIDE_H
#define GW_ASIDE_H

#include <stdbool.h>
#include <stddef.h>

enum { GW_ASIDE_FOLDERS_MAX = 2 };

typedef struct gw_aside {
    const char *folder[GW_ASIDE_FOLDERS_MAX]; /* absolute paths; NULL: unused */
    const char *scratch;                      /* an empty folder, outside of these, for what is written: in memory */
    bool may_fail;                            /* go on without, if the system does not allow it */
} gw_aside;

/* In a child after fork(), before exec: enter the copy. Returns false if the system does not allow it, or if `scratch`
 * lies in one of the folders; the process should then end. */
bool gw_aside_enter(const gw_aside *aside);

#endif
