/* Run a fuzzer without a fuzzing engine, so that `make check` runs every fuzzer under the sanitizers. The inputs are
 * its own seeds, the named files, and deterministic mutations of both.
 *
 *     fuzz_x SEED_FOLDER ROUNDS [FILE..] */
#include "inputs.h"

#include <dirent.h>

int LLVMFuzzerInitialize(int *argc, char ***argv) __attribute__((weak)); /* some fuzzers define it; NULL in others */

enum { SEEDS_MAX = 64, BYTES_MAX = 64 << 10 };
static struct seed {
    uint8_t *data;
    size_t bytes;
} seeds[SEEDS_MAX];
static size_t seed_count;
static uint64_t state = 88172645463325252u;

static uint64_t next_random(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static void load(const char *path)
{
    FILE *file = fopen(path, "r");
    uint8_t *data = malloc(BYTES_MAX);
    if (file == NULL || data == NULL || seed_count == SEEDS_MAX) {
        fprintf(stderr, "%s: cannot be read, or there are too many seeds\n", path);
        exit(2);
    }
    seeds[seed_count].data = data;
    seeds[seed_count++].bytes = fread(data, 1, BYTES_MAX, file);
    fclose(file);
}

static void load_folder(const char *path)
{
    DIR *folder = opendir(path);
    struct dirent *entry;
    char file[4096];
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        if (entry->d_name[0] != '.' && seed_count < SEEDS_MAX)
            load(file);
    }
    if (folder != NULL)
        closedir(folder);
}

/* Run the fuzzer on a copy of the exact size, so that a read beyond the end is detected. */
static void run(const uint8_t *data, size_t bytes)
{
    uint8_t *copy = malloc(bytes == 0 ? 1 : bytes);
    if (copy == NULL)
        exit(2);
    if (bytes > 0)
        memcpy(copy, data, bytes);
    LLVMFuzzerTestOneInput(copy, bytes);
    free(copy);
}

/* Copy a random seed or generate random bytes. Then change or remove some bytes, or cut off the end, up to seven times.
 * Returns the new size. */
static size_t mutate(uint8_t *data)
{
    static const uint8_t telling[] = {0, 1, 0x7f, 0x80, 0xff, '\n', ' ', '%'};
    size_t bytes = 0;
    if (seed_count > 0 && next_random() % 4 != 0) {
        const struct seed *seed = &seeds[next_random() % seed_count];
        bytes = seed->bytes;
        memcpy(data, seed->data, bytes);
    } else {
        bytes = next_random() % 512;
        for (size_t i = 0; i < bytes; i++)
            data[i] = (uint8_t)next_random();
    }
    for (uint64_t changes = next_random() % 8; changes > 0 && bytes > 1; changes--) {
        size_t at = next_random() % bytes, count = 1 + next_random() % 16;
        count = count < bytes - at ? count : bytes - at;
        switch (next_random() % 4) {
        case 0:
            data[at] = (uint8_t)next_random();
            break;
        case 1:
            data[at] = telling[next_random() % sizeof telling];
            break;
        case 2:
            memmove(data + at, data + at + count, bytes - at - count);
            bytes -= count;
            break;
        default:
            bytes = next_random() % 8 == 0 ? at : bytes;
            break;
        }
    }
    return bytes;
}

int main(int argc, char **argv)
{
    static uint8_t data[BYTES_MAX];
    if (argc < 3) {
        fprintf(stderr, "usage: %s SEED_FOLDER ROUNDS [FILE..]\n", argv[0]);
        return 2;
    }
    setenv("GW_FUZZ_SEEDS", argv[1], 1);
    if (LLVMFuzzerInitialize != NULL)
        LLVMFuzzerInitialize(&argc, &argv);
    load_folder(argv[1]);
    for (int i = 3; i < argc; i++)
        load(argv[i]);
    for (size_t i = 0; i < seed_count; i++)
        run(seeds[i].data, seeds[i].bytes);
    long rounds = strtol(argv[2], NULL, 10);
    for (long i = 0; i < rounds; i++)
        run(data, mutate(data));
    for (size_t i = 0; i < seed_count; i++)
        free(seeds[i].data);
    printf("%zu seeds and %ld mutations\n", seed_count, rounds);
    return 0;
}
