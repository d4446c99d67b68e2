/* Reads labelled images from files in two formats.
 *
 * IDX (MNIST, yann.lecun.com/exdb/mnist) has a header of big-endian u32 numbers:
 * - a magic number: 0x0803 for images, 0x0801 for labels
 * - the number of images or labels
 * - only for images: the number of rows and of columns
 *
 * One byte per pixel or label follows.
 *
 * CIFAR-10 binary (www.cs.toronto.edu/~kriz/cifar.html) has records of one label byte and three planes of 32x32 bytes:
 * red, green and blue. */
#include "pictures.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    IDX_IMAGES = 0x803,
    IDX_LABELS = 0x801,
    SIDE_MAX = 4096,
    CIFAR_SIDE = 32,
    CIFAR_PLANE = CIFAR_SIDE * CIFAR_SIDE,
    CIFAR_RECORD = 1 + 3 * CIFAR_PLANE,
    CIFAR_CLASSES = 10,
    FILE_MAX = 1 << 30,
    PATH_BYTES = 4096
};

void pictures_clear(struct pictures *pictures)
{
    free(pictures->pixels);
    free(pictures->labels);
    *pictures = (struct pictures){0};
}

/* ---- IDX ---- */

static bool idx_head(const char *name, const struct bytes *bytes, uint32_t magic, size_t head_bytes,
                     struct reason *reason)
{
    if (bytes->count < head_bytes)
        return because(reason, "%s: %zu bytes, but the header alone has %zu", name, bytes->count, head_bytes);
    if (big_u32(bytes->data) == magic)
        return true;
    if (bytes->data[0] == 0x1f && bytes->data[1] == 0x8b)
        return because(reason, "%s: byte 0: compressed; gunzip it first", name);
    return because(reason, "%s: byte 0: magic number 0x%08x instead of 0x%08x: not an IDX file of %s", name,
                   big_u32(bytes->data), magic, magic == IDX_IMAGES ? "images" : "labels");
}

static bool idx_images(const char *name, const struct bytes *bytes, struct pictures *pictures, struct reason *reason)
{
    if (!idx_head(name, bytes, IDX_IMAGES, 16, reason))
        return false;
    uint64_t count = big_u32(bytes->data + 4), rows = big_u32(bytes->data + 8), columns = big_u32(bytes->data + 12);
    if (rows == 0 || columns == 0 || rows > SIDE_MAX || columns > SIDE_MAX)
        return because(reason, "%s: byte 8: images of %llux%llu; sides are 1 to %d", name, (unsigned long long)rows,
                       (unsigned long long)columns, SIDE_MAX);
    /* the product cannot overflow: it has at most 57 bits */
    if (count == 0 || count * rows * columns != bytes->count - 16)
        return because(reason, "%s: byte 4: %llu images of %llux%llu are %llu bytes, but the header is followed by %zu",
                       name, (unsigned long long)count, (unsigned long long)rows, (unsigned long long)columns,
                       (unsigned long long)(count * rows * columns), bytes->count - 16);
    pictures->shape = (struct shape){.channels = 1, .height = rows, .width = columns};
    pictures->count = count;
    pictures->pixels = malloc(bytes->count - 16);
    if (pictures->pixels == NULL)
        return because(reason, "%s: no host memory for %zu bytes", name, bytes->count - 16);
    memcpy(pictures->pixels, bytes->data + 16, bytes->count - 16);
    return true;
}

static bool idx_labels(const char *name, const struct bytes *bytes, size_t class_count, struct pictures *pictures,
                       struct reason *reason)
{
    if (!idx_head(name, bytes, IDX_LABELS, 8, reason))
        return false;
    uint32_t count = big_u32(bytes->data + 4);
    if (count != bytes->count - 8)
        return because(reason, "%s: byte 4: %u labels, but the header is followed by %zu bytes", name, count,
                       bytes->count - 8);
    if (count != pictures->count)
        return because(reason, "%s: byte 4: %u labels for %zu images", name, count, pictures->count);
    for (uint32_t i = 0; i < count; i++)
        if (bytes->data[8 + i] >= class_count)
            return because(reason, "%s: byte %u: label %u, but there are %zu classes", name, 8 + i, bytes->data[8 + i],
                           class_count);
    pictures->labels = malloc(count);
    if (pictures->labels == NULL)
        return because(reason, "%s: no host memory for %u bytes", name, count);
    memcpy(pictures->labels, bytes->data + 8, count);
    return true;
}

bool pictures_images_from_idx(const char *name, const struct bytes *bytes, struct pictures *ret, struct reason *reason)
{
    struct pictures pictures = {0};
    if (!idx_images(name, bytes, &pictures, reason))
        return false;
    *ret = pictures;
    return true;
}

