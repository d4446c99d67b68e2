/* Finds the fault of host code that ended the judged process, and its address. */
#ifndef GWI_VERDICT_CRASH_H
#define GWI_VERDICT_CRASH_H

#include "gwi_cause.h"

/* Return the crash that ended the judged process. Returns NULL if no fault was recorded, or if the process survived it.
 * A process that ended badly, but not by the fault's signal, did not survive the fault if it made no driver call
 * afterwards: its own signal handler may have ended it. */
const gw_crash *gwi_crash_of(const gwi_case *c);
bool gwi_died_of(const gwi_case *c, const gw_crash *crash); /* true if the process died of the crash's signal */
/* True if the root is a refused allocation, and the crash was caused by the use of its NULL pointer. */
bool gwi_is_null_of_root(const gwi_case *c, const gw_crash *crash);
/* The reason for a SIGBUS: why the kernel could not provide a page, and of which file. */
typedef enum gwi_bus {
    GWI_BUS_UNKNOWN, /* not recorded, or the file is unknown: /dev/shm, another file or a huge page */
    GWI_BUS_SHM,     /* a page of /dev/shm */
    GWI_BUS_FILE,    /* a page of another mapped file: gw_crash.file */
    GWI_BUS_MEMORY,  /* hardware error in the host memory at that address */
    GWI_BUS_OTHER    /* no page was missing: the address was misaligned, or a process sent the signal */
} gwi_bus;
gwi_bus gwi_bus_of(const gwi_case *c);
/* Report the page of a SIGBUS as evidence, if it is known. */
void gwi_say_bus(const gwi_case *c, gwi_finding *finding);
/* Return the source of the crash record for evidence lines: a handler, a core dump or the kernel log. Static. */
const char *gwi_crash_source(const gw_crash *crash);
/* If the crash used the NULL pointer of the refused root, report the crash as a consequence. */
void gwi_say_null_used(const gwi_case *c, gwi_finding *finding);

#endif
