/* Knows whether a filter of system calls (seccomp) may kill this process for an unusual call. */
#include "gw_filter.h"
#include "gwi_hook.h"

#include <stdlib.h>

static _Atomic int filters_passed; /* so many filters let the unusual calls through: the supervisor has tried them */

void gwi_filters_begin(void)
{
    const char *passed = getenv(GW_FILTER_VARIABLE);
    filters_passed = passed == NULL ? 0 : (int)strtol(passed, NULL, 10);
}

/* More filters than the supervisor has: the program, or a launcher, has added one. */
bool gwi_calls_are_filtered(void)
{
    return gw_filter_count() > filters_passed;
}
