/* Decides about colours, and knows the terminal behind standard output. */
#include "gwi_terminal.h"

#include "gw_config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

gwi_common_settings *gwi_common(void)
{
    static gwi_common_settings settings; /* set by the command line, which the process has once */
    return &settings;
}

gw_status gwi_common_check(gw_error *err)
{
    const char *color = gwi_common()->color, *folder = gwi_common()->folder;
    if (color != NULL && strcmp(color, "auto") != 0 && strcmp(color, "always") != 0 && strcmp(color, "never") != 0)
        return gw_fail(err, GW_USAGE, "--color %s: not auto, always or never", color);
    if (folder != NULL && !gw_config_is_valid(GW_CONFIG_TYPE_FOLDER, folder))
        return gw_fail(err, GW_USAGE, "--folder %s: expected %s", folder, gw_config_valid(GW_CONFIG_TYPE_FOLDER));
    struct stat info;
    if (folder != NULL && stat(folder, &info) == 0 && !S_ISDIR(info.st_mode))
        return gw_fail(err, GW_USAGE, "--folder %s: is not a folder", folder);
    return GW_OK;
}

static int replaced = -1; /* the terminal behind standard output */

void gwi_terminal_replace(int terminal)
{
    replaced = terminal;
}

int gwi_terminal_output(int fd)
{
    return replaced >= 0 && fd == STDOUT_FILENO ? replaced : fd;
}

bool gwi_is_terminal(int fd)
{
    return isatty(gwi_terminal_output(fd)) != 0;
}

unsigned gwi_terminal_width(int fd)
{
    struct winsize size;
    int output = gwi_terminal_output(fd);
    return isatty(output) != 0 && ioctl(output, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

bool gwi_terminal_is_dumb(void)
{
    const char *terminal = getenv("TERM");
    return terminal == NULL || terminal[0] == '\0' || strcmp(terminal, "dumb") == 0;
}

bool gwi_has_colour(int fd)
{
    const gw_config_value *configured = &gw_config_process()->value[GW_CONFIG_COLOR];
    const char *color = gwi_common()->color != NULL ? gwi_common()->color : configured->text;
    const char *no_color = getenv("NO_COLOR");
    bool is_refused = no_color != NULL && no_color[0] != '\0';
    /* NO_COLOR is an environment variable, too, so it wins over a file. */
    bool is_from_file = configured->source == GW_CONFIG_SITE || configured->source == GW_CONFIG_USER;
    if (gwi_common()->color == NULL && is_refused && is_from_file)
        return false;
    if (strcmp(color, "auto") != 0)
        return strcmp(color, "always") == 0;
    return gwi_is_terminal(fd) && !gwi_terminal_is_dumb() && !is_refused;
}
