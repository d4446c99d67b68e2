/* Reads the user's source line, with its neighbours, for the verdict text.
 *
 * A line is printed only if it is certainly the line that ran: the file must be a regular file on the machine of the
 * run and unchanged since the run began. For native code the file must also be older than the module that was built
 * from it. At most GWI_SOURCE_BYTES_MAX of the file are read. */
#ifndef GWI_SOURCE_H
#define GWI_SOURCE_H

#include "gw_verdict.h"

enum { GWI_SOURCE_LINES = 3, GWI_SOURCE_LINE_MAX = 512, GWI_SOURCE_BYTES_MAX = 8 << 20 };

typedef enum gwi_source_state {
    GWI_SOURCE_NONE,    /* print nothing: no file, not readable, too large, or from another machine */
    GWI_SOURCE_CHANGED, /* the file may have changed since the program ran or was built */
    GWI_SOURCE_READ
} gwi_source_state;

typedef struct gwi_source {
    unsigned first;                                   /* line number of line[0] */
    unsigned count;                                   /* number of lines in `line` */
    char line[GWI_SOURCE_LINES][GWI_SOURCE_LINE_MAX]; /* raw bytes without line ends, truncated */
} gwi_source;

/* Read the line of the user's frame in verdict->where, and the lines around it. *ret_source is valid only if
 * GWI_SOURCE_READ is returned. */
gwi_source_state gwi_source_read(const gw_verdict *verdict, gwi_source *ret_source);

#endif
