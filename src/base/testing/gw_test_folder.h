/* A temporary folder for the unit tests of a program. gw_test_folder_make() and gw_test_folder_remove() are functions
 * for GW_TEST_WITH or GW_TEST_MAIN. */
#ifndef GW_TEST_FOLDER_H
#define GW_TEST_FOLDER_H

#include "gw_unit_test.h"

#include <stdio.h>
#include <string.h>

static char gw_test_folder[32];
static char gw_test_file[512]; /* path of a file in it, for tests that need only one */

static inline int gw_test_folder_make(void **state)
{
    strcpy(gw_test_folder, "/tmp/gpuwhy-test-XXXXXX");
    if (mkdtemp(gw_test_folder) == NULL)
        return -1;
    snprintf(gw_test_file, sizeof gw_test_file, "%s/file", gw_test_folder);
    return 0;
}

/* Remove the folder and what is in it. */
static inline int gw_test_folder_remove(void **state)
{
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", gw_test_folder);
    return system(command);
}

static inline void gw_test_write(const char *path, const void *data, size_t bytes)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

#endif
