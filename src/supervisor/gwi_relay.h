/* The processes that copy the program's stderr to ours, and the memory that they share with the supervisor. */
#ifndef GWI_RELAY_H
#define GWI_RELAY_H

#include "gwi_stderr.h"

#include <stdatomic.h>

struct gwi_stderr_tail {
    _Atomic uint64_t total;   /* bytes read so far; the newest end at total % size */
    _Atomic uint64_t written; /* how many of these bytes were passed on */
    _Atomic bool ended;
    _Atomic pid_t copier;     /* 0: not started */
    _Atomic pid_t supervisor; /* has a read end of the pipe too; 0: it has closed it */
    _Atomic bool reader_gone; /* our reader has closed its end, so the supervisor must close its read end too */
    char bytes[GWI_STDERR_BYTES_MAX];
};

/* Start copying from `source`, the read end of a pipe or the master of a terminal, to our stderr. False: no process or
 * no memory. */
bool gwi_relay_start(gwi_stderr *capture, int source);

#endif
