/* Make strings of unknown origin safe to print: check UTF-8 and replace control characters. */
#include "gw_clean.h"

#include <stdint.h>

static bool is_continuation(unsigned char byte)
{
    return (byte & 0xC0) == 0x80;
}

/* Return the length, in bytes, of the valid UTF-8 sequence at the start of `string`, or 0 if there is none. */
static size_t utf8_length(const char *string)
{
    const unsigned char *s = (const unsigned char *)string;
    if (s[0] < 0x80)
        return s[0] != 0;
    size_t length = 2;
    if (s[0] >= 0xF0)
        length = 4;
    else if (s[0] >= 0xE0)
        length = 3;
    if (s[0] < 0xC2 || s[0] > 0xF4)
        return 0;
    for (size_t i = 1; i < length; i++) /* a terminating zero is not a continuation byte, so the loop stops there */
        if (!is_continuation(s[i]))
            return 0;
    /* reject overlong forms, surrogates, and code points beyond U+10FFFF */
    if ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F) || (s[0] == 0xF0 && s[1] < 0x90) ||
        (s[0] == 0xF4 && s[1] > 0x8F))
        return 0;
    return length;
}

static void add_clean(gw_text *text, const char *string, const char *wrong, bool drop_controls)
{
    while (*string != '\0') {
        size_t length = utf8_length(string);
        unsigned char byte = (unsigned char)*string;
        /* control characters: below U+0020, DEL, and the C1 controls U+0080 to U+009F, which some terminals interpret,
         * too */
        bool control = byte < 0x20 || byte == 0x7F || (byte == 0xC2 && (unsigned char)string[1] < 0xA0);
        if (length == 0 || (control && drop_controls)) {
            gw_text_add_str(text, wrong);
            string += length == 0 ? 1 : length;
        } else {
            gw_text_add(text, string, length);
            string += length;
        }
    }
}

void gw_add_printable(gw_text *text, const char *string)
{
    add_clean(text, string, "?", true);
}

void gw_add_utf8(gw_text *text, const char *string)
{
    add_clean(text, string, "\xEF\xBF\xBD", false);
}
