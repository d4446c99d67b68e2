/* Draws a progress bar.
 *
 * The thread that works sets three numbers; the thread that draws reads them ten times a second. All signals are
 * blocked in the latter, so that they reach the thread that works, as without a bar. */
#include "gwi_progress.h"
#include "gwi_terminal.h"

#include "gw_clock.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { DELAY_MS = 500, EVERY_MS = 100, BAR_WIDTH = 30, LINE_BYTES_MAX = 160, COLUMNS = 80 };

struct gwi_progress {
    pthread_t thread;
    pthread_mutex_t lock; /* for `ends` */
    pthread_cond_t end;
    bool ends;
    _Atomic(const char *) what;
    _Atomic uint64_t done, all; /* all is 0: the length of the work is unknown */
};

static bool can_draw(void)
{
    return isatty(STDERR_FILENO) && !gwi_terminal_is_dumb();
}

/* False while another job of the shell has the terminal: a bar would destroy what that job or the user writes. */
static bool is_in_foreground(void)
{
    pid_t group = tcgetpgrp(STDERR_FILENO); /* -1: it is not the terminal of our session */
    return group < 0 || group == getpgrp();
}

static unsigned columns(void)
{
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : COLUMNS;
}

/* Write to the terminal, without stdio: the other thread may be printing. A line that cannot be written is lost. */
static void put(const char *line, size_t bytes)
{
    ssize_t ignored = write(STDERR_FILENO, line, bytes);
    (void)ignored;
}

/* Format "reading  [#####     ]  42 %" or, if the length is unknown, "naming call sites ...". */
static size_t format(gwi_progress *progress, char line[LINE_BYTES_MAX])
{
    uint64_t done = atomic_load(&progress->done), all = atomic_load(&progress->all);
    const char *what = atomic_load(&progress->what);
    if (all == 0)
        return (size_t)snprintf(line, LINE_BYTES_MAX, "gpuwhy: %.60s ...", what);
    double ratio = done < all ? (double)done / (double)all : 1;
    char bar[BAR_WIDTH + 1];
    unsigned filled = (unsigned)(ratio * BAR_WIDTH);
    memset(bar, ' ', BAR_WIDTH);
    memset(bar, '#', filled);
    bar[BAR_WIDTH] = '\0';
    return (size_t)snprintf(line, LINE_BYTES_MAX, "gpuwhy: %.60s [%s] %3.0f %%", what, bar, ratio * 100);
}

static void draw(gwi_progress *progress)
{
    char line[LINE_BYTES_MAX], out[LINE_BYTES_MAX + 8];
    size_t bytes = format(progress, line), room = columns() - 1; /* a full line would wrap */
    int length = snprintf(out, sizeof out, "\r%.*s\033[K", (int)(bytes < room ? bytes : room), line);
    put(out, (size_t)length);
}

/* Wait until the work ends, at most `ms`. */
static bool has_ended(gwi_progress *progress, unsigned ms)
{
    struct timespec until;
    uint64_t until_ns = gw_monotonic_ns() + (uint64_t)ms * 1000000;
    until.tv_sec = (time_t)(until_ns / 1000000000u);
    until.tv_nsec = (long)(until_ns % 1000000000u);
    int code = 0;
    pthread_mutex_lock(&progress->lock);
    while (!progress->ends && code == 0)
        code = pthread_cond_timedwait(&progress->end, &progress->lock, &until);
    bool ends = progress->ends;
    pthread_mutex_unlock(&progress->lock);
    return ends;
}

static void *run(void *user)
{
    gwi_progress *progress = user;
    if (has_ended(progress, DELAY_MS))
        return NULL;
    bool is_drawn = false;
    do {
        if (is_in_foreground()) {
            draw(progress);
            is_drawn = true;
        }
    } while (!has_ended(progress, EVERY_MS));
    if (is_drawn && is_in_foreground())
        put("\r\033[K", 4);
    return NULL;
}

static bool start_thread(gwi_progress *progress)
{
    sigset_t all, before;
    pthread_condattr_t attributes;
    sigfillset(&all);
    pthread_mutex_init(&progress->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&progress->end, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = pthread_create(&progress->thread, NULL, run, progress);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return code == 0;
}

gwi_progress *gwi_progress_begin(const char *what)
{
    gwi_progress *progress = can_draw() ? calloc(1, sizeof *progress) : NULL;
    if (progress == NULL)
        return NULL;
    atomic_init(&progress->what, what);
    if (start_thread(progress))
        return progress;
    free(progress);
    return NULL;
}

void gwi_progress_part(gwi_progress *progress, const char *what)
{
    if (progress == NULL)
        return;
    atomic_store(&progress->all, 0);
    atomic_store(&progress->what, what);
}

void gwi_progress_step(gwi_progress *progress, uint64_t done, uint64_t all)
{
    if (progress == NULL)
        return;
    atomic_store(&progress->done, done);
    atomic_store(&progress->all, all);
}

static void report(void *user, uint64_t done_bytes, uint64_t all_bytes)
{
    gwi_progress_step(user, done_bytes, all_bytes);
}

void gwi_progress_watch(gwi_progress *progress, gw_reader *reader)
{
    if (progress != NULL)
        gw_reader_set_report(reader, report, progress);
}

void gwi_progress_end(gwi_progress *progress)
{
    if (progress == NULL)
        return;
    pthread_mutex_lock(&progress->lock);
    progress->ends = true;
    pthread_cond_signal(&progress->end);
    pthread_mutex_unlock(&progress->lock);
    pthread_join(progress->thread, NULL);
    pthread_cond_destroy(&progress->end);
    pthread_mutex_destroy(&progress->lock);
    free(progress);
}
