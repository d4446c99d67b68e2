/* The fault of host code that ended the judged process, and its address. */
#ifndef GWI_VERDICT_CRASH_H
#define GWI_VERDICT_CRASH_H

#include "gwi_cause.h"

/* The crash that ended the judged process. NULL: it did not end with a fault, or its address is not known. A handler of
 * the program may have ended the process; then no driver call followed the fault. */
const gw_crash *gwi_crash_of(const gwi_case *c);
bool gwi_died_of(const gwi_case *c, const gw_crash *crash); /* the process died of this crash's signal */
/* True if the root is a refused allocation and the address results from using its NULL pointer. */
bool gwi_is_null_of_root(const gwi_case *c, const gw_crash *crash);
/* The reason for SIGBUS, if known: a page that the kernel could not provide, and its file. */
typedef enum gwi_bus {
    GWI_BUS_UNKNOWN, /* not recorded, or not which file: possibly /dev/shm, another file or a huge page */
    GWI_BUS_SHM,     /* a page of /dev/shm */
    GWI_BUS_FILE,    /* a page of another mapped file: gw_crash.file */
    GWI_BUS_MEMORY,  /* the machine's memory failed at that address */
    GWI_BUS_OTHER    /* no page was missing: the address was misaligned, or a process sent the signal */
} gwi_bus;
gwi_bus gwi_bus_of(const gwi_case *c);
/* Report the page as evidence, if it is known. */
void gwi_say_bus(const gwi_case *c, gwi_finding *finding);
/* The source name for evidence: a handler, a core dump or the kernel log. Static. */
const char *gwi_crash_source(const gw_crash *crash);
/* Report that crash as a consequence of the root, if it is one. */
void gwi_say_null_used(const gwi_case *c, gwi_finding *finding);

#endif
