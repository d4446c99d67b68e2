/* Reads labelled images from files.
 *
 * CIFAR binary (www.cs.toronto.edu/~kriz/cifar.html) has records of one label byte (CIFAR-100: two, the coarse and the
 * fine one) and three planes of 32x32 bytes: red, green and blue. */
#include "pictures.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIDE_MAX = 4096, CIFAR_SIDE = 32, CIFAR_PLANE = CIFAR_SIDE * CIFAR_SIDE, PATH_BYTES = 4096 };
static const uint64_t file_most = 16ull << 30;

void pictures_clear(struct pictures *pictures)
{
    free(pictures->pixels);
    free(pictures->reals);
    free(pictures->labels);
    *pictures = (struct pictures){0};
}

/* ---- pairs of arrays ---- */

static bool set_shape(const struct array *images, struct pictures *pictures, struct reason *reason)
{
    const size_t *shape = images->shape;
    if (images->rank != 3 && images->rank != 4)
        return because(reason, "%s: byte %zu: %d dimensions; images have 3 (count, rows, columns) or 4 (and channels)",
                       images->name, images->shape_at, images->rank);
    pictures->shape =
        (struct shape){.channels = images->rank == 4 ? shape[3] : 1, .height = shape[1], .width = shape[2]};
    pictures->count = shape[0];
    if (shape[1] > SIDE_MAX || shape[2] > SIDE_MAX)
        return because(reason, "%s: byte %zu: images of %zux%zu; sides are 1 to %d", images->name, images->shape_at,
                       shape[1], shape[2], SIDE_MAX);
    if (pictures->shape.channels != 1 && pictures->shape.channels != 3)
        return because(reason, "%s: byte %zu: %zu channels; the last of 4 dimensions must be 1 or 3%s", images->name,
                       images->shape_at, pictures->shape.channels,
                       shape[1] == 1 || shape[1] == 3 ? " (are the channels the second one?)" : "");
    return true;
}

static bool copy_reals(const struct array *images, struct pictures *pictures, size_t count, struct reason *reason)
{
    pictures->reals = malloc(count * sizeof *pictures->reals);
    if (pictures->reals == NULL)
        return because(reason, "%s: no host memory for %zu numbers", images->name, count);
    for (size_t i = 0; i < count; i++) {
        pictures->reals[i] = array_real(images, i);
        if (!isfinite(pictures->reals[i]))
            return because(reason, "%s: byte %zu: the value is not finite", images->name, images->head_bytes + 4 * i);
    }
    return true;
}

static bool copy_images(const struct array *images, struct pictures *pictures, struct reason *reason)
{
    if (!set_shape(images, pictures, reason))
        return false;
    size_t count = pictures->count * shape_count(pictures->shape);
    if (images->element == ELEMENT_F32)
        return copy_reals(images, pictures, count, reason);
    if (images->element != ELEMENT_U8)
        return because(reason, "%s: the images are integers of %zu bytes or with a sign; use u8 or f32", images->name,
                       element_bytes(images->element));
    pictures->pixels = malloc(count);
    if (pictures->pixels == NULL)
        return because(reason, "%s: no host memory for %zu bytes", images->name, count);
    memcpy(pictures->pixels, images->data, count);
    return true;
}

static bool copy_labels(const struct array *labels, size_t class_count, struct pictures *pictures,
                        struct reason *reason)
{
    size_t count = labels->shape[0], bytes = element_bytes(labels->element);
    if (labels->rank != 1)
        return because(reason, "%s: byte %zu: %d dimensions; labels have one", labels->name, labels->shape_at,
                       labels->rank);
    if (labels->element == ELEMENT_F32)
        return because(reason, "%s: the labels are not integers", labels->name);
    if (count != pictures->count)
        return because(reason, "%s: byte %zu: %zu labels for %zu images", labels->name, labels->shape_at, count,
                       pictures->count);
    pictures->labels = malloc(count * sizeof *pictures->labels);
    if (pictures->labels == NULL)
        return because(reason, "%s: no host memory for %zu labels", labels->name, count);
    for (size_t i = 0; i < count; i++) {
        int64_t label = array_integer(labels, i);
        if (label < 0 || (uint64_t)label >= class_count)
            return because(reason, "%s: byte %zu: label %" PRId64 ", but there are %zu classes", labels->name,
                           labels->head_bytes + i * bytes, label, class_count);
        pictures->labels[i] = (int32_t)label;
    }
    return true;
}

