/* Test checkpoints: reading what was written, rejecting bad files, and detecting damage to any single byte. */
#include "checkpoint.h"
#include "checksum.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static struct reason reason;
static char folder[] = "/tmp/trainer-checkpoint-XXXXXX", path[64];

static int make_folder(void **state)
{
    (void)state;
    strcpy(strrchr(folder, '-') + 1, "XXXXXX");
    if (mkdtemp(folder) == NULL)
        return 1;
    snprintf(path, sizeof path, "%s/c", folder);
    return 0;
}

static int drop_folder(void **state)
{
    (void)state;
    remove(path);
    return rmdir(folder);
}

enum { PARAMETERS = 100, STATISTICS = 7 };

static struct checkpoint sample(void)
{
    struct checkpoint checkpoint = {.model = "small",
                                    .model_sum = 0xdeadbeef,
                                    .parameter_count = PARAMETERS,
                                    .statistics_count = STATISTICS,
                                    .moment_count = 2,
                                    .average_count = 1,
                                    .optimizer = "adam",
                                    .data = "mnist:a folder",
                                    .image_count = 60000,
                                    .batch = 12800,
                                    .seed = UINT64_MAX,
                                    .precision = "fp16",
                                    .micro_batch = 400,
                                    .devices = 2,
                                    .rate = 0.1,
                                    .step = 18,
                                    .update_number = 17,
                                    .epoch = 4,
                                    .position = 25600,
                                    .loss_scale = 65536,
                                    .good_steps = 3,
                                    .broken_steps = 1,
                                    .recipe = "cosine to 0 at step 100, average 0.999",
                                    .best_accuracy = 0.75,
                                    .best_step = 12,
                                    .worse_evaluations = 2};
    assert_true(checkpoint_alloc(&checkpoint, &reason));
    for (int i = 0; i < PARAMETERS; i++) {
        checkpoint.parameters[i] = (float)i / 3;
        checkpoint.moments[0][i] = (float)i / 7;
        checkpoint.moments[1][i] = (float)i / 11;
        checkpoint.average[i] = (float)i / 13;
    }
    for (int i = 0; i < STATISTICS; i++)
        checkpoint.statistics[i] = (float)i;
    return checkpoint;
}

static uint64_t most(void)
{
    return checkpoint_bytes_max(PARAMETERS, STATISTICS);
}

static void comes_back(void **state)
{
    (void)state;
    struct checkpoint was = sample(), is;
    char note[256];
    assert_true(checkpoint_write(path, &was, &reason));
    assert_true(checkpoint_read(path, most(), &is, &reason));
    assert_memory_equal(&was, &is, offsetof(struct checkpoint, parameters));
    assert_memory_equal(was.parameters, is.parameters, PARAMETERS * sizeof(float));
    assert_memory_equal(was.moments[0], is.moments[0], PARAMETERS * sizeof(float));
    assert_memory_equal(was.moments[1], is.moments[1], PARAMETERS * sizeof(float));
    assert_memory_equal(was.statistics, is.statistics, STATISTICS * sizeof(float));
    assert_memory_equal(was.average, is.average, PARAMETERS * sizeof(float));
    assert_true(checkpoint_fits(&is, &was, note, sizeof note, &reason));
    assert_string_equal(note, "");
    checkpoint_clear(&is);
    was.moment_count = 1;
    was.statistics_count = 0;
    assert_true(checkpoint_write(path, &was, &reason)); /* replaces the previous file */
    assert_true(checkpoint_read(path, most(), &is, &reason));
    assert_int_equal(is.moment_count, 1);
    assert_null(is.statistics);
    checkpoint_clear(&is);
    checkpoint_clear(&was);
}

static void misfit(const struct checkpoint *is, const struct checkpoint *wants, const char *why)
{
    char note[256];
    assert_false(checkpoint_fits(is, wants, note, sizeof note, &reason));
    if (strstr(reason.text, why) == NULL)
        fail_msg("not said: '%s', but: '%s'", why, reason.text);
}

