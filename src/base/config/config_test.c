/* Tests the keys, the files and the order of the sources. */
#include "gw_test_folder.h"
#include "gwi_config.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static gw_config config;

static int set_up(void **state)
{
    gw_config_init(&config);
    return gw_test_folder_make(state);
}

static int tear_down(void **state)
{
    gw_config_free(&config);
    return gw_test_folder_remove(state);
}

static gw_status read_text(gw_config_source source, const char *text)
{
    return gw_config_read_text(&config, "FILE", source, text, strlen(text));
}

static void put_file(const char *text, mode_t mode)
{
    gw_test_write(gw_test_file, text, strlen(text));
    assert_int_equal(chmod(gw_test_file, mode), 0);
}

GW_TEST_WITH(standard_values_are_valid, set_up, tear_down)
{
    for (gw_config_id id = 0; id < GW_CONFIG_COUNT; id++) {
        const char *standard = gw_config_keys[id].standard;
        if (standard[0] != '\0' || gw_config_keys[id].type == GW_CONFIG_TYPE_NAMES)
            assert_int_equal(gw_config_set(&config, id, standard, GW_CONFIG_USER, 0, NULL), GW_OK);
    }
    assert_int_equal(config.value[GW_CONFIG_KEEP_BYTES].number, UINT64_C(8) << 30);
}

GW_TEST_WITH(variables_are_unique, set_up, tear_down)
{
    char a[GW_CONFIG_VARIABLE_MAX], b[GW_CONFIG_VARIABLE_MAX];
    assert_string_equal(gw_config_variable(GW_CONFIG_KEEP_DAYS, a), "GPUWHY_KEEP_DAYS");
    for (gw_config_id i = 0; i < GW_CONFIG_COUNT; i++)
        for (gw_config_id k = i + 1; k < GW_CONFIG_COUNT; k++)
            assert_string_not_equal(gw_config_variable(i, a), gw_config_variable(k, b));
}

GW_TEST_WITH(all_types_are_read, set_up, tear_down)
{
    assert_int_equal(read_text(GW_CONFIG_USER,
                               "/* one */ {\"off\": true, // two\n"
                               "\"folder\": \"~/runs\", \"hang_after\": 0.5, \"color\": \"never\",\n"
                               "\"keep\": {\"days\": 7, \"bytes\": 1024, \"recordings\": 0},\n"
                               "\"record\": {\"environment\": [\"MODE\", \"MY_*\"]}, \"memory\": \"16GiB\",\n"
                               "\"watch\": {\"alarm_at\": \"80%\"}} /* three */\n// four"),
                     GW_OK);
    const gw_config_value *value = config.value;
    assert_int_equal(value[GW_CONFIG_OFF].number, 1);
    assert_string_equal(value[GW_CONFIG_FOLDER].text, "~/runs");
    assert_string_equal(value[GW_CONFIG_HANG_AFTER].text, "0.5");
    assert_int_equal(value[GW_CONFIG_KEEP_DAYS].number, 7);
    assert_int_equal(value[GW_CONFIG_KEEP_DAYS].line, 3);
    assert_int_equal(value[GW_CONFIG_KEEP_BYTES].number, 1024);
    assert_string_equal(value[GW_CONFIG_RECORD_ENVIRONMENT].text, "MODE,MY_*");
    assert_int_equal(value[GW_CONFIG_MEMORY].number, UINT64_C(16) << 30);
    assert_int_equal(value[GW_CONFIG_WATCH_ALARM_AT].line, 5);
    assert_int_equal(value[GW_CONFIG_QUIET].source, GW_CONFIG_BUILT_IN);
}

