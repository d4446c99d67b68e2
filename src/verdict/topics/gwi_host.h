/* Detects that the host refused disk space, files, threads or processes, from the message that ended the program. */
#ifndef GWI_VERDICT_HOST_H
#define GWI_VERDICT_HOST_H

#include "gwi_machine.h"

typedef enum gwi_host_refusal { GWI_HOST_DISK, GWI_HOST_LIMIT } gwi_host_refusal;

/* Return the line on stderr that reports a full disk, or a reached limit on files, threads or processes, if the
 * program ended because of it. The line is the program's exception, an uncaught C++ exception, or the last such
 * message near the end of a program that exits by itself. Returns NULL if there is no such line, or if a driver call
 * failed before. */
const gw_stderr_line *gwi_host_words(const gwi_case *c, gwi_host_refusal refusal);

#endif
