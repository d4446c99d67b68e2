/* Tests that gpuwhy does not wait forever for a child that cannot be killed, for example because a disk hangs. To
 * simulate this, waitpid() always reports that the child is running. */
#include "gw_symbols.h"
#include "gw_unit_test.h"

#include "gw_clock.h"

#include <errno.h>
#include <sys/wait.h>

pid_t waitpid(pid_t pid, int *status, int options)
{
    if ((options & WNOHANG) == 0)
        fail_msg("this call would wait for ever");
    return 0;
}

static void resolve(uint32_t hard_ms, bool is_late)
{
    const uint64_t limit_ns = UINT64_C(60) * 1000000000;
    gw_symbol symbol = {.path = "/nowhere/at/all.so", .address = 0x1000, .state = GW_SYMBOL_NOT_ASKED};
    gw_symbols_options options = {.soft_ms = hard_ms, .hard_ms = hard_ms};
    uint64_t begun_ns = gw_monotonic_ns();
    assert_int_equal(gw_symbols_resolve(&symbol, 1, &options, NULL), GW_OK);
    assert_true(gw_monotonic_ns() < begun_ns + limit_ns);
    assert_int_equal(symbol.state == GW_SYMBOL_LATE, is_late);
    free(symbol.frame);
    while (wait4(-1, NULL, 0, NULL) > 0 || errno == EINTR)
        ;
}

GW_TEST(a_killed_child_is_not_waited_for_without_limit)
{
    resolve(0, true);
}

/* A child that has sent all its results but does not exit is not waited for without limit either. */
GW_TEST(nor_is_one_that_has_finished)
{
    resolve(60000, false);
}

GW_TEST_MAIN(NULL, NULL)
