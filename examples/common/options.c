/* Parse command-line options from a table: see options.h. */
#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((noreturn)) static void refuse(const char *program, const char *argument, const char *why)
{
    fprintf(stderr, "%s: %s: %s; --help lists the options\n", program, argument, why);
    exit(2);
}

__attribute__((noreturn)) static void help(const char *program, const struct option_row *rows, const char *summary)
{
    static const char *const operand[] = {[OPTION_FLAG] = "", [OPTION_NUMBER] = "N", [OPTION_TEXT] = "TEXT"};
    printf("usage: %s [options]\n%s\n\n", program, summary);
    for (; rows->name != NULL; rows++)
        printf("  --%-18s %-5s %s\n", rows->name, operand[rows->kind], rows->help);
    exit(0);
}

static int parse_number(const char *text, long long *ret_number)
{
    char *end;
    errno = 0;
    double number = strtod(text, &end);
    static const char units[] = "KMGT";
    const char *unit = *end != '\0' ? strchr(units, toupper((unsigned char)*end)) : NULL;
    if (unit != NULL) {
        number *= (double)(1ull << (10 * (unit - units + 1)));
        end++;
        if (strcmp(end, "iB") == 0)
            end += 2;
    }
    if (end == text || *end != '\0' || errno != 0 || !(number >= 0 && number <= 9e15))
        return 0;
    *ret_number = (long long)number;
    return 1;
}

void options_parse(int argc, char **argv, const struct option_row *rows, const char *summary)
{
    for (int index = 1; index < argc; index++) {
        const char *argument = argv[index];
        if (strcmp(argument, "--help") == 0)
            help(argv[0], rows, summary);
        const struct option_row *row = rows;
        while (row->name != NULL && (strncmp(argument, "--", 2) != 0 || strcmp(argument + 2, row->name) != 0))
            row++;
        if (row->name == NULL)
            refuse(argv[0], argument, "unknown option");
        if (row->kind == OPTION_FLAG) {
            *(int *)row->target = 1;
            continue;
        }
        if (++index == argc)
            refuse(argv[0], argument, "a value is missing");
        if (row->kind == OPTION_TEXT)
            *(const char **)row->target = argv[index];
        else if (!parse_number(argv[index], row->target))
            refuse(argv[0], argv[index], "not a number");
    }
}
