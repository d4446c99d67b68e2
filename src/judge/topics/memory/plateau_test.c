/* Tests how gpuwhy detects memory use that is level for most of a run, and when the level ends. A span of 16 ms may
 * miss the peak of a step, or mix the last step of the level with the next phase. */
#include "gwi_plateau.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const uint64_t mib = 1u << 20, span_ns = 16000000;
static gw_peak peaks[GW_PEAKS_MAX];
static gw_allocator_report report = {.peak = peaks};

static void add_span(uint64_t peak_mib)
{
    size_t count = ++report.peak_count;
    report.peak[count - 1] = (gw_peak){.t_ns = count * span_ns, .bytes = peak_mib * mib};
}

static void begin(size_t level_spans)
{
    report.peak_count = 0;
    for (size_t i = 0; i < level_spans; i++)
        add_span(i % 3 == 2 ? 81 : 578); /* every third span misses the peak of a step */
}

static void test_level_then_rise(void **state)
{
    gwi_plateau plateau;
    begin(28);
    add_span(926);
    add_span(5303);
    assert_true(gwi_find_plateau(&report, &plateau));
    assert_int_equal(plateau.bytes, 578 * mib);
    assert_int_equal(plateau.end_ns, 28 * span_ns);
    assert_int_equal(plateau.rising_ns, 27 * span_ns); /* the start of span 28, the last one that reached the level */
}

static void test_slow_rise(void **state)
{
    gwi_plateau plateau;
    begin(28);
    add_span(81); /* the next phase begins by loading its code, and needs little memory for it */
    add_span(387);
    add_span(926);
    add_span(5303);
    assert_true(gwi_find_plateau(&report, &plateau));
    assert_int_equal(plateau.end_ns, 30 * span_ns);
    assert_int_equal(plateau.rising_ns, 27 * span_ns);
}

static void test_no_level(void **state)
{
    gwi_plateau plateau;
    assert_false(gwi_find_plateau(NULL, &plateau));
    begin(30);
    assert_false(gwi_find_plateau(&report, &plateau)); /* no rise */
    begin(0);
    for (uint64_t i = 1; i <= 30; i++)
        add_span(100 * i);
    assert_false(gwi_find_plateau(&report, &plateau)); /* memory rises all the time */
    begin(10);
    add_span(5303);
    assert_false(gwi_find_plateau(&report, &plateau)); /* too few spans */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_level_then_rise), cmocka_unit_test(test_slow_rise),
                                       cmocka_unit_test(test_no_level)};
    return cmocka_run_group_tests_name("plateau", tests, NULL, NULL);
}
