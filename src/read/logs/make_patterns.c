/* Writes the compiled literals of all signs to a file, when gpuwhy is built: make_patterns FILE. Any x86-64 processor
 * that Hyperscan supports can use them. */
#include "gwi_logs.h"

#include <hs/hs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static bool write_file(const char *path, const char *bytes, size_t count)
{
    FILE *file = fopen(path, "wb");
    bool good = file != NULL && fwrite(bytes, 1, count, file) == count;
    return file != NULL && fclose(file) == 0 && good;
}

int main(int argc, char **argv)
{
    const hs_platform_info_t any = {.tune = HS_TUNE_FAMILY_GENERIC};
    hs_database_t *database = NULL;
    char *bytes = NULL;
    size_t count = 0;
    gw_error err = {0};
    if (argc != 2 || gwi_patterns_compile(&any, &database, &err) != GW_OK ||
        hs_serialize_database(database, &bytes, &count) != HS_SUCCESS || !write_file(argv[1], bytes, count)) {
        fprintf(stderr, "make_patterns: cannot write the patterns of logs: %s\n", err.text);
        return 1;
    }
    free(bytes);
    hs_free_database(database);
    return 0;
}
