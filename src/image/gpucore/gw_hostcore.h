/* Finds out which signal ended a process, from the core dump that the kernel wrote.
 *
 * Only the notes are used: registers and siginfo of the thread that caused the fault (the first NT_PRSTATUS), the pid,
 * the mapped files. The file may be truncated, or no dump at all. Calls share no state.
 *
 * Sources: core(5), Linux fs/binfmt_elf.c, sys/procfs.h. */
#ifndef GW_HOSTCORE_H
#define GW_HOSTCORE_H

#include "gw_status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct gw_hostcore {
    uint32_t pid;       /* pid in the process's own pid namespace; 0: unknown */
    uint32_t tid;       /* id of the thread that caused the fault */
    int signal;         /* 0: unknown */
    bool has_code;      /* the dump has a siginfo; false: `code` and `address` are 0 */
    int code;           /* si_code; 0 or less: a process sent the signal */
    uint64_t address;   /* si_addr: after a memory fault, the address that the program accessed */
    bool has_registers; /* `instruction` is known; false if the dump is from another architecture */
    uint64_t instruction;
    bool has_files; /* the dump lists the mapped files; false: `file` is "" */
    char file[256]; /* path of the mapped file that contains `address`, possibly truncated; "" if none */
} gw_hostcore;

/* Read a dump. `name` is used only in error texts. The offset of `fd` does not matter. Errors leave *ret_core
 * unchanged:
 * - GW_CORRUPT: not a core dump of a process, or invalid notes
 * - GW_UNSUPPORTED: not from a 64-bit x86 or ARM machine
 * - GW_IO: cannot be read */
GW_MUST_CHECK gw_status gw_hostcore_read(int fd, const char *name, gw_hostcore *ret_core, gw_error *err);

#endif
