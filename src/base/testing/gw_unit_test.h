/* A unit test with cmocka. Each test is named once:
 *
 *     GW_TEST(name) { .. }                          a test; `state` is cmocka's
 *     GW_TEST_WITH(name, set_up, tear_down) { .. }  the same with functions that run before and after it; NULL: none
 *     GW_TEST_MAIN(set_up, tear_down)               main(); its functions run before the first and after the last test
 *     GW_TEST_RUN(set_up, tear_down)                what main() returns, for a main() of the test's own
 *
 * The tests run in the order of the file. */
#ifndef GW_UNIT_TEST_H
#define GW_UNIT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum { GW_TESTS_MAX = 128 };
static struct CMUnitTest gw_tests[GW_TESTS_MAX];
static size_t gw_test_count;

static inline void gw_test_add(struct CMUnitTest test)
{
    if (gw_test_count == GW_TESTS_MAX)
        abort();
    gw_tests[gw_test_count++] = test;
}

#define GW_TEST_WITH(test, set_up, tear_down)                                                                          \
    static void test(void **state);                                                                                    \
    __attribute__((constructor)) static void gw_register_##test(void)                                                  \
    {                                                                                                                  \
        gw_test_add((struct CMUnitTest){#test, test, set_up, tear_down, NULL});                                        \
    }                                                                                                                  \
    static void test(void **state __attribute__((unused)))
#define GW_TEST(test) GW_TEST_WITH(test, NULL, NULL)

#define GW_TEST_RUN(set_up, tear_down) _cmocka_run_group_tests(__FILE__, gw_tests, gw_test_count, set_up, tear_down)
#define GW_TEST_MAIN(set_up, tear_down)                                                                                \
    int main(void)                                                                                                     \
    {                                                                                                                  \
        return GW_TEST_RUN(set_up, tear_down);                                                                         \
    }

#endif
