/* Compares plans with the memory that they really use. Loads plans on the virtual GPU for every model, precision and
 * optimizer, for a few batch sizes, with and without checkpointing. */
#include "backend.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { PAGE = 2 << 20 }; /* the driver's pages for blocks of more than 1 MiB */

static uint64_t card_free(void)
{
    int (*get_info)(size_t *, size_t *);
    size_t free_bytes, total_bytes;
    void *found = gs_symbol(GS_FROM_DRIVER, "cuMemGetInfo_v2");
    assert_non_null(found);
    memcpy(&get_info, &found, sizeof found);
    assert_int_equal(GS_TRY(get_info(&free_bytes, &total_bytes)), GS_OK);
    return free_bytes;
}

/* Load and close a plan. Loading takes the plan's size from the GPU's free memory, in whole pages, and closing returns
 * all of it. */
static void load_one(const struct model *model, const struct schedule_options *options)
{
    struct backend_options backend_options = {.name = "grid"};
    struct schedule schedule;
    struct reason reason;
    gs_report *report = NULL;
    void *state;
    if (!backend_dry.open(&backend_options, &state, &reason))
        fail_msg("%s", reason.text);
    if (!schedule_make(model, options, &backend_dry, state, 0, &schedule, &reason))
        fail_msg("%s", reason.text);
    uint64_t plan = schedule.size.arena_bytes, before = card_free();
    if (!backend_dry.load(state, &schedule, &reason))
        fail_msg("%s", reason.text);
    assert_true(plan > 1 << 20);
    assert_int_equal(before - card_free(), (plan + PAGE - 1) / PAGE * PAGE);
    if (!backend_dry.load(state, &schedule, &reason)) /* the second load first frees the memory of the first one */
        fail_msg("%s", reason.text);
    assert_int_equal(before - card_free(), (plan + PAGE - 1) / PAGE * PAGE);
    if (!backend_dry.close(state, &report, &reason))
        fail_msg("%s", reason.text);
    assert_int_equal(report->peak_bytes, plan);
    assert_int_equal(report->kept_count, 0);
    assert_true(report->missing_bytes <= (int64_t)report->allowed_bytes);
    gs_report_free(report);
    schedule_clear(&schedule);
}

static void card_sees_what_was_planned(void **unused)
{
    (void)unused;
    static const char *const names[] = {"small", "vgg11", "resnet18", "resnet50", "mobilenetv2", "efficientnet-b0"};
    static const size_t batches[] = {1, 7, 32, 256};
    size_t loaded = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[512];
        struct model model;
        struct reason reason;
        snprintf(path, sizeof path, "%s/%s.net", TRAINER_MODELS, names[i]);
        if (!model_read(path, &model, &reason))
            fail_msg("%s", reason.text);
        for (unsigned way = 0; way < 2 * PRECISION_COUNT * OPTIMIZER_COUNT; way++)
            for (size_t b = 0; b < sizeof batches / sizeof *batches; b++, loaded++) {
                struct schedule_options options = {.images = batches[b],
                                                   .checkpointing = way % 2,
                                                   .overlaps = b % 2,
                                                   .precision = (enum precision)(way / 2 % PRECISION_COUNT),
                                                   .optimizer = (enum optimizer)(way / 2 / PRECISION_COUNT)};
                options.averages = options.selects_decay = options.clips = options.optimizer == OPTIMIZER_ADAMW;
                load_one(&model, &options);
            }
        model_clear(&model);
    }
    print_message("%zu plans loaded\n", loaded);
}

/* Show that the test can fail: a GPU that is too small reports an error, and nothing is left over. */
static void card_that_is_too_small_says_so(void **unused)
{
    (void)unused;
    char path[512];
    struct model model;
    struct reason reason = {.text = ""};
    struct schedule schedule;
    struct schedule_options options = {.images = 256};
    struct backend_options backend_options = {.memory_bytes = (uint64_t)4 << 30};
    gs_report *report = NULL;
    void *state;
    snprintf(path, sizeof path, "%s/resnet50.net", TRAINER_MODELS);
    assert_true(model_read(path, &model, &reason));
    assert_true(backend_dry.open(&backend_options, &state, &reason));
    uint64_t before = card_free();
    assert_true(schedule_make(&model, &options, &backend_dry, state, 0, &schedule, &reason));
    assert_false(backend_dry.load(state, &schedule, &reason));
    assert_true(reason.is_memory);
    assert_int_equal(card_free(), before);
    backend_dry.close(state, &report, &reason);
    assert_non_null(report);
    assert_int_equal(report->peak_bytes, 0);
    gs_report_free(report);
    schedule_clear(&schedule);
    model_clear(&model);
}

/* Only the time in which the device has no work and no inputs counts as waiting. */
static void card_waits_for_late_inputs(void **unused)
{
    (void)unused;
    enum { LATE_MS = 30, STEPS = 20 };
    char path[512];
    struct model model;
    struct reason reason;
    struct schedule schedule;
    struct schedule_options options = {.images = 2};
    struct backend_options backend_options = {.name = "waits"};
    const struct backend *dry = &backend_dry;
    void *state, *images, *labels;
    snprintf(path, sizeof path, "%s/small.net", TRAINER_MODELS);
    assert_true(model_read(path, &model, &reason));
    size_t count = options.images * shape_count(model.layers[0].out);
    assert_true(dry->open(&backend_options, &state, &reason));
    assert_true(schedule_make(&model, &options, dry, state, 0, &schedule, &reason));
    assert_true(dry->load(state, &schedule, &reason));
    assert_true(dry->host_alloc(state, count * sizeof(float), &images, &reason));
    assert_true(dry->host_alloc(state, options.images * sizeof(int32_t), &labels, &reason));
    memset(images, 0, count * sizeof(float));
    memset(labels, 0, options.images * sizeof(int32_t));
    for (unsigned i = 0; i < 2 * STEPS; i++) {
        struct iteration iteration = {.turn = i % 2, .is_first = true, .images_in_step = 2, .images = 2};
        struct results results;
        bool is_late = i < STEPS;
        double before = dry->waited(state);
        if (is_late) {
            assert_true(dry->expect(state, &reason));
            usleep(LATE_MS * 1000);
        }
        assert_true(dry->feed(state, i % 2, images, labels, &reason));
        assert_true(dry->fed(state, i % 2, &reason));
        if (!is_late)
            assert_true(dry->expect(state, &reason));
        assert_true(dry->iterate(state, &iteration, &reason));
        if (i == STEPS - 1 || !is_late) {
            assert_true(dry->settle(state, &results, &reason));
            double sum = dry->waited(state), late = STEPS * LATE_MS / 1e3;
            assert_true(is_late ? sum >= late : sum <= before);
        }
    }
    dry->host_free(state, images);
    dry->host_free(state, labels);
    assert_true(dry->close(state, NULL, &reason));
    schedule_clear(&schedule);
    model_clear(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(card_sees_what_was_planned),
        cmocka_unit_test(card_that_is_too_small_says_so),
        cmocka_unit_test(card_waits_for_late_inputs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
