/* Columns of a terminal: counts them, wraps lines and shortens texts. A code point may have no column, one or two. */
#include "gw_text.h"

#include <unistr.h>
#include <uniwidth.h>

static const uint8_t *bytes_at(const char *string)
{
    return (const uint8_t *)string;
}

unsigned gw_columns(const char *string, size_t bytes)
{
    return (unsigned)u8_width(bytes_at(string), bytes, "UTF-8"); /* a control character has no column */
}

size_t gw_head_bytes(const char *string, size_t bytes, unsigned columns)
{
    size_t at = 0;
    while (at < bytes) {
        ucs4_t code;
        size_t length = (size_t)u8_mbtouc(&code, bytes_at(string + at), bytes - at);
        unsigned width = gw_columns(string + at, length);
        if (width > columns)
            break;
        columns -= width;
        at += length;
    }
    return at;
}

size_t gw_tail_bytes(const char *string, size_t bytes, unsigned columns)
{
    unsigned all = gw_columns(string, bytes);
    size_t at = all > columns ? gw_head_bytes(string, bytes, all - columns) : 0;
    while (gw_columns(string + at, bytes - at) > columns) /* a wide character at the cut */
        at += gw_head_bytes(string + at, bytes - at, 2);
    return bytes - at;
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

void gw_add_short(gw_text *text, const char *string, unsigned columns)
{
    static const char dots[] = " ... ";
    size_t bytes = strlen(string);
    if (gw_columns(string, bytes) <= columns) {
        gw_text_add(text, string, bytes);
        return;
    }
    unsigned room = columns - (sizeof dots - 1);
    size_t head = gw_head_words(string, bytes, room / 2), tail, word;
    room -= gw_columns(string, head);
    tail = word = bytes - gw_tail_bytes(string, bytes, room);
    while (word < bytes && string[word - 1] != ' ')
        word++;
    if (gw_columns(string + word, bytes - word) >= room / 3)
        tail = word;
    gw_text_addf(text, "%.*s%s%s", (int)head, string, dots, string + tail);
}

size_t gw_head_words(const char *string, size_t bytes, unsigned columns)
{
    size_t fit = gw_head_bytes(string, bytes, columns), words = fit;
    while (fit < bytes && words > 0 && string[words] != ' ')
        words--;
    return gw_columns(string, words) >= columns / 3 ? words : fit;
}
