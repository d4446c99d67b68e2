/* Tests how sleep of the machine is found, with clocks made up. */
#include "gw_unit_test.h"
#include "gwi_run.h"

GW_TEST(sleep_is_the_growth_of_the_difference_of_two_clocks)
{
    const uint64_t second = 1000000000u;
    static const struct {
        uint64_t boot_s, monotonic_s, slept_s;
    } rows[] = {
        {5000, 4000, 0},                                 /* it had slept before the run */
        {5100, 4100, 0},                                 /* busy, not asleep */
        {5200, 4150, 50}, {5300, 4250, 0}, {0, 4300, 0}, /* a clock could not be read */
        {5400, 4350, 0},
    };
    gwi_around around = {.terminal_fd = -1};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(gwi_asleep_ns(&around, rows[i].boot_s * second, rows[i].monotonic_s * second),
                         rows[i].slept_s * second);
}

GW_TEST_MAIN(NULL, NULL)
