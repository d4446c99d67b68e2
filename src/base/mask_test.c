/* Test which names suggest a secret, and that the values of such names are masked in arguments and text. */
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
        "--token",       "HF_TOKEN",    "--api-key",     "WANDB_API_KEY",   "apiKey",
        "SLURM_JWT",     "db_password", "--pass",        "--auth",          "DB_PASS",
        "REGISTRY_AUTH", "GITHUB_PAT",  "AWS_CRED",      "gcp_creds",       "--pw",
        "signature",     "sig",         "Authorization", "--client-secret", "AWS_SECRET_ACCESS_KEY",
        "--key-file"};
    static const char *const open[] = {
        "--tokenizer", "--max-tokens", "--keep", "--keyboard",           "--compass", "--path",   "--author",
        "--bypass",    "--design",     "--lr",   "CUDA_VISIBLE_DEVICES", "--pattern", "--signal", "",
        "---"};
    for (size_t i = 0; i < sizeof secret / sizeof secret[0]; i++)
        if (!gw_name_is_secret(secret[i]))
            fail_msg("%s is shown", secret[i]);
    for (size_t i = 0; i < sizeof open / sizeof open[0]; i++)
        if (gw_name_is_secret(open[i]))
            fail_msg("%s is hidden", open[i]);
}

typedef struct argument_case {
    const char *program, *before, *argument, *wanted;
} argument_case;

