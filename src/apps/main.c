/* The entry point: find the command in the table and run it. */
#include "gw_say.h"
#include "gwi_cmd.h"
#include "gwi_config_cmd.h"
#include "gwi_help_text.h"
#include "gwi_options.h"
#include "gwi_terminal.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
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

/* Text that could not be written, such as on a full disk, must not look like a success. Only `run` keeps its exit
 * status, which is that of the program. A command that returns GW_EXIT_USAGE has printed a reason. */
static int finish(const gwi_command_row *command, int status)
{
    errno = 0;
    bool is_written = fflush(stdout) == 0 && !ferror(stdout);
    int why = errno != 0 ? errno : gw_print_errno();
    if (is_written || status == GW_EXIT_USAGE || (command != NULL && command->run == gwi_cmd_run))
        return status;
    gw_say("standard output could not be written%s%s", why == 0 ? "" : ": ", why == 0 ? "" : strerror(why));
    return GW_EXIT_USAGE;
}

int main(int argc, char **argv)
{
    gw_error err;
    int first = 1;
    gwi_config_load();
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
        return finish(NULL, gwi_cmd_help(1, argv));
    if (is_version(argv[1]))
        return finish(NULL, gwi_cmd_version(1, argv));
    const gwi_command_row *command = gwi_command_find(argv[1]);
    if (command == NULL)
        return finish(NULL, gwi_meant(argc, argv));
    if (command->run != gwi_cmd_config && command->run != gwi_cmd_help)
        gwi_config_say_errors();
    if (argc == 3 && is_help(argv[2]))
        gwi_pager_begin();
    return finish(command, command->run(argc - 1, argv + 1));
}
