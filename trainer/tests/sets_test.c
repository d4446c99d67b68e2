/* Test sets that come as .npy or IDX files of any shape, as CIFAR-100, and with test images elsewhere. */
#include "data.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct reason reason;
static const uint8_t zeros[8192];
static char folder[] = "/tmp/trainer-sets-XXXXXX";
enum { COUNT = 4, ROWS = 2, COLUMNS = 3, CHANNELS = 3, NUMBERS = COUNT * ROWS * COLUMNS * CHANNELS };

static int make_folder(void **state)
{
    (void)state;
    reason = (struct reason){0};
    strcpy(strrchr(folder, '-') + 1, "XXXXXX");
    return mkdtemp(folder) == NULL;
}

static int drop_folder(void **state)
{
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

static void expect_reason(const char *why)
{
    if (strstr(reason.text, why) == NULL)
        fail_msg("the reason is not '%s', but '%s'", why, reason.text);
}

/* ---- .npy in memory ---- */

/* Return a .npy file with this text in its header, padded to a multiple of 64 bytes, followed by `data`. The caller
 * frees it. */
static struct bytes make_npy(const char *text, const void *data, size_t data_bytes)
{
    size_t head = (10 + strlen(text) + 1 + 63) / 64 * 64;
    struct bytes file = {.data = calloc(1, head + data_bytes + 1), .count = head + data_bytes};
    memcpy(file.data, "\x93NUMPY\x01", 8); /* and minor version 0 */
    file.data[8] = (uint8_t)(head - 10);
    file.data[9] = (uint8_t)((head - 10) >> 8);
    memset(file.data + 10, ' ', head - 11);
    memcpy(file.data + 10, text, strlen(text));
    file.data[head - 1] = '\n';
    if (data_bytes != 0)
        memcpy(file.data + head, data, data_bytes);
    return file;
}

static void npy_refused(const char *text, size_t data_bytes, const char *why)
{
    struct bytes file = make_npy(text, zeros, data_bytes);
    struct array array;
    assert_false(array_from_npy("a", "images", &file, &array, &reason));
    expect_reason(why);
    bytes_clear(&file);
}

static void refuses_damaged_npy(void **state)
{
    (void)state;
    struct array array;
    npy_refused("{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }", 5,
                "a: byte 60: 2 images of 3 are 6 bytes, but the header is followed by 5");
    npy_refused("{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }", 8, "a: byte 20: type '>f4' is big-endian");
    npy_refused("{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }", 16, "type '<f8' is not supported");
    npy_refused("{'descr': '|O', 'fortran_order': False, 'shape': (2,), }", 16, "type '|O' is not supported");
    npy_refused("{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (2,), }", 8, "an array of records");
    npy_refused("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }", 16, "Fortran order");
    npy_refused("{'descr': '<f4', 'fortran_order': False, 'shape': (), }", 4, "a single number, not an array");
    npy_refused("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1), }", 4, "more than 4 dimensions");
    npy_refused("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 2), }", 0, "a size is 0");
    npy_refused("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", 0,
                "the number is too large");
    npy_refused("{'descr': '<i8', 'fortran_order': False, 'shape': (4611686018427387904, 2), }", 0,
                "more bytes than a file can have");
    npy_refused("{'descr': '<f4', 'shape': (2,), }", 8, "the header has no 'fortran_order'");
    npy_refused("{'descr': '<f4', 'descr': '<f4', 'shape': (2,), }", 8, "key 'descr' is unknown or given twice");
    npy_refused("{'descr': '<f4', 'fortran_order': Maybe, 'shape': (2,), }", 8, "neither True nor False");
    npy_refused("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)", 8, "'}' is missing");
    npy_refused("[", 8, "'{' is missing");
    struct bytes file = make_npy("{", NULL, 0);
    file.data[6] = 9;
    assert_false(array_from_npy("a", "images", &file, &array, &reason));
    expect_reason("a: byte 6: version 9");
    file.data[6] = 1;
    file.data[9] = 1;
    assert_false(array_from_npy("a", "images", &file, &array, &reason));
    expect_reason("a: byte 8: a header of 310 bytes in a file of 64");
    for (size_t count = 0; count < 10; count++) {
        assert_false(array_from_npy("a", "images", &(struct bytes){file.data, count}, &array, &reason));
        expect_reason("not a .npy file of images");
    }
    bytes_clear(&file);
}

static void reads_integers_of_npy(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        uint8_t data[16];
    } rows[] = {{"|u1", {7, 200}},
                {"|i1", {7, 200}},
                {"<i2", {7, 0, 200, 255}},
                {"<i4", {7, 0, 0, 0, 200, 255, 255, 255}},
                {"<i8", {7, 0, 0, 0, 0, 0, 0, 0, 200, 255, 255, 255, 255, 255, 255, 255}}};
    static const size_t bytes[] = {2, 2, 4, 8, 16};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[100];
        struct array array;
        snprintf(text, sizeof text, "{'shape': (2,), 'fortran_order': False, 'descr': '%s'}", rows[i].type);
        struct bytes file = make_npy(text, rows[i].data, bytes[i]);
        if (!array_from_npy("a", "labels", &file, &array, &reason))
            fail_msg("%s", reason.text);
        assert_int_equal(array_integer(&array, 0), 7);
        assert_int_equal(array_integer(&array, 1), i == 0 ? 200 : -56);
        bytes_clear(&file);
    }
}

