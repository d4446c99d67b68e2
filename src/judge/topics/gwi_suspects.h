/* Finds the kernels that may have caused a fault that was reported late, and the places that launched them. */
#ifndef GWI_SUSPECTS_H
#define GWI_SUSPECTS_H

#include "gwi_cause.h"

/* Return the mangled name of the kernel that is most likely at fault, or NULL. The first of these is taken:
 * - the kernel that is proved to be at fault (gwi_kernel_at_fault())
 * - the kernel that a failed assertion names
 * - the only kernel launched since the last good synchronisation
 * *ret_why is a label for the place of its launch (unchanged for NULL). */
const char *gwi_suspect_kernel(const gwi_case *c, const gw_failure *sticky, const char **ret_why);

/* List the call sites that launched the kernel, in order of time, one for each line of the program, at most
 * GWI_LAUNCH_PLACES_MAX. Returns their number. */
enum { GWI_LAUNCH_PLACES_MAX = 6 };
size_t gwi_launch_places(const gwi_case *c, uint32_t pid, const char *kernel, uint32_t out[GWI_LAUNCH_PLACES_MAX]);
/* Format "first launched at train.py:7 in loss" or "launched at 3 places: ...". Writes "" if no place is known. */
enum { GWI_LAUNCHED_TEXT_MAX = 700 };
char *gwi_launched_text(char out[GWI_LAUNCHED_TEXT_MAX], const gwi_case *c, uint32_t pid, const char *kernel);

/* Report kernels launched since the last good synchronisation as evidence, in at most three lines. The order is as
 * follows, newest launch first:
 * - the kernel that other evidence names
 * - kernels of the program's own modules
 * - kernels of unknown modules
 * - kernels of libraries */
void gwi_say_suspects(const gwi_case *c, gwi_finding *finding, const gw_failure *sticky);

#endif
