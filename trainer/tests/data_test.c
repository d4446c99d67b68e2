/* Test data sets: valid files, damaged files, and orders. */
#include "data.h"
#include "picture_file.h"

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

static void put_u32(uint8_t *at, uint32_t number)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(number >> (24 - 8 * i));
}

enum { COUNT = 6, ROWS = 3, COLUMNS = 2, IMAGES_BYTES = 16 + COUNT * ROWS * COLUMNS, LABELS_BYTES = 8 + COUNT };
static uint8_t images_data[IMAGES_BYTES], labels_data[LABELS_BYTES];
static struct bytes images, labels;

static int make_idx(void **state)
{
    (void)state;
    put_u32(images_data, 0x803);
    put_u32(images_data + 4, COUNT);
    put_u32(images_data + 8, ROWS);
    put_u32(images_data + 12, COLUMNS);
    for (int i = 16; i < IMAGES_BYTES; i++)
        images_data[i] = (uint8_t)(7 * i);
    put_u32(labels_data, 0x801);
    put_u32(labels_data + 4, COUNT);
    for (int i = 0; i < COUNT; i++)
        labels_data[8 + i] = (uint8_t)i;
    images = (struct bytes){images_data, IMAGES_BYTES};
    labels = (struct bytes){labels_data, LABELS_BYTES};
    reason = (struct reason){0};
    return 0;
}

static void refused(const char *why)
{
    struct pictures pictures = {0};
    assert_false(pictures_from_idx("i", &images, "l", &labels, 10, &pictures, &reason));
    assert_null(pictures.pixels);
    if (strstr(reason.text, why) == NULL)
        fail_msg("not said: '%s', but: '%s'", why, reason.text);
}

static void reads_idx(void **state)
{
    (void)state;
    struct pictures pictures;
    assert_true(pictures_from_idx("i", &images, "l", &labels, 10, &pictures, &reason));
    assert_int_equal(pictures.count, COUNT);
    assert_int_equal(pictures.shape.channels, 1);
    assert_int_equal(pictures.shape.height, ROWS);
    assert_int_equal(pictures.shape.width, COLUMNS);
    assert_memory_equal(pictures.pixels, images_data + 16, IMAGES_BYTES - 16);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(pictures.labels[i], labels_data[8 + i]);
    pictures_clear(&pictures);
}

static void refuses_damaged_idx(void **state)
{
    images.count = 15;
    refused("i: 15 bytes, but the header alone has 16");
    images.count = 3;
    refused("i: 3 bytes, but an IDX header has at least 8");
    images.count = IMAGES_BYTES - 1;
    refused("i: byte 4: 6 images of 3x2 are 36 bytes, but the header is followed by 35");
    make_idx(state);
    put_u32(images_data + 4, UINT32_MAX); /* 4294967295 images of 6 bytes: the size overflows 32 bits */
    refused("i: byte 4: 4294967295 images of 3x2 are 25769803770 bytes, but the header is followed by 36");
    put_u32(images_data + 8, UINT32_MAX);
    put_u32(images_data + 12, UINT32_MAX);
    refused("i: byte 4: 4294967295 images of 4294967295x4294967295 are more bytes than a file can have");
    make_idx(state);
    put_u32(images_data + 8, 0);
    refused("i: byte 4: 6 images of 0x2: a size is 0");
    make_idx(state);
    put_u32(images_data, 0x1f8b0800);
    refused("i: byte 0: compressed");
    put_u32(images_data, 0x801);
    refused("i: byte 4: 6 images are 6 bytes, but the header is followed by 44");
    put_u32(images_data, 0x10803);
    refused("i: byte 0: magic number 0x00010803: not an IDX file of images");
    put_u32(images_data, 0x0E03);
    refused("i: byte 2: type 0x0e of the images is not supported");
    put_u32(images_data, 0x805);
    refused("i: byte 3: 5 dimensions; 1 to 4 are supported");
    make_idx(state);
    put_u32(images_data + 8, 1);
    put_u32(images_data + 12, 6);
    put_u32(images_data, 0x903);
    refused("i: the images are integers of 1 bytes or with a sign");
    make_idx(state);
    put_u32(labels_data, 0);
    refused("l: byte 2: type 0x00");
    make_idx(state);
    labels_data[8 + 4] = 10;
    refused("l: byte 12: label 10, but there are 10 classes");
    make_idx(state);
    put_u32(labels_data + 4, COUNT - 1);
    refused("l: byte 4: 5 labels are 5 bytes, but the header is followed by 6");
    labels.count--;
    refused("l: byte 4: 5 labels for 6 images");
    labels.count = 7;
    refused("l: 7 bytes, but the header alone has 8");
}

