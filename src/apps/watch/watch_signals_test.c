/* Tests that a signal ends a wait, even if it arrives just before the wait. */
#include "gw_unit_test.h"
#include "gwi_watch_cmd.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LONG_S = 3600 };

/* Signals are caught once in a process, so each test has its own. It ends with this status if all went well. */
enum { GOOD = 42 };

static void expect_good(void (*body)(void))
{
    int status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(60); /* a wait that does not end */
        body();
        _exit(1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == GOOD);
}

static void signal_first(void)
{
    if (gwi_watch_catch_signals(NULL) == GW_OK && !gwi_watch_wait(0) && raise(SIGTERM) == 0 && gwi_watch_wait(LONG_S))
        _exit(GOOD);
}

GW_TEST(a_signal_before_the_wait_counts)
{
    expect_good(signal_first);
}

static void signal_meanwhile(void)
{
    pid_t self = getpid();
    if (gwi_watch_catch_signals(NULL) != GW_OK)
        return;
    if (fork() == 0) {
        usleep(50000);
        kill(self, SIGHUP);
        _exit(0);
    }
    if (gwi_watch_wait(LONG_S))
        _exit(GOOD);
}

GW_TEST(a_signal_during_the_wait_counts)
{
    expect_good(signal_meanwhile);
}

static void ignored(void)
{
    signal(SIGHUP, SIG_IGN);
    if (gwi_watch_catch_signals(NULL) == GW_OK && raise(SIGHUP) == 0 && !gwi_watch_wait(1))
        _exit(GOOD);
}

GW_TEST(an_ignored_signal_stays_ignored)
{
    expect_good(ignored);
}

GW_TEST_MAIN(NULL, NULL)
