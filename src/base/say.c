/* Print messages and text for the user. */
#define _GNU_SOURCE
#include "gw_say.h"

#include "gw_text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Return the formatted text, which the caller frees. Returns NULL if out of memory. */
static char *format_text(const char *format, va_list args)
{
    char *text = NULL;
    return vasprintf(&text, format, args) < 0 ? NULL : text;
}

void gw_say(const char *format, ...)
{
    gw_text line = {0};
    va_list args;
    va_start(args, format);
    char *text = format_text(format, args);
    va_end(args);
    gw_text_add_str(&line, "gpuwhy: ");
    gw_add_printable(&line, text == NULL ? "out of memory" : text);
    gw_text_add_str(&line, "\n");
    ssize_t ignored = write(STDERR_FILENO, gw_text_str(&line), line.bytes); /* a single write keeps the line whole */
    (void)ignored;
    gw_text_free(&line);
    free(text);
}

static int print_errno;

int gw_print_errno(void)
{
    return print_errno;
}

void gw_put(const char *text)
{
    if (fputs(text, stdout) < 0 && print_errno == 0)
        print_errno = errno;
}

void gw_print_words(const char *format, ...)
{
    gw_text out = {0};
    va_list args;
    va_start(args, format);
    char *text = format_text(format, args);
    va_end(args);
    gw_add_printable(&out, text == NULL ? "out of memory" : text);
    gw_put(gw_text_str(&out));
    gw_text_free(&out);
    free(text);
}

void gw_print(const char *format, ...)
{
    gw_text out = {0};
    va_list args;
    va_start(args, format);
    char *text = format_text(format, args);
    va_end(args);
    for (char *line = text; line != NULL;) {
        char *end = strchr(line, '\n');
        if (end != NULL)
            *end = '\0';
        gw_add_printable(&out, line);
        if (end != NULL)
            gw_text_add_str(&out, "\n");
        line = end == NULL ? NULL : end + 1;
    }
    gw_put(gw_text_str(&out));
    gw_text_free(&out);
    free(text);
}

/* Inserts escape sequences into text that is already laid out. */

static const char reset[] = "\033[0m";
static const char *const begins[] = {
    [GW_ROLE_PLAIN] = "",        [GW_ROLE_FAILED] = "\033[1;31m", [GW_ROLE_WARNING] = "\033[33m",
    [GW_ROLE_GOOD] = "\033[32m", [GW_ROLE_PLACE] = "\033[36m",    [GW_ROLE_STRONG] = "\033[1m",
    [GW_ROLE_DIM] = "\033[2m",
};
_Static_assert(sizeof begins / sizeof begins[0] == GW_ROLE_COUNT, "a role has no escape sequence");

const char *gw_role_begin(gw_role role)
{
    return begins[role];
}

const char *gw_role_end(gw_role role)
{
    return role == GW_ROLE_PLAIN ? "" : reset;
}

static bool is_ink(char c)
{
    return c != ' ' && c != '\n' && c != '\0';
}

/* Paint the first `ink` bytes after `from` that are neither blank nor line end. */
static void paint(gw_text *text, size_t from, size_t ink, gw_role role)
{
    gw_text out = {0};
    bool on = false;
    gw_text_add(&out, text->data, from);
    for (size_t i = from; i < text->bytes; i++) {
        char c = text->data[i];
        if (on && (c == '\n' || ink == 0)) {
            gw_text_add_str(&out, reset);
            on = false;
        }
        if (!on && ink > 0 && is_ink(c)) {
            gw_text_add_str(&out, begins[role]);
            on = true;
        }
        gw_text_add(&out, &c, 1);
        ink -= ink > 0 && is_ink(c);
    }
    if (on)
        gw_text_add_str(&out, reset);
    if (out.failed) {
        gw_text_free(&out);
        return;
    }
    out.failed = text->failed;
    gw_text_free(text);
    *text = out;
}

void gw_paint(gw_text *text, size_t from, gw_role role)
{
    if (role != GW_ROLE_PLAIN && from < text->bytes)
        paint(text, from, SIZE_MAX, role);
}

void gw_paint_begin(gw_text *text, size_t from, const char *what, size_t bytes, gw_role role)
{
    size_t ink = 0;
    for (size_t i = 0; i < bytes && what[i] != '\0'; i++)
        ink += is_ink(what[i]);
    if (role != GW_ROLE_PLAIN && from < text->bytes && ink > 0)
        paint(text, from, ink, role);
}

/* Return the number of bytes of an escape sequence at `text`, or 0. */
static size_t escape_bytes(const char *text)
{
    if (text[0] != '\033' || text[1] != '[')
        return 0;
    size_t bytes = 2 + strspn(text + 2, "0123456789;");
    return text[bytes] == 'm' ? bytes + 1 : 0;
}

void gw_paint_remove(const char *painted, gw_text *text)
{
    while (*painted != '\0') {
        painted += escape_bytes(painted);
        size_t bytes = strcspn(painted, "\033");
        if (bytes == 0 && *painted != '\0' && escape_bytes(painted) == 0)
            bytes = 1; /* another control character of the same kind */
        gw_text_add(text, painted, bytes);
        painted += bytes;
    }
}
