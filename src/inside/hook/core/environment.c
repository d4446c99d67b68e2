/* Notes the variables in which a launcher sets the rank of this process. Some launchers set them inside the process,
 * before it uses the GPU, so the supervisor cannot read them from outside. */
#include "gw_filter.h"
#include "gwi_hook.h"

#include "gw_rank_variables.h"

#include <stdlib.h>
#include <string.h>

/* Finds out whether a seccomp filter may kill this process for an unusual system call. */

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

enum { DIGITS_MAX = 9 };

/* Append "NAME=VALUE" and a zero byte if the variable is a number and there is room. Returns the new length. */
static size_t add_variable(char *out, size_t used, const char *name)
{
    const char *value = getenv(name);
    size_t digits = value == NULL ? 0 : strspn(value, "0123456789"), bytes = strlen(name);
    if (digits == 0 || digits > DIGITS_MAX || value[digits] != '\0' ||
        used + bytes + 1 + digits + 1 > GW_LAUNCHER_BYTES)
        return used;
    memcpy(out + used, name, bytes);
    out[used + bytes] = '=';
    memcpy(out + used + bytes + 1, value, digits + 1);
    return used + bytes + 1 + digits + 1;
}

void gwi_launcher_note(char out[GW_LAUNCHER_BYTES])
{
    static const char *const names[] = GW_RANK_VARIABLES_INSIDE;
    size_t used = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        used = add_variable(out, used, names[i]);
}
