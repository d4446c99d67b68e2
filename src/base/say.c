/* Print messages and text for the user. */
#define _GNU_SOURCE
#include "gw_say.h"

#include "gw_clean.h"

#include <errno.h>
#include <stdarg.h>
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
