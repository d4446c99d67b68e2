/* Read images that are to be classified: see picture_file.h. PGM and PPM are defined in netpbm's pgm(5) and ppm(5). */
#include "picture_file.h"

#include <stdlib.h>
#include <string.h>

enum { SIDE_MAX = 1 << 15, CIFAR_RECORD = 3073 };

/* ---- PGM and PPM ---- */

struct head {
    const char *name;
    const struct bytes *bytes;
    size_t at;
};

static bool is_space(uint8_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Skip white space and comments, and read a number of at most `most`. */
static bool next_number(struct head *head, size_t most, size_t *ret, struct reason *reason)
{
    const uint8_t *data = head->bytes->data;
    size_t count = head->bytes->count, number = 0, begin;
    bool is_comment = false;
    while (head->at < count && (is_comment || is_space(data[head->at]) || data[head->at] == '#')) {
        is_comment = (is_comment || data[head->at] == '#') && data[head->at] != '\n';
        head->at++;
    }
    for (begin = head->at; head->at < count && data[head->at] >= '0' && data[head->at] <= '9'; head->at++) {
        number = number * 10 + data[head->at] - '0';
        if (number > most)
            break;
    }
    if (head->at == begin || number == 0 || number > most)
        return because(reason, "%s: byte %zu: not a number from 1 to %zu", head->name, begin, most);
    *ret = number;
    return true;
}

static bool is_netpbm(const struct bytes *bytes)
{
    return bytes->count > 2 && bytes->data[0] == 'P' && (bytes->data[1] == '5' || bytes->data[1] == '6') &&
           (is_space(bytes->data[2]) || bytes->data[2] == '#');
}

static bool read_netpbm(const char *name, const struct bytes *bytes, struct pictures *ret, struct reason *reason)
{
    struct head head = {.name = name, .bytes = bytes, .at = 2};
    struct shape shape = {.channels = bytes->data[1] == '5' ? 1 : 3};
    size_t most;
    if (!next_number(&head, SIDE_MAX, &shape.width, reason) || !next_number(&head, SIDE_MAX, &shape.height, reason) ||
        !next_number(&head, 65535, &most, reason))
        return false;
    if (most != 255)
        return because(reason, "%s: the largest value is %zu; only 255 is supported", name, most);
    if (head.at == bytes->count || !is_space(bytes->data[head.at]) || bytes->count - head.at - 1 != shape_count(shape))
        return because(reason, "%s: byte %zu: %zux%zu pixels are %zu bytes, but the header is followed by %zu", name,
                       head.at, shape.width, shape.height, shape_count(shape),
                       head.at == bytes->count ? 0 : bytes->count - head.at - 1);
    uint8_t *pixels = malloc(shape_count(shape));
    if (pixels == NULL)
        return because(reason, "%s: no host memory for %zu bytes", name, shape_count(shape));
    memcpy(pixels, bytes->data + head.at + 1, shape_count(shape));
    *ret = (struct pictures){.shape = shape, .count = 1, .pixels = pixels};
    return true;
}

/* ---- the data sets' formats ---- */

/* Images of u8 or f32, with 3 or 4 dimensions. The first bytes of a CIFAR-10 file may also be 0. */
static bool is_idx(const struct bytes *bytes)
{
    return bytes->count > 4 && bytes->data[0] == 0 && bytes->data[1] == 0 &&
           (bytes->data[2] == 0x08 || bytes->data[2] == 0x0D) && (bytes->data[3] == 3 || bytes->data[3] == 4);
}

static bool is_npy(const struct bytes *bytes)
{
    return bytes->count >= 6 && memcmp(bytes->data, "\x93NUMPY", 6) == 0;
}

static bool is_cifar10(const struct bytes *bytes)
{
    return bytes->count != 0 && bytes->count % CIFAR_RECORD == 0;
}

static bool read_cifar10(const char *name, const struct bytes *bytes, struct pictures *ret, struct reason *reason)
{
    struct pictures pictures = {0};
    if (!pictures_add_cifar(name, bytes, 10, &pictures, reason)) {
        pictures_clear(&pictures);
        return false;
    }
    *ret = pictures;
    return true;
}

/* ---- all formats ---- */

static const struct format {
    bool (*is)(const struct bytes *bytes);
    bool (*read)(const char *name, const struct bytes *bytes, struct pictures *ret, struct reason *reason);
} formats[] = {{is_netpbm, read_netpbm},
               {is_idx, pictures_images_from_idx},
               {is_npy, pictures_images_from_npy},
               {is_cifar10, read_cifar10}};

bool picture_file_parse(const char *name, const struct bytes *bytes, struct pictures *ret, struct reason *reason)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (formats[i].is(bytes))
            return formats[i].read(name, bytes, ret, reason);
    return because(
        reason, "%s: byte 0: neither a binary PGM or PPM, nor an IDX or .npy file, nor CIFAR-10's binary format", name);
}