GW_TEST_WITH(errors_have_their_place, set_up, tear_down)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "FILE:1: unexpected end of data\n"},
        {"{\n\"quiet\": true", "FILE:2: unexpected end of data\n"},
        {"[]", "FILE: expected an object"},
        {"{}\n x", "FILE:2: unexpected text after the object\n"},
        {"{\n\"keep\": {\n\"days\": x}}", "FILE:3: "},
        {"{\n\"keep\": {\"days\": -1}}", "FILE:2: keep.days: expected a whole number"},
        {"{\"keep\": {\"days\": 1.5}}", "FILE:1: keep.days: expected"},
        {"{\"keep\": {\"days\": \"7\"}}", "FILE:1: keep.days: expected"},
        {"{\"keep\": {\"days\": null}}", "FILE:1: keep.days: expected"},
        {"{\"keep\":\n5}", "FILE:1: keep: expected an object"},
        {"{\n\n\"keeps\": {}}", "FILE:3: unknown key \"keeps\"; did you mean \"keep\"?"},
        {"{\"keep\": {\"day\": 1}}", "FILE:1: unknown key \"keep.day\"; did you mean \"keep.days\"?"},
        {"{\"zzzzzzzzzzzzzzz\": 1}", "FILE:1: unknown key \"zzzzzzzzzzzzzzz\"\n"},
        {"{\"quiet\": 1}", "quiet: expected true or false"},
        {"{\"quiet\": \"true\"}", "quiet: expected true or false"},
        {"{\"memory\": \"lots\"}", "memory: expected a size"},
        {"{\"memory\": \"1\\u0000\"}", "memory: expected a size"},
        {"{\"hang_after\": 0}", "hang_after: expected"},
        {"{\"hang_after\": \"nan\"}", "hang_after: expected"},
        {"{\"color\": \"red\"}", "color: expected"},
        {"{\"folder\": \"runs\"}", "folder: expected an absolute path"},
        {"{\"folder\": \"/a\\nb\"}", "folder: expected an absolute path"},
        {"{\"watch\": {\"alarm_at\": \"0%\"}}", "watch.alarm_at: expected"},
        {"{\"record\": {\"environment\": [\"A,B\"]}}", "record.environment: expected"},
        {"{\"record\": {\"environment\": [5]}}", "record.environment: expected"},
        {"{\"record\": {\"environment\": \"*\"}}", "record.environment: expected"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gw_config_free(&config);
        assert_int_equal(read_text(GW_CONFIG_USER, cases[i].text), GW_USAGE);
        const char *errors = gw_text_str(&config.errors);
        if (strstr(errors, cases[i].says) == NULL)
            fail_msg("%s: \"%s\" lacks \"%s\"", cases[i].text, errors, cases[i].says);
        assert_int_equal(config.error_count, 1);
    }
}

GW_TEST_WITH(other_keys_count_beside_an_error, set_up, tear_down)
{
    assert_int_equal(read_text(GW_CONFIG_USER, "{\"memory\": \"lots\", \"quiet\": true, \"x\": 1, \"keep.days\": 3}"),
                     GW_USAGE);
    assert_int_equal(config.error_count, 2);
    assert_int_equal(config.value[GW_CONFIG_QUIET].number, 1);
    assert_int_equal(config.value[GW_CONFIG_KEEP_DAYS].number, 3);
    assert_int_equal(config.value[GW_CONFIG_MEMORY].source, GW_CONFIG_BUILT_IN);
}

GW_TEST_WITH(many_errors_are_cut, set_up, tear_down)
{
    gw_text text = {0};
    gw_text_add_str(&text, "{\"x0\": 1");
    for (int i = 1; i < 100; i++)
        gw_text_addf(&text, ", \"x%d\": 1", i);
    gw_text_add_str(&text, "}");
    assert_int_equal(read_text(GW_CONFIG_USER, gw_text_str(&text)), GW_USAGE);
    gw_text_free(&text);
    assert_int_equal(config.error_count, 100);
    assert_non_null(strstr(gw_text_str(&config.errors), "further errors"));
    assert_true(config.errors.bytes < 4096);
}