bool pictures_from_arrays(const struct array *images, const struct array *labels, size_t class_count,
                          struct pictures *ret, struct reason *reason)
{
    struct pictures pictures = {0};
    if (!copy_images(images, &pictures, reason) || !copy_labels(labels, class_count, &pictures, reason)) {
        pictures_clear(&pictures);
        return false;
    }
    *ret = pictures;
    return true;
}

bool pictures_from_idx(const char *images_name, const struct bytes *images, const char *labels_name,
                       const struct bytes *labels, size_t class_count, struct pictures *ret, struct reason *reason)
{
    struct array arrays[2];
    return array_from_idx(images_name, "images", images, &arrays[0], reason) &&
           array_from_idx(labels_name, "labels", labels, &arrays[1], reason) &&
           pictures_from_arrays(&arrays[0], &arrays[1], class_count, ret, reason);
}

bool pictures_from_npy(const char *images_name, const struct bytes *images, const char *labels_name,
                       const struct bytes *labels, size_t class_count, struct pictures *ret, struct reason *reason)
{
    struct array arrays[2];
    return array_from_npy(images_name, "images", images, &arrays[0], reason) &&
           array_from_npy(labels_name, "labels", labels, &arrays[1], reason) &&
           pictures_from_arrays(&arrays[0], &arrays[1], class_count, ret, reason);
}

static bool images_only(const struct array *images, struct pictures *ret, struct reason *reason)
{
    struct pictures pictures = {0};
    if (!copy_images(images, &pictures, reason)) {
        pictures_clear(&pictures);
        return false;
    }
    *ret = pictures;
    return true;
}

bool pictures_images_from_idx(const char *name, const struct bytes *bytes, struct pictures *ret, struct reason *reason)
{
    struct array array;
    return array_from_idx(name, "images", bytes, &array, reason) && images_only(&array, ret, reason);
}

bool pictures_images_from_npy(const char *name, const struct bytes *bytes, struct pictures *ret, struct reason *reason)
{
    struct array array;
    return array_from_npy(name, "images", bytes, &array, reason) && images_only(&array, ret, reason);
}

/* ---- CIFAR ---- */

static bool grow(struct pictures *pictures, size_t count)
{
    uint8_t *pixels = realloc(pictures->pixels, count * 3 * CIFAR_PLANE);
    if (pixels == NULL)
        return false;
    pictures->pixels = pixels;
    int32_t *labels = realloc(pictures->labels, count * sizeof *labels);
    if (labels == NULL)
        return false;
    pictures->labels = labels;
    return true;
}

bool pictures_add_cifar(const char *name, const struct bytes *bytes, unsigned classes, struct pictures *pictures,
                        struct reason *reason)
{
    size_t head = classes == 10 ? 1 : 2, record_bytes = head + 3 * CIFAR_PLANE, count = bytes->count / record_bytes;
    if (count == 0 || bytes->count % record_bytes != 0)
        return because(reason, "%s: %zu bytes are not a whole number of records of %zu bytes", name, bytes->count,
                       record_bytes);
    for (size_t i = 0; i < count; i++) {
        size_t at = i * record_bytes + head - 1;
        if (bytes->data[at] >= classes)
            return because(reason, "%s: byte %zu: label %u, but there are %u classes", name, at, bytes->data[at],
                           classes);
    }
    if (!grow(pictures, pictures->count + count))
        return because(reason, "%s: no host memory for %zu more images", name, count);
    for (size_t i = 0; i < count; i++) {
        const uint8_t *planes = bytes->data + i * record_bytes + head;
        uint8_t *pixels = pictures->pixels + (pictures->count + i) * 3 * CIFAR_PLANE;
        pictures->labels[pictures->count + i] = planes[-1];
        for (size_t at = 0; at < CIFAR_PLANE; at++)
            for (size_t channel = 0; channel < 3; channel++)
                pixels[at * 3 + channel] = planes[channel * CIFAR_PLANE + at];
    }
    pictures->count += count;
    pictures->shape = (struct shape){.channels = 3, .height = CIFAR_SIDE, .width = CIFAR_SIDE};
    return true;
}

/* ---- folders and pairs ---- */

typedef bool parse_pair(const char *images_name, const struct bytes *images, const char *labels_name,
                        const struct bytes *labels, size_t class_count, struct pictures *ret, struct reason *reason);

static bool path_in(const char *folder, const char *name, char *path, struct reason *reason)
{
    if (snprintf(path, PATH_BYTES, "%s/%s", folder, name) >= PATH_BYTES)
        return because(reason, "%.100s...: the path is too long", folder);
    return true;
}

