/* Temporary folders of commands: `$TMPDIR/gpuwhy-KIND.XXXXXX`, or in /tmp.
 *
 * A command locks its folder while it runs. If it is killed, the folder stays, without a lock. The next command removes
 * such folders of this user. Locks also work between containers that share the folder but not the pids. One thread. */
#ifndef GWI_TEMPORARY_H
#define GWI_TEMPORARY_H

#include "gw_place.h"

typedef struct gwi_temporary {
    gw_path path; /* "": there is none */
    int lock;     /* owned descriptor of the folder; valid unless `path` is "" */
} gwi_temporary;

/* Remove what killed commands left behind, and make a folder that only this user can enter. GW_OK; GW_IO: `out->path`
 * is "" then. */
GW_MUST_CHECK gw_status gwi_temporary_make(const char *kind, gwi_temporary *out, gw_error *err);
/* Remove the folder with everything in it, and set the path to "". Does nothing if there is none. */
void gwi_temporary_remove(gwi_temporary *folder);

#endif
