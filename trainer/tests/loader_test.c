/* Test the loader with real image files, changes of images, and queues: neither threads nor the queue nor a restart
 * changes any bit of the result. */
#include "checkpoint.h"
#include "fake.h"
#include "image_writer.h"
#include "train.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { SIDE = 48, CLASSES = 4, EACH = 8 };
static struct reason reason;
static char folder[] = "/tmp/trainer-loader-XXXXXX", model_path[64], checkpoint_path[64], log_path[64], source[64];

static void write_picture(const char *path, uint64_t seed)
{
    uint8_t pixels[SIDE * SIDE * 3];
    uint64_t state = seed;
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(random_next(&state) % 64 + 60 * (seed % CLASSES));
    struct bytes data =
        seed % 3 == 0 ? write_png(pixels, SIDE, SIDE, 2, 8, false, false) : write_jpeg(pixels, SIDE, SIDE, 3, 90);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data.data, 1, data.count, file), data.count);
    assert_int_equal(fclose(file), 0);
    bytes_clear(&data);
}

static int make_folder(void **state)
{
    (void)state;
    char path[128];
    strcpy(strrchr(folder, '-') + 1, "XXXXXX");
    if (mkdtemp(folder) == NULL)
        return 1;
    snprintf(model_path, sizeof model_path, "%s/m.net", folder);
    snprintf(checkpoint_path, sizeof checkpoint_path, "%s/c", folder);
    snprintf(log_path, sizeof log_path, "%s/log", folder);
    snprintf(source, sizeof source, "images:%s/set", folder);
    FILE *file = fopen(model_path, "w");
    fputs("input 3 8 8\nlinear 4\n", file);
    fclose(file);
    for (uint64_t i = 0; i < CLASSES * EACH; i++) {
        snprintf(path, sizeof path, "%s/set", folder);
        mkdir(path, 0700);
        snprintf(path, sizeof path, "%s/set/%d", folder, (int)(i % CLASSES));
        mkdir(path, 0700);
        snprintf(path, sizeof path, "%s/set/%d/%03d.jpg", folder, (int)(i % CLASSES), (int)i);
        write_picture(path, i);
    }
    fake_reset();
    return 0;
}

static int drop_folder(void **state)
{
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

static struct train_options small(bool reads_files)
{
    return (struct train_options){.model_path = model_path,
                                  .backend = &backend_fake,
                                  .devices = 1,
                                  .data = reads_files ? source : "synthetic",
                                  .augment = reads_files ? "zoom,flip,contrast" : "crop:2,flip,brightness,erase",
                                  .image_count = 40,
                                  .seed = 3,
                                  .batch = 8,
                                  .fit.micro_batch = 4,
                                  .steps = 20,
                                  .rate = 0.01,
                                  .momentum = 0.9,
                                  .checkpoint_path = checkpoint_path};
}

/* Train, and return the checkpoint at the end. The caller clears it. */
static struct checkpoint trained(const struct train_options *options)
{
    struct train_result result;
    struct checkpoint is;
    if (!train(options, &result, &reason) || !checkpoint_read(checkpoint_path, 1 << 20, &is, &reason))
        fail_msg("%s", reason.text);
    assert_int_equal(fake_watch()->states, 0);
    assert_int_equal(fake_watch()->host_blocks, 0);
    assert_true(result.loader_wait <= 1 && (result.own_steps < 2 || result.loader_wait >= 0));
    return is;
}

static bool is_same(const struct checkpoint *one, const struct checkpoint *other)
{
    return one->step == other->step && one->parameter_count == other->parameter_count &&
           memcmp(one->parameters, other->parameters, one->parameter_count * sizeof(float)) == 0 &&
           memcmp(one->moments[0], other->moments[0], one->parameter_count * sizeof(float)) == 0;
}

static void threads_change_nothing(void **state)
{
    (void)state;
    static const struct {
        int threads, queue;
    } rows[] = {{1, 0}, {1, 7}, {2, 2}, {5, 3}, {16, 64}};
    for (int reads_files = 0; reads_files < 2; reads_files++) {
        struct train_options options = small(reads_files);
        struct checkpoint first = trained(&options), other;
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            options.loader_threads = rows[i].threads;
            options.loader_queue = rows[i].queue;
            other = trained(&options);
            assert_true(is_same(&first, &other));
            checkpoint_clear(&other);
        }
        options.augment = "flip";
        other = trained(&options);
        assert_false(is_same(&first, &other));
        checkpoint_clear(&other);
        checkpoint_clear(&first);
    }
}

