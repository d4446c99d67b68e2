/* Test tables that were written by hand, and damaged tables. python_lines_test.py tests tables of real interpreters. */
#include "gw_python_lines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TABLE(...) ((const uint8_t[]){__VA_ARGS__}), sizeof((const uint8_t[]){__VA_ARGS__})

static void increments(void **state)
{
    (void)state;
    assert_int_equal(gw_python_line(0x0309, NULL, 0, 7, 0), 7);
    assert_int_equal(gw_python_line(0x0309, TABLE(0, 1, 6, 1, 8, 0xff), 7, 0), 8);
    assert_int_equal(gw_python_line(0x0309, TABLE(0, 1, 6, 1, 8, 0xff), 7, 5), 8);
    assert_int_equal(gw_python_line(0x0309, TABLE(0, 1, 6, 1, 8, 0xff), 7, 6), 9);
    assert_int_equal(gw_python_line(0x0309, TABLE(0, 1, 6, 1, 8, 0xff), 7, 1000), 8);
    /* A step of 300 bytes and 130 lines needs three pairs, whose increments add up. */
    assert_int_equal(gw_python_line(0x0309, TABLE(255, 0, 45, 127, 0, 3), 1, 299), 1);
    assert_int_equal(gw_python_line(0x0309, TABLE(255, 0, 45, 127, 0, 3), 1, 300), 131);
    assert_int_equal(gw_python_line(0x0309, TABLE(0, 1, 6), 7, 0), -1);      /* the second pair is truncated */
    assert_int_equal(gw_python_line(0x0309, TABLE(0, 0x80), 7, 0), -1);      /* a line below 0 */
    assert_int_equal(gw_python_line(0x0309, TABLE(0, 1), INT32_MAX, 0), -1); /* a line above INT32_MAX */
}

static void ranges(void **state)
{
    (void)state;
    assert_int_equal(gw_python_line(0x030A, NULL, 0, 7, 0), -1);
    assert_int_equal(gw_python_line(0x030A, TABLE(4, 1, 2, 0x80, 2, 0xff), 7, 0), 8);
    assert_int_equal(gw_python_line(0x030A, TABLE(4, 1, 2, 0x80, 2, 0xff), 7, 4), -1); /* no line in the source */
    assert_int_equal(gw_python_line(0x030A, TABLE(4, 1, 2, 0x80, 2, 0xff), 7, 6), 7);
    assert_int_equal(gw_python_line(0x030A, TABLE(4, 1, 2, 0x80, 2, 0xff), 7, 8), -1); /* beyond the end of the code */
    assert_int_equal(gw_python_line(0x030A, TABLE(4, 1, 2), 7, 0), -1);
}

static void locations(void **state)
{
    (void)state;
    /* Three entries: one unit, line + 1 (kind 11), two bytes of columns; two units without a location; eight units with
     * a line increment of -3 and nothing else. */
    const uint8_t table[] = {0x80 | 11 << 3, 1, 2, 0x80 | 15 << 3 | 1, 0x80 | 13 << 3 | 7, 3 << 1 | 1};
    assert_int_equal(gw_python_line(0x030B, table, sizeof table, 7, 1), 8);
    assert_int_equal(gw_python_line(0x030E, table, sizeof table, 7, 2), -1);
    assert_int_equal(gw_python_line(0x030D, table, sizeof table, 7, 6), 5);
    assert_int_equal(gw_python_line(0x030C, table, sizeof table, 7, 21), 5);
    assert_int_equal(gw_python_line(0x030B, table, sizeof table, 7, 22), -1);
    assert_int_equal(gw_python_line(0x030B, table, sizeof table - 1, 7, 6), -1);     /* truncated inside a number */
    assert_int_equal(gw_python_line(0x030B, table + 1, sizeof table - 1, 7, 0), -1); /* no head where one is required */
    assert_int_equal(gw_python_line(0x030B, TABLE(0x80 | 14 << 3, 0x80), 7, 0), -1); /* a head inside an entry */
    assert_int_equal(gw_python_line(0x030B, TABLE(0x80 | 14 << 3, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f), 7, 0), -1);
    assert_int_equal(gw_python_line(0x030B, TABLE(0xe8, 0x7e, 0x7f, 0x7f, 0x7f, 0x7f, 0x3f), 7, 0),
                     -1); /* the increment leads to a line above INT32_MAX */
}