/* ---- pairs ---- */

static struct bytes images_npy(const float *numbers)
{
    return make_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4, 2, 3, 3), }", numbers,
                    NUMBERS * sizeof *numbers);
}

static struct bytes labels_npy(const int64_t labels[COUNT])
{
    return make_npy("{'descr': '<i8', 'fortran_order': False, 'shape': (4,), }", labels, COUNT * sizeof *labels);
}

static void pair_refused(struct bytes images, struct bytes labels, const char *why)
{
    struct pictures pictures;
    assert_false(pictures_from_npy("i", &images, "l", &labels, 5, &pictures, &reason));
    expect_reason(why);
    bytes_clear(&images);
    bytes_clear(&labels);
}

static void checks_pairs(void **state)
{
    (void)state;
    static const int64_t good[COUNT] = {0, 4, 1, 2}, large[COUNT] = {0, 5, 1, 2}, negative[COUNT] = {0, 1, -1, 2};
    float numbers[NUMBERS] = {0};
    pair_refused(images_npy(numbers), labels_npy(large), "l: byte 136: label 5, but there are 5 classes");
    pair_refused(images_npy(numbers), labels_npy(negative), "l: byte 144: label -1, but there are 5 classes");
    numbers[10] = NAN;
    pair_refused(images_npy(numbers), labels_npy(good), "i: byte 168: the value is not finite");
    numbers[10] = 0;
    pair_refused(make_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4, 3, 3, 2), }", numbers, sizeof numbers),
                 labels_npy(good),
                 "2 channels; the last of 4 dimensions must be 1 or 3 (are the channels the second one?)");
    pair_refused(make_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4, 18), }", numbers, sizeof numbers),
                 labels_npy(good), "2 dimensions; images have 3");
    pair_refused(make_npy("{'descr': '<i4', 'fortran_order': False, 'shape': (4, 6, 3), }", numbers, sizeof numbers),
                 labels_npy(good), "use u8 or f32");
    pair_refused(make_npy("{'descr': '|u1', 'fortran_order': False, 'shape': (1, 5000, 1), }", zeros, 5000),
                 labels_npy(good), "images of 5000x1; sides are 1 to 4096");
    pair_refused(images_npy(numbers), images_npy(numbers), "l: byte 60: 4 dimensions; labels have one");
    pair_refused(images_npy(numbers),
                 make_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }", numbers, 16),
                 "l: the labels are not integers");
    pair_refused(images_npy(numbers), make_npy("{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }", "abc", 3),
                 "l: byte 60: 3 labels for 4 images");
}

static void write_bytes(const char *name, struct bytes bytes)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes.data, 1, bytes.count, file), bytes.count);
    assert_int_equal(fclose(file), 0);
}