static void restarts_change_nothing(void **state)
{
    (void)state;
    for (int reads_files = 0; reads_files < 2; reads_files++) {
        struct train_options options = small(reads_files);
        options.loader_threads = 3;
        options.loader_queue = 4;
        struct checkpoint whole = trained(&options), parts;
        for (uint64_t at = 1; at < 20; at += 3) { /* an epoch has 4 or 5 steps */
            options.steps = at;
            options.resumes = false;
            parts = trained(&options);
            checkpoint_clear(&parts);
            options.steps = 20;
            options.resumes = true;
            parts = trained(&options);
            assert_true(is_same(&whole, &parts));
            checkpoint_clear(&parts);
        }
        checkpoint_clear(&whole);
        options.steps = 30;
        options.augment = "flip";
        struct train_result result;
        assert_false(train(&options, &result, &reason));
        assert_non_null(strstr(reason.text, "augment flip"));
    }
}

static void refuses_queues(void **state)
{
    (void)state;
    static const int queues[] = {1, -1, 65};
    struct train_options options = small(false);
    struct train_result result;
    for (size_t i = 0; i < 3; i++) {
        options.loader_queue = queues[i];
        assert_false(train(&options, &result, &reason));
        assert_non_null(strstr(reason.text, "2 to 64 are possible"));
        assert_int_equal(fake_watch()->host_blocks, 0);
    }
}

/* A file whose damage is found only when it is decoded ends the training, and nothing hangs. */
static void ends_at_damage(void **state)
{
    (void)state;
    struct train_options options = small(true);
    struct train_result result;
    char path[128];
    snprintf(path, sizeof path, "%s/set/1/005.jpg", folder);
    struct bytes data;
    assert_true(bytes_read(path, 1 << 20, &data, &reason));
    memcpy(data.data + data.count / 2, "\xff\xd9", 2); /* the mark of the end in the middle */
    FILE *file = fopen(path, "wb");
    assert_int_equal(fwrite(data.data, 1, data.count, file), data.count);
    fclose(file);
    bytes_clear(&data);
    for (int threads = 1; threads <= 4; threads += 3) {
        options.loader_threads = threads;
        options.loader_queue = 2 * threads;
        options.skips_damaged = false;
        if (train(&options, &result, &reason))
            fail_msg("the damaged file was not found");
        if (strstr(reason.text, "005.jpg: ") == NULL)
            fail_msg("the reason is '%s'", reason.text);
        assert_int_equal(fake_watch()->host_blocks, 0);
        assert_int_equal(fake_watch()->states, 0);
        options.skips_damaged = true;
        assert_true(train(&options, &result, &reason));
        assert_int_equal(result.damaged_images, 1);
    }
}

/* Decoding takes far longer than the model, so almost all of the time is the loader's. The log has the same share. With
 * a slow device and images that are made at once it is the other way round. */
static void measures_waiting(void **state)
{
    (void)state;
    struct train_options options = small(true);
    struct train_result result;
    char line[1000];
    double share, sum = 0;
    int count = 0;
    options.log = fopen(log_path, "w+");
    assert_true(train(&options, &result, &reason));
    assert_true(result.loader_wait > 0.5);
    rewind(options.log);
    while (fgets(line, sizeof line, options.log) != NULL) {
        char *at = strstr(line, "\"loader_wait\":");
        if (at == NULL || strstr(line, "\"ended\"") != NULL)
            continue;
        assert_int_equal(sscanf(at, "\"loader_wait\":%lf", &share), 1);
        assert_true(share >= 0 && share <= 1);
        sum += share;
        count++;
    }
    fclose(options.log);
    assert_int_equal(count, 20);
    assert_true(sum / count > 0.5);
    options = small(false);
    fake_watch()->iterate_ms = 20;
    assert_true(train(&options, &result, &reason));
    assert_true(result.loader_wait >= 0 && result.loader_wait < 0.5);
    fake_reset();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(threads_change_nothing, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(restarts_change_nothing, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(refuses_queues, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(ends_at_damage, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(measures_waiting, make_folder, drop_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