bool pictures_from_idx(const char *images_name, const struct bytes *images, const char *labels_name,
                       const struct bytes *labels, size_t class_count, struct pictures *ret, struct reason *reason)
{
    struct pictures pictures = {0};
    if (!idx_images(images_name, images, &pictures, reason) ||
        !idx_labels(labels_name, labels, class_count, &pictures, reason)) {
        pictures_clear(&pictures);
        return false;
    }
    *ret = pictures;
    return true;
}

/* ---- CIFAR-10 ---- */

static bool grow(struct pictures *pictures, size_t count)
{
    uint8_t *pixels = realloc(pictures->pixels, count * 3 * CIFAR_PLANE);
    if (pixels == NULL)
        return false;
    pictures->pixels = pixels;
    uint8_t *labels = realloc(pictures->labels, count);
    if (labels == NULL)
        return false;
    pictures->labels = labels;
    return true;
}

bool pictures_add_cifar10(const char *name, const struct bytes *bytes, struct pictures *pictures, struct reason *reason)
{
    size_t count = bytes->count / CIFAR_RECORD;
    if (count == 0 || bytes->count % CIFAR_RECORD != 0)
        return because(reason, "%s: %zu bytes are not a whole number of records of %d bytes", name, bytes->count,
                       CIFAR_RECORD);
    for (size_t i = 0; i < count; i++)
        if (bytes->data[i * CIFAR_RECORD] >= CIFAR_CLASSES)
            return because(reason, "%s: byte %zu: label %u, but there are %d classes", name, i * CIFAR_RECORD,
                           bytes->data[i * CIFAR_RECORD], CIFAR_CLASSES);
    if (!grow(pictures, pictures->count + count))
        return because(reason, "%s: no host memory for %zu more images", name, count);
    for (size_t i = 0; i < count; i++) {
        const uint8_t *record = bytes->data + i * CIFAR_RECORD;
        uint8_t *pixels = pictures->pixels + (pictures->count + i) * 3 * CIFAR_PLANE;
        pictures->labels[pictures->count + i] = record[0];
        for (size_t at = 0; at < CIFAR_PLANE; at++)
            for (size_t channel = 0; channel < 3; channel++)
                pixels[at * 3 + channel] = record[1 + channel * CIFAR_PLANE + at];
    }
    pictures->count += count;
    pictures->shape = (struct shape){.channels = 3, .height = CIFAR_SIDE, .width = CIFAR_SIDE};
    return true;
}

/* ---- folders ---- */

static bool path_in(const char *folder, const char *name, char *path, struct reason *reason)
{
    if (snprintf(path, PATH_BYTES, "%s/%s", folder, name) >= PATH_BYTES)
        return because(reason, "%.100s...: the path is too long", folder);
    return true;
}

static bool read_in(const char *folder, const char *name, char *path, struct bytes *ret, struct reason *reason)
{
    char packed[PATH_BYTES + 3];
    if (!path_in(folder, name, path, reason))
        return false;
    if (bytes_read(path, FILE_MAX, ret, reason))
        return true;
    snprintf(packed, sizeof packed, "%s.gz", path);
    if (access(path, F_OK) != 0 && access(packed, F_OK) == 0)
        return because(reason, "%s is compressed; gunzip it first", packed);
    return false;
}

bool pictures_read_mnist(const char *folder, enum part part, struct pictures *ret, struct reason *reason)
{
    static const char *const names[PART_COUNT][2] = {{"train-images-idx3-ubyte", "train-labels-idx1-ubyte"},
                                                     {"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}};
    char images_path[PATH_BYTES], labels_path[PATH_BYTES];
    struct bytes images = {0}, labels = {0};
    bool is_read = read_in(folder, names[part][0], images_path, &images, reason) &&
                   read_in(folder, names[part][1], labels_path, &labels, reason) &&
                   pictures_from_idx(images_path, &images, labels_path, &labels, 10, ret, reason);
    bytes_clear(&images);
    bytes_clear(&labels);
    return is_read;
}

bool pictures_read_cifar10(const char *folder, enum part part, struct pictures *ret, struct reason *reason)
{
    static const char *const train[] = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                        "data_batch_4.bin", "data_batch_5.bin", NULL};
    static const char *const test[] = {"test_batch.bin", NULL};
    struct pictures pictures = {0};
    char path[PATH_BYTES];
    for (const char *const *name = part == PART_TRAIN ? train : test; *name != NULL; name++) {
        struct bytes bytes = {0};
        bool is_added =
            read_in(folder, *name, path, &bytes, reason) && pictures_add_cifar10(path, &bytes, &pictures, reason);
        bytes_clear(&bytes);
        if (!is_added) {
            pictures_clear(&pictures);
            return false;
        }
    }
    *ret = pictures;
    return true;
}
