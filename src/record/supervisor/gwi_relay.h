/* Starts the processes that copy the program's stderr to ours, and defines the memory that they share with the
 * supervisor. */
#ifndef GWI_RELAY_H
#define GWI_RELAY_H

#include "gw_stderr_door.h"
#include "gwi_stderr.h"

struct gwi_stderr_tail {
    gw_stderr_ring ring;      /* what was read so far */
    _Atomic uint64_t written; /* number of these bytes that were written to our stderr */
    _Atomic bool ended;
    _Atomic pid_t copier;     /* pid of the process that copies; 0: not started */
    _Atomic pid_t supervisor; /* pid of the supervisor while it also holds a read end of the pipe, else 0 */
    _Atomic bool reader_gone; /* our stderr has no reader any more: the supervisor must close its read end too */
};

/* Start copying from `source`, the read end of a pipe, to our stderr. Returns false on failure. */
bool gwi_relay_start(gwi_stderr *capture, int source);

#endif