static void reads_cifar10(void **state)
{
    (void)state;
    enum { RECORD = 1 + 3072 };
    uint8_t *data = calloc(2, RECORD);
    struct bytes bytes = {data, 2 * RECORD};
    struct pictures pictures = {0};
    data[RECORD] = 9;
    data[RECORD + 1 + 5] = 11;
    data[RECORD + 1 + 1024 + 5] = 22;
    data[RECORD + 1 + 2048 + 5] = 33;
    assert_true(pictures_add_cifar("c", &bytes, 10, &pictures, &reason));
    assert_true(pictures_add_cifar("c", &bytes, 10, &pictures, &reason));
    assert_int_equal(pictures.count, 4);
    assert_int_equal(pictures.labels[3], 9);
    const uint8_t *pixel = pictures.pixels + 3 * 3072 + 5 * 3;
    assert_int_equal(pixel[0], 11);
    assert_int_equal(pixel[1], 22);
    assert_int_equal(pixel[2], 33);
    data[RECORD] = 10;
    assert_false(pictures_add_cifar("c", &bytes, 10, &pictures, &reason));
    assert_non_null(strstr(reason.text, "c: byte 3073: label 10"));
    bytes.count--;
    assert_false(pictures_add_cifar("c", &bytes, 10, &pictures, &reason));
    assert_non_null(strstr(reason.text, "not a whole number of records"));
    assert_int_equal(pictures.count, 4);
    pictures_clear(&pictures);
    free(data);
}

/* ---- sets ---- */

static char folder[] = "/tmp/trainer-data-XXXXXX", path[128], source[128];

static const char *write_file(const char *name, const void *data, size_t bytes)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
    return path;
}

static void write_set(void)
{
    write_file("train-images-idx3-ubyte", images_data, images.count);
    write_file("train-labels-idx1-ubyte", labels_data, labels.count);
    write_file("t10k-images-idx3-ubyte", images_data, images.count);
    write_file("t10k-labels-idx1-ubyte", labels_data, labels.count);
}

static int make_folder(void **state)
{
    make_idx(state);
    strcpy(strrchr(folder, '-') + 1, "XXXXXX");
    if (mkdtemp(folder) == NULL)
        return 1;
    snprintf(source, sizeof source, "mnist:%s", folder);
    write_set();
    return 0;
}

static int drop_folder(void **state)
{
    (void)state;
    static const char *const names[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
                                        "t10k-labels-idx1-ubyte", "train-images-idx3-ubyte.gz"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        remove(path);
    }
    return rmdir(folder);
}

static void get_image(const struct data *data, enum part part, size_t index, float *image, int32_t *label)
{
    assert_true(data_image(data, &(struct pick){.part = part, .index = index}, image, label, &reason));
}

static struct data_options grey_options(void)
{
    return (struct data_options){.source = source, .shape = {3, ROWS, COLUMNS}, .class_count = 10};
}

/* A grey image is copied to all channels. The training images have mean 0 and deviation 1. */
static void gives_images_of_files(void **state)
{
    (void)state;
    struct data_options options = grey_options();
    struct data *data;
    float image[3 * ROWS * COLUMNS];
    double sum = 0, squares = 0;
    int32_t label;
    assert_true(data_open(&options, &data, &reason));
    assert_int_equal(data_count(data, PART_TRAIN), COUNT);
    assert_int_equal(data_count(data, PART_TEST), COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        get_image(data, PART_TRAIN, i, image, &label);
        assert_int_equal(label, i);
        for (int at = 0; at < ROWS * COLUMNS; at++) {
            assert_true(image[3 * at] == image[3 * at + 1] && image[3 * at] == image[3 * at + 2]);
            sum += image[3 * at];
            squares += image[3 * at] * image[3 * at];
        }
    }
    assert_true(sum > -1e-4 && sum < 1e-4);
    squares /= COUNT * ROWS * COLUMNS;
    assert_true(squares > 0.999 && squares < 1.001);
    data_close(data);
}

