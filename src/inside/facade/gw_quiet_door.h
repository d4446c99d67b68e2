/* The door for programs that forbid what the hook does: prctl(PR_SET_TSC, PR_TSC_SIGSEGV) forbids to read the clock,
 * and prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) forbids nearly all system calls. Either would then kill the program.
 *
 * Both preloaded libraries define prctl() and this object, and the first one is used. Before the kernel forbids
 * anything, the hook stops recording in this process, and in its children. A program that makes the system call
 * itself, without prctl(), is not noticed. If it did so before its first driver call, the hook asks the kernel. */
#ifndef GW_QUIET_DOOR_H
#define GW_QUIET_DOOR_H

#include <stdatomic.h>
#include <stdint.h>

typedef struct gw_quiet_door {
    _Atomic uint32_t is_quiet; /* 1: the program has called prctl() as above; never 0 again */
    /* Stop recording, because the program forbids `what`. Set by the hook; NULL: it is not loaded. */
    void (*_Atomic begin)(const char *what);
} gw_quiet_door;

extern gw_quiet_door gw_the_quiet_door __attribute__((weak, visibility("default")));

#endif
