/* Fuzz the files that the trainer (trainer/) reads. The first byte selects the kind of file:
 * - data files; for IDX and .npy, two bytes with the size of the image file, then the image file, then the label file;
 * - files with images that are to be classified;
 * - schedules of the learning rate;
 * - checkpoints, without verification of their checksums;
 * - models with their schedules. */
#include "backend.h"
#include "checkpoint.h"
#include "picture_file.h"
#include "rate.h"
#include "schedule.h"
#include "seeds.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    KIND_IDX,
    KIND_CIFAR,
    KIND_CHECKPOINT,
    KIND_MODEL,
    KIND_PICTURE,
    KIND_RATE,
    KIND_NPY,
    KIND_CIFAR100,
    KIND_COUNT,
    CLASSES = 10
};

static void check(const struct pictures *pictures, int classes)
{
    for (size_t i = 0; pictures->labels != NULL && i < pictures->count; i++)
        if (pictures->labels[i] < 0 || pictures->labels[i] >= classes)
            abort();
    size_t end = pictures->count * shape_count(pictures->shape);
    volatile float last = pictures->reals != NULL ? pictures->reals[end - 1] : pictures->pixels[end - 1];
    (void)last;
}

typedef bool parse_pair(const char *images_name, const struct bytes *images, const char *labels_name,
                        const struct bytes *labels, size_t class_count, struct pictures *ret, struct reason *reason);

static void pair(parse_pair *parse, const uint8_t *data, size_t bytes, struct reason *reason)
{
    if (bytes < 2)
        return;
    size_t at = (size_t)data[0] << 8 | data[1];
    at = at > bytes - 2 ? bytes - 2 : at;
    struct bytes images = {(uint8_t *)data + 2, at}, labels = {(uint8_t *)data + 2 + at, bytes - 2 - at};
    struct pictures pictures = {0};
    if (parse("images", &images, "labels", &labels, CLASSES, &pictures, reason))
        check(&pictures, CLASSES);
    pictures_clear(&pictures);
}

static void idx(const uint8_t *data, size_t bytes, struct reason *reason)
{
    pair(pictures_from_idx, data, bytes, reason);
}

static void npy(const uint8_t *data, size_t bytes, struct reason *reason)
{
    pair(pictures_from_npy, data, bytes, reason);
}

static void add_cifar(const uint8_t *data, size_t bytes, int classes, struct reason *reason)
{
    struct bytes file = {(uint8_t *)data, bytes};
    struct pictures pictures = {0};
    for (int i = 0; i < 2; i++)
        if (pictures_add_cifar("batch", &file, (unsigned)classes, &pictures, reason))
            check(&pictures, classes);
    pictures_clear(&pictures);
}

static void cifar(const uint8_t *data, size_t bytes, struct reason *reason)
{
    add_cifar(data, bytes, 10, reason);
}

static void cifar100(const uint8_t *data, size_t bytes, struct reason *reason)
{
    add_cifar(data, bytes, 100, reason);
}

static void checkpoint(const uint8_t *data, size_t bytes, struct reason *reason)
{
    struct bytes file = {(uint8_t *)data, bytes};
    struct checkpoint is = {0}, wants = {0};
    char note[400];
    if (checkpoint_parse("c", &file, &is, reason))
        (void)checkpoint_fits(&is, &wants, note, sizeof note, reason);
    checkpoint_clear(&is);
}

static bool plan_byte(void *state, const struct schedule_options *options, struct step *step, size_t budget_bytes,
                      struct reason *reason)
{
    (void)state, (void)options, (void)budget_bytes, (void)reason;
    step->workspace_bytes = 1;
    return true;
}

static void model(const uint8_t *data, size_t bytes, struct reason *reason)
{
    const struct backend fusing = {.plan = plan_byte, .fuses = true};
    struct schedule_options options = {
        .images = 2, .checkpointing = bytes % 2, .precision = bytes / 4 % 2 == 0 ? PRECISION_FP32 : PRECISION_BF16};
    struct schedule schedule = {0};
    struct model read = {0};
    char path[64];
    int fd = memfd_create("model", 0);
    if (fd < 0)
        return;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (write(fd, data, bytes) == (ssize_t)bytes && model_read(path, &read, reason) && read.layer_count < 200 &&
        schedule_make(&read, &options, bytes / 2 % 2 == 0 ? NULL : &fusing, NULL, 0, &schedule, reason))
        schedule_clear(&schedule);
    model_clear(&read);
    close(fd);
}

static void picture(const uint8_t *data, size_t bytes, struct reason *reason)
{
    struct bytes file = {(uint8_t *)data, bytes};
    struct pictures pictures = {0};
    if (picture_file_parse("picture", &file, &pictures, reason))
        check(&pictures, CLASSES);
    pictures_clear(&pictures);
}

