/* Tests placeholders: which commands they make, and which mistakes are named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gw_fit_search.h"

#include <string.h>

#define WORDS(...) ((char *[]){__VA_ARGS__, NULL})
#define W(text)    ((char[]){text})

static void placeholders_are_replaced(void **state)
{
    (void)state;
    const char *values[] = {"precision=fp32,bf16", "opt=sgd,adam,lion"};
    gw_fit_plan plan;
    char **words = WORDS(W("train"), W("-b{batch}x{batch}"), W("--o={opt}"), W("{precision}"), W("{{batch}}{"),
                         W("{\"lr\": 1, \"b\": {batch}}"), W("{}"), W(""));
    assert_int_equal(gw_fit_plan_make(words, values, 2, &plan, NULL), GW_OK);
    assert_int_equal(plan.combination_count, 6);
    char **command = gw_fit_plan_command(&plan, 4, 283);
    const char *wanted[] = {"train", "-b283x283", "--o=adam", "bf16", "{batch}{", "{\"lr\": 1, \"b\": 283}", "{}", ""};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        assert_string_equal(command[i], wanted[i]);
    assert_null(command[8]);
    gw_fit_command_free(command);
    gw_fit_plan_free(&plan);
}

static void every_combination_is_different(void **state)
{
    (void)state;
    const char *values[] = {"a=1,2,3", "b=x,y", "c=p,q"};
    gw_fit_plan plan;
    bool seen[12] = {0};
    assert_int_equal(gw_fit_plan_make(WORDS(W("{batch}{a}{b}{c}")), values, 3, &plan, NULL), GW_OK);
    assert_int_equal(plan.combination_count, 12);
    for (size_t i = 0; i < 12; i++) {
        int a = gw_fit_plan_value(&plan, i, 0)[0] - '1', b = gw_fit_plan_value(&plan, i, 1)[0] - 'x';
        int c = gw_fit_plan_value(&plan, i, 2)[0] - 'p';
        assert_false(seen[a * 4 + b * 2 + c]);
        seen[a * 4 + b * 2 + c] = true;
    }
    gw_fit_plan_free(&plan);
}

static void check_mistake(char **words, const char *first, const char *second, const char *says)
{
    const char *values[] = {first, second};
    gw_fit_plan plan;
    gw_error err = {0};
    size_t count = first == NULL ? 0 : second == NULL ? 1 : 2;
    assert_int_equal(gw_fit_plan_make(words, values, count, &plan, &err), GW_USAGE);
    if (strstr(err.text, says) == NULL)
        fail_msg("'%s' does not say '%s'", err.text, says);
    gw_fit_plan_free(&plan);
}

static void mistakes_are_named(void **state)
{
    (void)state;
    char **words = WORDS(W("t"), W("{batch}"), W("{p}"));
    check_mistake(WORDS(W("t"), W("--batch"), W("8")), NULL, NULL, "does not contain {batch}");
    check_mistake(WORDS(W("{{batch}}")), NULL, NULL, "does not contain {batch}");
    check_mistake(words, NULL, NULL, "{p} has no values");
    check_mistake(words, "q=1", NULL, "does not contain {q}");
    check_mistake(words, "p", NULL, "must be a name and its values");
    check_mistake(words, "=1", NULL, "must be a name and its values");
    check_mistake(words, "p=", NULL, "a value is empty");
    check_mistake(words, "p=1,,2", NULL, "a value is empty");
    check_mistake(words, "p=1,", NULL, "a value is empty");
    check_mistake(words, "p=1", "p=2", "has values already");
    check_mistake(words, "batch=1,2", NULL, "is what is searched");
    check_mistake(words, "p=1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7,8,9,0,1,2,3", NULL, "more than 32");
    check_mistake(WORDS(W("{batch}{a}{b}")), "a=1,2,3,4,5,6,7,8,9", "b=1,2,3,4,5,6,7,8", "more than 64 combinations");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(placeholders_are_replaced),
        cmocka_unit_test(every_combination_is_different),
        cmocka_unit_test(mistakes_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
