/* Tests the rules of --on: parsing them, finding options in command lines, and changing them. */
#include "gw_unit_test.h"

#include "gwi_change.h"

#include <stdio.h>
#include <string.h>

static gw_status parse_one(const char *text, gwi_rules *ret_rules, gw_error *err)
{
    gw_option_list list = {.item = {text}, .count = 1};
    return gwi_rules_parse(&list, ret_rules, err);
}

/* Split `line` at blanks into a command. */
static gwi_command command_of(const char *line)
{
    char text[512], *word[32] = {NULL}, *rest = NULL;
    size_t count = 0;
    gwi_command command;
    snprintf(text, sizeof text, "%s", line);
    for (char *at = strtok_r(text, " ", &rest); at != NULL; at = strtok_r(NULL, " ", &rest))
        word[count++] = at;
    assert_true(gwi_command_copy(word, &command));
    return command;
}

static void expect_command(const gwi_command *command, const char *line)
{
    gw_text text = {0};
    for (size_t i = 0; i < command->count; i++)
        gw_text_addf(&text, "%s%s", i == 0 ? "" : " ", command->argv[i]);
    assert_string_equal(gw_text_str(&text), line);
    assert_null(command->argv[command->count]);
    gw_text_free(&text);
}

GW_TEST(wrong_rules_are_refused_with_a_reason)
{
    static const struct {
        const char *rule, *reason;
    } wrong[] = {{"batch=/2", "expected CAUSE:ACTION"},
                 {":batch=/2", "expected CAUSE:ACTION"},
                 {"gpu-oom-capacty:batch=/2", "did you mean gpu-oom-capacity"},
                 {"gpu-o:batch=/2", "unknown cause gpu-o"},
                 {"input-bound:batch=/2", "unknown cause"}, /* only advice: no failure has this cause */
                 {"gpu-oom-capacity:", "expected NAME=/2"},
                 {"gpu-oom-capacity:batch", "expected NAME=/2"},
                 {"gpu-oom-capacity:=/2", "expected NAME=/2"},
                 {"gpu-oom-capacity:env:=1", "expected NAME=/2"},
                 {"gpu-oom-capacity:batch=/1", "at least 2"},
                 {"gpu-oom-capacity:batch=/x", "at least 2"},
                 {"gpu-oom-capacity:batch=/-2", "at least 2"},
                 {"gpu-oom-capacity:batch=/", "at least 2"}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        gwi_rules rules;
        gw_error err = {""};
        assert_int_equal(parse_one(wrong[i].rule, &rules, &err), GW_USAGE);
        if (strstr(err.text, wrong[i].reason) == NULL)
            fail_msg("%s: %s", wrong[i].rule, err.text);
    }
}