GW_TEST_WITH(a_later_source_wins, set_up, tear_down)
{
    gw_config_value *value = &config.value[GW_CONFIG_KEEP_DAYS];
    gw_text place = {0};
    assert_int_equal(read_text(GW_CONFIG_USER, "{\"keep\": {\"days\": 2}}"), GW_OK);
    assert_int_equal(read_text(GW_CONFIG_SITE, "{\"keep\": {\"days\": 1}}"), GW_OK);
    assert_int_equal(value->number, 2);
    setenv("GPUWHY_KEEP_DAYS", "3", 1);
    gw_config_read_environment(&config);
    assert_int_equal(value->number, 3);
    gw_config_add_place(&config, GW_CONFIG_KEEP_DAYS, &place);
    assert_string_equal(gw_text_str(&place), "GPUWHY_KEEP_DAYS");
    gw_text_free(&place);
    assert_int_equal(gw_config_set(&config, GW_CONFIG_KEEP_DAYS, "4", GW_CONFIG_OPTION, 0, NULL), GW_OK);
    gw_config_read_environment(&config);
    assert_int_equal(value->number, 4);
    unsetenv("GPUWHY_KEEP_DAYS");
}

GW_TEST_WITH(a_wrong_variable_does_not_count, set_up, tear_down)
{
    assert_int_equal(read_text(GW_CONFIG_USER, "{\"memory\": 5}"), GW_OK);
    setenv("GPUWHY_MEMORY", "lots", 1);
    setenv("GPUWHY_QUIET", "", 1);
    setenv("GPUWHY_OFF", "on", 1);
    gw_config_read_environment(&config);
    assert_int_equal(config.error_count, 1);
    assert_non_null(strstr(gw_text_str(&config.errors), "GPUWHY_MEMORY=lots: expected a size"));
    assert_int_equal(config.value[GW_CONFIG_MEMORY].number, 5);
    assert_int_equal(config.value[GW_CONFIG_QUIET].source, GW_CONFIG_BUILT_IN);
    assert_int_equal(config.value[GW_CONFIG_OFF].number, 1);
    unsetenv("GPUWHY_MEMORY");
    unsetenv("GPUWHY_QUIET");
    unsetenv("GPUWHY_OFF");
}

GW_TEST_WITH(the_limit_of_an_outer_run_is_not_the_users, set_up, tear_down)
{
    setenv("GPUWHY_MEMORY", "1024", 1);
    setenv("GPUWHY_RUN_DIR", "/run/x", 1);
    gw_config_read_environment(&config);
    assert_int_equal(config.value[GW_CONFIG_MEMORY].source, GW_CONFIG_BUILT_IN);
    unsetenv("GPUWHY_RUN_DIR");
    gw_config_read_environment(&config);
    assert_int_equal(config.value[GW_CONFIG_MEMORY].number, 1024);
    unsetenv("GPUWHY_MEMORY");
}

GW_TEST_WITH(files_of_others_are_refused, set_up, tear_down)
{
    assert_int_equal(gw_config_read(&config, gw_test_file, GW_CONFIG_USER, false), GW_MISSING);
    assert_int_equal(config.error_count, 0);
    put_file("{\"quiet\": true}", 0600);
    assert_int_equal(gw_config_read(&config, gw_test_file, GW_CONFIG_USER, false), GW_OK);
    gw_config_free(&config);
    put_file("{\"quiet\": true}", 0666);
    assert_int_equal(gw_config_read(&config, gw_test_file, GW_CONFIG_USER, false), GW_UNSUPPORTED);
    assert_non_null(strstr(gw_text_str(&config.errors), "other users may write to it (mode 666)"));
    assert_int_equal(config.value[GW_CONFIG_QUIET].number, 0);
    assert_int_equal(gw_config_read(&config, gw_test_file, GW_CONFIG_USER, true), GW_OK);
    gw_config_free(&config);
    put_file("{\"quiet\": true}", 0600);
    assert_int_equal(chmod(gw_test_folder, 0777), 0);
    assert_int_equal(gw_config_read(&config, gw_test_file, GW_CONFIG_USER, false), GW_UNSUPPORTED);
    assert_non_null(strstr(gw_text_str(&config.errors), "may replace it"));
}

