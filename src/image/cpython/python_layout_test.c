/* Test the offsets that an interpreter publishes, both valid and damaged. */
#include "gw_python_lines.h"
#include "gw_python_versions.h"
#include "gw_unit_test.h"

#include <string.h>

enum { WORDS = GW_PYTHON_PUBLISHED_WORDS };

static const unsigned long version_hex[] = {0x030D05F0, 0x030E00F0};

/* Build the words that CPython 3.13 and 3.14 publish. Each group begins with the size of a structure, followed by
 * offsets. */
static void publish(unsigned version, uint64_t words[WORDS])
{
    const gw_python_layout *row = gw_python_layout_of(version);
    static const uint8_t begins[2][6] = {{19, 28, 34, 44, 64, 67}, {22, 31, 39, 50, 74, 77}};
    const uint8_t *begin = begins[version - 0x030D];
    memset(words, 0, WORDS * sizeof words[0]);
    memcpy(words, "xdebugpy", 8);
    words[1] = version_hex[version - 0x030D];
    uint64_t *thread = words + begin[0], *frame = words + begin[1], *code = words + begin[2];
    thread[0] = 400;
    thread[3] = row->thread_interpreter;
    thread[4] = row->thread_frame;
    thread[5] = row->thread_ident;
    frame[0] = 88;
    frame[1] = row->frame_previous;
    frame[2] = row->frame_code;
    frame[3] = row->frame_instruction;
    frame[5] = row->frame_mark;
    code[0] = (uint64_t)row->code_bytes + 8;
    code[1] = row->code_file;
    code[3] = row->code_name;
    code[4] = row->code_table;
    code[5] = row->code_first_line;
    code[9] = row->code_start;
    words[begin[3]] = 16;
    words[begin[3] + 1] = GW_PYTHON_OB_TYPE;
    words[begin[4]] = 40;
    words[begin[4] + 2] = GW_PYTHON_BYTES_DATA;
    words[begin[5]] = row->unicode_bytes;
    words[begin[5] + 3] = row->ascii_bytes;
}

GW_TEST(versions)
{
    for (unsigned version = GW_PYTHON_FIRST; version <= GW_PYTHON_LAST; version++) {
        const gw_python_layout *row = gw_python_layout_of(version);
        assert_non_null(row);
        assert_int_equal(row->version, version);
    }
    static const unsigned others[] = {0, 0x0207, 0x0308, 0x030F, 0x0400};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_null(gw_python_layout_of(others[i]));
}

GW_TEST(published)
{
    for (unsigned version = 0x030D; version <= GW_PYTHON_LAST; version++) {
        uint64_t words[WORDS];
        const gw_python_layout *row = gw_python_layout_of(version);
        gw_python_layout layout = *row;
        unsigned long hex = version_hex[version - 0x030D];
        publish(version, words);
        assert_true(gw_python_layout_publish(&layout, words, hex));
        assert_memory_equal(&layout, row, sizeof layout);
        assert_false(gw_python_layout_publish(&layout, words, hex + 1)); /* the version of another build */
        words[2] = 1;                                                    /* a free-threaded build, without the GIL */
        assert_false(gw_python_layout_publish(&layout, words, hex));
        words[2] = 0;
        words[0] ^= 1;
        assert_false(gw_python_layout_publish(&layout, words, hex));
        words[0] ^= 1;
        words[version == 0x030D ? 29 : 32] += 8; /* change frame_previous: the published offset must be used */
        assert_true(gw_python_layout_publish(&layout, words, hex));
        assert_int_equal(layout.frame_previous, row->frame_previous + 8);
    }
}

