/* The fault of host code that ended the judged process: where in memory it was. */
#ifndef GWI_VERDICT_CRASH_H
#define GWI_VERDICT_CRASH_H

#include "gwi_cause.h"

/* NULL: the process did not end with a fault, or nobody told where. A handler of the program's may have ended it; then
 * no driver call came after the fault. */
const gw_crash *gwi_crash_of(const gwi_case *c);
bool gwi_died_of(const gwi_case *c, const gw_crash *crash); /* by the signal itself */
/* The root is a refused allocation, and the address is what using its NULL gives. */
bool gwi_is_null_of_root(const gwi_case *c, const gw_crash *crash);
/* What SIGBUS was about, where that is known: a page that could not be provided, and of which file. */
typedef enum gwi_bus {
    GWI_BUS_UNKNOWN, /* nobody told, or not the file: /dev/shm, another file and a huge page come into question */
    GWI_BUS_SHM,     /* a page of /dev/shm */
    GWI_BUS_FILE,    /* a page of another mapped file: gw_crash.file */
    GWI_BUS_MEMORY,  /* the machine's memory failed there */
    GWI_BUS_OTHER    /* no page was missing: an address out of line, or somebody sent the signal */
} gwi_bus;
gwi_bus gwi_bus_of(const gwi_case *c);
/* The page as evidence, where it is known. */
void gwi_say_bus(const gwi_case *c, gwi_finding *finding);
/* A handler, a core dump or the kernel's log as a source of evidence. */
const char *gwi_crash_source(const gw_crash *crash);
/* That crash as a consequence of the root, where it is one. */
void gwi_say_null_used(const gwi_case *c, gwi_finding *finding);

#endif
