/* The signals that end `gpuwhy watch` (gwi_watch_cmd.h).
 *
 * The handler also writes to a pipe on which the waiting functions poll. So a signal that arrives just before they wait
 * ends the wait, too. */
#include "gwi_watch_cmd.h"

#include "gw_clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t stopped;
static int ends[2] = {-1, -1}; /* the pipe: reading, writing */

static void stop(int number)
{
    int before = errno;
    (void)number;
    stopped = 1;
    (void)!write(ends[1], "", 1); /* a full pipe wakes the reader just as well */
    errno = before;
}

bool gwi_watch_is_stopped(void)
{
    return stopped != 0;
}

/* A signal that is ignored stays ignored: nohup, and jobs in the background of a script. */
static void catch_one(int number)
{
    struct sigaction action = {.sa_handler = stop}, before; /* without SA_RESTART: other waits end, too */
    sigemptyset(&action.sa_mask);
    if (sigaction(number, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(number, &action, NULL);
}

gw_status gwi_watch_catch_signals(gw_error *err)
{
    if (ends[0] < 0 && pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return gw_fail(err, GW_IO, "make a pipe: %s", strerror(errno));
    catch_one(SIGINT);
    catch_one(SIGTERM);
    catch_one(SIGHUP);
    return GW_OK;
}

int gwi_watch_stop_fd(void)
{
    return ends[0];
}

bool gwi_watch_wait(unsigned seconds)
{
    struct pollfd stop_fd = {.fd = ends[0], .events = POLLIN};
    uint64_t until_ns = gw_monotonic_ns() + seconds * UINT64_C(1000000000), now_ns;
    while (!gwi_watch_is_stopped() && (now_ns = gw_monotonic_ns()) < until_ns)
        poll(&stop_fd, 1, (int)((until_ns - now_ns) / 1000000) + 1);
    return gwi_watch_is_stopped();
}
