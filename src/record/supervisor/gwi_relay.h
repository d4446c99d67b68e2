/* The relay: a process that copies the program's stderr from one pipe to another, and shares the end of it with the
 * supervisor.
 *
 * It is a program of its own (relay_main.c), which survives if all processes of gpuwhy are killed, or one of them
 * because memory is short. The same file starts it: the supervisor's child executes
 * `GW_RELAY_FILE SOURCE TAIL WRITER REPORT stderr|both PROGRAM [ARGUMENT..]`, four descriptors and the command. It
 * starts the relay and then executes the command. There is thus no moment at which the program can write, and the end
 * of gpuwhy would cut its output. The relay is `GW_RELAY_FILE SOURCE TAIL STDERR`, with no environment. If the file
 * cannot be executed, a copy of the supervisor does the same work. */
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
    _Atomic pid_t relay;      /* pid of the first relay; 0: it could not be started */
    _Atomic pid_t copier;     /* pid of the process that copies; 0: not started */
    _Atomic pid_t supervisor; /* pid of the supervisor while it also holds a read end of the pipe, else 0 */
    _Atomic bool reader_gone; /* our stderr has no reader any more: the supervisor must close its read end too */
} gwi_stderr_tail;

#define GW_RELAY_MARK                                                                                                  \
    "relay of gpuwhy " GW_PROGRAM_VERSION /* a text in its file: no other program may run the command */

enum {
    GW_RELAY_HOLDS = 1,  /* before each variable of the environment that is for the command alone */
    GW_RELAY_PROGRAM = 6 /* index of the command in the arguments */
};

/* In the process that becomes the program: store the pid of the relay, and let stderr, and standard output if `both`,
 * write to it. `relay` <= 0: there is none, and nothing changes. */
void gwi_relay_enter(gwi_stderr_tail *tail, pid_t relay, int writer, bool both);
/* Be the relay: copy from `source`, the read end of a pipe, to our stderr. */
_Noreturn void gwi_relay(int source, gwi_stderr_tail *tail);

#endif
