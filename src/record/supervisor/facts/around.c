/* Records what happens around the program: its terminal is closed, the machine sleeps. */
#include "gwi_run.h"

#include "gw_fact.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

/* Two clocks are read one after the other, and a busy machine may pause in between. A sleep takes longer. */
static const uint64_t asleep_min_ns = 1000000000u;

static uint64_t read_clock(clockid_t clock)
{
    struct timespec now = {0};
    return clock_gettime(clock, &now) == 0 ? (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec : 0;
}

void gwi_around_begin(gwi_around *around)
{
    *around = (gwi_around){.terminal_fd = -1};
    for (int fd = 0; fd <= 2 && around->terminal_fd < 0; fd++)
        around->terminal_fd = isatty(fd) ? fd : -1;
    (void)gwi_asleep_ns(around, read_clock(CLOCK_BOOTTIME), read_clock(CLOCK_MONOTONIC));
}

uint64_t gwi_asleep_ns(gwi_around *around, uint64_t boot_ns, uint64_t monotonic_ns)
{
    if (boot_ns < monotonic_ns) /* a clock could not be read */
        return 0;
    uint64_t before_ns = around->asleep_ns, now_ns = boot_ns - monotonic_ns;
    bool is_first = !around->is_clock_known;
    if (!is_first && now_ns < before_ns + asleep_min_ns)
        return 0;
    around->is_clock_known = true;
    around->asleep_ns = now_ns;
    return is_first ? 0 : now_ns - before_ns;
}

void gwi_around_look(gwi_around *around, gwi_record *record)
{
    struct winsize size;
    uint64_t asleep_ns = gwi_asleep_ns(around, read_clock(CLOCK_BOOTTIME), read_clock(CLOCK_MONOTONIC));
    if (asleep_ns > 0)
        gwi_record_fact(record, gw_fact_key_text(GW_FACT_SUSPENDED), "for_ms=%" PRIu64, asleep_ns / 1000000u);
    /* Every call on a terminal that was hung up fails with EIO. */
    if (around->terminal_fd >= 0 && ioctl(around->terminal_fd, TIOCGWINSZ, &size) != 0 && errno == EIO) {
        around->terminal_fd = -1;
        gwi_record_fact(record, gw_fact_key_text(GW_FACT_TERMINAL_CLOSED), "%s", "the terminal was hung up");
    }
}
