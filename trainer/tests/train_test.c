/* Tests the training loop with a back end that the test controls:
 * - whether the loop learns
 * - how it divides steps
 * - how it continues from a checkpoint
 * - whether it releases everything when a call fails */
#include "checkpoint.h"
#include "fake.h"
#include "scale.h"
#include "team.h"
#include "train.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static struct reason reason;
static char folder[] = "/tmp/trainer-train-XXXXXX", model_path[64], checkpoint_path[64], best_path[80], log_path[64];

static int make_folder(void **state)
{
    (void)state;
    strcpy(strrchr(folder, '-') + 1, "XXXXXX");
    if (mkdtemp(folder) == NULL)
        return 1;
    snprintf(model_path, sizeof model_path, "%s/m.net", folder);
    snprintf(checkpoint_path, sizeof checkpoint_path, "%s/c", folder);
    snprintf(best_path, sizeof best_path, "%s.best", checkpoint_path);
    snprintf(log_path, sizeof log_path, "%s/log", folder);
    FILE *file = fopen(model_path, "w");
    fputs("input 1 8 8\nlinear 4\n", file);
    fclose(file);
    fake_reset();
    return 0;
}

static int drop_folder(void **state)
{
    (void)state;
    remove(model_path);
    remove(checkpoint_path);
    remove(best_path);
    remove(log_path);
    return rmdir(folder);
}

static struct train_options small(void)
{
    return (struct train_options){.model_path = model_path,
                                  .backend = &backend_fake,
                                  .devices = 1,
                                  .data = "synthetic",
                                  .image_count = 500,
                                  .seed = 3,
                                  .batch = 32,
                                  .steps = 60,
                                  .rate = 0.02,
                                  .momentum = 0.9,
                                  .evaluates = true};
}

static struct train_result trained(const struct train_options *options)
{
    struct train_result result;
    if (!train(options, &result, &reason))
        fail_msg("%s", reason.text);
    assert_int_equal(fake_watch()->states, 0);
    assert_int_equal(fake_watch()->host_blocks, 0);
    return result;
}

static struct checkpoint read_checkpoint(void)
{
    struct checkpoint is;
    if (!checkpoint_read(checkpoint_path, 1 << 20, &is, &reason))
        fail_msg("%s", reason.text);
    return is;
}

static bool log_has(const char *text)
{
    char line[4096];
    bool is_found = false;
    FILE *file = fopen(log_path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL)
        is_found = is_found || strstr(line, text) != NULL;
    fclose(file);
    return is_found;
}

/* Let each call of each function fail in turn. Each time, the reason must name the function, nothing may hang, and
 * everything must be released. */
static void fails_cleanly(const struct train_options *options)
{
    struct train_result result;
    fake_reset();
    trained(options);
    struct fake_watch healthy = *fake_watch();
    for (enum fake_call call = 0; call < FAKE_CALL_COUNT; call++) {
        char said[64];
        snprintf(said, sizeof said, "fake: %s failed", fake_call_text(call));
        for (int at = 1; at <= healthy.calls[call]; at++) {
            fake_reset();
            fake_watch()->fails = call;
            fake_watch()->fails_at = at;
            bool is_well = train(options, &result, &reason);
            if (fake_watch()->states != 0 || fake_watch()->host_blocks != 0)
                fail_msg("%s, call %d: something was not given back", said, at);
            if (call == FAKE_fed && is_well)
                continue; /* the loader called fed() after the last step, so the failure had no effect */
            if (!is_well && call == FAKE_sum && strstr(reason.text, "another device is gone") != NULL)
                continue; /* another device reported the failure first */
            if (is_well || strstr(reason.text, said) == NULL)
                fail_msg("%s, call %d: it says '%s'", said, at, is_well ? "all is well" : reason.text);
        }
    }
}

/* ---- results ---- */

