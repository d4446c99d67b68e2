/* Makes a fuzzer write its own seeds at start, into the folder GW_FUZZ_SEEDS. Include this header in one file of the
 * fuzzer, and define write_seeds() there. */
#ifndef GW_FUZZ_SEEDS_H
#define GW_FUZZ_SEEDS_H

#include "inputs.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);

static void write_seeds(const char *folder);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    const char *folder = getenv("GW_FUZZ_SEEDS");
    (void)argc;
    (void)argv;
    if (folder != NULL)
        write_seeds(folder);
    return 0;
}

/* Create the seed file number `index` in the folder. The caller closes it. Returns NULL on failure. */
static inline FILE *open_seed(const char *folder, size_t index)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/seed%zu", folder, index);
    return fopen(path, "w");
}

static inline void write_texts(const char *folder, const char *const *text, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        FILE *file = open_seed(folder, i);
        if (file == NULL)
            continue;
        fputs(text[i], file);
        fclose(file);
    }
}

#endif
