/* A made-up machine for cmocka tests: the temporary folder replaces /. */
#ifndef GW_MADE_ROOT_TESTLIB_H
#define GW_MADE_ROOT_TESTLIB_H

#include "gw_test_folder.h"

#include <sys/stat.h>

/* Write a file of the made-up machine and create its parent folders. `mode` is passed to fopen(). */
static inline void write_file(const char *name, const char *mode, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s%s", gw_test_folder, name);
    for (char *at = path + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        mkdir(path, 0700);
        *at = '/';
    }
    FILE *file = fopen(path, mode);
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

#endif