static void learns(void **state)
{
    (void)state;
    struct train_options options = small();
    struct train_result result = trained(&options);
    assert_int_equal(result.steps, 60);
    assert_true(result.test_accuracy > 0.9);
    options.optimizer = OPTIMIZER_ADAM;
    assert_true(trained(&options).test_accuracy > 0.9);
    options.labels_are_lot = true; /* random labels cannot be predicted for new images */
    assert_true(trained(&options).test_accuracy < 0.5);
}

/* Return the largest difference between two sets of parameters. */
static double apart(const struct checkpoint *one, const struct checkpoint *other)
{
    double most = 0;
    for (uint64_t i = 0; i < one->parameter_count; i++)
        most = fmax(most, fabs(one->parameters[i] - other->parameters[i]));
    return most;
}

static void parts_make_the_same_step(void **state)
{
    (void)state;
    struct train_options options = small();
    options.checkpoint_path = checkpoint_path;
    options.clip = 0.5; /* the norm is that of the summed gradients */
    options.log = fopen(log_path, "w");
    trained(&options);
    fclose(options.log);
    options.log = NULL;
    assert_true(log_has("\"step\":1,") && log_has("\"gradient_norm\":1.") && log_has("\"gradient_norm\":0."));
    struct checkpoint whole = read_checkpoint();
    const struct {
        size_t micro_batch;
        int devices;
    } rows[] = {{8, 1}, {1, 1}, {0, 2}, {4, 4}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fake_reset();
        options.fit.micro_batch = rows[i].micro_batch;
        options.devices = rows[i].devices;
        trained(&options);
        struct checkpoint parted = read_checkpoint();
        assert_true(apart(&whole, &parted) < 1e-5);
        checkpoint_clear(&parted);
    }
    options.fit.micro_batch = 5;
    options.devices = 1;
    struct train_result result;
    assert_false(train(&options, &result, &reason));
    assert_non_null(strstr(reason.text, "micro-batches of 5 do not divide the 32 images"));
    checkpoint_clear(&whole);
}

static void same_checkpoint(const struct checkpoint *one, const struct checkpoint *other)
{
    assert_memory_equal(one, other, offsetof(struct checkpoint, parameters));
    assert_memory_equal(one->parameters, other->parameters, one->parameter_count * sizeof(float));
    for (uint64_t i = 0; i < one->moment_count; i++)
        assert_memory_equal(one->moments[i], other->moments[i], one->parameter_count * sizeof(float));
}

/* Run 60 steps at once, then with interruptions, over several epochs and with micro-batches. The results are
 * identical. */
static void goes_on(void **state)
{
    (void)state;
    static const uint64_t breaks[] = {1, 15, 16, 40, 60};
    struct train_options options = small();
    options.optimizer = OPTIMIZER_ADAM;
    options.fit.micro_batch = 16;
    options.checkpoint_path = checkpoint_path;
    options.scaling = SCALING_DYNAMIC;
    options.scale_after = 7;
    trained(&options);
    struct checkpoint whole = read_checkpoint();
    assert_int_equal(remove(checkpoint_path), 0);
    options.resumes = true;
    for (size_t i = 0; i < sizeof breaks / sizeof *breaks; i++) {
        options.steps = breaks[i];
        struct train_result result = trained(&options);
        assert_int_equal(result.steps, breaks[i]);
        assert_int_equal(result.own_steps, breaks[i] - (i == 0 ? 0 : breaks[i - 1]));
    }
    struct checkpoint broken = read_checkpoint();
    same_checkpoint(&whole, &broken);
    checkpoint_clear(&whole);
    checkpoint_clear(&broken);
    options.batch = 16;
    struct train_result result;
    assert_false(train(&options, &result, &reason));
    assert_non_null(strstr(reason.text, "/c: the checkpoint is for batch 32, not 16"));
}

/* The number of threads that fill the buffers must not change any step's result. 32 images of 48 x 48 values are enough
 * for helper threads. */