GW_TEST(options_are_found_in_every_spelling)
{
    static const struct {
        const char *name, *before, *after; /* after NULL: there is no such option */
    } cases[] = {
        {"batch", "t --batch 64", "t --batch 32"},
        {"batch", "t --batch=64 -x", "t --batch=32 -x"},
        {"batch", "t --batch-size 64", "t --batch-size 32"},
        {"batch", "t --batch_size=64", "t --batch_size=32"},
        {"batch-size", "t --batch_size 64", "t --batch_size 32"},
        {"batch_size", "t --batch-size 64", "t --batch-size 32"},
        {"batch", "t batch_size=64", "t batch_size=32"},
        {"batch", "t train.batch_size=64", "t train.batch_size=32"},
        {"batch", "t --data.batch 64", "t --data.batch 32"},
        {"train.batch", "t train.batch_size=64 eval.batch_size=8", "t train.batch_size=32 eval.batch_size=8"},
        {"batch", "t -batch 64", "t -batch 32"},
        {"b", "t -b 64", "t -b 32"},
        {"batch", "t --batchsize 64", "t --batchsize 32"},
        {"batch", "t --batch-size 64 --batch 16", "t --batch-size 64 --batch 8"}, /* the exact name first */
        {"batch", "t --batch 64 --batch 16", "t --batch 64 --batch 8"},           /* programs use the last one */
        {"batch", "t --batch 1", NULL},                                           /* nothing left */
        {"batch", "t --batch 0", NULL},
        {"batch", "t --batch 3", "t --batch 1"},
        {"batch", "t --eval-batch 64", NULL},
        {"batch", "t --batches 64", NULL},
        {"batch", "t batch 64", NULL},
        {"batch", "t --batch", NULL},
        {"batch", "batch=64", NULL}, /* the program's own name */
        {"batch", "t ---batch 64", NULL},
        {"per_device_train_batch_size", "t --per_device_train_batch_size 8", "t --per_device_train_batch_size 4"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[128];
        gwi_rules rules;
        gw_text change = {0}, why_not = {0};
        gwi_command command = command_of(cases[i].before);
        snprintf(text, sizeof text, "gpu-oom-capacity:%s=/2", cases[i].name);
        assert_int_equal(parse_one(text, &rules, NULL), GW_OK);
        bool changed = gwi_rules_apply(&rules, "gpu-oom-capacity", &command, &change, &why_not);
        assert_int_equal(changed, cases[i].after != NULL);
        expect_command(&command, changed ? cases[i].after : cases[i].before);
        assert_int_equal(change.bytes > 0, changed);
        gwi_command_free(&command);
        gw_text_free(&change);
        gw_text_free(&why_not);
    }
}

GW_TEST(changes_are_described)
{
    gw_option_list list = {.item = {"gpu-oom-capacity:batch=/4", "gpu-oom-capacity:mode=small",
                                    "gpu-oom-capacity:env:GW_CHANGE_TEST=1", "illegal-address:batch=/2"},
                           .count = 4};
    gwi_rules rules;
    gw_text change = {0}, why_not = {0};
    gwi_command command = command_of("t --batch=64 --mode large");
    unsetenv("GW_CHANGE_TEST");
    assert_int_equal(gwi_rules_parse(&list, &rules, NULL), GW_OK);
    assert_int_equal(gwi_rules_check(&rules, &command, NULL), GW_OK);
    assert_true(gwi_rules_apply(&rules, "gpu-oom-capacity", &command, &change, &why_not));
    assert_string_equal(gw_text_str(&change), "--batch=16 instead of 64, --mode small instead of large, "
                                              "GW_CHANGE_TEST=1 in the environment");
    expect_command(&command, "t --batch=16 --mode small");
    assert_string_equal(getenv("GW_CHANGE_TEST"), "1");
    gw_text_clear(&change);
    assert_false(gwi_rules_apply(&rules, "host-oom-kill", &command, &change, &why_not));
    assert_int_equal(why_not.bytes, 0); /* no rule is for this cause */
    gwi_command_free(&command);
    gw_text_free(&change);
    gw_text_free(&why_not);
}

GW_TEST(a_value_that_is_already_set_is_no_change)
{
    gw_option_list list = {.item = {"gpu-oom:mode=small", "gpu-oom:env:GW_CHANGE_TEST=2"}, .count = 2};
    gwi_rules rules;
    gw_text change = {0}, why_not = {0};
    gwi_command command = command_of("t --mode small");
    setenv("GW_CHANGE_TEST", "2", 1);
    assert_int_equal(gwi_rules_parse(&list, &rules, NULL), GW_OK);
    assert_false(gwi_rules_apply(&rules, "gpu-oom-leak", &command, &change, &why_not)); /* gpu-oom: a group */
    assert_non_null(strstr(gw_text_str(&why_not), "mode is already small"));
    assert_int_equal(change.bytes, 0);
    gwi_command_free(&command);
    gw_text_free(&why_not);
}

GW_TEST(secrets_are_masked)
{
    gwi_rules rules;
    gw_text change = {0}, why_not = {0};
    gwi_command command = command_of("t");
    assert_int_equal(parse_one("gpu-oom:env:GW_API_TOKEN=abc", &rules, NULL), GW_OK);
    assert_true(gwi_rules_apply(&rules, "gpu-oom-leak", &command, &change, &why_not));
    assert_string_equal(gw_text_str(&change), "GW_API_TOKEN=*** in the environment");
    gwi_command_free(&command);
    gw_text_free(&change);
}

GW_TEST(missing_options_are_found_before_the_start)
{
    gwi_rules rules;
    gw_error err;
    gwi_command command = command_of("sh -c train --batch auto");
    assert_int_equal(parse_one("gpu-oom:width=/2", &rules, NULL), GW_OK);
    assert_int_equal(gwi_rules_check(&rules, &command, &err), GW_USAGE);
    assert_non_null(strstr(err.text, "the command has no option width or width-size"));
    assert_int_equal(parse_one("gpu-oom:batch=/2", &rules, NULL), GW_OK);
    assert_int_equal(gwi_rules_check(&rules, &command, &err), GW_USAGE);
    assert_non_null(strstr(err.text, "the value auto of batch is not a number"));
    assert_int_equal(parse_one("gpu-oom:batch=8", &rules, NULL), GW_OK);
    assert_int_equal(gwi_rules_check(&rules, &command, &err), GW_OK);
    assert_int_equal(parse_one("gpu-oom:env:WIDTH=8", &rules, NULL), GW_OK);
    assert_int_equal(gwi_rules_check(&rules, &command, &err), GW_OK);
    gwi_command_free(&command);
}

/* Tests the search for cures on recordings of real runs. */

static bool find(const char *fixture, const char *cause, gwi_cure *ret_cure)
{
    char path[512];
    gw_verdict verdict = {.status = GW_VERDICT_FAULT, .cause = cause};
    snprintf(path, sizeof path, "%s/%s.gpuwhy", GW_TEST_REAL, fixture);
    return gwi_cure_find(path, &verdict, ret_cure);
}

GW_TEST(fragmented_memory_has_a_cure)
{
    gwi_cure cure = {0};
    assert_true(find("fragmented", "gpu-oom-fragmentation", &cure));
    assert_string_equal(cure.name, "PYTORCH_CUDA_ALLOC_CONF");
    assert_string_equal(cure.value, "expandable_segments:True");
    /* a real run with this setting peaked at 3600 MiB */
    assert_true(cure.peak_bytes >= (uint64_t)3500 << 20 && cure.peak_bytes <= (uint64_t)3700 << 20);
    assert_true(cure.peak_bytes_before > cure.peak_bytes);
}

GW_TEST(nothing_else_has_one)
{
    gwi_cure cure = {0};
    assert_false(find("fragmented", "gpu-oom-leak", &cure)); /* a leak fills any card */
    assert_false(find("fragmented", NULL, &cure));
    assert_false(find("fragmented_expandable", "gpu-oom-fragmentation", &cure)); /* nothing was refused */
    assert_false(find("capacity_batch", "gpu-oom-capacity", &cure));
    assert_false(find("no_such_recording", "gpu-oom-capacity", &cure));
}

GW_TEST_MAIN(NULL, NULL)