static bool read_path(const char *path, struct bytes *ret, struct reason *reason)
{
    char packed[PATH_BYTES + 3];
    if (bytes_read(path, file_most, ret, reason))
        return true;
    snprintf(packed, sizeof packed, "%s.gz", path);
    if (access(path, F_OK) != 0 && access(packed, F_OK) == 0)
        return because(reason, "%s is compressed; gunzip it first", packed);
    return false;
}

static bool read_pair(parse_pair *parse, const char *images_path, const char *labels_path, size_t class_count,
                      struct pictures *ret, struct reason *reason)
{
    struct bytes images = {0}, labels = {0};
    bool is_read = read_path(images_path, &images, reason) && read_path(labels_path, &labels, reason) &&
                   parse(images_path, &images, labels_path, &labels, class_count, ret, reason);
    bytes_clear(&images);
    bytes_clear(&labels);
    return is_read;
}

static bool read_pair_in(parse_pair *parse, const char *folder, const char *const names[2], size_t class_count,
                         struct pictures *ret, struct reason *reason)
{
    char images_path[PATH_BYTES], labels_path[PATH_BYTES];
    return path_in(folder, names[0], images_path, reason) && path_in(folder, names[1], labels_path, reason) &&
           read_pair(parse, images_path, labels_path, class_count, ret, reason);
}

bool pictures_read_mnist(const char *folder, enum part part, size_t class_count, struct pictures *ret,
                         struct reason *reason)
{
    static const char *const names[PART_COUNT][2] = {{"train-images-idx3-ubyte", "train-labels-idx1-ubyte"},
                                                     {"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}};
    return read_pair_in(pictures_from_idx, folder, names[part], class_count < 10 ? class_count : 10, ret, reason);
}

bool pictures_read_npy(const char *folder, enum part part, size_t class_count, struct pictures *ret,
                       struct reason *reason)
{
    static const char *const names[PART_COUNT][2] = {{"train-images.npy", "train-labels.npy"},
                                                     {"test-images.npy", "test-labels.npy"}};
    return read_pair_in(pictures_from_npy, folder, names[part], class_count, ret, reason);
}

/* Read two files from "IMAGES,LABELS". */
static bool read_named_pair(parse_pair *parse, const char *pair, size_t class_count, struct pictures *ret,
                            struct reason *reason)
{
    char images_path[PATH_BYTES];
    const char *comma = strchr(pair, ',');
    if (comma == NULL || comma == pair || comma[1] == '\0' || comma - pair >= PATH_BYTES)
        return because(reason, "\"%.200s\" does not name two files as IMAGES,LABELS", pair);
    snprintf(images_path, sizeof images_path, "%.*s", (int)(comma - pair), pair);
    return read_pair(parse, images_path, comma + 1, class_count, ret, reason);
}

bool pictures_read_idx_pair(const char *pair, size_t class_count, struct pictures *ret, struct reason *reason)
{
    return read_named_pair(pictures_from_idx, pair, class_count, ret, reason);
}

bool pictures_read_npy_pair(const char *pair, size_t class_count, struct pictures *ret, struct reason *reason)
{
    return read_named_pair(pictures_from_npy, pair, class_count, ret, reason);
}

/* Read the files with these names, up to NULL, one after the other. */
static bool read_cifar(const char *folder, const char *const *names, unsigned classes, struct pictures *ret,
                       struct reason *reason)
{
    struct pictures pictures = {0};
    char path[PATH_BYTES];
    for (; *names != NULL; names++) {
        struct bytes bytes = {0};
        bool is_added = path_in(folder, *names, path, reason) && read_path(path, &bytes, reason) &&
                        pictures_add_cifar(path, &bytes, classes, &pictures, reason);
        bytes_clear(&bytes);
        if (!is_added) {
            pictures_clear(&pictures);
            return false;
        }
    }
    *ret = pictures;
    return true;
}

bool pictures_read_cifar10(const char *folder, enum part part, size_t class_count, struct pictures *ret,
                           struct reason *reason)
{
    static const char *const train[] = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                        "data_batch_4.bin", "data_batch_5.bin", NULL};
    static const char *const test[] = {"test_batch.bin", NULL};
    (void)class_count; /* the caller has compared it with 10 */
    return read_cifar(folder, part == PART_TRAIN ? train : test, 10, ret, reason);
}

bool pictures_read_cifar100(const char *folder, enum part part, size_t class_count, struct pictures *ret,
                            struct reason *reason)
{
    static const char *const names[PART_COUNT][2] = {{"train.bin", NULL}, {"test.bin", NULL}};
    (void)class_count; /* the caller has compared it with 100 */
    return read_cifar(folder, names[part], 100, ret, reason);
}