static void arguments_are_masked(void **state)
{
    (void)state;
    static const argument_case cases[] = {
        {"python", "x", "--token=abc", "--token=***"},
        {"python", "x", "HF_TOKEN=abc", "HF_TOKEN=***"},
        {"python", "--token", "abc", "***"},
        {"python", "--token", "--verbose", "--verbose"},
        {"python", "--token=abc", "data", "data"},
        {"python", "--password", "-abc", "***"},
        {"python", "--password", "--verbose", "--verbose"},
        {"python", "--pass", "abc", "***"},
        {"python", "--auth", "user:abc", "***"},
        {"python", "--lr", "0.1", "0.1"},
        {"python", "--db_pass", "x1", "***"},
        {"mysql", "x", "-pabc", "-p***"},
        {"sshpass", "x", "-pabc", "-p***"},
        {"python", "x", "-pS3cr3tPw9x", "-p***"},
        {"ffmpeg", "x", "-preset", "-preset"},
        {"python", "x", "-p8080", "-p8080"},
        {"python", "x", "-p", "-p"},
        /* URLs */
        {"x", "x", "https://user:pw@host/a", "https://user:***@host/a"},
        {"x", "x", "https://user:p@w@host/a", "https://user:***@host/a"},
        {"x", "x", "https://user:p/w@host/a", "https://user:***@host/a"},
        {"x", "x", "http://a:b@c/,http://d:e@f/", "http://a:***@c/,http://d:***@f/"},
        {"x", "x", "https://host/a:b@c", "https://host/a:b@c"},
        {"x", "x", "https://host:8080/u@d", "https://host:8080/u@d"},
        {"x", "x", "tcp://10.0.0.1:29500", "tcp://10.0.0.1:29500"},
        {"x", "x", "s3://bucket/key=1", "s3://bucket/key=***"},
        {"x", "x", "https://h/p?a=1&token=abc&b=2", "https://h/p?a=1&token=***&b=2"},
        {"x", "x", "https://h/p?sig=abc%3D&se=2026", "https://h/p?sig=***&se=2026"},
        {"x", "x", "https://h/?X-Amz-Signature=0123&x=1", "https://h/?X-Amz-Signature=***&x=1"},
        /* headers, JSON, commands */
        {"curl", "-H", "Authorization: Bearer abc.def", "Authorization: Bearer ***"},
        {"curl", "-H", "Authorization: Basic dXNlcjpwdw==", "Authorization: Basic ***"},
        {"x", "-d", "{\"api_key\": \"abc\", \"n\": 3}", "{\"api_key\": \"***\", \"n\": 3}"},
        {"x", "-d", "{'password':'a,b'}", "{'password':'***'}"},
        {"sh", "-c", "export TOKEN=abc; run --lr 1", "export TOKEN=***; run --lr 1"},
        {"sh", "-c", "DB_PASS='a b' run", "DB_PASS='***' run"},
        {"python", "-c", "import os; key = 1", "import os; key = 1"},
        {"python", "-c", "tokenizer = load(max_tokens=5)", "tokenizer = load(max_tokens=5)"},
        {"x", "x", "ghp_16C7e42F292c6912E7710c838347Ae178B4a", "***"},
        {"x", "x", "model-00001-of-00005.safetensors", "model-00001-of-00005.safetensors"},
        {"x", "x", "", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *argv[] = {(char *)(uintptr_t)cases[i].program, (char *)(uintptr_t)cases[i].before,
                        (char *)(uintptr_t)cases[i].argument, NULL};
        gw_text text = {0};
        gw_mask_argument(&text, argv, 2);
        if (strcmp(gw_text_str(&text), cases[i].wanted) != 0)
            fail_msg("%s %s %s: %s", cases[i].program, cases[i].before, cases[i].argument, gw_text_str(&text));
        gw_text_free(&text);
    }
}

static void text_is_masked(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        /* masked */
        {"401 for token=hf_AbCdEfGh12345678XyZ", "401 for token=***"},
        {"ValueError: invalid api key: 9f8e7d6c5b4a39281706", "ValueError: invalid api key: ***"},
        {"headers={'Authorization': 'Bearer a1b2c3d4e5f6'}", "headers={'Authorization': 'Bearer ***'}"},
        {"connect(password='hunter2')", "connect(password='***')"},
        {"OSError: https://me:abc@host/repo.git", "OSError: https://me:***@host/repo.git"},
        {"GET /x?X-Amz-Signature=a8f3k2m9x7q1 403", "GET /x?X-Amz-Signature=*** 403"},
        {"login hf_qWeRtYuIoP1234567890aSdF failed", "login *** failed"},
        /* not masked */
        {"KeyError: 'encoder.layer4.0.conv1.weight'", "KeyError: 'encoder.layer4.0.conv1.weight'"},
        {"unexpected key: layer4.0.conv1.weight", "unexpected key: layer4.0.conv1.weight"},
        {"Missing key(s) in state_dict: \"fc.bias\"", "Missing key(s) in state_dict: \"fc.bias\""},
        {"pad token: <pad>, max_tokens=512", "pad token: <pad>, max_tokens=512"},
        {"password: required", "password: required"},
        {"key = 0x7f0012ab34cd", "key = 0x7f0012ab34cd"},
        {"cache key: resnet50_v2", "cache key: resnet50_v2"},
        {"token=None", "token=None"},
        {"RuntimeError: CUDA error: an illegal memory access", "RuntimeError: CUDA error: an illegal memory access"},
        {"store tcp://10.0.0.1:29500/x@y", "store tcp://10.0.0.1:29500/x@y"},
        {"author: A1b2C3d4E5", "author: A1b2C3d4E5"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gw_text text = {0};
        gw_mask_text(&text, cases[i][0], strlen(cases[i][0]));
        if (strcmp(gw_text_str(&text), cases[i][1]) != 0)
            fail_msg("%s: %s", cases[i][0], gw_text_str(&text));
        gw_text_free(&text);
    }
}

/* Truncate the text at every byte. The masker must not read past the end, and masking the result again must change
 * nothing. */
static void masking_twice_changes_nothing(void **state)
{
    (void)state;
    static const char whole[] =
        "a://b:c@d \"key\": \"Ab1Cd2Ef3\" Authorization: Basic x1y2z3w4 pass= 'x' \\\"token\\\": \\\"q";
    for (size_t bytes = 0; bytes < sizeof whole; bytes++) {
        char *exact = malloc(bytes + 1);
        assert_non_null(exact);
        memcpy(exact, whole, bytes);
        gw_text once = {0}, twice = {0};
        gw_mask_text(&once, exact, bytes);
        gw_mask_text(&twice, gw_text_str(&once), once.bytes);
        assert_string_equal(gw_text_str(&once), gw_text_str(&twice));
        gw_text_free(&once);
        gw_text_free(&twice);
        free(exact);
    }
}

static void the_program_itself_is_shown(void **state)
{
    (void)state;
    char *argv[] = {(char *)(uintptr_t) "/bin/token", (char *)(uintptr_t) "file", NULL};
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
        cmocka_unit_test(arguments_are_masked),
        cmocka_unit_test(text_is_masked),
        cmocka_unit_test(masking_twice_changes_nothing),
        cmocka_unit_test(the_program_itself_is_shown),
        cmocka_unit_test(only_listed_variables_are_recorded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
