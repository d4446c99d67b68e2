/* Test folders of image files, and the changes of training images. */
#include "data.h"
#include "image_writer.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { SIDE = 16, FILE_WIDTH = 40, FILE_HEIGHT = 24, NUMBERS = SIDE * SIDE * 3 };
static struct reason reason;
static char folder[] = "/tmp/trainer-folder-XXXXXX", source[64];

static void expect_text(const char *is, const char *part)
{
    if (strstr(is, part) == NULL)
        fail_msg("'%s' is not in '%s'", part, is);
}

static void write_at(const char *name, const void *data, size_t bytes)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    for (char *slash = path + strlen(folder); (slash = strchr(slash + 1, '/')) != NULL; *slash = '/') {
        *slash = '\0';
        mkdir(path, 0700);
    }
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

/* Write an image whose red depends on the column, green on the row, and blue on `blue`. */
static void write_picture(const char *name, uint8_t blue)
{
    uint8_t pixels[FILE_WIDTH * FILE_HEIGHT * 3];
    for (size_t i = 0; i < FILE_WIDTH * FILE_HEIGHT; i++) {
        pixels[3 * i] = (uint8_t)(5 * (i % FILE_WIDTH));
        pixels[3 * i + 1] = (uint8_t)(5 * (i / FILE_WIDTH));
        pixels[3 * i + 2] = blue;
    }
    bool is_png = strstr(name, ".png") != NULL;
    struct bytes file = is_png ? write_png(pixels, FILE_WIDTH, FILE_HEIGHT, 2, 8, false, false)
                               : write_jpeg(pixels, FILE_WIDTH, FILE_HEIGHT, 3, 95);
    write_at(name, file.data, file.count);
    bytes_clear(&file);
}

/* Replace a file by its first part, or change a byte of it. */
static void damage(const char *name, bool truncates)
{
    char path[256];
    struct bytes file;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_true(bytes_read(path, 1 << 20, &file, &reason));
    file.data[60] ^= 1;
    write_at(name, file.data, truncates ? file.count - 20 : file.count);
    bytes_clear(&file);
}

static int make_folder(void **state)
{
    (void)state;
    reason = (struct reason){0};
    strcpy(strrchr(folder, '-') + 1, "XXXXXX");
    if (mkdtemp(folder) == NULL)
        return 1;
    snprintf(source, sizeof source, "images:%s", folder);
    write_picture("train/dog/b.png", 20);
    write_picture("train/dog/a.JPG", 10);
    write_picture("train/cat/z.png", 0);
    write_picture("train/cat/.hidden.png", 0);
    write_picture("val/dog/v.png", 90);
    write_at("train/readme.txt", "x", 1);
    write_at("train/dog/list.csv", "x", 1);
    return 0;
}

