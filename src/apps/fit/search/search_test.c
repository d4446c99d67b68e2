/* Tests the search against functions of memory: linear, stepped and not monotonic ones, with trials that end in any
 * order. */
#include "gw_unit_test.h"

#include "gw_fit_search.h"

#include <string.h>

typedef struct rig {
    uint64_t limit;
    uint64_t (*bytes)(uint64_t number);
    uint64_t unknown_from; /* larger numbers fail for another reason; 0: none does */
    size_t jobs;
    uint64_t random;
    uint64_t running[64];
    size_t running_count;
    size_t trials, most_at_once;
    uint64_t largest_tried;
} rig;

static const uint64_t gib = (uint64_t)1 << 30;

static uint64_t linear(uint64_t number)
{
    return gib / 2 + number * (3u << 20);
}

/* Pages of 2 MiB, and a workspace that grows in steps. */
static uint64_t stepped(uint64_t number)
{
    uint64_t page = 2u << 20, act = (number * 1700003 + page - 1) / page * page;
    uint64_t workspace = number < 32 ? 16u << 20 : number < 257 ? 130u << 20 : 400u << 20;
    return gib / 3 + act + workspace;
}

/* Odd numbers need a workspace that even numbers do not need. */
static uint64_t uneven(uint64_t number)
{
    return number * (10u << 20) + (number % 2 == 1 ? 64u << 20 : 0);
}

/* All numbers but the multiples of 8 need a workspace. */
static uint64_t eighths(uint64_t number)
{
    return number * (10u << 20) + (number % 8 != 0 ? 60u << 20 : 0);
}

static uint64_t constant(uint64_t number)
{
    return gib / 4;
}

static gw_fit fit_of(const rig *it, uint64_t number)
{
    if (it->unknown_from != 0 && number >= it->unknown_from)
        return GW_FIT_UNKNOWN;
    return it->bytes(number) <= it->limit ? GW_FIT_YES : GW_FIT_NO;
}

/* End one of the running trials, chosen at random. */
static void end_one(rig *it, gw_fit_search *search)
{
    it->random = it->random * 6364136223846793005u + 1442695040888963407u;
    size_t i = (size_t)(it->random >> 33) % it->running_count;
    uint64_t number = it->running[i];
    it->running[i] = it->running[--it->running_count];
    gw_fit_search_result(search, number, fit_of(it, number));
}

static gw_fit_answer search_all(rig *it, uint64_t from, uint64_t max, uint64_t step)
{
    static gw_fit_search search;
    uint64_t number;
    assert_int_equal(gw_fit_search_begin(&search, from, max, step, NULL), GW_OK);
    for (;;) {
        while (it->running_count < it->jobs && gw_fit_search_next(&search, &number)) {
            for (size_t i = 0; i + 1 < search.count; i++)
                assert_true(search.trial[i].number != number);
            assert_true(number % step == 0 && number >= from && number <= max);
            it->running[it->running_count++] = number;
            it->trials++;
            it->largest_tried = number > it->largest_tried ? number : it->largest_tried;
        }
        it->most_at_once = it->running_count > it->most_at_once ? it->running_count : it->most_at_once;
        if (it->running_count == 0)
            return gw_fit_search_answer(&search);
        assert_int_equal(gw_fit_search_answer(&search).end, GW_FIT_END_OPEN);
        end_one(it, &search);
    }
}

static uint64_t largest_by_hand(const rig *it, uint64_t from, uint64_t max, uint64_t step)
{
    uint64_t largest = 0;
    for (uint64_t number = from; number <= max; number += step)
        if (fit_of(it, number) == GW_FIT_YES)
            largest = number;
    return largest;
}

GW_TEST(every_size_of_a_monotonic_function_is_exact)
{
    uint64_t (*const functions[])(uint64_t) = {linear, stepped};
    for (size_t f = 0; f < 2; f++)
        for (uint64_t size = 1; size <= 24; size++)
            for (size_t jobs = 1; jobs <= 8; jobs++)
                for (uint64_t seed = 0; seed < 8; seed++) {
                    rig it = {.limit = size * gib, .bytes = functions[f], .jobs = jobs, .random = seed};
                    gw_fit_answer answer = search_all(&it, 1, 1 << 20, 1);
                    assert_int_equal(answer.end, GW_FIT_END_FOUND);
                    assert_int_equal(answer.largest, largest_by_hand(&it, 1, 20000, 1));
                    assert_int_equal(answer.next, answer.largest + 1);
                    assert_int_equal(answer.hole, 0);
                    assert_true(it.trials <= 64 && it.largest_tried <= 16 * answer.largest);
                }
}

GW_TEST(one_after_the_other_needs_few_trials)
{
    rig it = {.limit = 24 * gib, .bytes = linear, .jobs = 1};
    gw_fit_answer answer = search_all(&it, 1, 1 << 20, 1);
    /* 14 to 8192, 12 in between, 1 beyond: 8023, because 8024 is one of those in between */
    assert_int_equal(answer.largest, 8021);
    assert_int_equal(it.trials, 14 + 12 + 1);
}

GW_TEST(trials_run_side_by_side)
{
    rig it = {.limit = 24 * gib, .bytes = linear, .jobs = 8};
    gw_fit_answer answer = search_all(&it, 1, 1 << 20, 1);
    assert_int_equal(answer.largest, 8021);
    assert_int_equal(it.most_at_once, 8);
}

