/* Returns the text for a status, and writes error texts that callers can extend. */
#include "gw_status.h"
#include "gw_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

GW_WORDS(gw_status_text, gw_status, GW_STATUSES, "unknown status")

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
