/* Detects that the host refused disk space, files, threads or processes, from the message that ended the program. */
#ifndef GWI_VERDICT_HOST_H
#define GWI_VERDICT_HOST_H

#include "gwi_machine.h"

typedef enum gwi_host_refusal { GWI_HOST_DISK, GWI_HOST_LIMIT } gwi_host_refusal;

/* Return the stderr line that reports the full disk (GWI_HOST_DISK), or the exceeded limit on files, threads or
 * processes (GWI_HOST_LIMIT), that ended the program. The line is the program's exception, an uncaught C++ exception,
 * or the last such message shortly before the program exited by itself. Returns NULL if there is no such line, if it is
 * about shared memory, or if an earlier failed driver call is the root failure. */
const gw_stderr_line *gwi_host_words(const gwi_case *c, gwi_host_refusal refusal);

#endif
