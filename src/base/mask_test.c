/* Which names suggest secrets, and that their values are masked wherever they appear. */
#include "gw_mask.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void names_are_judged_by_their_words(void **state)
{
    (void)state;
    static const char *const secret[] = {
        "--token",   "HF_TOKEN",    "--api-key",       "WANDB_API_KEY",         "apiKey",
        "SLURM_JWT", "db_password", "--client-secret", "AWS_SECRET_ACCESS_KEY", "--key-file"};
    static const char *const open[] = {"--tokenizer", "--max-tokens",         "--keep", "--keyboard",
                                       "--lr",        "CUDA_VISIBLE_DEVICES", "",       "---"};
    for (size_t i = 0; i < sizeof secret / sizeof secret[0]; i++)
        if (!gw_name_is_secret(secret[i]))
            fail_msg("%s is shown", secret[i]);
    for (size_t i = 0; i < sizeof open / sizeof open[0]; i++)
        if (gw_name_is_secret(open[i]))
            fail_msg("%s is hidden", open[i]);
}

static void check(const char *before, const char *argument, const char *wanted)
{
    char *argv[] = {(char *)"program", (char *)(uintptr_t)before, (char *)(uintptr_t)argument, NULL};
    gw_text text = {0};
    gw_mask_argument(&text, argv, 2);
    assert_string_equal(gw_text_str(&text), wanted);
    gw_text_free(&text);
}

static void values_are_masked(void **state)
{
    (void)state;
    check("x", "--token=abc", "--token=***");
    check("x", "HF_TOKEN=abc", "HF_TOKEN=***");
    check("--token", "abc", "***");
    check("--token", "--verbose", "--verbose");
    check("--token=abc", "data", "data");
    check("--lr", "0.1", "0.1");
    check("x", "https://user:pw@host/a", "https://user:***@host/a");
    check("x", "https://host/a:b@c", "https://host/a:b@c");
    check("x", "s3://bucket/key=1", "s3://bucket/key=***");
    check("-c", "import os; key = 1", "import os; key = 1");
}

static void the_program_itself_is_shown(void **state)
{
    (void)state;
    char *argv[] = {(char *)"/bin/token", (char *)"file", NULL};
    gw_text text = {0};
    gw_mask_argument(&text, argv, 1);
    assert_string_equal(gw_text_str(&text), "file");
    gw_text_free(&text);
}

static void only_listed_variables_are_recorded(void **state)
{
    (void)state;
    assert_true(gw_environment_is_recorded("CUDA_VISIBLE_DEVICES"));
    assert_true(gw_environment_is_recorded("PYTORCH_CUDA_ALLOC_CONF"));
    assert_true(gw_environment_is_recorded("RANK"));
    assert_false(gw_environment_is_recorded("RANKING"));
    assert_false(gw_environment_is_recorded("HOME"));
    assert_false(gw_environment_is_recorded("AWS_SECRET_ACCESS_KEY"));
    assert_false(gw_environment_is_recorded(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_judged_by_their_words),
        cmocka_unit_test(values_are_masked),
        cmocka_unit_test(the_program_itself_is_shown),
        cmocka_unit_test(only_listed_variables_are_recorded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