static void refuses_what_does_not_fit(void **state)
{
    (void)state;
    struct checkpoint is = {.model = "small", .optimizer = "adam", .data = "synthetic", .batch = 32}, wants = is;
    char note[256];
    strcpy(wants.model, "vgg11");
    misfit(&is, &wants, "the checkpoint is for model small, not vgg11");
    wants = is;
    wants.model_sum = 1;
    misfit(&is, &wants, "sum 0, not 1");
    wants = is;
    wants.batch = 64;
    misfit(&is, &wants, "batch 32, not 64");
    wants = is;
    wants.seed = 1;
    misfit(&is, &wants, "seed 0, not 1");
    wants = is;
    strcpy(wants.optimizer, "sgd");
    misfit(&is, &wants, "optimizer adam, not sgd");
    wants = is;
    is.position = 1;
    misfit(&is, &wants, "impossible");
    is.image_count = wants.image_count = 64;
    is.position = 33; /* the next 32 images would end beyond the last one */
    misfit(&is, &wants, "impossible");
    is.position = 32;
    assert_true(checkpoint_fits(&is, &wants, note, sizeof note, &reason));
    is.position = 0;
    wants.micro_batch = 8;
    assert_true(checkpoint_fits(&is, &wants, note, sizeof note, &reason));
    assert_non_null(strstr(note, "micro-batch 0"));
    wants.micro_batch = 0;
    strcpy(wants.recipe, "constant rate");
    strcpy(is.recipe, "cosine to 0 at step 100");
    assert_true(checkpoint_fits(&is, &wants, note, sizeof note, &reason));
    assert_non_null(strstr(note, ", cosine to 0 at step 100: the results will differ"));
    is.rate = 0.10000000000000002; /* all digits, or it would look like the wanted rate */
    assert_true(checkpoint_fits(&is, &wants, note, sizeof note, &reason));
    assert_non_null(strstr(note, ", rate 0.10000000000000002, momentum "));
    is.rate = wants.rate;
    wants = is;
    wants.average_count = 1;
    misfit(&is, &wants, "average count 0, not 1");
}

static void unreadable(const char *why)
{
    struct checkpoint is = {0};
    assert_false(checkpoint_read(path, most(), &is, &reason));
    assert_null(is.parameters);
    if (strstr(reason.text, why) == NULL)
        fail_msg("not said: '%s', but: '%s'", why, reason.text);
}

static void rewrite(const struct bytes *bytes)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes->data, 1, bytes->count, file), bytes->count);
    assert_int_equal(fclose(file), 0);
}

static void refuses_damage(void **state)
{
    (void)state;
    struct checkpoint was = sample(), is = {0};
    struct bytes bytes;
    assert_true(checkpoint_write(path, &was, &reason));
    assert_true(bytes_read(path, UINT64_MAX, &bytes, &reason));
    for (size_t i = 0; i < bytes.count; i++) /* damage every byte */
        for (int bit = 0; bit < 8; bit += 7) {
            bytes.data[i] ^= (uint8_t)(1 << bit);
            assert_false(checkpoint_parse("c", &bytes, &is, &reason));
            bytes.data[i] ^= (uint8_t)(1 << bit);
        }
    for (size_t count = 0; count < bytes.count; count++) { /* cut the file at every length */
        struct bytes shorter = {bytes.data, count};
        assert_false(checkpoint_parse("c", &shorter, &is, &reason));
    }
    bytes.count--;
    rewrite(&bytes);
    unreadable("damaged: the checksum is ");
    bytes.data[0] = 'X';
    rewrite(&bytes);
    unreadable("not a checkpoint of this trainer");
    bytes.count = 0;
    rewrite(&bytes);
    unreadable("not a checkpoint of this trainer");
    assert_int_equal(truncate(path, (off_t)most() + 1), 0);
    unreadable("are allowed");
    remove(path);
    unreadable("No such file or directory");
    bytes_clear(&bytes);
    checkpoint_clear(&was);
}

/* A header with a correct checksum but wrong values is rejected. */
static void refuses_lies(void **state)
{
    (void)state;
    static const char *const lies[][2] = {{"parameter_count 100", "parameter_count 999"},
                                          {"moment_count 2", "moment_count 9"},
                                          {"moment_count 2", "moment_count x"},
                                          {"step 18", "step -8"},
                                          {"batch 12800", "butch 12800"},
                                          {"loss_scale 0x1p+16", "loss_scale 0x1p+9n"}};
    struct checkpoint was = sample(), is = {0};
    struct bytes bytes;
    assert_true(checkpoint_write(path, &was, &reason));
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        assert_true(bytes_read(path, UINT64_MAX, &bytes, &reason));
        uint8_t *at = memmem(bytes.data, bytes.count, lies[i][0], strlen(lies[i][0]));
        assert_non_null(at);
        memcpy(at, lies[i][1], strlen(lies[i][1]));
        uint32_t sum = checksum(0, bytes.data + 16, bytes.count - 16);
        for (int k = 0; k < 4; k++)
            bytes.data[12 + k] = (uint8_t)(sum >> 8 * k);
        assert_false(checkpoint_parse("c", &bytes, &is, &reason));
        assert_null(strstr(reason.text, "checksum"));
        bytes_clear(&bytes);
    }
    checkpoint_clear(&was);
}

/* If a checkpoint cannot be written, the previous one stays. */
static void keeps_the_last_one(void **state)
{
    (void)state;
    struct checkpoint was = sample(), is;
    char beside[80];
    snprintf(beside, sizeof beside, "%s.new", path);
    assert_true(checkpoint_write(path, &was, &reason));
    assert_int_equal(mkdir(beside, 0700), 0);
    was.step = 99;
    assert_false(checkpoint_write(path, &was, &reason));
    assert_non_null(strstr(reason.text, "c.new: Is a directory"));
    assert_true(checkpoint_read(path, most(), &is, &reason));
    assert_int_equal(is.step, 18);
    checkpoint_clear(&is);
    assert_int_equal(rmdir(beside), 0);
    checkpoint_clear(&was);
}

