/* Finds out whether a seccomp filter may kill this process for an unusual system call. */
#include "gw_filter.h"
#include "gwi_hook.h"

#include <stdlib.h>

/* Number of seccomp filters inherited from the supervisor, which has tested that they allow the unusual system
 * calls. */
static _Atomic int filters_passed;

void gwi_filters_begin(void)
{
    const char *passed = getenv(GW_FILTER_VARIABLE);
    filters_passed = passed == NULL ? 0 : (int)strtol(passed, NULL, 10);
}

/* True if the process has more seccomp filters than the supervisor, because the program or a launcher has added one. */
bool gwi_calls_are_filtered(void)
{
    return gw_filter_count() > filters_passed;
}