static void helpers_change_nothing(void **state)
{
    (void)state;
    struct train_options options = small();
    FILE *file = fopen(model_path, "w");
    fputs("input 1 48 48\nlinear 4\n", file);
    fclose(file);
    options.steps = 20;
    options.rate = 0.001;
    options.checkpoint_path = checkpoint_path;
    trained(&options);
    struct checkpoint alone = read_checkpoint();
    options.loader_threads = 4;
    trained(&options);
    struct checkpoint helped = read_checkpoint();
    same_checkpoint(&alone, &helped);
    checkpoint_clear(&alone);
    checkpoint_clear(&helped);
    options.steps = 3;
    options.image_count = 100;
    fails_cleanly(&options);
}

/* Reading the results less often does not change any step. */
static void results_may_wait(void **state)
{
    (void)state;
    struct train_options options = small();
    options.optimizer = OPTIMIZER_ADAM;
    options.checkpoint_path = checkpoint_path;
    trained(&options);
    struct checkpoint each = read_checkpoint();
    int settled = fake_watch()->calls[FAKE_settle];
    fake_reset();
    options.results_every = 10;
    trained(&options);
    assert_true(fake_watch()->calls[FAKE_settle] < settled / 5);
    struct checkpoint some = read_checkpoint();
    same_checkpoint(&each, &some);
    checkpoint_clear(&each);
    checkpoint_clear(&some);
}

/* ---- recipes ---- */

/* A schedule, an average, and an evaluation after each epoch, which has 15 steps. */
static struct train_options with_recipe(void)
{
    struct train_options options = small();
    options.optimizer = OPTIMIZER_ADAM;
    options.schedule = (struct rate_options){.kind = RATE_COSINE, .warmup = {.count = 1, .is_epochs = true}};
    options.average = 0.9;
    options.clip = 1;
    options.smoothing = 0.1;
    options.weight_decay = 0.01;
    options.selects_decay = true;
    options.evaluate_epochs = 1;
    options.patience = 3;
    options.checkpoint_path = checkpoint_path;
    return options;
}

static void same_average(const struct checkpoint *one, const struct checkpoint *other)
{
    assert_int_equal(one->average_count, 1);
    assert_memory_equal(one->average, other->average, one->parameter_count * sizeof(float));
    assert_memory_not_equal(one->average, one->parameters, one->parameter_count * sizeof(float));
}

/* A training that fails again and again, and continues from its last checkpoint, is that of one without a failure. The
 * file of the best evaluation is the same, too. */
static void recipes_go_on(void **state)
{
    (void)state;
    static const int fails_at[] = {3, 9, 14, 8, 30};
    for (int devices = 1; devices <= 2; devices++) {
        struct train_options options = with_recipe();
        struct train_result whole = trained(&options), result = {0};
        options.devices = devices;
        fake_reset();
        whole = trained(&options);
        struct checkpoint at_once = read_checkpoint(), best, again, best_again;
        assert_true(checkpoint_read(best_path, 1 << 20, &best, &reason));
        assert_int_equal(best.step, best.best_step);
        assert_int_equal(best.step, whole.best_step);
        assert_int_equal(remove(checkpoint_path), 0);
        assert_int_equal(remove(best_path), 0);
        options.resumes = true;
        options.checkpoint_every = 4;
        for (size_t i = 0; i < sizeof fails_at / sizeof *fails_at; i++) {
            fake_reset();
            fake_watch()->fails = FAKE_update;
            fake_watch()->fails_at = fails_at[i] * devices;
            assert_false(train(&options, &result, &reason));
        }
        fake_reset();
        result = trained(&options);
        assert_int_equal(result.steps, 60);
        assert_int_equal(result.best_step, whole.best_step);
        again = read_checkpoint();
        assert_true(checkpoint_read(best_path, 1 << 20, &best_again, &reason));
        same_checkpoint(&at_once, &again);
        same_average(&at_once, &again);
        same_checkpoint(&best, &best_again);
        same_average(&best, &best_again);
        checkpoint_clear(&at_once);
        checkpoint_clear(&again);
        checkpoint_clear(&best);
        checkpoint_clear(&best_again);
        remove(checkpoint_path);
        remove(best_path);
    }
}

