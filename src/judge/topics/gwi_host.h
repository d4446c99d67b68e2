/* Finds the message which shows that the program ended because the host refused disk space, files, threads or
 * processes. */
#ifndef GWI_VERDICT_HOST_H
#define GWI_VERDICT_HOST_H

#include "gwi_machine.h"

typedef enum gwi_host_refusal { GWI_HOST_DISK, GWI_HOST_LIMIT } gwi_host_refusal;

/* Return the stderr line that shows why the program ended: a full disk (GWI_HOST_DISK), or an exceeded limit on files,
 * threads or processes (GWI_HOST_LIMIT). It is the program's exception, an uncaught C++ exception, or the last such
 * message shortly before the program exited by itself. Returns NULL if:
 * - there is no such line
 * - it is about shared memory
 * - an earlier failed driver call is the root failure */
const gw_stderr_line *gwi_host_words(const gwi_case *c, gwi_host_refusal refusal);

#endif
