/* Tests the table of roles, and that painting keeps the text and its layout. */
#include "gw_say.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void every_role_is_an_sgr_sequence_of_its_own(void **state)
{
    (void)state;
    assert_string_equal(gw_role_begin(GW_ROLE_PLAIN), "");
    assert_string_equal(gw_role_end(GW_ROLE_PLAIN), "");
    for (int role = GW_ROLE_PLAIN + 1; role < GW_ROLE_COUNT; role++) {
        const char *begin = gw_role_begin((gw_role)role);
        assert_memory_equal(begin, "\033[", 2);
        assert_int_equal(2 + strspn(begin + 2, "0123456789;") + 1, strlen(begin));
        assert_int_equal(begin[strlen(begin) - 1], 'm');
        assert_string_equal(gw_role_end((gw_role)role), "\033[0m");
        for (int other = GW_ROLE_PLAIN; other < role; other++)
            assert_string_not_equal(begin, gw_role_begin((gw_role)other));
    }
}

static void no_colour_crosses_a_line_end_or_begins_with_blanks(void **state)
{
    (void)state;
    gw_text text = {0};
    gw_text_add_str(&text, "Why      one\n           two three\n\n  four");
    gw_paint(&text, 9, GW_ROLE_GOOD);
    assert_string_equal(gw_text_str(&text),
                        "Why      \033[32mone\033[0m\n           \033[32mtwo three\033[0m\n\n  \033[32mfour\033[0m");
    gw_text_free(&text);
}

static void a_beginning_is_found_in_wrapped_text(void **state)
{
    (void)state;
    gw_text text = {0};
    gw_text_add_str(&text, "no fault\n  found: x");
    gw_paint_begin(&text, 0, "no fault found: x", strlen("no fault found"), GW_ROLE_GOOD);
    assert_string_equal(gw_text_str(&text), "\033[32mno fault\033[0m\n  \033[32mfound\033[0m: x");
    gw_text_free(&text);
}

/* Paint every part of a text in every role: without the sequences, the text is the same. */
static void the_text_stays_the_same(void **state)
{
    (void)state;
    static const char sample[] = "  a bc\n\n d\xC3\xA4 \n  ";
    for (int role = 0; role < GW_ROLE_COUNT; role++) {
        for (size_t from = 0; from < sizeof sample + 2; from++) {
            for (size_t bytes = 0; bytes < sizeof sample + 2; bytes++) {
                gw_text text = {0}, plain = {0};
                gw_text_add_str(&text, sample);
                const char *what = from < sizeof sample ? sample + from : "";
                gw_paint_begin(&text, from, what, bytes, (gw_role)role);
                gw_paint_remove(gw_text_str(&text), &plain);
                assert_string_equal(gw_text_str(&plain), sample);
                if (role == GW_ROLE_PLAIN)
                    assert_string_equal(gw_text_str(&text), sample);
                gw_text_free(&plain);
                gw_text_free(&text);
            }
        }
    }
}

static void only_our_sequences_are_removed(void **state)
{
    (void)state;
    gw_text text = {0};
    gw_paint_remove("\033[1;31ma\033[0m\033[2Jb\033\033[\033[3", &text);
    assert_string_equal(gw_text_str(&text), "a\033[2Jb\033\033[\033[3");
    gw_text_free(&text);
}

static void nothing_is_painted_in_an_empty_text(void **state)
{
    (void)state;
    gw_text text = {0};
    gw_paint(&text, 0, GW_ROLE_FAILED);
    gw_paint(&text, 5, GW_ROLE_FAILED);
    gw_paint_begin(&text, 0, "abc", SIZE_MAX, GW_ROLE_FAILED);
    assert_int_equal(text.bytes, 0);
    gw_text_add_str(&text, "x");
    gw_paint_begin(&text, 0, "abc", SIZE_MAX, GW_ROLE_STRONG); /* `what` is longer than the text */
    assert_string_equal(gw_text_str(&text), "\033[1mx\033[0m");
    gw_text_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_role_is_an_sgr_sequence_of_its_own),
        cmocka_unit_test(no_colour_crosses_a_line_end_or_begins_with_blanks),
        cmocka_unit_test(a_beginning_is_found_in_wrapped_text),
        cmocka_unit_test(the_text_stays_the_same),
        cmocka_unit_test(only_our_sequences_are_removed),
        cmocka_unit_test(nothing_is_painted_in_an_empty_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
