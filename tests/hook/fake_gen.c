/* Generate the parts of a fake driver that depend on its list of exports: a weak function for each name, which only
 * records its call, and the table of the fake resolver.
 *
 *   fake_gen VERSION OUT.c OUT.map [EXPORTS.txt | -] [EXTRA_NAME...]
 *
 * EXTRA_NAME is one more name to export. NAME=OTHER exports NAME at the address of OTHER, as a linker does when it
 * folds identical code. With `-`, the exports are the functions that our API table has for drivers up to VERSION. */
#include "gw_api.h"
#include "gw_event.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *names[4096];
static int name_count;

static bool in_list(const char *name)
{
    for (int i = 0; i < name_count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

static void add_name(const char *name)
{
    if (in_list(name))
        return;
    names[name_count] = strdup(name);
    if (names[name_count++] == NULL || name_count == 4096)
        exit(2);
}

static bool known_at(int fn, int version)
{
    for (int i = 0; i < GW_API_ROUTE_COUNT; i++)
        if (gw_api_routes[i].fn == fn && gw_api_routes[i].version <= version)
            return true;
    return false;
}

static void read_names(const char *path)
{
    char line[256];
    FILE *in = fopen(path, "r");
    if (in == NULL) {
        perror(path);
        exit(2);
    }
    while (fgets(line, sizeof line, in) != NULL) {
        line[strcspn(line, "\r\n")] = '\0';
        if (line[0] != '\0' && line[0] != '#')
            add_name(line);
    }
    fclose(in);
}

static void add_extra(const char *extra)
{
    char name[256];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(extra, "="), extra);
    add_name(name);
}

static void write_function(FILE *out, const char *name, int argc, char **argv)
{
    size_t bytes = strlen(name);
    for (int i = 5; i < argc; i++) {
        if (strncmp(argv[i], name, bytes) == 0 && argv[i][bytes] == '=') {
            const char *other = argv[i] + bytes + 1;
            fprintf(out, "int %s(void) __attribute__((alias(\"%s\")));\n", name, other);
            return;
        }
    }
    fprintf(out,
            "__attribute__((weak)) int %s(void);\n__attribute__((weak)) int %s(void)\n{\n    return "
            "fake_called(\"%s\");\n}\n",
            name, name, name);
}

int main(int argc, char **argv)
{
    if (argc < 5)
        return 2;
    int version = atoi(argv[1]);
    FILE *out = fopen(argv[2], "w"), *map = fopen(argv[3], "w");
    if (out == NULL || map == NULL)
        return 2;
    if (strcmp(argv[4], "-") != 0)
        read_names(argv[4]);
    for (int fn = 0; strcmp(argv[4], "-") == 0 && fn < GW_FN_COUNT; fn++)
        if (known_at(fn, version))
            add_name(gw_api_fns[fn].symbol);
    for (int i = 5; i < argc; i++)
        add_extra(argv[i]);
    fprintf(out, "#include \"fake_driver.h\"\n\nint fake_version = %d;\n\n", version);
    for (int i = 0; i < name_count; i++)
        write_function(out, names[i], argc, argv);
    fprintf(out, "const fake_export fake_exports[] = {\n");
    for (int i = 0; i < name_count; i++)
        fprintf(out, "    {\"%s\", (void *)%s},\n", names[i], names[i]);
    fprintf(out, "};\nconst int fake_export_count = %d;\n", name_count);
    fprintf(map, "{\n  global:\n    fake_last_called;\n    fake_call_count;\n    fake_set_result;\n    "
                 "fake_set_visitor;\n    fake_object;\n");
    for (int i = 0; i < name_count; i++)
        fprintf(map, "    %s;\n", names[i]);
    fprintf(map, "  local: *;\n};\n");
    return fclose(out) != 0 || fclose(map) != 0;
}
