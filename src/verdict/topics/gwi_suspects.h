/* Finds the kernels that may be at fault when a fault surfaces late, and the places that launched them. */
#ifndef GWI_SUSPECTS_H
#define GWI_SUSPECTS_H

#include "gwi_cause.h"

/* The mangled name of the kernel at fault if it is proved (gwi_kernel_at_fault()), else of the one that the assertion's
 * text names, else of the only one launched since the last good synchronisation. NULL: there are several. `*ret_why`: a
 * label for the place of its launch; untouched if NULL is returned. */
const char *gwi_suspect_kernel(const gwi_case *c, const gw_failure *sticky, const char **ret_why);

/* The sites of the different places that launched the kernel, in order of time. Only sites with a frame of the program
 * count. Returns their number, at most GWI_LAUNCH_PLACES_MAX. */
enum { GWI_LAUNCH_PLACES_MAX = 6 };
size_t gwi_launch_places(const gwi_case *c, uint32_t pid, const char *kernel, uint32_t out[GWI_LAUNCH_PLACES_MAX]);
/* "first launched at train.py:7 in loss", or "launched at 3 places: ..."; "": not known. */
enum { GWI_LAUNCHED_TEXT_MAX = 700 };
char *gwi_launched_text(char out[GWI_LAUNCHED_TEXT_MAX], const gwi_case *c, uint32_t pid, const char *kernel);

/* Report the kernels launched since the last good synchronisation as evidence, in at most three lines. A kernel named
 * by other evidence comes first, then those of the program's own modules, then those of libraries; within each group
 * the newest first. */
void gwi_say_suspects(const gwi_case *c, gwi_finding *finding, const gw_failure *sticky);

#endif
