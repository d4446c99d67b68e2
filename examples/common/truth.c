/* Write facts about the program to a file: see truth.h. */
#include "truth.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static FILE *file;

void truth_open(const char *path)
{
    if (path == NULL)
        return;
    file = fopen(path, "ae"); /* "a" appends, because several processes of one program may write to the file */
    if (file == NULL) {
        perror(path);
        exit(2);
    }
    setvbuf(file, NULL, _IOLBF, 0);
}

void truth(const char *key, const char *format, ...)
{
    if (file == NULL)
        return;
    char value[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(value, sizeof value, format, arguments);
    va_end(arguments);
    fprintf(file, "truth %s=%s\n", key, value);
}
