/* Finds the fault of host code that ended the judged process, and the reason for a SIGBUS. */
#ifndef GWI_VERDICT_CRASH_H
#define GWI_VERDICT_CRASH_H

#include "gwi_cause.h"

/* Return the crash that ended the judged process. Returns NULL if none was recorded, or if the process survived it. The
 * program's own signal handler may have ended the process in another way (another signal, or an exit status). So a bad
 * end is enough if no driver call followed the crash. */
const gw_crash *gwi_crash_of(const gwi_case *c);
bool gwi_died_of(const gwi_case *c, const gw_crash *crash); /* true if the process died of the crash's signal */
bool gwi_is_at_null(
    const gw_crash *crash); /* true if the crash's address is that of a NULL pointer, or shortly after */
/* True if the root failure is a refused allocation, and the program crashed later because host code used the NULL
 * pointer of this allocation. */
bool gwi_is_null_of_root(const gwi_case *c, const gw_crash *crash);
/* True if a bad access ended the process at an unknown address, while the process had device memory. */
bool gwi_may_be_in_block(const gwi_case *c);
/* The reason for a SIGBUS: why the kernel could not provide a page, and of which file. */
typedef enum gwi_bus {
    GWI_BUS_UNKNOWN, /* the reason or the file was not recorded; the page may belong to any file */
    GWI_BUS_SHM,     /* a page of /dev/shm */
    GWI_BUS_FILE,    /* a page of another mapped file: gw_crash.file */
    GWI_BUS_MEMORY,  /* hardware error in the host memory at the address of the crash */
    GWI_BUS_OTHER    /* no page was missing: the address was misaligned, or a process sent the signal */
} gwi_bus;
gwi_bus gwi_bus_of(const gwi_case *c);
/* Report the evidence for a SIGBUS: the page that the Linux kernel could not provide, or the host memory that failed.
 * Does nothing if neither is known. */
void gwi_say_bus(const gwi_case *c, gwi_finding *finding);
/* Return the source of the crash record for evidence lines: a handler, a core dump or the kernel log. The text is
 * static. */
const char *gwi_crash_source(const gw_crash *crash);
/* If gwi_is_null_of_root() holds for the crash, report the crash as a consequence. */
void gwi_say_null_used(const gwi_case *c, gwi_finding *finding);

#endif
