/* Notes the variables in which a launcher sets the rank of this process. Some launchers set them inside the process,
 * before it uses the GPU, so the supervisor cannot read them from outside. */
#include "gwi_hook.h"

#include "gw_rank_variables.h"

#include <stdlib.h>
#include <string.h>

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
