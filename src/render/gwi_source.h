/* A line of the user's source file and its neighbours, read when a verdict is rendered.
 *
 * A line is worth showing only if it is the one that ran: the file must be a plain one on the machine of the run, not
 * changed since the run began, and for native code not changed since the program's file was built. No more than
 * GWI_SOURCE_BYTES_MAX of it is read. */
#ifndef GWI_SOURCE_H
#define GWI_SOURCE_H

#include "gw_verdict.h"

enum { GWI_SOURCE_LINES = 3, GWI_SOURCE_LINE_MAX = 512, GWI_SOURCE_BYTES_MAX = 8 << 20 };

typedef enum gwi_source_state {
    GWI_SOURCE_NONE,    /* no file, not readable, too large, another machine's: nothing to say */
    GWI_SOURCE_CHANGED, /* it may not be the file that ran */
    GWI_SOURCE_READ
} gwi_source_state;

typedef struct gwi_source {
    unsigned first; /* number of line[0] */
    unsigned count; /* lines that there are; the one that was asked for is among them */
    char line[GWI_SOURCE_LINES][GWI_SOURCE_LINE_MAX]; /* without their ends, cut where they are longer; raw bytes */
} gwi_source;

/* The user's frame of the verdict's place. *ret_source holds lines after GWI_SOURCE_READ alone. */
gwi_source_state gwi_source_read(const gw_verdict *verdict, gwi_source *ret_source);

#endif
