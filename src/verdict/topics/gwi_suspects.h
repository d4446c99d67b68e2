/* Finds the kernels that may be at fault when a fault is reported late, and the places that launched them. */
#ifndef GWI_SUSPECTS_H
#define GWI_SUSPECTS_H

#include "gwi_cause.h"

/* Return the mangled name of the kernel that is most likely at fault: the proved one (gwi_kernel_at_fault()), else the
 * one that the text of a failed assertion names, else the only kernel launched since the last good synchronisation.
 * Returns NULL if none of these is known. *ret_why is set to a label for the place of the kernel's launch, or is
 * unchanged if NULL is returned. */
const char *gwi_suspect_kernel(const gwi_case *c, const gw_failure *sticky, const char **ret_why);

/* List the call sites that launched the kernel, in order of time, one for each line of the program. Sites without a
 * frame of the program are omitted. Returns their number, at most GWI_LAUNCH_PLACES_MAX. */
enum { GWI_LAUNCH_PLACES_MAX = 6 };
size_t gwi_launch_places(const gwi_case *c, uint32_t pid, const char *kernel, uint32_t out[GWI_LAUNCH_PLACES_MAX]);
/* Format "first launched at train.py:7 in loss" or "launched at 3 places: ...". Writes "" if no place is known. */
enum { GWI_LAUNCHED_TEXT_MAX = 700 };
char *gwi_launched_text(char out[GWI_LAUNCHED_TEXT_MAX], const gwi_case *c, uint32_t pid, const char *kernel);

/* Report the kernels launched since the last good synchronisation as evidence, in at most three lines. A kernel that
 * other evidence names comes first, then kernels of the program's own modules, kernels of unknown modules, and kernels
 * of libraries. Within each group, the most recently launched kernel comes first. */
void gwi_say_suspects(const gwi_case *c, gwi_finding *finding, const gw_failure *sticky);

#endif