/* With random labels no evaluation is much better than another one. The training ends after the evaluation that
 * exhausts the patience, on all devices at the same step, and a continued one ends at once. */
static void patience_ends_a_training(void **state)
{
    (void)state;
    for (int devices = 1; devices <= 4; devices *= 2) {
        struct train_options options = with_recipe();
        options.labels_are_lot = true;
        options.steps = 15 * 40;
        options.devices = devices;
        options.results_every = 4;
        fake_reset();
        struct train_result result = trained(&options);
        assert_true(result.ended_early && !result.was_stopped);
        assert_int_equal(result.steps, result.best_step + 3 * 15);
        assert_int_equal(fake_watch()->calls[FAKE_update], (int)result.steps * devices);
        struct checkpoint is = read_checkpoint(), best;
        assert_int_equal(is.step, result.steps);
        assert_int_equal(is.worse_evaluations, 3);
        assert_true(checkpoint_read(best_path, 1 << 20, &best, &reason));
        assert_int_equal(best.step, result.best_step);
        assert_int_equal(best.worse_evaluations, 0);
        checkpoint_clear(&is);
        checkpoint_clear(&best);
        options.resumes = true;
        fake_reset();
        result = trained(&options);
        assert_true(result.ended_early && result.own_steps == 0);
        assert_int_equal(fake_watch()->calls[FAKE_update], 0);
        remove(checkpoint_path);
        remove(best_path);
    }
}

/* The evaluated parameters are the average: with a decay near 1, it stays near the parameters after the first step, so
 * the evaluation is bad although the training learns. */
static void the_average_is_evaluated(void **state)
{
    (void)state;
    struct train_options options = small();
    double plain = trained(&options).test_loss;
    options.average = 0.999999;
    struct train_result result = trained(&options);
    assert_true(result.test_loss > 2 * plain);
    assert_true(result.accuracy > 0.9);
    options.average = 0.5;
    assert_true(trained(&options).test_loss < 1.5 * plain);
}

static void a_changed_recipe_is_noted(void **state)
{
    (void)state;
    struct train_options options = small();
    struct train_result result;
    char said[4096] = "";
    options.checkpoint_path = checkpoint_path;
    options.schedule.kind = RATE_COSINE;
    options.schedule.end = 0.001;
    options.smoothing = 0.1;
    trained(&options);
    options.resumes = true;
    options.steps = 70;
    options.schedule.kind = RATE_CONSTANT;
    options.progress = fmemopen(said, sizeof said, "w");
    trained(&options);
    fclose(options.progress);
    options.progress = NULL;
    assert_non_null(strstr(said, "cosine to 0.001 at step 60, label smoothing 0.1: the results will differ"));
    /* also if the difference is at the end of a long text */
    options.steps = 75;
    options.schedule = (struct rate_options){.kind = RATE_STEPS, .factor = 0.1, .mark_count = RATE_MARKS_MAX};
    for (size_t i = 0; i < RATE_MARKS_MAX; i++)
        options.schedule.marks[i].count = 10000000000000000000u + i;
    trained(&options);
    options.steps = 80;
    options.smoothing = nextafter(0.1, 1);
    options.progress = fmemopen(said, sizeof said, "w");
    trained(&options);
    fclose(options.progress);
    assert_non_null(strstr(said, "10000000000000000015 by 0.1, label smoothing 0.1: the results will differ"));
    options.progress = NULL;
    options.steps = 85;
    options.log = fopen(log_path, "w");
    trained(&options);
    fclose(options.log);
    options.log = NULL;
    assert_true(log_has("{\"resumed\":80}"));
    options.average = 0.9;
    assert_false(train(&options, &result, &reason));
    assert_non_null(strstr(reason.text, "the checkpoint is for average count 0, not 1"));
}