static void set_refused(const struct data_options *options, const char *why)
{
    struct data *data;
    assert_false(data_open(options, &data, &reason));
    if (strstr(reason.text, why) == NULL)
        fail_msg("not said: '%s', but: '%s'", why, reason.text);
}

static void refuses_sets(void **state)
{
    struct data_options options = grey_options();
    options.shape.width = 28;
    set_refused(&options, "the training images have 1 channels of 3x2, but the model takes 3 of 3x28");
    options = grey_options();
    options.class_count = 9;
    set_refused(&options, "10 classes, but the model has 9");
    options.source = "minst:x";
    set_refused(&options, "unknown data \"minst:x\"");
    options = grey_options();
    images.count--;
    write_set();
    set_refused(&options, "train-images-idx3-ubyte: byte 4: 6 images");
    make_idx(state);
    char packed[160];
    snprintf(packed, sizeof packed, "%s", write_file("train-images-idx3-ubyte.gz", "", 0));
    packed[strlen(packed) - 3] = '\0';
    remove(packed);
    set_refused(&options, "train-images-idx3-ubyte.gz is compressed");
    assert_int_equal(mkdir(packed, 0700), 0);
    set_refused(&options, "train-images-idx3-ubyte: not a regular file");
    assert_int_equal(rmdir(packed), 0);
    options.source = "cifar10:/nowhere";
    set_refused(&options, "/nowhere/data_batch_1.bin: No such file or directory");
}

static void makes_images(void **state)
{
    (void)state;
    struct data_options options = {
        .source = "synthetic", .shape = {3, 28, 20}, .class_count = 4, .seed = 5, .image_count = 1000};
    struct data *data, *again, *lot;
    float one[3 * 28 * 20], other[3 * 28 * 20];
    int32_t label, label_again, counts[4] = {0}, same_count = 0;
    assert_true(data_open(&options, &data, &reason));
    assert_true(data_open(&options, &again, &reason));
    options.labels_are_lot = true;
    assert_true(data_open(&options, &lot, &reason));
    assert_int_equal(data_count(data, PART_TEST), 200);
    for (size_t i = 0; i < 1000; i++) {
        get_image(data, PART_TRAIN, i, one, &label);
        get_image(again, PART_TRAIN, i, other, &label_again);
        assert_memory_equal(one, other, sizeof one);
        assert_int_equal(label, label_again);
        counts[label]++;
        get_image(lot, PART_TRAIN, i, other, &label_again);
        assert_memory_equal(one, other, sizeof one);
        same_count += label == label_again;
    }
    for (int i = 0; i < 4; i++)
        assert_in_range(counts[i], 180, 320);
    assert_in_range(same_count, 180, 320);
    get_image(data, PART_TRAIN, 0, one, &label);
    get_image(data, PART_TEST, 0, other, &label);
    assert_memory_not_equal(one, other, sizeof one);
    data_close(data);
    data_close(again);
    data_close(lot);
}

static void orders_repeat(void **state)
{
    (void)state;
    enum { MANY = 1000 };
    uint32_t one[MANY], other[MANY], place_count = 0;
    uint8_t seen[MANY] = {0};
    data_order(3, 0, MANY, one);
    data_order(3, 0, MANY, other);
    assert_memory_equal(one, other, sizeof one);
    for (size_t i = 0; i < MANY; i++) {
        assert_true(one[i] < MANY && !seen[one[i]]);
        seen[one[i]] = 1;
    }
    data_order(3, 1, MANY, other);
    for (size_t i = 0; i < MANY; i++)
        place_count += one[i] == other[i];
    assert_true(place_count < 20); /* two random orders agree in one place on average */
}

