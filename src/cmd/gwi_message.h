/* --message FILE: writes the verdict on a failed run as a short text, for Kubernetes' /dev/termination-log (message.c).
 */
#ifndef GWI_MESSAGE_H
#define GWI_MESSAGE_H

#include "gw_verdict.h"

#include <stdbool.h>
#include <sys/stat.h>

typedef struct gwi_message {
    const char *path;   /* borrowed; NULL: no message is wanted */
    bool existed;       /* the file existed before the program was started */
    struct stat before; /* its state then */
} gwi_message;

/* Remember the state of the file `path`, which may be NULL. Call this before the program is started. */
void gwi_message_begin(gwi_message *message, const char *path);

/* Write the verdict to the file if the run failed: `verdict` is a fault, or the status of the program (as from
 * waitpid()) is not 0. The file then has at most 4096 bytes. If the program itself has written to the file during the
 * run, its text stays, and the verdict follows it. On an error, print one sentence to stderr. */
void gwi_message_end(const gwi_message *message, const gw_verdict *verdict, int status);

#endif
