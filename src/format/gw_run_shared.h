/* A file in the run folder that the hooks of all processes of a run map: the number of processes, the device memory
 * of each one for a limit that they share (--memory-shared), and lost devices. The supervisor creates the file, filled
 * with zeros, if the run needs it, and looks at lost_devices. */
#ifndef GW_RUN_SHARED_H
#define GW_RUN_SHARED_H

#include <stdatomic.h>
#include <stdint.h>

#define GW_RUN_SHARED_NAME "shared"
enum { GW_RUN_MEMBERS_MAX = 256, GW_RUN_SHARED_DEVICES = 16 };

/* A process that takes part in the limit. `pid` is 0 while the place is free. The place of an ended process is cleared
 * by the next process that would exceed the limit or finds no free place. `started` tells a process from a later one
 * with the same pid. */
typedef struct gw_run_member {
    _Alignas(64) _Atomic uint32_t pid;
    _Atomic uint64_t started;       /* start time in clock ticks since boot, as in /proc/PID/stat; 0: not known */
    _Atomic uint64_t pid_namespace; /* in which `pid` is valid; 0: not known */
    _Atomic uint64_t used_bytes[GW_RUN_SHARED_DEVICES];
} gw_run_member;

typedef struct gw_run_shared {
    _Atomic uint32_t process_count; /* processes that made a driver call so far */
    _Atomic uint32_t member_count;  /* places that were ever taken */
    /* Bit N: --inject let a process lose its device N. The supervisor then lets a virtual card be lost; a real card is
     * what it is. */
    _Atomic uint32_t lost_devices;
    gw_run_member member[GW_RUN_MEMBERS_MAX];
} gw_run_shared;

#endif
