/* Wrap text at a given width (see gw_wrap.h). */
#include "gw_wrap.h"

#include <string.h>

unsigned gw_columns(const char *string, size_t bytes)
{
    unsigned count = 0;
    for (size_t i = 0; i < bytes; i++)
        count += ((unsigned char)string[i] & 0xC0) != 0x80;
    return count;
}

static void add_spaces(gw_text *text, unsigned count)
{
    while (count-- > 0)
        gw_text_add(text, " ", 1);
}

unsigned gw_add_wrapped(gw_text *text, const char *body, unsigned at, unsigned indent, unsigned width)
{
    unsigned lines = 1;
    bool line_is_empty = true;
    while (*body != '\0') {
        size_t gap = strspn(body, " ");
        size_t word = strcspn(body + gap, " ");
        unsigned wanted = (unsigned)gap + gw_columns(body + gap, word);
        if (!line_is_empty && at + wanted > width) {
            gw_text_add(text, "\n", 1);
            add_spaces(text, indent);
            lines++;
            at = indent;
            body += gap;
            gap = 0;
            wanted = gw_columns(body, word);
        }
        gw_text_add(text, body, gap + word);
        body += gap + word;
        at += wanted;
        if (at > width) {
            lines += (at - 1) / width;
            /* The terminal breaks this word, which is longer than a line. The next word starts a new line. */
            at = width;
        }
        line_is_empty = false;
    }
    gw_text_add(text, "\n", 1);
    return lines;
}
