/* --message FILE: writes the verdict on a failed run as a short text, for Kubernetes' /dev/termination-log (message.c).
 */
#ifndef GWI_MESSAGE_H
#define GWI_MESSAGE_H

#include "gwi_output.h"

#include "gw_verdict.h"

/* Write the verdict to the output if the run failed: `verdict` is a fault, or the status of the program (as from
 * waitpid()) is not 0. The file then has at most 4096 bytes. If the program itself has written to the file during the
 * run, its text stays, and the verdict follows it. On an error, print one sentence to stderr. */
void gwi_message_write(const gwi_output *output, const gw_verdict *verdict, int status);

#endif