/* Test the offsets that lead from _PyRuntime to the thread states. */
GW_TEST(lists)
{
    gw_python_lists lists;
    for (unsigned version = GW_PYTHON_FIRST; version <= GW_PYTHON_LAST; version++) {
        const gw_python_layout *row = gw_python_layout_of(version);
        uint64_t words[WORDS];
        if (version < GW_PYTHON_PUBLISHED_SINCE) {
            assert_true(gw_python_lists_of(row, NULL, &lists));
            assert_int_equal(lists.interpreter_threads, row->interpreter_threads);
            assert_int_equal(lists.thread_native_id, version < 0x030B ? 0 : row->thread_ident + 8);
            continue;
        }
        unsigned thread = version == 0x030D ? 19 : 22;
        publish(version, words);
        words[3] = 200000; /* words 3 and 6: sizes of the runtime state and the interpreter state */
        words[6] = 400000;
        words[5] = 632;
        words[8] = 7264;
        words[9] = 7344;
        words[thread + 2] = 8;
        words[thread + 6] = 160;
        assert_true(gw_python_lists_of(row, words, &lists));
        assert_int_equal(lists.runtime_interpreters, 632);
        assert_int_equal(lists.interpreter_next, 7264);
        assert_int_equal(lists.interpreter_threads, 7344);
        assert_int_equal(lists.thread_next, 8);
        assert_int_equal(lists.thread_native_id, 160);
        assert_false(gw_python_lists_of(row, NULL, &lists));
        static const uint64_t bad[] = {0, 4, 200000, 400000, UINT64_MAX};
        for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
            words[5] = bad[i];
            assert_false(gw_python_lists_of(row, words, &lists));
        }
    }
}

/* Damage each word in turn. The words must be rejected, or every offset must be inside its structure. */
GW_TEST(damaged)
{
    static const uint64_t bad[] = {1, 3, 0xffff, 0x10000, UINT64_MAX, UINT64_MAX - 7, UINT64_C(1) << 63};
    for (unsigned version = 0x030D; version <= GW_PYTHON_LAST; version++) {
        for (unsigned at = 0; at < WORDS; at++) {
            for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
                uint64_t words[WORDS];
                gw_python_layout layout = *gw_python_layout_of(version);
                publish(version, words);
                words[at] = bad[i];
                if (!gw_python_layout_publish(&layout, words, version_hex[version - 0x030D]))
                    continue;
                uint64_t frame_bytes = words[version == 0x030D ? 28 : 31];
                assert_true(layout.frame_previous + 8u <= frame_bytes && layout.frame_previous % 8 == 0);
                assert_true(layout.frame_mark < frame_bytes);
                assert_int_equal(layout.ascii_bytes, 40);
            }
        }
    }
}

/* Test tables that were written by hand, and damaged tables. python_lines_test.py tests tables of real
 * interpreters. */

#define TABLE(...) ((const uint8_t[]){__VA_ARGS__}), sizeof((const uint8_t[]){__VA_ARGS__})

GW_TEST(increments)
{
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

GW_TEST(ranges)
{
    assert_int_equal(gw_python_line(0x030A, NULL, 0, 7, 0), -1);
    assert_int_equal(gw_python_line(0x030A, TABLE(4, 1, 2, 0x80, 2, 0xff), 7, 0), 8);
    assert_int_equal(gw_python_line(0x030A, TABLE(4, 1, 2, 0x80, 2, 0xff), 7, 4), -1); /* no line in the source */
    assert_int_equal(gw_python_line(0x030A, TABLE(4, 1, 2, 0x80, 2, 0xff), 7, 6), 7);
    assert_int_equal(gw_python_line(0x030A, TABLE(4, 1, 2, 0x80, 2, 0xff), 7, 8), -1); /* beyond the end of the code */
    assert_int_equal(gw_python_line(0x030A, TABLE(4, 1, 2), 7, 0), -1);
}

GW_TEST(locations)
{
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

GW_TEST(columns)
{
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

GW_TEST(not_known)
{
    static const unsigned versions[] = {0, 0x0207, 0x0308, 0x030F, 0x0400, 0xffffffff};
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++)
        assert_int_equal(gw_python_line(versions[i], TABLE(4, 1), 7, 0), -1);
    for (unsigned version = GW_PYTHON_FIRST; version <= GW_PYTHON_LAST; version++)
        assert_int_equal(gw_python_line(version, TABLE(4, 1), 7, -1), -1);
}

/* Each table is in a memory block of exactly its size, so that the sanitizer detects a read past the end. */
GW_TEST(damaged_lines)
{
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

GW_TEST_MAIN(NULL, NULL)