/* The average begins with the first step that is not broken, also if results are read less often. */
static void the_average_begins_after_broken_steps(void **state)
{
    (void)state;
    struct train_options options = small();
    struct checkpoint each, some;
    options.average = 0.9;
    options.checkpoint_path = checkpoint_path;
    for (int devices = 1; devices <= 2; devices++) {
        options.devices = devices;
        for (uint64_t every = 1; every <= 10; every += 9) {
            fake_reset();
            fake_watch()->broken_first = 1;
            fake_watch()->broken_last = (uint64_t)(3 * devices);
            options.results_every = every;
            trained(&options);
            *(every == 1 ? &each : &some) = read_checkpoint();
        }
        assert_int_equal(each.update_number, 57);
        same_checkpoint(&each, &some);
        same_average(&each, &some);
        checkpoint_clear(&each);
        checkpoint_clear(&some);
    }
}

/* ---- the loss scale ---- */

static void scales(void **state)
{
    (void)state;
    struct scale scale = scale_begin(SCALING_DYNAMIC, 0);
    scale.after = 3;
    assert_true(scale.now == SCALE_BEGIN);
    assert_true(scale_step(&scale, true) && scale.now == SCALE_BEGIN / 2);
    assert_true(scale_step(&scale, false) && scale_step(&scale, false) && scale.now == SCALE_BEGIN / 2);
    /* A broken step resets the count of good steps. */
    assert_true(scale_step(&scale, true) && scale.now == SCALE_BEGIN / 4);
    for (int i = 0; i < 3; i++)
        assert_true(scale_step(&scale, false));
    assert_true(scale.now == SCALE_BEGIN / 2);
    for (int i = 0; i < 3 * 30; i++)
        assert_true(scale_step(&scale, false));
    assert_true(scale.now == SCALE_MOST);
    while (scale.now > 1)
        assert_true(scale_step(&scale, true));
    for (int i = 1; i < SCALE_BROKEN_MOST; i++)
        assert_true(scale_step(&scale, true) && scale.now == 1);
    assert_false(scale_step(&scale, true));
    scale = scale_begin(SCALING_FIXED, 128);
    assert_true(scale_step(&scale, true) && scale.now == 128);
}

/* Broken steps are skipped, and Adam's step number does not count them. */
static void broken_steps_are_not_taken(void **state)
{
    (void)state;
    struct train_options options = small();
    options.checkpoint_path = checkpoint_path;
    options.scaling = SCALING_DYNAMIC;
    fake_watch()->broken_first = 10;
    fake_watch()->broken_last = 12;
    trained(&options);
    struct checkpoint is = read_checkpoint();
    assert_int_equal(is.step, 60);
    assert_int_equal(is.update_number, 57);
    assert_int_equal(is.broken_steps, 3);
    assert_int_equal(is.good_steps, 48);
    assert_true(is.loss_scale == SCALE_BEGIN / 8);
    checkpoint_clear(&is);
    fake_reset();
    fake_watch()->broken_first = 3;
    fake_watch()->broken_last = UINT64_MAX;
    options.scaling = SCALING_FIXED;
    options.loss_scale = 128;
    struct train_result result;
    assert_false(train(&options, &result, &reason));
    assert_non_null(strstr(reason.text, "step 52: gradients were not finite for 50 steps in a row"));
    assert_int_equal(fake_watch()->states, 0);
    /* All steps from 3 on are broken. Only every second result is read, so 50 broken results in a row take 100
     * steps. */
    options.steps = 200;
    options.results_every = 2;
    fake_reset();
    fake_watch()->broken_first = 3;
    fake_watch()->broken_last = UINT64_MAX;
    assert_false(train(&options, &result, &reason));
    assert_non_null(strstr(reason.text, "step 102: gradients were not finite for 50 steps in a row"));
}

/* ---- failures ---- */

