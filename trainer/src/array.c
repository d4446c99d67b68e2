/* Reads numbers of any supported type, and the headers of IDX files (yann.lecun.com/exdb/mnist):
 * - byte 0, 1: 0
 * - byte 2: type: 0x08 u8, 0x09 i8, 0x0B i16, 0x0C i32, 0x0D f32
 * - byte 3: number of dimensions
 * - a big-endian u32 for each dimension
 *
 * The numbers follow, big-endian. */
#include "array.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static uint64_t bits_of(const struct array *array, size_t index)
{
    size_t bytes = element_bytes(array->element);
    const uint8_t *at = array->data + index * bytes;
    uint64_t bits = 0;
    for (size_t i = 0; i < bytes; i++)
        bits = bits << 8 | at[array->is_big ? i : bytes - 1 - i];
    return bits;
}

int64_t array_integer(const struct array *array, size_t index)
{
    uint64_t bits = bits_of(array, index);
    switch (array->element) {
    case ELEMENT_I8:
        return (int8_t)bits;
    case ELEMENT_I16:
        return (int16_t)bits;
    case ELEMENT_I32:
        return (int32_t)bits;
    default:
        return (int64_t)bits;
    }
}

float array_real(const struct array *array, size_t index)
{
    uint32_t bits = (uint32_t)bits_of(array, index);
    float real;
    memcpy(&real, &bits, sizeof real);
    return real;
}

/* Return the shape as text, such as "6 images of 3x2". */
static const char *shape_text(const struct array *array, const char *what, char *text, size_t text_bytes)
{
    int at = snprintf(text, text_bytes, "%zu %s", array->shape[0], what);
    for (int i = 1; i < array->rank; i++)
        at += snprintf(text + at, text_bytes - (size_t)at, "%s%zu", i == 1 ? " of " : "x", array->shape[i]);
    return text;
}

bool array_end_head(struct array *array, const char *what, const struct bytes *bytes, struct reason *reason)
{
    size_t product = element_bytes(array->element), left = bytes->count - array->head_bytes;
    char text[160];
    bool is_large = false;
    shape_text(array, what, text, sizeof text);
    for (int i = 0; i < array->rank; i++) {
        if (array->shape[i] == 0)
            return because(reason, "%s: byte %zu: %s: a size is 0", array->name, array->shape_at, text);
        is_large = is_large || __builtin_mul_overflow(product, array->shape[i], &product);
    }
    if (is_large)
        return because(reason, "%s: byte %zu: %s are more bytes than a file can have", array->name, array->shape_at,
                       text);
    if (product != left)
        return because(reason, "%s: byte %zu: %s are %zu bytes, but the header is followed by %zu", array->name,
                       array->shape_at, text, product, left);
    array->data = bytes->data + array->head_bytes;
    return true;
}

static bool idx_type(struct array *array, uint8_t type, const char *what, struct reason *reason)
{
    static const struct {
        uint8_t type;
        enum element element;
    } rows[] = {{0x08, ELEMENT_U8}, {0x09, ELEMENT_I8}, {0x0B, ELEMENT_I16}, {0x0C, ELEMENT_I32}, {0x0D, ELEMENT_F32}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].type == type) {
            array->element = rows[i].element;
            return true;
        }
    return because(reason, "%s: byte 2: type 0x%02x of the %s is not supported; use u8, i8, i16, i32 or f32",
                   array->name, type, what);
}

bool array_from_idx(const char *name, const char *what, const struct bytes *bytes, struct array *ret,
                    struct reason *reason)
{
    struct array array = {.name = name, .shape_at = 4, .is_big = true};
    if (bytes->count < 4)
        return because(reason, "%s: %zu bytes, but an IDX header has at least 8", name, bytes->count);
    if (bytes->data[0] == 0x1f && bytes->data[1] == 0x8b)
        return because(reason, "%s: byte 0: compressed; gunzip it first", name);
    if (bytes->data[0] != 0 || bytes->data[1] != 0)
        return because(reason, "%s: byte 0: magic number 0x%08x: not an IDX file of %s", name, big_u32(bytes->data),
                       what);
    array.rank = bytes->data[3];
    if (!idx_type(&array, bytes->data[2], what, reason))
        return false;
    if (array.rank < 1 || array.rank > ARRAY_RANK_MAX)
        return because(reason, "%s: byte 3: %d dimensions; 1 to %d are supported", name, array.rank, ARRAY_RANK_MAX);
    array.head_bytes = 4 + 4 * (size_t)array.rank;
    if (bytes->count < array.head_bytes)
        return because(reason, "%s: %zu bytes, but the header alone has %zu", name, bytes->count, array.head_bytes);
    for (int i = 0; i < array.rank; i++)
        array.shape[i] = big_u32(bytes->data + 4 + 4 * i);
    if (!array_end_head(&array, what, bytes, reason))
        return false;
    *ret = array;
    return true;
}