static void columns(void **state)
{
    (void)state;
    /* kind 2, one byte: begin 2 * 8 + 5, length 9; kind 10, two bytes; kind 13 without columns; kind 14 on one line,
     * from 70 (stored as 71) to 80 */
    const uint8_t table[] = {0x80 | 2 << 3, 5 << 4 | 9, 0x80 | 10 << 3, 3, 7, 0x80 | 13 << 3, 0, 0x80 | 14 << 3, 0, 0,
                             0x40 | 7,      1,          0x40 | 17,      1};
    gw_python_columns found = {0};
    assert_true(gw_python_columns_find(0x030B, table, sizeof table, 0, &found));
    assert_true(found.begin == 21 && found.end == 30);
    assert_true(gw_python_columns_find(0x030E, table, sizeof table, 3, &found));
    assert_true(found.begin == 3 && found.end == 7);
    assert_false(gw_python_columns_find(0x030B, table, sizeof table, 4, &found));
    assert_true(gw_python_columns_find(0x030B, table, sizeof table, 6, &found));
    assert_true(found.begin == 70 && found.end == 80);
    assert_false(gw_python_columns_find(0x030B, table, sizeof table, 8, &found)); /* beyond the end */
    assert_false(gw_python_columns_find(0x030A, table, sizeof table, 0, &found)); /* no columns in 3.10 */
    assert_false(gw_python_columns_find(0x030F, table, sizeof table, 0, &found)); /* not supported */
    assert_false(gw_python_columns_find(0x030B, table, sizeof table, -1, &found));
    assert_false(gw_python_columns_find(0x030B, table, 1, 0, &found)); /* truncated */
    assert_false(gw_python_columns_find(0x030B, table, 4, 2, &found));
    assert_false(gw_python_columns_find(0x030B, table, sizeof table - 1, 6, &found));
    assert_false(gw_python_columns_find(0x030B, TABLE(0x80 | 14 << 3, 0, 1, 9, 9), 0, &found)); /* ends a line later */
    assert_false(gw_python_columns_find(0x030B, TABLE(0x80 | 10 << 3, 7, 7), 0, &found));       /* empty */
    assert_true(found.begin == 70 && found.end == 80);                                          /* unchanged */
}

static void not_known(void **state)
{
    (void)state;
    static const unsigned versions[] = {0, 0x0207, 0x0308, 0x030F, 0x0400, 0xffffffff};
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++)
        assert_int_equal(gw_python_line(versions[i], TABLE(4, 1), 7, 0), -1);
    for (unsigned version = GW_PYTHON_FIRST; version <= GW_PYTHON_LAST; version++)
        assert_int_equal(gw_python_line(version, TABLE(4, 1), 7, -1), -1);
}

/* Each table is in a memory block of exactly its size, so that the sanitizer detects a read past the end. */
static void damaged(void **state)
{
    (void)state;
    uint32_t random = 12345;
    for (unsigned round = 0; round < 20000; round++) {
        size_t bytes = (random >> 8) % 40;
        uint8_t *exact = malloc(bytes != 0 ? bytes : 1);
        assert_non_null(exact);
        for (size_t i = 0; i < bytes; i++) {
            random = random * 1664525 + 1013904223;
            exact[i] = (uint8_t)(random >> 24);
        }
        unsigned version = GW_PYTHON_FIRST + round % (GW_PYTHON_LAST - GW_PYTHON_FIRST + 1);
        random = random * 1664525 + 1013904223;
        gw_python_columns found = {0};
        bool has = gw_python_columns_find(version, exact, bytes, (int32_t)(random >> 20), &found);
        assert_true(has ? found.begin < found.end : found.end == 0);
        int32_t line = gw_python_line(version, exact, bytes, (int32_t)(random >> 1), (int32_t)(random >> 20));
        assert_true(line >= -1);
        free(exact);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(increments), cmocka_unit_test(ranges),    cmocka_unit_test(locations),
        cmocka_unit_test(columns),    cmocka_unit_test(not_known), cmocka_unit_test(damaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