GW_TEST(steps_and_limits_hold)
{
    for (uint64_t step = 1; step <= 24; step++)
        for (uint64_t from = 1; from <= 90; from += 7) {
            rig it = {.limit = 2 * gib, .bytes = stepped, .jobs = 3, .random = step};
            gw_fit_answer answer = search_all(&it, from, 5000, step);
            uint64_t first = (from + step - 1) / step * step;
            assert_int_equal(answer.largest, largest_by_hand(&it, first, 5000, step));
            assert_int_equal(answer.next, answer.largest + step);
        }
    rig it = {.limit = gib, .bytes = constant, .jobs = 4};
    gw_fit_answer answer = search_all(&it, 3, 1000, 7);
    assert_int_equal(answer.end, GW_FIT_END_MAX);
    assert_int_equal(answer.largest, 994);
    assert_int_equal(answer.next, 0);
    rig one = {.limit = gib, .bytes = constant, .jobs = 4};
    answer = search_all(&one, 5, 5, 5);
    assert_int_equal(answer.end, GW_FIT_END_MAX);
    assert_int_equal(answer.largest, 5);
}

GW_TEST(nothing_fits)
{
    for (size_t jobs = 1; jobs <= 8; jobs++) {
        rig it = {.limit = gib / 4, .bytes = linear, .jobs = jobs};
        gw_fit_answer answer = search_all(&it, 4, 1 << 20, 4);
        assert_int_equal(answer.end, GW_FIT_END_NONE);
        assert_int_equal(answer.largest, 0);
        assert_int_equal(answer.next, 4);
        assert_int_equal(it.trials, jobs < 4 ? jobs : 4);
    }
}

GW_TEST(a_larger_number_that_fits_is_found)
{
    for (size_t jobs = 1; jobs <= 8; jobs++)
        for (uint64_t seed = 0; seed < 16; seed++) {
            rig it = {.limit = gib, .bytes = uneven, .jobs = jobs, .random = seed};
            gw_fit_answer answer = search_all(&it, 1, 1 << 20, 1);
            assert_int_equal(answer.end, GW_FIT_END_FOUND);
            assert_int_equal(answer.largest, 102); /* the largest even number; of the odd ones 95 is the largest */
            assert_int_equal(answer.next, 103);
            assert_true(answer.hole == 0 || (answer.hole % 2 == 1 && answer.hole > 95 && answer.hole < 102));
        }
    /* 100 does not fit and 101 does not, but 104 does: it is tried because it is a multiple of 8 */
    rig it = {.limit = 1050u << 20, .bytes = eighths, .jobs = 1};
    gw_fit_answer answer = search_all(&it, 99, 1 << 20, 1);
    assert_int_equal(answer.end, GW_FIT_END_FOUND);
    assert_int_equal(answer.largest, 104);
    assert_int_equal(answer.next, 105);
    assert_int_equal(answer.hole, 100);
}

GW_TEST(another_reason_is_no_answer)
{
    rig it = {.limit = gib, .bytes = linear, .jobs = 2, .unknown_from = 100};
    gw_fit_answer answer = search_all(&it, 1, 1 << 20, 1);
    assert_int_equal(answer.end, GW_FIT_END_UNKNOWN);
    assert_int_equal(answer.largest, 99);
    assert_int_equal(answer.next, 100);
    rig all = {.limit = gib, .bytes = linear, .jobs = 2, .unknown_from = 1};
    answer = search_all(&all, 1, 1 << 20, 1);
    assert_int_equal(answer.end, GW_FIT_END_UNKNOWN);
    assert_int_equal(answer.largest, 0);
    assert_int_equal(answer.next, 1);
}

/* Half of all numbers fit, at random. */
static uint64_t hashed(uint64_t number)
{
    return (number * 0x9e3779b97f4a7c15u >> 63) * 2 * gib;
}

GW_TEST(every_search_ends)
{
    for (size_t jobs = 1; jobs <= 8; jobs++)
        for (uint64_t seed = 0; seed < 200; seed++) {
            rig it = {.limit = gib, .bytes = hashed, .jobs = jobs, .random = seed};
            gw_fit_answer answer = search_all(&it, 1 + seed, 1 << 20, 1);
            assert_true(answer.end != GW_FIT_END_OPEN);
            assert_true(answer.largest == 0 || fit_of(&it, answer.largest) == GW_FIT_YES);
            assert_true(answer.next == 0 || fit_of(&it, answer.next) == GW_FIT_NO);
        }
}

GW_TEST(wrong_limits_are_refused)
{
    static gw_fit_search search;
    gw_error err = {0};
    assert_int_equal(gw_fit_search_begin(&search, 0, 10, 1, &err), GW_USAGE);
    assert_int_equal(gw_fit_search_begin(&search, 1, 10, 0, &err), GW_USAGE);
    assert_int_equal(gw_fit_search_begin(&search, 11, 10, 1, &err), GW_USAGE);
    assert_int_equal(gw_fit_search_begin(&search, UINT64_MAX, 10, 7, &err), GW_USAGE);
    assert_int_equal(gw_fit_search_begin(&search, 9, 15, 8, &err), GW_USAGE);
    assert_non_null(strstr(err.text, "no multiple of 8 from 9 to 15"));
    assert_int_equal(gw_fit_search_begin(&search, 1, UINT64_MAX, 1, &err), GW_USAGE);
}

/* Tests placeholders: which commands they make, and which mistakes are named. */

#define WORDS(...) ((char *[]){__VA_ARGS__, NULL})
#define W(text)    ((char[]){text})

GW_TEST(placeholders_are_replaced)
{
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

GW_TEST(every_combination_is_different)
{
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

GW_TEST(mistakes_are_named)
{
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

GW_TEST_MAIN(NULL, NULL)
