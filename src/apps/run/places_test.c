/* Tests the placeholders of --rescue. */
#include "gw_unit_test.h"
#include "gwi_places.h"

#include <stdio.h>
#include <string.h>

static gwi_places places;
static char line[256];

/* Read the words, and return the command that they make; on a usage error, its text. */
static const char *read_words(char *const *words)
{
    gw_error err;
    gwi_command command = {0};
    line[0] = '\0';
    if (gwi_places_read(words, &places, &err) != GW_OK)
        return strcpy(line, err.text);
    assert_true(gwi_places_command(&places, &command));
    for (size_t i = 0; i < command.count; i++)
        snprintf(line + strlen(line), sizeof line - strlen(line), i == 0 ? "%s" : " %s", command.argv[i]);
    gwi_command_free(&command);
    return line;
}

static const char *of_word(const char *word)
{
    char copy[128];
    snprintf(copy, sizeof copy, "%s", word);
    char *words[] = {copy, NULL};
    const char *text = read_words(words);
    gwi_places_free(&places);
    return text;
}

GW_TEST(placeholders_are_filled)
{
    assert_string_equal(of_word("--batch={batch:256}"), "--batch=256");
    assert_string_equal(of_word("{precision:fp32,bf16}"), "fp32");
    assert_string_equal(of_word("{mode:a,b}x{mode}"), "axa");
    assert_string_equal(of_word("{batch:8}/{batch:8}"), "8/8");
    assert_string_equal(of_word("{workers:0}"), "0");
}

GW_TEST(other_braces_are_text)
{
    static const char *const texts[] = {"{}",       "{\"batch\": 8}", "{i:02d}",    "{x:,}", "{batch}", "${batch:8}",
                                        "{lr:0.1}", "{batch:8",       "{batch: 8}", "{",     "a{b{c}d}"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        assert_string_equal(of_word(texts[i]), texts[i]);
    assert_string_equal(of_word("{{x}} {{batch}}"), "{{x}} {{batch}}");
    assert_string_equal(of_word("{{batch:8}}"), "{batch:8}");
}

GW_TEST(wrong_placeholders_are_refused)
{
    static const char *const texts[][2] = {{"{batch:x}", "expected a whole number"},
                                           {"{batch:0}", "expected a whole number"},
                                           {"{batch:8,4}", "expected a whole number"},
                                           {"{batch:99999999999}", "expected a whole number"},
                                           {"{precision:fp32}", "has one value"},
                                           {"{mode:a,,b}", "has an empty value"},
                                           {"{batch:8} {batch:4}", "has both {batch:8} and {batch:4}"}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (strstr(of_word(texts[i][0]), texts[i][1]) == NULL)
            fail_msg("%s: %s", texts[i][0], line);
}

GW_TEST(a_number_is_changed_everywhere)
{
    char *words[] = {(char[]){"{batch:8}"}, (char[]){"b={batch}"}, NULL};
    assert_string_equal(read_words(words), "8 b=8");
    assert_true(gwi_place_set(gwi_places_find(&places, "batch"), 3));
    assert_null(gwi_places_find(&places, "steps"));
    gwi_command command = {0};
    assert_true(gwi_places_command(&places, &command));
    assert_string_equal(command.argv[0], "3");
    assert_string_equal(command.argv[1], "b=3");
    gwi_command_free(&command);
    gwi_places_free(&places);
}

GW_TEST_MAIN(NULL, NULL)