/* ---- files to classify ---- */

static bool parses(const char *text, size_t bytes, struct pictures *ret)
{
    struct bytes file = {(uint8_t *)text, bytes};
    *ret = (struct pictures){0};
    return picture_file_parse("f", &file, ret, &reason);
}

static void reads_pictures(void **unused)
{
    (void)unused;
    struct pictures is;
    static const char ppm[] = "P6\n# by hand\n 2\t1 #\n255\nabcdef", pgm[] = "P5 1 2 255 #\n";
    assert_true(parses(ppm, sizeof ppm - 1, &is));
    assert_true(is.count == 1 && is.shape.channels == 3 && is.shape.width == 2 && is.shape.height == 1);
    assert_memory_equal(is.pixels, "abcdef", 6);
    assert_null(is.labels);
    pictures_clear(&is);
    assert_true(parses(pgm, sizeof pgm - 1, &is)); /* after the number, one space, then pixels: "#" and a line end */
    assert_true(is.shape.channels == 1 && is.shape.width == 1 && is.shape.height == 2);
    assert_memory_equal(is.pixels, "#\n", 2);
    pictures_clear(&is);
    char *records = calloc(2, 3073);
    records[3073] = 7;
    assert_true(parses(records, 2 * 3073, &is));
    assert_true(is.count == 2 && is.labels[1] == 7);
    pictures_clear(&is);
    records[3] = 8; /* begins like an IDX file of bytes, but with a wrong number of dimensions */
    records[2] = 8;
    assert_true(parses(records, 2 * 3073, &is));
    assert_int_equal(is.pixels[3], 8); /* the second red value is at the second pixel */
    pictures_clear(&is);
    static const char idx[] = "\0\0\x0d\3\0\0\0\1\0\0\0\1\0\0\0\2\x3f\x80\0\0\xc0\x20\0";
    assert_true(parses(idx, sizeof idx, &is)); /* with the 0 at the end of the string */
    assert_true(is.reals[0] == 1 && is.reals[1] == -2.5f);
    pictures_clear(&is);
    records[0] = 10;
    assert_false(parses(records, 2 * 3073, &is));
    free(records);
}

static void refuses_bad_pictures(void **unused)
{
    (void)unused;
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"", "f: byte 0: neither a binary PGM or PPM, nor an IDX or .npy file"},
        {"P3 1 1 255 1 2 3", "f: byte 0: neither a binary PGM"},
        {"P6 0 1 255 abc", "f: byte 3: not a number from 1 to 32768"},
        {"P6 1 99999 255 abc", "f: byte 5: not a number from 1 to 32768"},
        {"P6 1 1 65535 abcdef", "f: the largest value is 65535; only 255 is supported"},
        {"P6 1 1 # comment without an end", "f: byte 31: not a number from 1 to 65535"},
        {"P6 1 1 255 ab", "f: byte 10: 1x1 pixels are 3 bytes, but the header is followed by 2"},
        {"P6 1 1 255 abcd", "f: byte 10: 1x1 pixels are 3 bytes, but the header is followed by 4"},
        {"P6 1 1 255", "f: byte 10: 1x1 pixels are 3 bytes, but the header is followed by 0"},
        {"P6 32768 32768 255 a", "f: byte 18: 32768x32768 pixels are 3221225472 bytes, but"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct pictures is;
        assert_false(parses(rows[i].text, strlen(rows[i].text), &is));
        if (strncmp(reason.text, rows[i].why, strlen(rows[i].why)) != 0)
            fail_msg("\"%s\": not said: '%s', but: '%s'", rows[i].text, rows[i].why, reason.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(reads_idx, make_idx),
        cmocka_unit_test_setup(refuses_damaged_idx, make_idx),
        cmocka_unit_test(reads_cifar10),
        cmocka_unit_test_setup_teardown(gives_images_of_files, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(refuses_sets, make_folder, drop_folder),
        cmocka_unit_test(makes_images),
        cmocka_unit_test(orders_repeat),
        cmocka_unit_test(reads_pictures),
        cmocka_unit_test(refuses_bad_pictures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
