/* Numbers of bytes as text. */
#include "gwi_scope.h"

#include <inttypes.h>
#include <stdio.h>

char *gwi_bytes_text(char out[GWI_BYTES_TEXT_MAX], uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1023.995 && unit + 1 < sizeof units / sizeof units[0]) {
        value /= 1024.0;
        unit++;
    }
    snprintf(out, GWI_BYTES_TEXT_MAX, unit == 0 ? "%.0f %s" : "%.2f %s", value, units[unit]);
    return out;
}

char *gwi_bytes_exact(char out[GWI_BYTES_EXACT_MAX], uint64_t bytes)
{
    char text[GWI_BYTES_TEXT_MAX];
    if (bytes < 1024)
        snprintf(out, GWI_BYTES_EXACT_MAX, "%" PRIu64 " byte%s", bytes, bytes == 1 ? "" : "s");
    else
        snprintf(out, GWI_BYTES_EXACT_MAX, "%" PRIu64 " bytes (%s)", bytes, gwi_bytes_text(text, bytes));
    return out;
}