static void write_npy_pair(const char *part, float factor, float shift)
{
    static const int64_t labels[COUNT] = {0, 4, 1, 2};
    float numbers[NUMBERS];
    char name[64];
    for (size_t i = 0; i < NUMBERS; i++)
        numbers[i] = (float)(i * i % 17) * factor + shift;
    struct bytes images = images_npy(numbers), numbers_of = labels_npy(labels);
    snprintf(name, sizeof name, "%s-images.npy", part);
    write_bytes(name, images);
    snprintf(name, sizeof name, "%s-labels.npy", part);
    write_bytes(name, numbers_of);
    bytes_clear(&images);
    bytes_clear(&numbers_of);
}

static const struct shape shape = {CHANNELS, ROWS, COLUMNS};

/* Open the set twice as different kinds of sources, and compare. The training images get mean 0 and deviation 1. */
static void opens_npy(void **state)
{
    (void)state;
    char whole[128], train[128], test[128];
    float image[NUMBERS / COUNT], other[NUMBERS / COUNT];
    static const int32_t expected[COUNT] = {0, 4, 1, 2};
    double sums[2] = {0};
    int32_t label, other_label;
    struct data *data, *pair;
    write_npy_pair("train", 0.001f, 5);
    write_npy_pair("test", 0.001f, 6);
    snprintf(whole, sizeof whole, "npy:%s", folder);
    snprintf(train, sizeof train, "npy:%s/train-images.npy,%s/train-labels.npy", folder, folder);
    snprintf(test, sizeof test, "npy:%s/test-images.npy,%s/test-labels.npy", folder, folder);
    struct data_options options = {.source = whole, .shape = shape, .class_count = 5};
    assert_true(data_open(&options, &data, &reason));
    options.source = train;
    options.test_source = test;
    assert_true(data_open(&options, &pair, &reason));
    for (size_t i = 0; i < COUNT * PART_COUNT; i++) {
        struct pick pick = {.part = i / COUNT, .index = i % COUNT};
        assert_true(data_image(data, &pick, image, &label, &reason));
        assert_true(data_image(pair, &pick, other, &other_label, &reason));
        assert_memory_equal(image, other, sizeof image);
        assert_int_equal(label, other_label);
        assert_int_equal(label, expected[pick.index]);
        for (size_t at = 0; pick.part == PART_TRAIN && at < NUMBERS / COUNT; at++) {
            sums[0] += image[at];
            sums[1] += image[at] * image[at];
        }
    }
    assert_true(fabs(sums[0] / NUMBERS) < 1e-3 && fabs(sums[1] / NUMBERS - 1) < 1e-2);
    data_close(pair);
    data_close(data);
    options.test_source = NULL;
    assert_true(data_open(&options, &data, &reason)); /* without test images */
    assert_int_equal(data_count(data, PART_TRAIN), COUNT);
    assert_int_equal(data_count(data, PART_TEST), 0);
    data_close(data);
}

static void set_refused(const char *source, const char *test, const char *why)
{
    struct data_options options = {.source = source, .test_source = test, .shape = shape, .class_count = 5};
    struct data *data;
    assert_false(data_open(&options, &data, &reason));
    expect_reason(why);
}

static void refuses_sources(void **state)
{
    (void)state;
    char source[128];
    set_refused("npy:/nowhere", NULL, "/nowhere/train-images.npy: No such file");
    set_refused("npy:/nowhere,", NULL, "\"/nowhere,\" does not name two files as IMAGES,LABELS");
    set_refused("idx:/nowhere", NULL, "does not name two files");
    set_refused("cifar100:/nowhere", NULL, "100 classes, but the model has 5");
    set_refused("synthetic", "npy:/nowhere", "synthetic data has its own test images");
    write_npy_pair("train", 1, 0);
    write_npy_pair("test", 1, 0);
    snprintf(source, sizeof source, "npy:%s", folder);
    set_refused(source, "svhn:x", "unknown data \"svhn:x\"");
    struct bytes file = make_npy("{'descr': '|u1', 'fortran_order': False, 'shape': (4, 2, 3), }", zeros, 24);
    write_bytes("test-images.npy", file);
    bytes_clear(&file);
    set_refused(source, NULL, "other numbers of channels or other types");
}

