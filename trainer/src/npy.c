/* Reads the headers of NumPy's .npy files (numpy.org/doc/stable/reference/generated/numpy.lib.format.html):
 * - "\x93NUMPY", a byte with the major and one with the minor version
 * - the length of the text that follows: little-endian, u16 in version 1, u32 in versions 2 and 3
 * - a Python dictionary as text: {'descr': '<f4', 'fortran_order': False, 'shape': (60000, 28, 28), }
 *
 * The numbers follow. Only little-endian arrays in C order are read. */
#include "array.h"

#include <stdio.h>
#include <string.h>

enum { MAGIC_BYTES = 6, TEXT_MAX = 1 << 16, WORD_MAX = 32 };

/* The text of the header, and how far it has been read. */
struct text {
    const char *name;
    const uint8_t *file; /* borrowed; the whole file */
    size_t at, end;      /* offsets in the file */
};

static void skip_blanks(struct text *text)
{
    while (text->at < text->end && (text->file[text->at] == ' ' || text->file[text->at] == '\n'))
        text->at++;
}

static bool take(struct text *text, char c)
{
    skip_blanks(text);
    if (text->at == text->end || text->file[text->at] != (uint8_t)c)
        return false;
    text->at++;
    return true;
}

static bool expect(struct text *text, char c, struct reason *reason)
{
    return take(text, c) || because(reason, "%s: byte %zu: '%c' is missing in the header", text->name, text->at, c);
}

/* Read a string in single quotes. */
static bool read_word(struct text *text, char word[WORD_MAX], struct reason *reason)
{
    size_t count = 0;
    if (!expect(text, '\'', reason))
        return false;
    while (text->at < text->end && text->file[text->at] != '\'') {
        if (count == WORD_MAX - 1 || text->file[text->at] < ' ' || text->file[text->at] > '~')
            return because(reason, "%s: byte %zu: unknown text in the header", text->name, text->at);
        word[count++] = (char)text->file[text->at++];
    }
    word[count] = '\0';
    return expect(text, '\'', reason);
}

static bool read_size(struct text *text, size_t *ret, struct reason *reason)
{
    size_t begin, number = 0;
    skip_blanks(text);
    begin = text->at;
    for (; text->at < text->end && text->file[text->at] >= '0' && text->file[text->at] <= '9'; text->at++)
        if (__builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, text->file[text->at] - '0', &number))
            return because(reason, "%s: byte %zu: the number is too large", text->name, begin);
    if (text->at == begin)
        return because(reason, "%s: byte %zu: a number is missing in the shape", text->name, begin);
    *ret = number;
    return true;
}

static bool read_shape(struct text *text, struct array *array, struct reason *reason)
{
    skip_blanks(text);
    array->shape_at = text->at;
    if (!expect(text, '(', reason))
        return false;
    while (!take(text, ')')) {
        if (array->rank == ARRAY_RANK_MAX)
            return because(reason, "%s: byte %zu: more than %d dimensions", text->name, text->at, ARRAY_RANK_MAX);
        if (!read_size(text, &array->shape[array->rank], reason))
            return false;
        array->rank++;
        if (!take(text, ',')) {
            if (!expect(text, ')', reason))
                return false;
            break;
        }
    }
    return array->rank > 0 ||
           because(reason, "%s: byte %zu: a single number, not an array", text->name, array->shape_at);
}

static bool read_type(struct text *text, struct array *array, struct reason *reason)
{
    static const char *const types[ELEMENT_COUNT] = {"u1", "i1", "i2", "i4", "i8", "f4"};
    char word[WORD_MAX];
    skip_blanks(text);
    size_t at = text->at;
    if (at < text->end && text->file[at] == '[')
        return because(reason, "%s: byte %zu: an array of records, not of numbers", text->name, at);
    if (!read_word(text, word, reason))
        return false;
    if (word[0] == '>' && word[1] != '\0' && word[2] != '1')
        return because(reason, "%s: byte %zu: type '%s' is big-endian; save it with .astype('<%s')", text->name, at,
                       word, word + 1);
    for (int i = 0; i < ELEMENT_COUNT; i++)
        if (word[0] != '\0' && strcmp(word + 1, types[i]) == 0 && strchr("<|=>", word[0]) != NULL) {
            array->element = (enum element)i;
            return true;
        }
    return because(reason, "%s: byte %zu: type '%s' is not supported; use u1, i1, i2, i4, i8 or f4", text->name, at,
                   word);
}

static bool read_order(struct text *text, struct reason *reason)
{
    static const char no[] = "False", yes[] = "True";
    skip_blanks(text);
    size_t left = text->end - text->at;
    if (left >= sizeof yes - 1 && memcmp(text->file + text->at, yes, sizeof yes - 1) == 0)
        return because(reason, "%s: byte %zu: Fortran order; save numpy.ascontiguousarray() of the array", text->name,
                       text->at);
    if (left < sizeof no - 1 || memcmp(text->file + text->at, no, sizeof no - 1) != 0)
        return because(reason, "%s: byte %zu: fortran_order is neither True nor False", text->name, text->at);
    text->at += sizeof no - 1;
    return true;
}

static bool read_dictionary(struct text *text, struct array *array, struct reason *reason)
{
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    bool has[3] = {false};
    char key[WORD_MAX];
    if (!expect(text, '{', reason))
        return false;
    while (!take(text, '}')) {
        size_t at = text->at, i = 0;
        if (!read_word(text, key, reason) || !expect(text, ':', reason))
            return false;
        while (i < 3 && strcmp(keys[i], key) != 0)
            i++;
        if (i == 3 || has[i])
            return because(reason, "%s: byte %zu: key '%s' is unknown or given twice", text->name, at, key);
        has[i] = true;
        if (!(i == 0   ? read_type(text, array, reason)
              : i == 1 ? read_order(text, reason)
                       : read_shape(text, array, reason)))
            return false;
        if (!take(text, ',')) {
            if (!expect(text, '}', reason))
                return false;
            break;
        }
    }
    for (int i = 0; i < 3; i++)
        if (!has[i])
            return because(reason, "%s: byte %zu: the header has no '%s'", text->name, text->at, keys[i]);
    return true;
}

bool array_from_npy(const char *name, const char *what, const struct bytes *bytes, struct array *ret,
                    struct reason *reason)
{
    static const uint8_t magic[MAGIC_BYTES] = {0x93, 'N', 'U', 'M', 'P', 'Y'};
    struct array array = {.name = name};
    const uint8_t *data = bytes->data;
    if (bytes->count < MAGIC_BYTES + 4 || memcmp(data, magic, MAGIC_BYTES) != 0)
        return because(reason, "%s: byte 0: not a .npy file of %s", name, what);
    size_t begin = data[6] == 1 ? 10 : 12, length = data[8] | (size_t)data[9] << 8;
    if (data[6] < 1 || data[6] > 3)
        return because(reason, "%s: byte 6: version %d of the format is not supported", name, data[6]);
    if (bytes->count < begin)
        return because(reason, "%s: %zu bytes, but the header alone has more", name, bytes->count);
    if (begin == 12)
        length |= (size_t)data[10] << 16 | (size_t)data[11] << 24;
    if (length > TEXT_MAX || length > bytes->count - begin)
        return because(reason, "%s: byte 8: a header of %zu bytes in a file of %zu", name, length, bytes->count);
    struct text text = {.name = name, .file = data, .at = begin, .end = begin + length};
    if (!read_dictionary(&text, &array, reason))
        return false;
    array.head_bytes = begin + length;
    if (!array_end_head(&array, what, bytes, reason))
        return false;
    *ret = array;
    return true;
}
