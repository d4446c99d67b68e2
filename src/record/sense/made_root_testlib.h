/* A made-up machine for cmocka tests: a folder, made_root, that replaces /. Each test program has its own. */
#ifndef GW_MADE_ROOT_TESTLIB_H
#define GW_MADE_ROOT_TESTLIB_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

static char made_root[32];

/* Write a file of the made-up machine and create its parent folders. `mode` is passed to fopen(). */
static inline void write_file(const char *name, const char *mode, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s%s", made_root, name);
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

static inline int make_root(void **state)
{
    strcpy(made_root, "/tmp/gw-root-XXXXXX");
    return mkdtemp(made_root) == NULL;
}

static inline int remove_root(void **state)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", made_root);
    return system(command);
}

#endif
