/* Tests learning rates: parsing, and the rates of PyTorch's schedulers. */
#include "rate.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct reason reason;

static struct rate_options parsed(const char *text)
{
    struct rate_options options = {.rate = 0.5, .factor = 0.1};
    if (!rate_parse(text, &options, &reason))
        fail_msg("%s", reason.text);
    return options;
}

static void near(double is, double wants)
{
    if (fabs(is - wants) > 1e-12)
        fail_msg("%.15g instead of %.15g", is, wants);
}

static void constant_rate_is_the_rate(void **state)
{
    (void)state;
    struct rate_options options = parsed("constant");
    struct rate_plan plan = rate_make(&options, 10, 100);
    for (uint64_t step = 0; step < 200; step++)
        assert_true(rate_at(&plan, step) == 0.5); /* to the bit */
}

/* The expected rates are the output of PyTorch 1.13.1, with an SGD of rate 0.5:
 * SequentialLR(o, [LinearLR(o, 0.01, total_iters=5), CosineAnnealingLR(o, 15, 0.02)], [5]) */
static void rates_are_those_of_pytorch(void **state)
{
    (void)state;
    static const double warm[] = {0.005, 0.104, 0.203, 0.302, 0.401, 0.5};
    struct rate_options options = parsed("cosine");
    options.end = 0.02;
    options.warmup = (struct rate_span){.count = 5};
    options.warmup_from = 0.01;
    struct rate_plan plan = rate_make(&options, 10, 20);
    for (uint64_t step = 0; step < 6; step++)
        near(rate_at(&plan, step), warm[step]);
    near(rate_at(&plan, 10), 0.02 + 0.48 * (1 + cos(M_PI / 3)) / 2);
    near(rate_at(&plan, 20), 0.02);
    near(rate_at(&plan, 1000), 0.02);
}

static void steps_multiply(void **state)
{
    (void)state;
    struct rate_options options = parsed("step:3");
    struct rate_plan plan = rate_make(&options, 10, 20);
    near(rate_at(&plan, 2), 0.5);
    near(rate_at(&plan, 3), 0.05);
    near(rate_at(&plan, 8), 0.005);
    options = parsed("steps:1e,2e,5e");
    options.warmup = (struct rate_span){.count = 2};
    options.warmup_from = 0.5;
    plan = rate_make(&options, 4, 100);
    near(rate_at(&plan, 0), 0.25);
    near(rate_at(&plan, 1), 0.375);
    near(rate_at(&plan, 5), 0.5);
    near(rate_at(&plan, 6), 0.05);
    near(rate_at(&plan, 10), 0.005);
    near(rate_at(&plan, 22), 0.0005);
    near(rate_at(&plan, 99), 0.0005);
}

static void extremes_are_possible(void **state)
{
    (void)state;
    struct rate_options options = parsed("cosine");
    options.warmup = (struct rate_span){.count = UINT64_MAX, .is_epochs = true}; /* saturates */
    options.warmup_from = 1;
    struct rate_plan plan = rate_make(&options, 10, 20);
    assert_true(plan.warmup_steps == UINT64_MAX);
    near(rate_at(&plan, 19), 0.5);
    options.warmup.count = 2; /* 20 steps, so the cosine has no step */
    plan = rate_make(&options, 10, 20);
    near(rate_at(&plan, 20), 0);
}

static void refuses_bad_text(void **state)
{
    (void)state;
    static const char *const texts[] = {"",         "constan",     "cosine:",    "step:",
                                        "step:0",   "step:1,2",    "steps:3,2",  "steps:1,2e",
                                        "step:-1",  "steps:1,,2",  "steps:1,2,", "step:1f",
                                        "step: 1",  "steps:1e,1e", "stepss:1",   "step:99999999999999999999",
                                        "steps:1ee"};
    struct rate_options options = {0};
    struct rate_span span;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        reason.text[0] = '\0';
        if (rate_parse(texts[i], &options, &reason))
            fail_msg("accepted \"%s\"", texts[i]);
        assert_true(reason.text[0] == '"');
    }
    assert_false(rate_parse("steps:1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", &options, &reason));
    assert_false(rate_parse_span("", &span, &reason));
    assert_false(rate_parse_span("5 e", &span, &reason));
    assert_true(rate_parse_span("5e", &span, &reason) && span.count == 5 && span.is_epochs);
    assert_true(rate_parse_span("0", &span, &reason) && span.count == 0 && !span.is_epochs);
}

static void describes_itself(void **state)
{
    (void)state;
    char text[100];
    struct rate_options options = parsed("steps:1e,3e");
    options.warmup = (struct rate_span){.count = 7};
    options.warmup_from = 0.01;
    struct rate_plan plan = rate_make(&options, 50, 500);
    assert_string_equal(rate_text(&plan, text, sizeof text), "steps 50,150 by 0.1, warm-up of 7 steps from 0.01");
    rate_text(&plan, text, 12); /* cut */
    assert_string_equal(text, "steps 50,15");
    options = parsed("cosine");
    plan = rate_make(&options, 50, 500);
    assert_string_equal(rate_text(&plan, text, sizeof text), "cosine to 0 at step 500");
}

/* Different plans have different texts. */
static void texts_differ(void **state)
{
    (void)state;
    char texts[2][RATE_TEXT_BYTES], number[REAL_TEXT_BYTES];
    struct rate_options options = parsed("cosine");
    options.warmup.count = 7;
    double *const reals[] = {&options.end, &options.warmup_from, &options.factor};
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++) {
        options.kind = reals[i] == &options.factor ? RATE_STEP : RATE_COSINE;
        options.mark_count = options.marks[0].count = 1;
        *reals[i] = 0.1;
        struct rate_plan plan = rate_make(&options, 50, 500);
        rate_text(&plan, texts[0], sizeof texts[0]);
        *reals[i] = nextafter(0.1, 1);
        plan = rate_make(&options, 50, 500);
        assert_string_not_equal(rate_text(&plan, texts[1], sizeof texts[1]), texts[0]);
    }
    assert_string_equal(real_text(0.1, number), "0.1");
    assert_string_equal(real_text(1.0 / 3, number), "0.3333333333333333");
    assert_string_equal(real_text(1e-30, number), "1e-30");
    /* the longest text */
    options = (struct rate_options){.kind = RATE_STEPS,
                                    .factor = -4.9406564584124654e-324,
                                    .warmup = {.count = UINT64_MAX},
                                    .warmup_from = -1.7976931348623157e308,
                                    .mark_count = RATE_MARKS_MAX};
    for (size_t i = 0; i < RATE_MARKS_MAX; i++)
        options.marks[i].count = UINT64_MAX;
    struct rate_plan plan = rate_make(&options, 1, UINT64_MAX);
    rate_text(&plan, texts[0], sizeof texts[0]);
    assert_non_null(strstr(texts[0], " steps from -1.7976931348623157e+308"));
    assert_true(strlen(texts[0]) + 1 < sizeof texts[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constant_rate_is_the_rate),
        cmocka_unit_test(rates_are_those_of_pytorch),
        cmocka_unit_test(steps_multiply),
        cmocka_unit_test(extremes_are_possible),
        cmocka_unit_test(refuses_bad_text),
        cmocka_unit_test(describes_itself),
        cmocka_unit_test(texts_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
