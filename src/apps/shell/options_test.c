/* Tests valid and invalid options of each type, and the help that is generated from their table. */
#include "gw_unit_test.h"
#include "gwi_options.h"
#include "gwi_terminal.h"

#include "gw_config.h"

#include <string.h>

#define SAMPLE_OPTIONS(X)                                                                                              \
    X(FLAG, bool, quiet, "--quiet", NULL, NULL, "say less")                                                            \
    X(FLAG, bool, no_history, "--no-history", NULL, NULL, "list nothing")                                              \
    X(STRING, const char *, output, "-o", "FILE", NULL, "write there")                                                 \
    X(STRING, const char *, card, "--gpu", "CARD", "real", "which card")                                               \
    X(BYTES, uint64_t, memory_bytes, "--memory", "SIZE", NULL, "how large")                                            \
    X(BYTES, uint64_t, limit_bytes, "--record-limit", "SIZE", "1KiB", "how much")                                      \
    X(COUNT, uint32_t, restart_count, "--restart", "N", NULL, "how often")                                             \
    X(LIST, gw_option_list, on, "--on", "WORD", NULL, "several times")                                                 \
    X(NUMBER, uint64_t, jobs, "--jobs", "N", "3", "how many")                                                          \
    X(MAYBE, const char *, real, "--real", "N|Ns", NULL, "for how long")

typedef struct sample {
    SAMPLE_OPTIONS(GWI_OPTION_FIELD)
} sample;
#define OPTIONS_STRUCT sample
static const gwi_option table[] = {SAMPLE_OPTIONS(GWI_OPTION_ROW)};
enum { COUNT = sizeof table / sizeof table[0] };

static gw_status parse(sample *fields, int *index, gw_error *err, char **words)
{
    int count = 0;
    while (words[count] != NULL)
        count++;
    *fields = (sample){0};
    return gwi_options_parse(table, COUNT, fields, count, words, index, err);
}
#define WORDS(...) ((char *[]){(char[]){"run"}, __VA_ARGS__, NULL})

GW_TEST(bad_input_is_named)
{
    static const struct {
        const char *word, *next, *says;
    } cases[] = {{"--nonsense", "x", "--nonsense"},
                 {"--memory", "lots", "--memory lots"},
                 {"--memory=-1", "x", "-1"},
                 {"--quiet=yes", "x", "--quiet"},
                 {"-x", "x", "-x"},
                 {"--jobs", "1k", "--jobs 1k"},
                 {"--jobs", " 1", "not a whole number"},
                 {"--jobs=-1", "x", "--jobs -1"},
                 {"--jobs=", "x", "--jobs"},
                 {"--jobs", "18446744073709551616", "not a whole number"},
                 {"--memoryx", "1", "--memoryx"},
                 {"--record-limit=1PiBB", "x", "1P"},
                 {"--restart=", "x", "--restart"},
                 {"--restart", "-1", "--restart -1"},
                 {"--restart=1x", "x", "1x"},
                 {"--restart=99999999999999999999", "x", "not a number"},
                 {"-", NULL, NULL}};
    for (size_t i = 0; i + 1 < sizeof cases / sizeof cases[0]; i++) {
        sample fields;
        gw_error err = {0};
        int index = -1;
        char *words[] = {(char *)"run", (char *)(uintptr_t)cases[i].word, (char *)(uintptr_t)cases[i].next, NULL};
        assert_int_equal(parse(&fields, &index, &err, words), GW_USAGE);
        assert_int_equal(index, -1);
        if (strstr(err.text, cases[i].says) == NULL)
            fail_msg("'%s' does not name '%s'", err.text, cases[i].says);
    }
}

GW_TEST(a_missing_value_is_named)
{
    sample fields;
    gw_error err = {0};
    int index;
    char *words[] = {(char *)"run", (char *)"-o", NULL};
    assert_int_equal(parse(&fields, &index, &err, words), GW_USAGE);
    assert_non_null(strstr(err.text, "-o needs a value"));
}

GW_TEST(defaults_hold)
{
    sample fields;
    int index;
    assert_int_equal(parse(&fields, &index, NULL, WORDS((char *)"prog", (char *)"--quiet")), GW_OK);
    assert_int_equal(index, 1); /* words after the command belong to the program */
    assert_false(fields.quiet);
    assert_null(fields.output);
    assert_string_equal(fields.card, "real");
    assert_int_equal(fields.limit_bytes, 1024);
}

GW_TEST(all_spellings_work)
{
    sample fields;
    int index;
    char *words[] = {
        (char *)"run",   (char *)"--quiet",          (char *)"-ofile", (char *)"--gpu=virtual:h200", (char *)"--memory",
        (char *)"16GiB", (char *)"--record-limit=0", (char *)"--",     (char *)"--not-option",       NULL};
    assert_int_equal(parse(&fields, &index, NULL, words), GW_OK);
    assert_int_equal(index, 8);
    assert_true(fields.quiet);
    assert_string_equal(fields.output, "file");
    assert_string_equal(fields.card, "virtual:h200");
    assert_int_equal(fields.memory_bytes, 16ull << 30);
    assert_int_equal(fields.limit_bytes, 0);
}

