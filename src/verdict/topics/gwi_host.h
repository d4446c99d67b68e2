/* What the host refused, in the words that ended the program. */
#ifndef GWI_VERDICT_HOST_H
#define GWI_VERDICT_HOST_H

#include "gwi_machine.h"

typedef enum gwi_host_refusal { GWI_HOST_DISK, GWI_HOST_LIMIT } gwi_host_refusal;

/* The line that says that a disk is full, or that there are no more files, threads or processes, where it is what the
 * program ended with: its exception, its uncaught C++ exception, or near the end the last word on it of a program that
 * exits by itself. NULL: it did not end so, or a driver call had failed before. */
const gw_stderr_line *gwi_host_words(const gwi_case *c, gwi_host_refusal refusal);

#endif
