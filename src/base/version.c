/* Convert dotted versions to one comparable integer, and back to text. */
#include "gw_version.h"

#include <stddef.h>
#include <stdio.h>

enum { PARTS = 4, PART_BITS = 16, PART_MAX = 65535 };

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool gw_version_parse(const char *text, gw_version *ret_version, const char **ret_end)
{
    gw_version version = 0;
    unsigned count = 0;
    for (;;) {
        if (!is_digit(*text) || count == PARTS)
            return false;
        unsigned part = 0;
        for (; is_digit(*text); text++) {
            part = part * 10 + (unsigned)(*text - '0');
            if (part > PART_MAX)
                return false;
        }
        version |= (gw_version)part << (PARTS - 1 - count) * PART_BITS;
        count++;
        if (text[0] != '.' || !is_digit(text[1]))
            break;
        text++;
    }
    if (ret_end != NULL)
        *ret_end = text;
    else if (*text != '\0')
        return false;
    *ret_version = version;
    return true;
}

gw_version gw_version_of(unsigned major, unsigned minor, unsigned patch)
{
    return (gw_version)(major & PART_MAX) << 3 * PART_BITS | (gw_version)(minor & PART_MAX) << 2 * PART_BITS |
           (gw_version)(patch & PART_MAX) << PART_BITS;
}

unsigned gw_version_part(gw_version version, unsigned index)
{
    return index < PARTS ? (unsigned)(version >> (PARTS - 1 - index) * PART_BITS) & PART_MAX : 0;
}

char *gw_version_text(char out[GW_VERSION_TEXT_MAX], gw_version version)
{
    if (version == 0) {
        snprintf(out, GW_VERSION_TEXT_MAX, "?");
        return out;
    }
    unsigned count = PARTS;
    while (count > 2 && gw_version_part(version, count - 1) == 0)
        count--;
    int at = 0;
    for (unsigned i = 0; i < count; i++)
        at += snprintf(out + at, GW_VERSION_TEXT_MAX - (size_t)at, i == 0 ? "%u" : ".%u", gw_version_part(version, i));
    return out;
}
