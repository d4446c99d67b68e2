/* Finds frameworks by the libraries that a process has mapped (gw_frameworks.h). */
#include "gw_frameworks.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct framework {
    const char *library; /* part of the name of a mapped file */
    unsigned is;
} framework;

static const framework frameworks[] = {{"libc10_cuda.so", GW_FRAMEWORK_TORCH},
                                       {"libtensorflow", GW_FRAMEWORK_GREEDY},
                                       {"xla_extension", GW_FRAMEWORK_GREEDY},
                                       {"xla_cuda", GW_FRAMEWORK_GREEDY}};

bool gw_frameworks_find(uint32_t pid, unsigned *ret_found)
{
    char path[40], line[4096];
    bool any = false;
    *ret_found = 0;
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/maps", pid);
    FILE *maps = fopen(path, "re");
    if (maps == NULL)
        return false;
    while (fgets(line, sizeof line, maps) != NULL) {
        any = true;
        for (size_t i = 0; i < sizeof frameworks / sizeof frameworks[0]; i++)
            if (strstr(line, frameworks[i].library) != NULL)
                *ret_found |= frameworks[i].is;
    }
    fclose(maps);
    return any; /* a process that is ending has no maps any more */
}
