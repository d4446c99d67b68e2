/* The relay: a process that copies the program's stderr from one pipe to another, and shares the end of it with the
 * supervisor.
 *
 * It is a program of its own (relay_main.c), which survives if all processes of gpuwhy are killed, or one of them
 * because memory is short. The supervisor starts `GW_RELAY_FILE SOURCE TAIL STDERR`, three descriptors, with no
 * environment. If this fails, a copy of the supervisor does the same work. */
#ifndef GWI_RELAY_H
#define GWI_RELAY_H

#include "gw_stderr_door.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct gwi_stderr_tail {
    gw_stderr_ring ring;      /* what was read so far */
    _Atomic uint64_t written; /* number of these bytes that were written to our stderr */
    _Atomic bool has_begun;   /* the relay that was started last has got to its work */
    _Atomic bool ended;
    _Atomic pid_t copier;     /* pid of the process that copies; 0: not started */
    _Atomic pid_t supervisor; /* pid of the supervisor while it also holds a read end of the pipe, else 0 */
    _Atomic bool reader_gone; /* our stderr has no reader any more: the supervisor must close its read end too */
} gwi_stderr_tail;

/* Be the relay: copy from `source`, the read end of a pipe, to our stderr. */
_Noreturn void gwi_relay(int source, gwi_stderr_tail *tail);

#endif
