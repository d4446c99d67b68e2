/* Passes arbitrary bytes to the module reader, to check that it never reads beyond them. Runs under libFuzzer, or reads
 * the files named as arguments. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gwi_image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const gwi_image_wants wants = {.compute_capability = 90, .ptx_version_max = 90};
    char reason[200];
    gwi_image image;
    if (gwi_image_read(data, bytes, &wants, &image, reason, sizeof reason) == 0)
        gwi_image_free(&image);
    return 0;
}

#ifdef GW_FUZZ_STANDALONE
static int run_file(const char *path)
{
    static uint8_t buffer[1 << 20];
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        fprintf(stderr, "fuzz_module: cannot read %s\n", path);
        return 1;
    }
    size_t bytes = fread(buffer, 1, sizeof buffer, file);
    fclose(file);
    /* Try the file, every truncated copy, and for each byte a copy in which only this byte differs. Each copy has a
     * heap block of exactly its size, so that a sanitizer finds reads beyond the end. */
    for (size_t i = 0; i <= bytes; i++) {
        uint8_t *copy = malloc(bytes == 0 ? 1 : bytes);
        memcpy(copy, buffer, bytes);
        if (i < bytes)
            copy[i] ^= (uint8_t)(1 + i % 255);
        LLVMFuzzerTestOneInput(copy, bytes);
        free(copy);
        copy = malloc(i == 0 ? 1 : i);
        memcpy(copy, buffer, i);
        LLVMFuzzerTestOneInput(copy, i);
        free(copy);
    }
    return 0;
}

int main(int argc, char **argv)
{
    int failed = 0;
    for (int i = 1; i < argc; i++)
        failed |= run_file(argv[i]);
    return failed;
}
#endif