static int drop_folder(void **state)
{
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

static struct data_options options_of(const char *augment)
{
    return (struct data_options){
        .source = source, .shape = {3, SIDE, SIDE}, .class_count = 3, .seed = 5, .augment = augment, .threads = 3};
}

static struct data *open_set(const struct data_options *options)
{
    struct data *data;
    if (!data_open(options, &data, &reason))
        fail_msg("%s", reason.text);
    return data;
}

static void get(const struct data *data, enum part part, uint64_t epoch, size_t index, float *image, int32_t *label)
{
    if (!data_image(data, &(struct pick){.part = part, .epoch = epoch, .index = index}, image, label, &reason))
        fail_msg("%s", reason.text);
}

static void set_refused(const struct data_options *options, const char *why)
{
    struct data *data;
    if (data_open(options, &data, &reason))
        fail_msg("opened, although: %s", why);
    expect_text(reason.text, why);
}

/* Undo the normalisation. */
static double value_of(float normalised, size_t channel)
{
    static const double means[] = {0.485, 0.456, 0.406}, deviations[] = {0.229, 0.224, 0.225};
    return 255 * (normalised * deviations[channel] + means[channel]);
}

static void opens_folders(void **state)
{
    (void)state;
    struct data_options options = options_of(NULL);
    struct data *data = open_set(&options);
    float image[NUMBERS];
    char line[600];
    int32_t label;
    assert_int_equal(data_count(data, PART_TRAIN), 3);
    assert_int_equal(data_count(data, PART_TEST), 1);
    assert_string_equal(data_class_name(data, 0), "cat");
    assert_string_equal(data_class_name(data, 1), "dog");
    assert_null(data_class_name(data, 2));
    static const int32_t labels[] = {0, 1, 1};
    static const double blues[] = {0, 10, 20};
    for (size_t i = 0; i < 3; i++) {
        get(data, PART_TRAIN, 0, i, image, &label);
        assert_int_equal(label, labels[i]);
        /* 40x24 becomes 30x18 (8/7 of 16), of which the centre is used: from column 7, row 1 on, each 4/3 pixels wide
         */
        for (size_t y = 0; y < SIDE; y += 5)
            for (size_t x = 0; x < SIDE; x += 5) {
                const float *at = image + (y * SIDE + x) * 3;
                assert_true(fabs(value_of(at[0], 0) - 5 * ((7.5 + (double)x) * 4 / 3 - 0.5)) < 4);
                assert_true(fabs(value_of(at[1], 1) - 5 * ((1.5 + (double)y) * 4 / 3 - 0.5)) < 4);
                assert_true(fabs(value_of(at[2], 2) - blues[i]) < 4);
            }
    }
    get(data, PART_TEST, 0, 0, image, &label);
    assert_int_equal(label, 1);
    assert_true(data_next_note(data, line, sizeof line));
    expect_text(line, "train: 2 files or folders are not used");
    assert_false(data_next_note(data, line, sizeof line));
    assert_int_equal(data_damaged(data), 0);
    data_close(data);
}

static void refuses_folders(void **state)
{
    (void)state;
    struct data_options options = options_of(NULL);
    char test[96];
    options.class_count = 1;
    set_refused(&options, "train: 2 sub-folders, which are the classes, but the model has 1 classes");
    options = options_of(NULL);
    options.resize = 15;
    set_refused(&options, "images are resized to 16 to 16384, because the model takes 16x16; not to 15");
    options = options_of("crop,turn");
    set_refused(&options, "augment: unknown \"turn\"");
    options = options_of(NULL);
    options.shape.channels = 2;
    set_refused(&options, "images have 1 or 3 channels, but the model takes 2");
    options = options_of(NULL);
    options.test_source = "npy:x";
    set_refused(&options, "npy:x: the test images must be images:FOLDER");
    options.test_source = test;
    snprintf(test, sizeof test, "%s/val/dog", source);
    set_refused(&options, "val/dog: no .jpg, .jpeg or .png file in any sub-folder");
    write_picture("val/bird/x.png", 1);
    options.test_source = NULL;
    set_refused(&options, "val: the class \"bird\" is not among the training images in");
    options.source = "images:/nowhere";
    set_refused(&options, "/nowhere: No such file or directory");
    options.source = "synthetic";
    options.resize = 20;
    set_refused(&options, "synthetic: only image files (images:FOLDER) can be resized or zoomed");
}

static void handles_damage(void **state)
{
    (void)state;
    struct data_options options = options_of(NULL);
    float image[NUMBERS];
    char line[600];
    int32_t label;
    damage("train/dog/a.JPG", true);
    set_refused(&options, "train/dog/a.JPG: truncated: ");
    expect_text(reason.text, "(1 of 3 files are damaged; --damaged skip leaves them out)");
    options.skips_damaged = true;
    damage("train/cat/z.png", false); /* found only when it is decoded */
    struct data *data = open_set(&options);
    assert_int_equal(data_count(data, PART_TRAIN), 2);
    assert_int_equal(data_damaged(data), 1);
    assert_true(data_next_note(data, line, sizeof line));
    expect_text(line, "left out: ");
    expect_text(line, "train/dog/a.JPG: truncated: ");
    assert_true(data_next_note(data, line, sizeof line));
    expect_text(line, "train: 1 of 3 files are left out, because they are damaged");
    assert_true(data_next_note(data, line, sizeof line)); /* about other files */
    assert_false(data_next_note(data, line, sizeof line));
    for (int i = 0; i < 2; i++) { /* the next image takes its place */
        get(data, PART_TRAIN, 0, 0, image, &label);
        assert_int_equal(label, 1);
        assert_true(fabs(value_of(image[2], 2) - 20) < 1);
    }
    assert_true(data_next_note(data, line, sizeof line));
    expect_text(line, "replaced by the next image: ");
    expect_text(line, "train/cat/z.png: damaged: ");
    assert_false(data_next_note(data, line, sizeof line));
    assert_int_equal(data_damaged(data), 2);
    data_close(data);
    write_picture("train/dog/a.JPG", 10);
    options.skips_damaged = false;
    data = open_set(&options);
    assert_false(data_image(data, &(struct pick){.part = PART_TRAIN}, image, &label, &reason));
    expect_text(reason.text, "train/cat/z.png: damaged: ");
    expect_text(reason.text, "(--damaged skip uses other images)");
    data_close(data);
}

/* A file that cannot be read is not damaged, also if damaged files are skipped. */
static void unreadable_is_not_damaged(void **state)
{
    (void)state;
    struct data_options options = options_of(NULL);
    char path[128];
    float image[NUMBERS];
    int32_t label;
    options.skips_damaged = true;
    damage("train/dog/a.JPG", true);
    snprintf(path, sizeof path, "%s/train/dog/c.png", folder);
    assert_int_equal(symlink("c.png", path), 0); /* a link to itself: even root cannot open it */
    set_refused(&options, "train/dog/c.png: Too many levels of symbolic links");
    options.skips_damaged = false;
    set_refused(&options, "train/dog/c.png: Too many levels of symbolic links");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    options.skips_damaged = true;
    set_refused(&options, "train/dog/c.png: not a regular file");
    assert_int_equal(rmdir(path), 0);
    struct data *data = open_set(&options);
    assert_int_equal(data_damaged(data), 1);
    snprintf(path, sizeof path, "%s/train/cat/z.png", folder);
    assert_int_equal(unlink(path), 0);
    assert_false(data_image(data, &(struct pick){.part = PART_TRAIN}, image, &label, &reason));
    expect_text(reason.text, "train/cat/z.png: No such file or directory");
    assert_null(strstr(reason.text, "--damaged"));
    assert_int_equal(data_damaged(data), 1);
    data_close(data);
}

/* A file outside of the set becomes the same values as inside it. */
static void reads_other_files(void **state)
{
    (void)state;
    static const uint8_t idx[] = {0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 1, 7, 8};
    struct data_options options = options_of("flip");
    struct data *data = open_set(&options);
    struct pictures pictures;
    float image[NUMBERS], other[NUMBERS];
    char path[128];
    int32_t label;
    snprintf(path, sizeof path, "%s/val/dog/v.png", folder);
    if (!data_read_file(data, path, &pictures, &reason))
        fail_msg("%s", reason.text);
    assert_int_equal(pictures.count, 1);
    assert_null(pictures.labels);
    data_file_image(data, &pictures, 0, other, &label);
    assert_int_equal(label, 0);
    get(data, PART_TEST, 0, 0, image, &label);
    for (size_t i = 0; i < NUMBERS; i++)
        assert_true(fabsf(image[i] - other[i]) < 1e-5f);
    pictures_clear(&pictures);
    write_at("i", idx, sizeof idx);
    snprintf(path, sizeof path, "%s/i", folder);
    assert_false(data_read_file(data, path, &pictures, &reason));
    expect_text(reason.text, "the file's images have 1 channels of 2x1, but the model takes 3 of 16x16");
    data_close(data);
    options = options_of(NULL);
    options.source = "synthetic";
    options.image_count = 5;
    data = open_set(&options);
    assert_false(data_read_file(data, path, &pictures, &reason));
    expect_text(reason.text, "cannot be normalised like synthetic images");
    data_close(data);
}

static void identity_changes(void **state)
{
    (void)state;
    struct data_options options = options_of(NULL);
    struct data *data = open_set(&options);
    char before[200];
    snprintf(before, sizeof before, "%s", data_identity(data));
    data_close(data);
    data = open_set(&options);
    assert_string_equal(data_identity(data), before);
    data_close(data);
    options.resize = 18; /* the default, 8/7 of 16 */
    data = open_set(&options);
    assert_string_equal(data_identity(data), before);
    expect_text(before, ", resize 0, "); /* as in older checkpoints */
    data_close(data);
    options.resize = 19;
    data = open_set(&options);
    expect_text(data_identity(data), ", resize 19, ");
    data_close(data);
    options.resize = 0;
    write_picture("train/cat/y.png", 3);
    data = open_set(&options);
    assert_string_not_equal(data_identity(data), before);
    data_close(data);
    options.augment = "flip";
    data = open_set(&options);
    expect_text(data_identity(data), ", augment flip");
    data_close(data);
}

/* ---- changes ---- */

static void parse_refused(const char *text, const char *why)
{
    struct augment augment;
    assert_false(augment_parse(text, &augment, &reason));
    expect_text(reason.text, why);
}

static void parses_changes(void **state)
{
    (void)state;
    struct augment augment;
    assert_true(augment_parse("crop,flip,brightness:0.25,erase:8", &augment, &reason));
    assert_true(augment.has[CHANGE_CROP] && augment.has[CHANGE_FLIP] && augment.has[CHANGE_BRIGHTNESS] &&
                augment.has[CHANGE_ERASE] && !augment.has[CHANGE_ZOOM] && !augment.has[CHANGE_CONTRAST]);
    assert_true(augment.amounts[CHANGE_CROP] == 4 && augment.amounts[CHANGE_BRIGHTNESS] == 0.25 &&
                augment.amounts[CHANGE_ERASE] == 8);
    assert_true(augment_parse(NULL, &augment, &reason));
    assert_false(augment.has[CHANGE_CROP]);
    parse_refused("crop,crop", "\"crop\" is given twice");
    parse_refused("crop,zoom", "zoom and crop exclude each other");
    parse_refused("flip:2", "\"flip\" takes no number");
    parse_refused("crop:0", "the number must be 1 to 1024");
    parse_refused("crop:nan", "the number must be 1 to 1024");
    parse_refused("crop:1.5", "not a whole number of pixels");
    parse_refused("contrast:2", "the number must be 0 to 1");
    parse_refused("crop,", "unknown \"\"; use zoom");
    parse_refused("brightness:0.2x", "the number must be");
}

/* Chances depend on seed, epoch and index alone, and are spread evenly. */
static void draws_chances(void **state)
{
    (void)state;
    enum { MANY = 4000 };
    double sums[CHANGE_COUNT] = {0}, products = 0;
    for (uint64_t i = 0; i < MANY; i++) {
        struct chances one = augment_draw(7, i / 100, i % 100), other = augment_draw(7, i / 100, i % 100);
        assert_memory_equal(one.values, other.values, sizeof one.values);
        for (int change = 0; change < CHANGE_COUNT; change++) {
            assert_true(one.values[change][0] >= 0 && one.values[change][0] < 1);
            sums[change] += one.values[change][0] - 0.5;
        }
        products += (one.values[CHANGE_FLIP][0] - 0.5) * (one.values[CHANGE_ERASE][0] - 0.5);
    }
    for (int change = 0; change < CHANGE_COUNT; change++) /* the deviation of the sum is 18 */
        assert_true(fabs(sums[change]) < 90);
    assert_true(fabs(products) < 27); /* five times its deviation */
    struct chances one = augment_draw(7, 0, 1);
    assert_memory_not_equal(one.values, augment_draw(8, 0, 1).values, sizeof one.values);
    assert_memory_not_equal(one.values, augment_draw(7, 1, 0).values, sizeof one.values);
    assert_memory_not_equal(one.values, augment_draw(7, 1, 1).values, sizeof one.values);
}

static void changes_images(void **state)
{
    (void)state;
    static const struct shape shape = {1, 3, 4};
    static const float start[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, black[1] = {-1};
    float image[12], spare[12];
    struct chances chances = {0};
    struct augment augment = {.has[CHANGE_FLIP] = true};
    memcpy(image, start, sizeof image);
    augment_apply(&augment, &chances, &shape, black, false, image, spare);
    assert_memory_equal(image, ((float[12]){4, 3, 2, 1, 8, 7, 6, 5, 12, 11, 10, 9}), sizeof image);
    chances.values[CHANGE_FLIP][0] = 0.5;
    memcpy(image, start, sizeof image);
    augment_apply(&augment, &chances, &shape, black, false, image, spare);
    assert_memory_equal(image, start, sizeof image);

    augment = (struct augment){.has[CHANGE_CROP] = true, .amounts[CHANGE_CROP] = 1};
    augment_apply(&augment, &chances, &shape, black, false, image, spare); /* by one to the right and down */
    assert_memory_equal(image, ((float[12]){-1, -1, -1, -1, -1, 1, 2, 3, -1, 5, 6, 7}), sizeof image);
    chances.values[CHANGE_CROP][0] = 0.99;
    chances.values[CHANGE_CROP][1] = 0.5;
    memcpy(image, start, sizeof image);
    augment_apply(&augment, &chances, &shape, black, false, image, spare);
    assert_memory_equal(image, ((float[12]){2, 3, 4, -1, 6, 7, 8, -1, 10, 11, 12, -1}), sizeof image);

    augment = (struct augment){.has[CHANGE_BRIGHTNESS] = true, .amounts[CHANGE_BRIGHTNESS] = 0.5};
    memcpy(image, start, sizeof image);
    augment_apply(&augment, &chances, &shape, black, false, image, spare); /* half as bright, from black on */
    assert_true(image[0] == 0 && image[11] == 5.5f);
    augment = (struct augment){.has[CHANGE_CONTRAST] = true, .amounts[CHANGE_CONTRAST] = 0.5};
    memcpy(image, start, sizeof image);
    augment_apply(&augment, &chances, &shape, black, false, image, spare);
    assert_true(image[0] == 3.75f && image[11] == 9.25f);
    augment = (struct augment){.has[CHANGE_ERASE] = true, .amounts[CHANGE_ERASE] = 2};
    memcpy(image, start, sizeof image);
    chances.values[CHANGE_ERASE][0] = chances.values[CHANGE_ERASE][1] = 0.5; /* around column 2, row 1 */
    augment_apply(&augment, &chances, &shape, black, false, image, spare);
    assert_memory_equal(image, ((float[12]){1, 0, 0, 4, 5, 0, 0, 8, 9, 10, 11, 12}), sizeof image);
}

/* A change of the contrast reaches every channel, however many there are. */
static void changes_many_channels(void **state)
{
    (void)state;
    enum { CHANNELS = 100, PIXELS = 6 };
    static const struct shape shape = {CHANNELS, 2, 3};
    static const float black[CHANNELS] = {0};
    float image[CHANNELS * PIXELS], start[CHANNELS * PIXELS], spare[CHANNELS * PIXELS];
    struct chances chances = {0};
    struct augment augment = {.has[CHANGE_CONTRAST] = true, .amounts[CHANGE_CONTRAST] = 0.5};
    for (size_t i = 0; i < CHANNELS * PIXELS; i++)
        start[i] = image[i] = (float)(8 * i);
    augment_apply(&augment, &chances, &shape, black, false, image, spare); /* half of the distance from the mean */
    for (size_t channel = 0; channel < CHANNELS; channel++)
        for (size_t i = 0; i < PIXELS; i++) {
            float mean = start[channel] + 8 * CHANNELS * (PIXELS - 1) / 2.0F;
            size_t at = i * CHANNELS + channel;
            assert_true(image[at] == (start[at] + mean) / 2);
        }
}

/* Every box lies inside the image, and has the right ratio. */
static void cuts_boxes(void **state)
{
    (void)state;
    static const char *const texts[] = {"flip", "crop", "zoom", "zoom:0.5"};
    static const size_t sizes[][2] = {{500, 375}, {375, 500}, {16, 16}, {1, 1}, {1, 3000}, {17, 16}, {3, 2}};
    static const struct shape out = {3, 16, 16};
    for (size_t i = 0; i < sizeof texts / sizeof *texts * 7; i++) {
        size_t width = sizes[i % 7][0], height = sizes[i % 7][1];
        struct augment augment;
        struct box first = {0};
        bool has_changed = false;
        assert_true(augment_parse(texts[i / 7], &augment, &reason));
        for (uint64_t at = 0; at < 200; at++) {
            struct chances chances = augment_draw(3, 0, at);
            struct box box = augment_box(&augment, &chances, width, height, &out, 18);
            assert_true(box.left >= 0 && box.top >= 0 && box.width > 0 && box.height > 0);
            assert_true(box.left + box.width <= (double)width + 1e-9 && box.top + box.height <= (double)height + 1e-9);
            has_changed = has_changed || (at > 0 && memcmp(&first, &box, sizeof box) != 0);
            first = box;
        }
        if (i / 7 == 0) /* the centre */
            assert_false(has_changed);
        else if (i % 7 < 2)
            assert_true(has_changed);
    }
}

/* A set with changes: test images stay as they are, an epoch repeats, and another one differs. */
static void changes_sets(void **state)
{
    (void)state;
    static const char *const sources[] = {NULL, "synthetic"};
    for (int i = 0; i < 2; i++) {
        struct data_options options = options_of(NULL);
        options.image_count = 20;
        if (sources[i] != NULL)
            options.source = sources[i];
        struct data *plain = open_set(&options);
        options.augment = "crop,flip,brightness,contrast,erase:4";
        struct data *changed = open_set(&options);
        float one[NUMBERS], other[NUMBERS];
        int32_t label, other_label;
        get(plain, PART_TEST, 0, 0, one, &label);
        get(changed, PART_TEST, 3, 0, other, &other_label);
        assert_memory_equal(one, other, sizeof one);
        assert_int_equal(label, other_label);
        get(plain, PART_TRAIN, 0, 1, one, &label);
        get(plain, PART_TRAIN, 1, 1, other, &label);
        assert_memory_equal(one, other, sizeof one);
        get(changed, PART_TRAIN, 0, 1, other, &label);
        assert_memory_not_equal(one, other, sizeof one);
        get(changed, PART_TRAIN, 0, 1, one, &other_label);
        assert_memory_equal(one, other, sizeof one);
        assert_int_equal(label, other_label);
        get(changed, PART_TRAIN, 1, 1, one, &label);
        assert_memory_not_equal(one, other, sizeof one);
        data_close(changed);
        data_close(plain);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(opens_folders, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(refuses_folders, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(handles_damage, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(unreadable_is_not_damaged, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(reads_other_files, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(identity_changes, make_folder, drop_folder),
        cmocka_unit_test(parses_changes),
        cmocka_unit_test(draws_chances),
        cmocka_unit_test(changes_images),
        cmocka_unit_test(changes_many_channels),
        cmocka_unit_test(cuts_boxes),
        cmocka_unit_test_setup_teardown(changes_sets, make_folder, drop_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
