/* Reads the line of source code at the user's frame, and the lines around it, at most GWI_SOURCE_BYTES_MAX bytes into
 * the file.
 *
 * A line is printed only if it is certainly the line that ran:
 * - The run was on this machine.
 * - The file is regular and has not changed since the run began.
 * - For native code, the file is older than the module that was built from it. */
#ifndef GWI_SOURCE_H
#define GWI_SOURCE_H

#include "gw_verdict.h"
#include "gwi_page.h"

enum { GWI_SOURCE_LINES = 3, GWI_SOURCE_LINE_MAX = 512, GWI_SOURCE_BYTES_MAX = 8 << 20 };

typedef enum gwi_source_state {
    GWI_SOURCE_NONE,    /* print nothing: no such line, not readable, too large, or a run on another machine */
    GWI_SOURCE_CHANGED, /* the file may be newer than the start of the run, or than the built module */
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