static void rate(const uint8_t *data, size_t bytes, struct reason *reason)
{
    struct rate_options options = {.rate = 1, .factor = 0.5};
    char text[256], out[64];
    snprintf(text, sizeof text, "%.*s", (int)(bytes < 255 ? bytes : 255), (const char *)data);
    (void)rate_parse_span(text, &options.warmup, reason);
    if (!rate_parse(text, &options, reason))
        return;
    struct rate_plan plan = rate_make(&options, 7, 100);
    for (uint64_t step = 0; step < 100; step++)
        if (!(rate_at(&plan, step) >= 0 && rate_at(&plan, step) <= 1))
            abort();
    rate_text(&plan, out, sizeof out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static void (*const readers[KIND_COUNT])(const uint8_t *, size_t, struct reason *) = {
        idx, cifar, checkpoint, model, picture, rate, npy, cifar100};
    struct reason reason = {0};
    if (bytes > 0)
        readers[data[0] % KIND_COUNT](data + 1, bytes - 1, &reason);
    return 0;
}

/* ---- seeds ---- */

static void seed_bytes(const char *folder, size_t index, int kind, const void *data, size_t bytes)
{
    FILE *file = open_seed(folder, index);
    if (file == NULL)
        return;
    fputc(kind, file);
    fwrite(data, 1, bytes, file);
    fclose(file);
}

static void seed_checkpoint(const char *folder, size_t index)
{
    struct checkpoint is = {.model = "m", .parameter_count = 3, .moment_count = 2, .statistics_count = 2};
    struct bytes bytes = {0};
    struct reason reason;
    char path[4096];
    snprintf(path, sizeof path, "%s/checkpoint", folder);
    if (checkpoint_alloc(&is, &reason) && checkpoint_write(path, &is, &reason) &&
        bytes_read(path, 1 << 20, &bytes, &reason))
        seed_bytes(folder, index, KIND_CHECKPOINT, bytes.data, bytes.count);
    remove(path);
    bytes_clear(&bytes);
    checkpoint_clear(&is);
}

static void write_seeds(const char *folder)
{
    static const uint8_t two_images[] = {0, 18, 0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0,
                                         0, 0,  1, 5, 6, 0, 0, 8, 1, 0, 0, 0, 2, 1, 9};
    static const uint8_t record[3073] = {7}, fine_record[3074] = {1, 99};
    static const char npy_pair[] =
        "\0\x49\x93NUMPY\1\0\x3b\0{'descr': '|u1', 'fortran_order': False, 'shape': (2,1,2)}\n\1\2\3\4"
        "\x93NUMPY\1\0\x38\0{'descr': '<i2', 'fortran_order': False, 'shape': (2,)}\n\1\0\x9";
    static const char text[] = "input 3 8 8\na = conv 4 3 stride 2 pad 1 nobias\nbatchnorm relu as n.1\nsegment\n"
                               "b = conv 4 3 pad 1 from a\nadd a relu # sum\nmaxpool 2\naveragepool\nlinear 10\n";
    static const char mobile[] =
        "input 3 9 9\na = conv 8 3 pad 1 groups 1 silu\nsegment\nconv 8 3 pad 1 groups 8\ne = batchnorm relu6\n"
        "averagepool\nconv 2 1 hardswish\nconv 8 1 sigmoid\nmultiply e\ndropout 0.25 images\nadd a\n"
        "activation silu\naveragepool\ndropout 0.5\nlinear 4\n";
    seed_bytes(folder, 0, KIND_IDX, two_images, sizeof two_images);
    seed_bytes(folder, 1, KIND_CIFAR, record, sizeof record);
    seed_checkpoint(folder, 2);
    seed_bytes(folder, 3, KIND_MODEL, text, sizeof text - 1);
    static const char ppm[] = "P6 # a comment\n2 1\n255\nabcdef", steps[] = "steps:1e,3e,5e";
    seed_bytes(folder, 4, KIND_PICTURE, ppm, sizeof ppm - 1);
    seed_bytes(folder, 5, KIND_RATE, steps, sizeof steps - 1);
    seed_bytes(folder, 6, KIND_NPY, npy_pair, sizeof npy_pair);
    seed_bytes(folder, 7, KIND_CIFAR100, fine_record, sizeof fine_record);
    seed_bytes(folder, 8, KIND_MODEL, mobile, sizeof mobile - 1);
    static const char npy_picture[] =
        "\x93NUMPY\1\0\x3d\0{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1)}  \n\1\2\3";
    seed_bytes(folder, 9, KIND_PICTURE, npy_picture, sizeof npy_picture);
}
