/* `gpuwhy causes`: the catalogue. */
#include "gwi_cmd.h"

#include "gw_verdict.h"

#include <stdio.h>
#include <string.h>

static void print_list(const gw_cause_info *causes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        printf("%-28s %s\n", causes[i].id, causes[i].summary);
}

static void print_one(const gw_cause_info *cause)
{
    printf("%s\n\n%s\n\nProof\n  %s\n\nWhat to do\n", cause->id, cause->summary, cause->proof);
    int number = 1;
    for (const char *line = cause->fixes; *line != '\0';) {
        size_t bytes = strcspn(line, "\n");
        printf("  %d. %.*s\n", number++, (int)bytes, line);
        line += bytes + (line[bytes] != '\0');
    }
}

int gwi_cmd_causes(int argc, char **argv)
{
    size_t count = 0;
    const gw_cause_info *causes = gw_causes(&count);
    if (argc < 2) {
        print_list(causes, count);
        return GWI_EXIT_OK;
    }
    if (strcmp(argv[1], "--help") == 0) {
        puts("gpuwhy causes [id]\n\nWhat gpuwhy knows how to find; with an id: what proves it and what to do.");
        return GWI_EXIT_OK;
    }
    for (size_t i = 0; i < count; i++) {
        if (strcmp(causes[i].id, argv[1]) == 0) {
            print_one(&causes[i]);
            return GWI_EXIT_OK;
        }
    }
    fprintf(stderr, "gpuwhy: causes: no cause %s; `gpuwhy causes` lists them\n", argv[1]);
    return GWI_EXIT_USAGE;
}
