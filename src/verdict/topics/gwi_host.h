/* Finds the host's refusal in the message that ended the program. */
#ifndef GWI_VERDICT_HOST_H
#define GWI_VERDICT_HOST_H

#include "gwi_machine.h"

typedef enum gwi_host_refusal { GWI_HOST_DISK, GWI_HOST_LIMIT } gwi_host_refusal;

/* The line that reports a full disk, or a limit on files, threads or processes, if the program ended with it: as its
 * exception, as an uncaught C++ exception, or as the last such message near the end of a program that exits by itself.
 * NULL: the program did not end like this, or a driver call had failed before. */
const gw_stderr_line *gwi_host_words(const gwi_case *c, gwi_host_refusal refusal);

#endif
