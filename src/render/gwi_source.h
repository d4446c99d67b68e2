/* Reads a line of the user's source file and its neighbours when a verdict is rendered.
 *
 * A line is shown only if it is the one that ran: the file must be a regular file on the machine of the run, unchanged
 * since the run began, and for native code unchanged since the program was built. At most GWI_SOURCE_BYTES_MAX of it
 * are read. */
#ifndef GWI_SOURCE_H
#define GWI_SOURCE_H

#include "gw_verdict.h"

enum { GWI_SOURCE_LINES = 3, GWI_SOURCE_LINE_MAX = 512, GWI_SOURCE_BYTES_MAX = 8 << 20 };

typedef enum gwi_source_state {
    GWI_SOURCE_NONE,    /* no file, not readable, too large, or from another machine: print nothing */
    GWI_SOURCE_CHANGED, /* the file may differ from the one that ran */
    GWI_SOURCE_READ
} gwi_source_state;

typedef struct gwi_source {
    unsigned first;                                   /* number of line[0] */
    unsigned count;                                   /* number of lines, including the requested one */
    char line[GWI_SOURCE_LINES][GWI_SOURCE_LINE_MAX]; /* without line ends, truncated; raw bytes */
} gwi_source;

/* Read the lines of the user's frame at the verdict's place. *ret_source is valid only after GWI_SOURCE_READ. */
gwi_source_state gwi_source_read(const gw_verdict *verdict, gwi_source *ret_source);

#endif
