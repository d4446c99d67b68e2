/* Tests the parser of plans for --inject, the functions that a rule names, and its draws. */
#include "gw_inject.h"

#include "gw_api.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static gw_inject_plan plan_of(const char *text)
{
    gw_inject_plan plan;
    char reason[GW_INJECT_REASON_MAX] = "";
    if (!gw_inject_parse(text, &plan, reason))
        fail_msg("'%s' was rejected: %s", text, reason);
    return plan;
}

static bool names(const char *text, unsigned fn)
{
    gw_inject_plan plan = plan_of(text);
    return gw_inject_names(&plan.rule[0], fn);
}

static void a_rule_is_read(void **state)
{
    (void)state;
    gw_inject_plan plan =
        plan_of("oom@alloc:3,once;700@sync:5+,p=0.25,seed=7,after=1.5s,rank=2,process=python3.12;"
                "slow=50ms@cuMemcpyHtoD,process=3;lost@any,after=200us;CUDA_ERROR_NOT_PERMITTED@init");
    assert_int_equal(plan.count, 5);
    const gw_inject_rule *rule = plan.rule;
    assert_string_equal(rule[0].text, "oom@alloc:3,once");
    assert_int_equal(rule[0].result, 2);
    assert_true(rule[0].first == 3 && rule[0].last == 3 && rule[0].once && !rule[0].closes && rule[0].rank == -1);
    assert_true(rule[1].first == 5 && rule[1].last == UINT64_MAX && rule[1].closes && rule[1].has_chance);
    assert_true(rule[1].seed == 7 && rule[1].after_ns == 1500000000 && rule[1].rank == 2);
    assert_string_equal(rule[1].program, "python3.12");
    assert_true(rule[2].slow_ns == 50000000 && rule[2].result == 0 && rule[2].process == 3 && rule[2].first == 1);
    assert_string_equal(rule[2].function, "cuMemcpyHtoD");
    assert_true(rule[3].result == 999 && rule[3].closes && rule[3].after_ns == 200000);
    assert_int_equal(rule[4].result, 800);
}

static void bad_plans_have_a_reason(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", "empty"},
        {"oom@alloc;", "empty"},
        {"oom", "no '@'"},
        {"@alloc", "action"},
        {"oom@", "unknown calls"},
        {"oom@allocs", "unknown calls"},
        {"oom@cuMemAllocX", "unknown calls"},
        {"oom@cuMem", "unknown calls"},
        {"0@alloc", "1 to 999"},
        {"1000@alloc", "1 to 999"},
        {"700x@alloc", "1 to 999"},
        {"CUDA_SUCCESS@alloc", "action"},
        {"CUDA_ERROR_NONE@alloc", "action"},
        {"slow=0ms@copy", "time"},
        {"slow=5@copy", "time"},
        {"slow=.5s@copy", "time"},
        {"slow=1.s@copy", "time"},
        {"slow=9999999s@copy", "time"},
        {"oom@alloc:0", "number"},
        {"oom@alloc:", "number"},
        {"oom@alloc:+", "number"},
        {"oom@alloc:99999999999999999999", "number"},
        {"oom@alloc:3,p=1.5", "probability"},
        {"oom@alloc,p=", "probability"},
        {"oom@alloc,p=0.5x", "probability"},
        {"oom@alloc,seed=7", "needs p="},
        {"oom@alloc,p=1,seed=x", "number"},
        {"oom@alloc,rank=-1", "rank"},
        {"oom@alloc,process=0", "from 1"},
        {"oom@alloc,process=", "process"},
        {"oom@alloc,after=5", "time"},
        {"oom@alloc,sometimes", "condition"},
        {"oom@alloc,", "condition"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gw_inject_plan plan;
        char reason[GW_INJECT_REASON_MAX] = "";
        if (gw_inject_parse(cases[i][0], &plan, reason))
            fail_msg("'%s' was accepted", cases[i][0]);
        if (strstr(reason, cases[i][1]) == NULL)
            fail_msg("'%s': '%s' does not contain '%s'", cases[i][0], reason, cases[i][1]);
    }
}

