/* Remove escape sequences (ECMA-48), which only a terminal understands. Also convert UTF-16 to bytes. */
#include "gwi_logs.h"

#include "gw_magic.h"

#include <string.h>

enum { PLAIN, ESCAPE, SEQUENCE, STRING, STRING_ESCAPE };

static size_t narrow(gwi_plain *plain, char *bytes, size_t count)
{
    size_t out = 0;
    for (size_t i = 0; i < count; i++) {
        unsigned char byte = (unsigned char)bytes[i];
        if (!plain->has_held) {
            plain->held = byte;
            plain->has_held = true;
            continue;
        }
        plain->has_held = false;
        unsigned char low = plain->wide == 1 ? plain->held : byte, high = plain->wide == 1 ? byte : plain->held;
        bytes[out++] = high == 0 ? (char)low : '?';
    }
    return out;
}

/* Return the state after a byte of an escape sequence. */
static uint8_t next_state(uint8_t state, unsigned char byte)
{
    switch (state) {
    case ESCAPE:
        if (byte == '[')
            return SEQUENCE;
        if (byte == ']' || byte == 'P' || byte == '_' || byte == '^')
            return STRING;
        return byte >= 0x20 && byte <= 0x2f ? ESCAPE : PLAIN;
    case SEQUENCE:
        return byte >= 0x40 && byte <= 0x7e ? PLAIN : SEQUENCE;
    case STRING:
        if (byte == 0x07)
            return PLAIN;
        if (byte == 0x1b)
            return STRING_ESCAPE;
        return STRING;
    case STRING_ESCAPE:
        return byte == '\\' ? PLAIN : STRING;
    default:
        return PLAIN;
    }
}

static size_t without_escapes(gwi_plain *plain, char *bytes, size_t count)
{
    if (plain->state == PLAIN && memchr(bytes, 0x1b, count) == NULL)
        return count;
    size_t out = 0;
    for (size_t i = 0; i < count; i++) {
        if (plain->state == PLAIN) { /* copy all text up to the next escape character */
            const char *next = memchr(bytes + i, 0x1b, count - i);
            size_t span = next == NULL ? count - i : (size_t)(next - bytes) - i;
            memmove(bytes + out, bytes + i, span);
            out += span;
            i += span;
            if (i == count)
                break;
        }
        unsigned char byte = (unsigned char)bytes[i];
        if (plain->state != PLAIN && (byte == '\n' || byte == '\r'))
            plain->state = PLAIN; /* the end of the line ends an incomplete sequence */
        if (plain->state != PLAIN)
            plain->state = next_state(plain->state, byte);
        else if (byte == 0x1b)
            plain->state = ESCAPE;
        else
            bytes[out++] = bytes[i];
    }
    return out;
}

size_t gwi_plain_make(gwi_plain *plain, char *bytes, size_t count)
{
    if (!plain->began && count >= 2) {
        plain->began = true;
        unsigned char first = (unsigned char)bytes[0], second = (unsigned char)bytes[1];
        plain->wide = 0;
        if (first == 0xff && second == 0xfe)
            plain->wide = 1;
        else if (first == 0xfe && second == 0xff)
            plain->wide = 2;
        if (plain->wide != 0) {
            memmove(bytes, bytes + 2, count - 2);
            count -= 2;
        }
    }
    if (plain->wide != 0)
        count = narrow(plain, bytes, count);
    return without_escapes(plain, bytes, count);
}

bool gwi_is_binary(const char *bytes, size_t count)
{
    enum { LOOK_BYTES = 4096, TOLERATED_PERCENT = 20 };
    enum { MAGIC_BYTES = sizeof GW_RECORDING_MAGIC - 1 };
    size_t odd = 0;
    if (count >= MAGIC_BYTES && memcmp(bytes, GW_RECORDING_MAGIC, MAGIC_BYTES) == 0)
        return true; /* otherwise a compressed recording could pass as text */
    if (count >= 2 && ((unsigned char)bytes[0] == 0xff || (unsigned char)bytes[0] == 0xfe))
        return false; /* begins with a byte order mark of UTF-16 */
    count = count < LOOK_BYTES ? count : LOOK_BYTES;
    for (size_t i = 0; i < count; i++) {
        unsigned char byte = (unsigned char)bytes[i];
        odd += byte < 0x20 && strchr("\t\n\r\b\f\v\a\033", byte) == NULL;
        odd += byte == 0;
    }
    return count > 0 && odd * 100 > count * TOLERATED_PERCENT;
}