GW_TEST(lists_keep_all_values)
{
    sample fields;
    int index;
    gw_error err = {0};
    assert_int_equal(parse(&fields, &index, NULL,
                           WORDS((char *)"--on", (char *)"a", (char *)"--restart", (char *)"12", (char *)"--on=b")),
                     GW_OK);
    assert_int_equal(fields.restart_count, 12);
    assert_int_equal(fields.on.count, 2);
    assert_string_equal(fields.on.item[0], "a");
    assert_string_equal(fields.on.item[1], "b");
    char *words[GW_OPTION_LIST_MAX + 3] = {(char[]){"run"}};
    for (size_t i = 0; i <= GW_OPTION_LIST_MAX; i++)
        words[i + 1] = (char *)"--on=c";
    assert_int_equal(parse(&fields, &index, &err, words), GW_USAGE);
    assert_non_null(strstr(err.text, "more than 16 times"));
}

GW_TEST(values_may_be_optional)
{
    int index;
    sample fields;
    assert_int_equal(parse(&fields, &index, NULL, WORDS((char *)"--real", (char *)"prog")), GW_OK);
    assert_int_equal(index, 2); /* the next word is not the value */
    assert_string_equal(fields.real, "");
    assert_int_equal(fields.jobs, 3);
    assert_int_equal(
        parse(&fields, &index, NULL,
              WORDS((char *)"--real=5s", (char *)"--jobs", (char *)"18446744073709551615", (char *)"prog")),
        GW_OK);
    assert_string_equal(fields.real, "5s");
    assert_true(fields.jobs == UINT64_MAX);
}

GW_TEST(a_dash_is_a_file)
{
    sample fields;
    int index;
    assert_int_equal(parse(&fields, &index, NULL, WORDS((char *)"-")), GW_OK);
    assert_int_equal(index, 1);
}

GW_TEST(mixed_words_are_collected)
{
    sample fields = {0};
    int words = -1;
    char *argv[] = {(char *)"export",  (char *)"file", (char *)"-o",  (char *)"out", (char *)"-",
                    (char *)"--quiet", (char *)"--",   (char *)"--x", NULL};
    assert_int_equal(gwi_options_parse_mixed(table, COUNT, &fields, 8, argv, &words, NULL), GW_OK);
    assert_int_equal(words, 3);
    assert_string_equal(argv[1], "file");
    assert_string_equal(argv[2], "-");
    assert_string_equal(argv[3], "--x");
    assert_string_equal(fields.output, "out");
    assert_true(fields.quiet);
}

GW_TEST(help_names_every_option)
{
    gw_text text = {0};
    gwi_options_add_rows(table, COUNT, &text);
    for (size_t i = 0; i < COUNT; i++) {
        assert_non_null(strstr(gw_text_str(&text), table[i].name));
        assert_non_null(strstr(gw_text_str(&text), table[i].help));
    }
    assert_non_null(strstr(gw_text_str(&text), "[real]"));
    assert_non_null(strstr(gw_text_str(&text), "--real[=N|Ns] "));
    gw_text_free(&text);
}

/* Every command accepts the options about the terminal, before and after its own. */
GW_TEST(all_commands_share_the_options_of_the_terminal)
{
    sample fields;
    int index = 0;
    gw_error err = {0};
    *gwi_common() = (gwi_common_settings){0};
    assert_int_equal(parse(&fields, &index, &err,
                           (char *[]){(char *)"x", (char *)"--color=never", (char *)"--quiet", (char *)"--no-pager",
                                      (char *)"--", (char *)"--color", NULL}),
                     GW_OK);
    assert_int_equal(index, 5); /* the words of the program are left alone */
    assert_string_equal(gwi_common()->color, "never");
    assert_true(gwi_common()->no_pager && fields.quiet);
    assert_false(gwi_has_colour(1));
    assert_int_equal(parse(&fields, &index, &err, (char *[]){(char *)"x", (char *)"--color", (char *)"always", NULL}),
                     GW_OK);
    assert_true(gwi_has_colour(1));
    assert_int_equal(parse(&fields, &index, &err, (char *[]){(char *)"x", (char *)"--color", (char *)"red", NULL}),
                     GW_USAGE);
    assert_string_equal(err.text, "--color red: not auto, always or never");
    *gwi_common() = (gwi_common_settings){0};
}

/* The configuration is between the default and the command line, and learns what the command line sets. */
GW_TEST(the_configuration_sets_options)
{
    sample fields;
    int index = 0;
    gw_error err = {0};
    gw_config *config = gw_config_process();
    gw_config_free(config);
    assert_int_equal(gw_config_set(config, GW_CONFIG_RECORD_LIMIT, "7", GW_CONFIG_USER, 1, NULL), GW_OK);
    assert_int_equal(gw_config_set(config, GW_CONFIG_QUIET, "true", GW_CONFIG_SITE, 1, NULL), GW_OK);
    assert_int_equal(gw_config_set(config, GW_CONFIG_ADD_TO_HISTORY, "false", GW_CONFIG_SITE, 1, NULL), GW_OK);
    assert_int_equal(parse(&fields, &index, &err, WORDS((char[]){"--memory=5"})), GW_OK);
    assert_true(fields.quiet && fields.no_history);
    assert_int_equal(fields.limit_bytes, 7);
    assert_int_equal(config->value[GW_CONFIG_MEMORY].number, 5);
    assert_int_equal(config->value[GW_CONFIG_MEMORY].source, GW_CONFIG_OPTION);
    assert_int_equal(parse(&fields, &index, &err, WORDS((char[]){"--record-limit=9"})), GW_OK);
    assert_int_equal(fields.limit_bytes, 9);
    /* the options of another command are its own */
    assert_int_equal(parse(&fields, &index, &err, (char *[]){(char[]){"who"}, (char[]){"--record-limit=9"}, NULL}),
                     GW_OK);
    assert_false(fields.quiet || fields.no_history);
    gw_config_free(config);
}

GW_TEST_MAIN(NULL, NULL)
