/* Test the choices of --memory: they never exceed the limit, and are tried in the order that fit.h describes. */
#include "fake.h"
#include "fit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

static struct reason reason;
static char said[20000];

static void say(void *user, const char *line)
{
    (void)user;
    if (strlen(said) + strlen(line) + 2 < sizeof said)
        strcat(strcat(said, line), "\n");
}

static struct model read_model(const char *name)
{
    char path[512];
    struct model model;
    snprintf(path, sizeof path, "%s/%s.net", TRAINER_MODELS, name);
    if (!model_read(path, &model, &reason))
        fail_msg("%s", reason.text);
    return model;
}

static struct fit_request request_for(const struct model *model, uint64_t memory_bytes)
{
    return (struct fit_request){.options = {.memory_bytes = memory_bytes, .checkpointing = CHOICE_AUTO},
                                .model = model,
                                .backend = &backend_fake,
                                .images = 256,
                                .has_card = true,
                                .taken_bytes = 527 * MIB,
                                .free_bytes = 140 * GIB,
                                .say = say};
}

static bool choose(const struct fit_request *request, struct fit *fit)
{
    said[0] = '\0';
    return fit_choose(request, fit, &reason);
}

/* Check that a plan made from the choice has the size that was chosen, and fits the limit. */
static void check_chosen(const struct fit_request *request, const struct fit *fit)
{
    struct schedule schedule;
    if (!schedule_make(request->model, &fit->schedule, request->backend, NULL, (size_t)fit->workspace_bytes, &schedule,
                       &reason))
        fail_msg("%s", reason.text);
    assert_int_equal(schedule.size.arena_bytes, fit->plan_bytes);
    assert_true(fit->plan_bytes + fit->taken_bytes + fit->reserve_bytes <= request->options.memory_bytes);
    assert_int_equal(request->images % fit->schedule.images, 0);
    schedule_clear(&schedule);
}

static void keeps_the_promise(void **state)
{
    (void)state;
    static const char *const names[] = {"small", "resnet18", "resnet50", "efficientnet-b0"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct model model = read_model(names[i]);
        bool has_fitted = false;
        for (uint64_t memory = 700 * MIB; memory < 80 * GIB; memory = memory * 5 / 3) {
            struct fit_request request = request_for(&model, memory);
            struct fit fit;
            if (choose(&request, &fit)) {
                check_chosen(&request, &fit);
                has_fitted = true;
            } else {
                assert_false(has_fitted); /* a larger limit must fit if a smaller one did */
                assert_true(reason.is_memory);
                assert_non_null(strstr(reason.text, "nothing fits: the plan needs at least "));
            }
        }
        assert_true(has_fitted);
        model_clear(&model);
    }
}

static uint64_t plan_bytes(const struct model *model, size_t images, enum precision precision, bool checkpointing,
                           size_t workspace_bytes)
{
    struct schedule_options options = {.images = images, .precision = precision, .checkpointing = checkpointing};
    struct schedule schedule;
    assert_true(schedule_make(model, &options, &backend_fake, NULL, workspace_bytes, &schedule, &reason));
    uint64_t bytes = schedule.size.arena_bytes;
    schedule_clear(&schedule);
    return bytes;
}

/* Lower the limit in steps and check what is given up, in order. Limits are exact to the byte: one byte less changes
 * the choice. */
