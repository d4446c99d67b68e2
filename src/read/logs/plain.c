/* Remove terminal escape sequences (ECMA-48), and convert UTF-16 to bytes. */
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

/* Return the state after this byte of an escape sequence. */
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

/* Remove bytes of 0: a file has blocks of them where logrotate truncated it, or after a power loss. */
static size_t without_zeros(char *bytes, size_t count)
{
    size_t out = 0;
    for (size_t i = 0; i < count;) {
        const char *zero = memchr(bytes + i, 0, count - i);
        size_t span = zero == NULL ? count - i : (size_t)(zero - bytes) - i;
        if (out != i)
            memmove(bytes + out, bytes + i, span);
        out += span;
        i += span;
        while (i < count && bytes[i] == 0)
            i++;
    }
    return out;
}

/* Return the encoding of a text that starts with these bytes (gwi_plain.wide). *ret_mark is the size of the byte
 * order mark, or 0. Without a mark, the text is UTF-16 if most bytes at odd offsets are 0 and hardly any at even
 * offsets, or the reverse. */
static uint8_t utf16_of(const char *bytes, size_t count, size_t *ret_mark)
{
    enum { LOOK_BYTES = 512, LOOK_BYTES_MIN = 16, MOST_PERCENT = 60, FEW_PERCENT = 5, PERCENT = 100 };
    size_t zeros[2] = {0, 0};
    unsigned char first = count > 0 ? (unsigned char)bytes[0] : 0, second = count > 1 ? (unsigned char)bytes[1] : 0;
    *ret_mark = 2;
    if (first == 0xff && second == 0xfe)
        return 1;
    if (first == 0xfe && second == 0xff)
        return 2;
    *ret_mark = 0;
    count = count < LOOK_BYTES ? count : LOOK_BYTES;
    for (size_t i = 0; i < count; i++)
        zeros[i % 2] += bytes[i] == 0;
    size_t pairs = count / 2;
    if (count < LOOK_BYTES_MIN)
        return 0;
    if (zeros[1] * PERCENT >= pairs * MOST_PERCENT && zeros[0] * PERCENT <= pairs * FEW_PERCENT)
        return 1;
    if (zeros[0] * PERCENT >= pairs * MOST_PERCENT && zeros[1] * PERCENT <= pairs * FEW_PERCENT)
        return 2;
    return 0;
}

size_t gwi_plain_make(gwi_plain *plain, char *bytes, size_t count)
{
    if (!plain->began && count >= 2) {
        plain->began = true;
        size_t mark;
        plain->wide = utf16_of(bytes, count, &mark);
        memmove(bytes, bytes + mark, count - mark);
        count -= mark;
    }
    count = plain->wide != 0 ? narrow(plain, bytes, count) : without_zeros(bytes, count);
    return without_escapes(plain, bytes, count);
}

bool gwi_are_zeros(const char *bytes, size_t count)
{
    return count > 0 && bytes[0] == 0 && memcmp(bytes, bytes + 1, count - 1) == 0;
}

bool gwi_is_binary(const char *bytes, size_t count)
{
    enum { LOOK_BYTES = 4096, TOLERATED_PERCENT = 3, ZEROS_MIN = 64 };
    enum { MAGIC_BYTES = sizeof GW_RECORDING_MAGIC - 1 };
    size_t odd = 0, mark;
    if (count >= MAGIC_BYTES && memcmp(bytes, GW_RECORDING_MAGIC, MAGIC_BYTES) == 0)
        return true; /* the check below could take a compressed recording for text */
    if (utf16_of(bytes, count, &mark) != 0)
        return false;
    while (count > 0 && bytes[0] == 0) { /* a block of zeros before a text */
        bytes++;
        count--;
    }
    count = count < LOOK_BYTES ? count : LOOK_BYTES;
    for (size_t i = 0; i < count; i++) {
        if (count - i >= ZEROS_MIN && gwi_are_zeros(bytes + i, ZEROS_MIN)) {
            while (i < count && bytes[i] == 0)
                i++;
        }
        unsigned char byte = i < count ? (unsigned char)bytes[i] : ' ';
        odd += byte < 0x20 && strchr("\t\n\r\b\f\v\a\033", byte) == NULL;
        odd += byte == 0;
    }
    return count > 0 && odd * 100 > count * TOLERATED_PERCENT;
}
