/* The signals that end `gpuwhy watch` (gwi_watch_cmd.h). */
#include "gwi_watch_cmd.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t stopped;

static void stop(int number)
{
    (void)number;
    stopped = 1;
}

bool gwi_watch_is_stopped(void)
{
    return stopped != 0;
}

void gwi_watch_catch_signals(void)
{
    struct sigaction action = {.sa_handler = stop}; /* without SA_RESTART: waiting ends */
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
}