static void long_plans_are_rejected(void **state)
{
    (void)state;
    char text[4096] = "";
    char reason[GW_INJECT_REASON_MAX];
    gw_inject_plan plan;
    for (int i = 0; i <= GW_INJECT_RULES_MAX; i++)
        strcat(text, i == 0 ? "oom@any" : ";oom@any");
    assert_false(gw_inject_parse(text, &plan, reason));
    assert_non_null(strstr(reason, "more than 16 rules"));
    memset(text, 'x', 1000);
    assert_false(gw_inject_parse(text, &plan, reason));
    assert_non_null(strstr(reason, "159 characters"));
}

static void rules_name_functions(void **state)
{
    (void)state;
    assert_true(names("oom@alloc", GW_FN_cuMemAlloc_v2) && names("oom@alloc", GW_FN_cuMemAllocAsync_ptsz));
    assert_true(names("oom@alloc", GW_FN_cuMemCreate) && names("oom@alloc", GW_FN_cuArrayCreate_v2));
    assert_false(names("oom@alloc", GW_FN_cuMemFree_v2));
    assert_true(names("oom@cuMemAlloc", GW_FN_cuMemAlloc) && names("oom@cuMemAlloc", GW_FN_cuMemAlloc_v2));
    assert_false(names("oom@cuMemAlloc", GW_FN_cuMemAllocAsync));
    assert_true(names("1@cuLaunchKernel", GW_FN_cuLaunchKernel_ptsz));
    assert_false(names("1@cuLaunchKernel", GW_FN_cuLaunchKernelEx));
    assert_true(names("oom@cuMemAlloc_v2", GW_FN_cuMemAlloc_v2));
    assert_false(names("oom@cuMemAlloc_v2", GW_FN_cuMemAlloc));
    assert_true(names("1@any", GW_FN_cuMemFree_v2));
    assert_false(names("1@any", GW_FN_cuGetErrorString) || names("1@any", GW_FN_cuCtxGetCurrent));
    assert_true(names("1@cuCtxGetCurrent", GW_FN_cuCtxGetCurrent)); /* a rule can name a harmless function */
}

/* Each class of the list names at least one function, and no class is missing from the list. */
static void every_class_names_something(void **state)
{
    (void)state;
    char list[256];
    snprintf(list, sizeof list, "%s", gw_inject_classes());
    for (char *name = strtok(list, ", "); name != NULL; name = strtok(NULL, ", ")) {
        char text[64];
        unsigned count = 0;
        snprintf(text, sizeof text, "1@%s", name);
        gw_inject_plan plan = plan_of(text);
        for (unsigned fn = 0; fn < GW_FN_COUNT; fn++)
            count += gw_inject_names(&plan.rule[0], fn);
        if (count == 0)
            fail_msg("class %s has no function", name);
    }
}

static void draws_can_be_repeated(void **state)
{
    (void)state;
    enum { CALLS = 100000 };
    gw_inject_plan plan = plan_of("1@any,p=0.01,seed=7;1@any,p=0.01,seed=8;1@any,p=0;1@any,p=1;1@any,p=0.01,seed=7");
    unsigned count[5] = {0}, equal = 0, same_rule = 0;
    for (uint64_t n = 1; n <= CALLS; n++) {
        for (size_t i = 0; i < 5; i++)
            count[i] += gw_inject_draws(&plan.rule[i], i, n);
        equal += gw_inject_draws(&plan.rule[0], 0, n) && gw_inject_draws(&plan.rule[1], 0, n);
        same_rule += gw_inject_draws(&plan.rule[0], 0, n) != gw_inject_draws(&plan.rule[4], 0, n);
    }
    assert_in_range(count[0], 900, 1100);
    assert_in_range(count[1], 900, 1100);
    assert_int_equal(count[2], 0);
    assert_int_equal(count[3], CALLS);
    assert_in_range(equal, 0, 40); /* other seeds choose other calls */
    assert_int_equal(same_rule, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rule_is_read),
        cmocka_unit_test(bad_plans_have_a_reason),
        cmocka_unit_test(long_plans_are_rejected),
        cmocka_unit_test(rules_name_functions),
        cmocka_unit_test(every_class_names_something),
        cmocka_unit_test(draws_can_be_repeated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
