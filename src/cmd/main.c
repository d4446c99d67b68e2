/* The entry point: find the command in the table and run it. */
#include "gw_say.h"
#include "gwi_cmd.h"
#include "gwi_help.h"
#include "gwi_meant.h"
#include "gwi_options.h"
#include "gwi_terminal.h"

#include <stdio.h>
#include <string.h>

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

static bool is_version(const char *word)
{
    return strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0;
}

int main(int argc, char **argv)
{
    gw_error err;
    int first = 1;
    if (gwi_options_parse_common(argc, argv, &first, &err) != GW_OK) {
        gw_say("%s", err.text);
        return GW_EXIT_USAGE;
    }
    argc -= first - 1;
    argv += first - 1;
    if (argc < 2) {
        gwi_help_overview(stderr);
        return GW_EXIT_USAGE;
    }
    if (is_help(argv[1]))
        return gwi_cmd_help(1, argv);
    if (is_version(argv[1]))
        return gwi_cmd_version(1, argv);
    const gwi_command_row *command = gwi_command_find(argv[1]);
    if (command == NULL)
        return gwi_meant(argc, argv);
    if (argc == 3 && is_help(argv[2]))
        gwi_manualr_begin();
    return command->run(argc - 1, argv + 1);
}