GW_TEST_WITH(the_site_file_is_roots, set_up, tear_down)
{
    put_file("{\"quiet\": true}", 0644);
    if (geteuid() == 0)
        assert_int_equal(chown(gw_test_file, 4711, 0), 0);
    assert_int_equal(gw_config_read(&config, gw_test_file, GW_CONFIG_SITE, false), GW_UNSUPPORTED);
    assert_non_null(strstr(gw_text_str(&config.errors), "not to root"));
    assert_int_equal(config.value[GW_CONFIG_QUIET].number, 0);
}

GW_TEST_WITH(no_file_that_is_none, set_up, tear_down)
{
    assert_int_equal(mkdir(gw_test_file, 0700), 0);
    assert_int_not_equal(gw_config_read(&config, gw_test_file, GW_CONFIG_USER, false), GW_OK);
    assert_int_equal(config.error_count, 1);
    rmdir(gw_test_file);
    FILE *file = fopen(gw_test_file, "w");
    assert_non_null(file);
    fprintf(file, "{}%70000s", "");
    fclose(file);
    assert_int_equal(gw_config_read(&config, gw_test_file, GW_CONFIG_USER, false), GW_USAGE);
    assert_non_null(strstr(gw_text_str(&config.errors), "larger than"));
}

GW_TEST_WITH(names_are_matched, set_up, tear_down)
{
    assert_true(gw_config_names_contain("A,MY_*,B", "MY_NAME"));
    assert_true(gw_config_names_contain("A,MY_*,B", "B"));
    assert_false(gw_config_names_contain("A,MY_*,B", "AB"));
    assert_false(gw_config_names_contain("A,MY_*,B", "MY"));
    assert_false(gw_config_names_contain("", ""));
    assert_false(gw_config_names_contain(NULL, "A"));
}

GW_TEST_WITH(options_belong_to_commands, set_up, tear_down)
{
    gw_config_id id;
    assert_true(gw_config_find_option("run", "--memory", &id));
    assert_int_equal(id, GW_CONFIG_MEMORY);
    assert_false(gw_config_find_option("rehearse", "--memory", &id));
    assert_false(gw_config_find_option("run", "--alarm-at", &id));
    assert_true(gw_config_find_option("watch", "--alarm-at", &id));
    assert_true(gw_config_find_option("who", "--color", &id));
}

GW_TEST_WITH(lines_are_found, set_up, tear_down)
{
    static const char text[] =
        "{\n\"a\": \"keep\", 'b'\n: [{\"keep\": {\"days\": 1}}],\n/* \"keep\": */ \"keep\" /* : */ :\n"
        "{\"q\\\"\": 1, // \"days\": 2\n\"days\": 3}}";
    size_t bytes = sizeof text - 1;
    assert_int_equal(gwi_config_line(text, bytes, "a"), 2);
    assert_int_equal(gwi_config_line(text, bytes, "b"), 2);
    assert_int_equal(gwi_config_line(text, bytes, "keep"), 4);
    assert_int_equal(gwi_config_line(text, bytes, "keep.days"), 6);
    assert_int_equal(gwi_config_line(text, bytes, "days"), 0);
    assert_int_equal(gwi_config_line(text, bytes, "kee"), 0);
    static const char odd[] = "[{\"days\": 1}, {\"keep\": 1, \"\": {\"days\": 2}}]",
                      empty[] = "{\"keep\": 1, \"\": {\"days\": 2}}";
    assert_int_equal(gwi_config_line(odd, sizeof odd - 1, "days"), 0);
    assert_int_equal(gwi_config_line(empty, sizeof empty - 1, "keep.days"), 0);
    static const char zeros[] = "{\"off\0\0\0\0\0\0\0\0\": 1}";
    assert_int_equal(gwi_config_line(zeros, sizeof zeros - 1, "off"), 0);
    for (size_t cut = 0; cut < bytes; cut++)
        (void)gwi_config_line(text, cut, "keep.days");
}

GW_TEST_MAIN(NULL, NULL)
