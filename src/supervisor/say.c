/* Prints one line to the user, on stderr. */
#include "gw_say.h"

#include "gw_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

void gw_say(const char *format, ...)
{
    gw_text line = {0};
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    gw_text_addf(&line, "gpuwhy: %s\n", text);
    ssize_t ignored = write(STDERR_FILENO, gw_text_str(&line), line.bytes); /* one write, so that lines stay whole */
    (void)ignored;
    gw_text_free(&line);
}
