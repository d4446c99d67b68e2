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

/* A signal that is ignored stays ignored: nohup, and jobs in the background of a script. */
static void catch_one(int number)
{
    struct sigaction action = {.sa_handler = stop}, before; /* without SA_RESTART: waiting ends */
    sigemptyset(&action.sa_mask);
    if (sigaction(number, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(number, &action, NULL);
}

void gwi_watch_catch_signals(void)
{
    catch_one(SIGINT);
    catch_one(SIGTERM);
    catch_one(SIGHUP);
}
