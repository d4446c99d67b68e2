/* Returns the text for a status, and writes error texts that callers can extend. */
#include "gw_status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const status_texts[] = {
#define GW_X(name, text) text,
    GW_STATUSES(GW_X)
#undef GW_X
};
_Static_assert(sizeof status_texts / sizeof status_texts[0] == GW_STATUS_COUNT, "one text a status");

const char *gw_status_text(gw_status status)
{
    if ((unsigned)status >= GW_STATUS_COUNT)
        return "unknown status";
    return status_texts[status];
}

gw_status gw_fail(gw_error *err, gw_status status, const char *format, ...)
{
    if (err != NULL) {
        va_list args;
        va_start(args, format);
        vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);
    }
    return status;
}

void gw_wrap(gw_error *err, const char *format, ...)
{
    if (err == NULL)
        return;
    char before[sizeof err->text];
    va_list args;
    va_start(args, format);
    int wanted = vsnprintf(before, sizeof before, format, args);
    va_end(args);
    if (wanted < 0)
        return;
    char whole[2 * sizeof err->text + 3];
    snprintf(whole, sizeof whole, "%s: %s", before, err->text);
    memcpy(err->text, whole, sizeof err->text - 1);
    err->text[sizeof err->text - 1] = '\0';
}