/* The older format has fewer fields. It is read as a checkpoint of a training without the newer settings. */
static void reads_the_older_format(void **state)
{
    (void)state;
    static const char head[] = "model small\nmodel_sum 5\nparameter_count 2\nstatistics_count 1\nmoment_count 1\n"
                               "optimizer sgd\ndata synthetic\nimage_count 64\nbatch 32\nseed 1\nprecision fp32\n"
                               "micro_batch 32\ndevices 1\nrate 0x1p-4\nmomentum 0x0p+0\nweight_decay 0x0p+0\nstep 1\n"
                               "update_number 1\nepoch 0\nposition 32\nloss_scale 0x1p+0\ngood_steps 1\n"
                               "broken_steps 0\nbroken_in_a_row 0\n";
    const float values[] = {1, 2, 3, 4, 5};
    uint8_t file[1024] = "GSTRAIN1";
    size_t head_bytes = sizeof head - 1, count = 16 + head_bytes + sizeof values;
    memcpy(file + 16, head, head_bytes);
    memcpy(file + 16 + head_bytes, values, sizeof values);
    uint32_t sum = checksum(0, file + 16, count - 16);
    for (int k = 0; k < 4; k++) {
        file[8 + k] = (uint8_t)(head_bytes >> 8 * k);
        file[12 + k] = (uint8_t)(sum >> 8 * k);
    }
    struct bytes bytes = {file, count};
    struct checkpoint is = {0};
    assert_true(checkpoint_parse("c", &bytes, &is, &reason));
    assert_true(is.parameters[1] == 2 && is.moments[0][1] == 4 && is.statistics[0] == 5);
    assert_string_equal(is.recipe, CHECKPOINT_PLAIN);
    assert_int_equal(is.average_count, 0);
    assert_int_equal(is.best_step, 0);
    checkpoint_clear(&is);
    file[7] = '2'; /* without the newer fields */
    assert_false(checkpoint_parse("c", &bytes, &is, &reason));
    assert_non_null(strstr(reason.text, "the header has no \"average_count\""));
    file[7] = '3';
    assert_false(checkpoint_parse("c", &bytes, &is, &reason));
    assert_non_null(strstr(reason.text, "c: byte 7: a checkpoint of another version of this trainer"));
}

/* A rename would replace a pipe or a device, such as /dev/null. */
static void only_files_are_replaced(void **state)
{
    (void)state;
    struct checkpoint is = sample();
    struct stat about;
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_false(checkpoint_write(path, &is, &reason));
    assert_non_null(strstr(reason.text, "/c: not a regular file"));
    assert_false(file_can_replace(path, &reason));
    assert_int_equal(stat(path, &about), 0);
    assert_true(S_ISFIFO(about.st_mode));
    checkpoint_clear(&is);
}

static void sums_agree(void **state)
{
    (void)state;
    assert_int_equal(checksum(0, "123456789", 9), 0xCBF43926); /* the standard test value of this checksum */
    assert_int_equal(checksum_by_bits(0, "123456789", 9), 0xCBF43926);
    assert_int_equal(checksum(checksum(0, "1234", 4), "56789", 5), 0xCBF43926);
    assert_int_equal(checksum(7, NULL, 0), 7);
}

/* Models of the same shapes have different sums if one of their layers computes something else. */
static void models_differ_by_their_sums(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "conv 4 1",      "conv 4 1 groups 2", "conv 4 1 groups 4", "conv 4 1 silu", "conv 4 1 relu6",
        "conv 4 1 relu", "activation silu",   "dropout 0.1",       "dropout 0.2",   "dropout 0.2 images",
        "add a",         "multiply a",        "activation relu6"};
    enum { COUNT = sizeof lines / sizeof *lines };
    uint32_t sums[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        char name[] = "/tmp/trainer-model-XXXXXX";
        struct model model;
        int fd = mkstemp(name);
        assert_true(fd >= 0 && dprintf(fd, "input 4 1 1\na = conv 4 1\n%s\nlinear 2\n", lines[i]) > 0);
        close(fd);
        bool is_read = model_read(name, &model, &reason);
        unlink(name);
        if (!is_read)
            fail_msg("%s", reason.text);
        sums[i] = checkpoint_model_sum(&model);
        for (size_t k = 0; k < i; k++)
            assert_int_not_equal(sums[i], sums[k]);
        model_clear(&model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(comes_back, make_folder, drop_folder),
        cmocka_unit_test(refuses_what_does_not_fit),
        cmocka_unit_test_setup_teardown(refuses_damage, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(refuses_lies, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(keeps_the_last_one, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(only_files_are_replaced, make_folder, drop_folder),
        cmocka_unit_test(reads_the_older_format),
        cmocka_unit_test(sums_agree),
        cmocka_unit_test(models_differ_by_their_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