static void any_call_may_fail(void **state)
{
    (void)state;
    struct train_options options = small();
    options.image_count = 40;
    options.batch = 8;
    options.fit.micro_batch = 2;
    options.steps = 3;
    options.checkpoint_path = checkpoint_path;
    options.checkpoint_every = 2;
    options.average = 0.9;
    options.clip = 1;
    options.selects_decay = true;
    options.weight_decay = 0.1;
    options.evaluate_every = 2;
    options.patience = 1;
    fails_cleanly(&options);
    options.devices = 2;
    fails_cleanly(&options);
}

static void nobody_waits_for_ever(void **state)
{
    (void)state;
    struct team team;
    team_begin(&team, 2);
    because(&reason, "a card is lost");
    pid_t child = fork();
    if (child == 0) {
        fclose(stderr);
        team_fail(&team, &reason);
        team_leave(&team, 0);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 3);
    team_miss(&team, &reason);
    team_leave(&team, 0);
    team_end(&team);
}

static void refused(struct train_options options, const char *why)
{
    struct train_result result;
    assert_false(train(&options, &result, &reason));
    if (strstr(reason.text, why) == NULL)
        fail_msg("not said: '%s', but: '%s'", why, reason.text);
}

static void refuses_what_cannot_be(void **state)
{
    (void)state;
    struct train_options options = small();
    options.devices = 3;
    refused(options, "a batch of 32 images cannot be divided equally among 3 devices");
    options = small();
    options.batch = 501;
    refused(options, "synthetic: 500 training images, but a batch has 501");
    options = small();
    options.steps = 0;
    refused(options, "neither steps nor epochs");
    options = small();
    options.fit.precision = PRECISION_FP16;
    refused(options, "the back end fake cannot compute in fp16");
    options = small();
    options.fit.memory_bytes = 1000;
    refused(options, "nothing fits: the plan needs at least ");
    options = small();
    options.resumes = true;
    refused(options, "no checkpoint is given");
    options = small();
    options.checkpoint_path = "/nowhere/c";
    refused(options, "/nowhere/c.new: No such file or directory");
    assert_int_equal(fake_watch()->calls[FAKE_iterate], 0); /* before the first step */
    options.checkpoint_path = "/dev/null";
    refused(options, "/dev/null: not a regular file");
    options = small();
    options.patience = 3;
    refused(options, "patience needs evaluations");
    options = small();
    options.model_path = "/nowhere/m.net";
    refused(options, "/nowhere/m.net");
}

/* ---- reports ---- */

static void warns(void **state)
{
    (void)state;
    struct train_options options = small();
    options.steps = 2;
    options.memory_warn_bytes = 1 << 30;
    options.temperature_warn = 80;
    fake_watch()->seen = (struct backend_watch){-1, -1, 1 << 30, 79};
    options.log = fopen(log_path, "w");
    trained(&options);
    fclose(options.log);
    assert_true(log_has("\"step\":2") && log_has("\"memory_bytes\":1073741824") && log_has("\"temperature\":79"));
    assert_false(log_has("warning"));
    fake_watch()->seen = (struct backend_watch){-1, -1, (1 << 30) + 1, 80};
    options.log = fopen(log_path, "w");
    trained(&options);
    fclose(options.log);
    assert_true(log_has("{\"warning\":\"memory\",\"memory_bytes\":1073741825,\"limit_bytes\":1073741824}"));
    assert_true(log_has("{\"warning\":\"temperature\",\"temperature\":80,\"limit\":80}"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(learns, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(parts_make_the_same_step, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(goes_on, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(helpers_change_nothing, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(results_may_wait, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(recipes_go_on, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(patience_ends_a_training, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(the_average_is_evaluated, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(the_average_begins_after_broken_steps, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(a_changed_recipe_is_noted, make_folder, drop_folder),
        cmocka_unit_test(scales),
        cmocka_unit_test_setup_teardown(broken_steps_are_not_taken, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(any_call_may_fail, make_folder, drop_folder),
        cmocka_unit_test(nobody_waits_for_ever),
        cmocka_unit_test_setup_teardown(refuses_what_cannot_be, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(warns, make_folder, drop_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