static void chooses_in_order(void **state)
{
    (void)state;
    struct model model = read_model("resnet18");
    struct fit_request request = request_for(&model, 0);
    struct fit fit;
    uint64_t beside = 527 * MIB + FIT_RESERVE_BYTES, all = plan_bytes(&model, 256, PRECISION_FP32, false, GIB);
    uint64_t without = plan_bytes(&model, 256, PRECISION_FP32, false, 0);
    assert_true(without < all);

    assert_true(choose(&request, &fit)); /* no limit: the GPU's free memory */
    assert_int_equal(fit.schedule.images, 256);
    assert_int_equal(fit.limit_bytes, 140 * GIB + 527 * MIB);

    request.options.memory_bytes = beside + all;
    assert_true(choose(&request, &fit));
    assert_int_equal(fit.schedule.images, 256);
    assert_false(fit.schedule.checkpointing);
    assert_int_equal(fit.workspace_bytes, FIT_WORKSPACE_BYTES);
    assert_null(strstr(said, "refused"));

    struct backend overlapping = backend_fake; /* with overlapping steps, which are given up first */
    overlapping.overlaps = true;
    request.backend = &overlapping;
    request.options.memory_bytes = 0;
    assert_true(choose(&request, &fit));
    assert_true(fit.schedule.overlaps);
    assert_non_null(strstr(said, "overlapping steps"));
    assert_true(fit.plan_bytes > all);
    request.options.in_order = true;
    assert_true(choose(&request, &fit));
    assert_false(fit.schedule.overlaps);
    assert_int_equal(fit.plan_bytes, all);
    request.options.in_order = false;
    assert_true(choose(&request, &fit));
    request.options.memory_bytes = beside + fit.plan_bytes - 1;
    assert_true(choose(&request, &fit));
    assert_false(fit.schedule.overlaps);
    assert_int_equal(fit.workspace_bytes, FIT_WORKSPACE_BYTES);
    request.backend = &backend_fake;

    request.options.memory_bytes = beside + without; /* less memory: smaller workspaces */
    assert_true(choose(&request, &fit));
    assert_int_equal(fit.schedule.images, 256);
    assert_true(fit.workspace_bytes < FIT_WORKSPACE_BYTES);

    request.options.memory_bytes = beside + without - 1; /* one byte less: a smaller micro-batch */
    assert_true(choose(&request, &fit));
    assert_int_equal(fit.schedule.images, 128);
    assert_non_null(strstr(said, "refused: micro-batch 256, checkpointing off, fp32: the plan needs "));
    assert_non_null(strstr(said, "batch normalisation uses micro-batches of 128"));

    request.options.memory_bytes = beside + plan_bytes(&model, 32, PRECISION_FP32, false, 0) - 1;
    assert_true(choose(&request, &fit)); /* less: checkpointing, if it allows a useful micro-batch */
    assert_true(fit.schedule.checkpointing);
    assert_true(fit.schedule.images >= FIT_USEFUL_IMAGES);
    request.options.checkpointing = CHOICE_OFF;
    assert_true(choose(&request, &fit));
    assert_int_equal(fit.schedule.images, 16);

    request.options.chooses_precision = true; /* without checkpointing: the next precision */
    assert_true(choose(&request, &fit));
    assert_int_equal(fit.schedule.precision, PRECISION_BF16);
    assert_int_equal(fit.schedule.images, 32);
    model_clear(&model);
}

static void counts_what_is_there(void **state)
{
    (void)state;
    struct backend_watch before = {.free_bytes = 100, .own_bytes = -1}, after = {.free_bytes = 70, .own_bytes = -1};
    assert_int_equal(fit_taken(&before, &after), 30);
    after.own_bytes = 25;
    assert_int_equal(fit_taken(&before, &after), 25);
    after = (struct backend_watch){.free_bytes = 170, .own_bytes = -1}; /* another process ended meanwhile */
    assert_int_equal(fit_taken(&before, &after), 0);
    after.free_bytes = -1;
    assert_int_equal(fit_taken(&before, &after), -1);

    struct fit_request request = {
        .options = {.memory_bytes = 8 * GIB}, .has_card = true, .taken_bytes = -1, .free_bytes = -1};
    struct fit fit = {0};
    assert_int_equal(fit_budget(&request, &fit), 8 * GIB - FIT_UNKNOWN_BYTES - FIT_RESERVE_BYTES);
    request.taken_bytes = 9 * GIB;
    assert_int_equal(fit_budget(&request, &fit), 0);
    request.taken_bytes = GIB;
    request.free_bytes = 2 * GIB; /* other processes use most of the memory below the limit */
    assert_int_equal(fit_budget(&request, &fit), 2 * GIB - FIT_RESERVE_BYTES);
    request.has_card = false;
    assert_int_equal(fit_budget(&request, &fit), 8 * GIB);
    request.options.memory_bytes = 0;
    assert_true(fit_budget(&request, &fit) == UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_the_promise),
        cmocka_unit_test(chooses_in_order),
        cmocka_unit_test(counts_what_is_there),
    };
    fake_reset();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
