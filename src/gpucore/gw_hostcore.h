/* What a core dump of a process, as the kernel writes it, says of the signal that ended it.
 *
 * Only its notes are read: of the thread that met the fault (the first NT_PRSTATUS), its siginfo, the process's
 * number, and the files that it had mapped. The file may be of any size, cut off, or not a dump at all. Sources:
 * core(5), Linux fs/binfmt_elf.c (order of the notes), the structures of sys/procfs.h. One thread a call; nothing is
 * shared between calls. */
#ifndef GW_HOSTCORE_H
#define GW_HOSTCORE_H

#include "gw_status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct gw_hostcore {
    uint32_t pid;       /* of the process; 0: not told. As it counts itself, in its own namespace */
    uint32_t tid;       /* of the thread */
    int signal;         /* 0: not told */
    bool has_code;      /* a siginfo is there: code and address are its own */
    int code;           /* si_code; 0 and less: somebody sent it */
    uint64_t address;   /* si_addr: of a memory fault the address that was touched */
    bool has_registers; /* of this machine's own kind */
    uint64_t instruction;
    bool has_files; /* it lists the files that the process had mapped */
    char file[256]; /* the one in which the address lies, as the kernel names it; cut off; "": in none */
} gw_hostcore;

/* `name` is for messages. GW_OK; GW_CORRUPT: no core dump of a process, or its notes make no sense; GW_UNSUPPORTED: of
 * another kind of machine than 64-bit x86 or ARM, or this build lacks elfutils; GW_IO. Unless GW_OK, *ret_core is
 * untouched. The file's offset is not used. */
GW_MUST_CHECK gw_status gw_hostcore_read(int fd, const char *name, gw_hostcore *ret_core, gw_error *err);

#endif
