/* Starts a command of the user beside the program, for --on-failure and --alarm-at. */
#include "gwi_state.h"

#include "gw_exit.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

pid_t gwi_command_start(const gw_supervisor *run, const char *command, const gwi_setting *settings)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    gwi_signals_restore(&run->signals);
    int null = open("/dev/null", O_RDONLY);
    if (null >= 0)
        dup2(null, STDIN_FILENO);
    dup2(STDERR_FILENO, STDOUT_FILENO); /* stdout is only for the program's output */
    for (const gwi_setting *setting = settings; setting->name != NULL; setting++)
        setenv(setting->name, setting->value, 1);
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(GW_EXIT_NOT_FOUND);
}