/* Mean and deviation are those of bytes or of fp32 numbers, so values of another type would be normalised wrongly. */
static void files_have_the_type_of_the_set(void **state)
{
    (void)state;
    static const char types[2][4] = {"|u1", "<f4"};
    for (int wants_fp32 = 0; wants_fp32 < 2; wants_fp32++) {
        char source[128], path[128], text[100];
        struct bytes files[2];
        struct data *data;
        struct pictures pictures;
        write_npy_pair("train", 1, 0);
        for (int i = 0; i < 2; i++) {
            snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (4, 2, 3, 3), }", types[i]);
            files[i] = make_npy(text, zeros, NUMBERS * (i == 0 ? 1 : sizeof(float)));
        }
        write_bytes("train-images.npy", files[wants_fp32]);
        snprintf(source, sizeof source, "npy:%s/train-images.npy,%s/train-labels.npy", folder, folder);
        struct data_options options = {.source = source, .shape = shape, .class_count = 5};
        assert_true(data_open(&options, &data, &reason));
        for (int is_fp32 = 0; is_fp32 < 2; is_fp32++) {
            write_bytes("i.npy", files[is_fp32]);
            snprintf(path, sizeof path, "%s/i.npy", folder);
            bool is_read = data_read_file(data, path, &pictures, &reason);
            assert_int_equal(is_read, is_fp32 == wants_fp32);
            if (is_read)
                pictures_clear(&pictures);
            else
                expect_reason(is_fp32 ? "i.npy: the values are fp32, but those of npy:"
                                      : "i.npy: the values are bytes, but those of npy:");
        }
        data_close(data);
        bytes_clear(&files[0]);
        bytes_clear(&files[1]);
    }
}

static void reads_wide_idx(void **state)
{
    (void)state;
    static uint8_t images_data[] = {0, 0, 0x0D, 4, 0,    0,    0, 1, 0,    0,    0, 1, 0,    0,    0, 1,
                                    0, 0, 0,    3, 0x3f, 0x80, 0, 0, 0xc0, 0x20, 0, 0, 0x42, 0xc8, 0, 0};
    static uint8_t labels_data[] = {0, 0, 0x0C, 1, 0, 0, 0, 1, 0, 0, 1, 2};
    struct bytes images = {images_data, sizeof images_data}, labels = {labels_data, sizeof labels_data};
    struct pictures pictures;
    if (!pictures_from_idx("i", &images, "l", &labels, 1000, &pictures, &reason))
        fail_msg("%s", reason.text);
    assert_int_equal(pictures.labels[0], 258);
    assert_true(pictures.reals[0] == 1 && pictures.reals[1] == -2.5f && pictures.reals[2] == 100);
    pictures_clear(&pictures);
}

static void reads_cifar100(void **state)
{
    (void)state;
    enum { RECORD = 2 + 3072 };
    struct bytes bytes = {calloc(2, RECORD), 2 * RECORD};
    struct pictures pictures = {0};
    bytes.data[RECORD] = 19; /* coarse */
    bytes.data[RECORD + 1] = 99;
    bytes.data[RECORD + 2 + 1024 + 5] = 22;
    assert_true(pictures_add_cifar("c", &bytes, 100, &pictures, &reason));
    assert_int_equal(pictures.count, 2);
    assert_int_equal(pictures.labels[1], 99);
    assert_int_equal(pictures.pixels[3072 + 5 * 3 + 1], 22);
    bytes.data[RECORD + 1] = 100;
    assert_false(pictures_add_cifar("c", &bytes, 100, &pictures, &reason));
    expect_reason("c: byte 3075: label 100, but there are 100 classes");
    pictures_clear(&pictures);
    bytes_clear(&bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(refuses_damaged_npy, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(reads_integers_of_npy, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(checks_pairs, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(opens_npy, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(refuses_sources, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(files_have_the_type_of_the_set, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(reads_wide_idx, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(reads_cifar100, make_folder, drop_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
