/* Reads from a core dump of a process, as written by the kernel, which signal ended the process.
 *
 * Only the notes are read: registers and siginfo of the thread that caused the fault (the first NT_PRSTATUS), the pid,
 * and the mapped files. The file may have any size, be truncated, or not be a dump at all. Sources: core(5), Linux
 * fs/binfmt_elf.c (order of the notes), the structures of sys/procfs.h. Each call runs in one thread. Calls share no
 * state. */
#ifndef GW_HOSTCORE_H
#define GW_HOSTCORE_H

#include "gw_status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct gw_hostcore {
    uint32_t pid;       /* of the process, in its own pid namespace; 0: unknown */
    uint32_t tid;       /* of the thread */
    int signal;         /* 0: unknown */
    bool has_code;      /* the dump has a siginfo, from which `code` and `address` come */
    int code;           /* si_code; 0 or less: the signal was sent by a process */
    uint64_t address;   /* si_addr: for a memory fault, the address that was accessed */
    bool has_registers; /* the registers have this machine's format */
    uint64_t instruction;
    bool has_files; /* the dump lists the files that the process had mapped */
    char file[256]; /* the mapped file that contains the address, truncated; "": none */
} gw_hostcore;

/* Read a dump. `name` is used in error texts. GW_OK; GW_CORRUPT: not a core dump of a process, or its notes are
 * invalid; GW_UNSUPPORTED: of a machine other than 64-bit x86 or ARM; GW_IO. Unless
 * GW_OK, *ret_core is unchanged. The file offset of `fd` is not used. */
GW_MUST_CHECK gw_status gw_hostcore_read(int fd, const char *name, gw_hostcore *ret_core, gw_error *err);

#endif
