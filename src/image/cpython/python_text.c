/* Convert Python's strings to UTF-8. */
#include "gw_python_layout.h"

#include <string.h>

/* Write the character at index `at` as UTF-8. A control character becomes '?', and an invalid one becomes U+FFFD.
 * Returns the number of bytes written. */
static size_t encode(const gw_python_text *t, size_t at, char out[4])
{
    uint32_t c = 0;
    t->fetch(t->user, t->data + at * t->width, &c, t->width); /* the low bytes of `c`: we support only little-endian */
    if (c < 0x80) {
        out[0] = c < 0x20 || c == 0x7f ? '?' : (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c > 0x10ffff ||
        (c >= 0xd800 && c < 0xe000)) /* half of a surrogate pair, or an undecodable byte of a file name */
        c = 0xfffd;
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (char)(0x80 | (c >> 6 & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

size_t gw_python_text_put(const gw_python_text *t, size_t from, char *out, size_t room)
{
    size_t used = 0;
    char one[4];
    for (size_t at = from; t->data != 0 && at < t->count; at++) {
        size_t bytes = encode(t, at, one);
        if (bytes > room - used)
            break;
        memcpy(out + used, one, bytes);
        used += bytes;
    }
    return used;
}

size_t gw_python_text_put_end(const gw_python_text *t, char *out, size_t room)
{
    static const char cut[] = "...";
    char one[4];
    size_t from = t->count, bytes = 0;
    while (t->data != 0 && from > 0) {
        size_t more = encode(t, from - 1, one);
        if (bytes + more > room)
            break;
        bytes += more;
        from--;
    }
    if (t->data == 0 || from == 0)
        return gw_python_text_put(t, 0, out, room);
    for (size_t given = 0; given < sizeof cut - 1 && from < t->count; from++)
        given += encode(t, from, one);
    memcpy(out, cut, sizeof cut - 1);
    return sizeof cut - 1 + gw_python_text_put(t, from, out + sizeof cut - 1, room - (sizeof cut - 1));
}
