/* Reads the line of source code at the user's frame, and the lines around it. Files of more than GW_SOURCE_BYTES_MAX
 * bytes are not read.
 *
 * A line is printed only if it is certainly the line that ran. The run was on this machine, the file is regular, and
 * its hash is the recorded one. So a recording that names a private file shows nothing of it, unless its author knew
 * the whole file. If no hash was recorded:
 * - The recording and the file belong to us.
 * - The file has not changed since the run began or, for native code, since the module was built from it.
 *
 * If another user owns the recording, it must have a hash, and gw_foreign_open() must open the file. */
#ifndef GWI_SOURCE_H
#define GWI_SOURCE_H

#include "gw_verdict.h"
#include "gwi_page.h"

enum { GWI_SOURCE_LINES = 3, GWI_SOURCE_LINE_MAX = 512 };

typedef enum gwi_source_state {
    GWI_SOURCE_NONE,    /* print nothing: no such line, not readable, not to be shown, or a run on another machine */
    GWI_SOURCE_CHANGED, /* the contents differ, or may differ, from those during the run */
    GWI_SOURCE_READ
} gwi_source_state;

typedef struct gwi_source {
    unsigned first;                                   /* line number of line[0], from 1 */
    unsigned count;                                   /* number of lines in `line` */
    char line[GWI_SOURCE_LINES][GWI_SOURCE_LINE_MAX]; /* raw bytes, without line ends; longer lines are truncated */
} gwi_source;

/* Read the line of the user's frame in verdict->where, and the lines around it. *ret_source is valid only if
 * GWI_SOURCE_READ is returned. */
gwi_source_state gwi_source_read(const gw_verdict *verdict, gwi_source *ret_source);

/* Add the line of the user's frame, the lines around it, and a mark under the part that was running, where it is known.
 * If the file has changed, add a note instead. verdict->where must not be NULL. */
void gwi_source_add(gwi_page *page, const gw_verdict *verdict);

#endif
