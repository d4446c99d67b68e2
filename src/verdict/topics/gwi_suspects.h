/* Which kernels may be at fault when a fault surfaces late, and from where in the program they were launched. */
#ifndef GWI_SUSPECTS_H
#define GWI_SUSPECTS_H

#include "gwi_cause.h"

/* The kernel at fault where it is proved (gwi_kernel_at_fault()), else the one that the assertion's text names, else
 * the only one that was launched since the last good synchronisation. NULL: there are several. `*ret_why`: a label for
 * the place of its launch; not touched where NULL is returned. Mangled. */
const char *gwi_suspect_kernel(const gwi_case *c, const gw_failure *sticky, const char **ret_why);

/* Different places from which the kernel was launched, in order of time: numbers of sites. Only those with a frame of
 * the program are counted. Returns how many, at most GWI_LAUNCH_PLACES_MAX. */
enum { GWI_LAUNCH_PLACES_MAX = 6 };
size_t gwi_launch_places(const gwi_case *c, uint32_t pid, const char *kernel, uint32_t out[GWI_LAUNCH_PLACES_MAX]);
/* "first launched at train.py:7 in loss", or "launched at 3 places: ..."; "": not known. */
enum { GWI_LAUNCHED_TEXT_MAX = 700 };
char *gwi_launched_text(char out[GWI_LAUNCHED_TEXT_MAX], const gwi_case *c, uint32_t pid, const char *kernel);

/* Evidence: the kernels since the last good synchronisation, at most three lines. The kernel that is named otherwise
 * comes first, then those of the program's own modules, then those of libraries; of each sort the newest first. */
void gwi_say_suspects(const gwi_case *c, gwi_finding *finding, const gw_failure *sticky);

#endif
