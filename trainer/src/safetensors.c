/* Read and write safetensors files. */
#include "safetensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FRONT_BYTES = 8, HEAD_BYTES_MAX = 100000000, FIRST_ROOM = 256 };

/* The size of an element in bits; the types smaller than a byte are packed. */
static const struct type {
    const char *name;
    unsigned bits;
} types[] = {{"F32", 32},    {"F16", 16},    {"BF16", 16},       {"F64", 64},       {"I64", 64}, {"I32", 32},
             {"I16", 16},    {"I8", 8},      {"U64", 64},        {"U32", 32},       {"U16", 16}, {"U8", 8},
             {"BOOL", 8},    {"F8_E5M2", 8}, {"F8_E4M3", 8},     {"F8_E8M0", 8},    {"C64", 64}, {"F6_E2M3", 6},
             {"F6_E3M2", 6}, {"F4", 4},      {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}};
enum { TYPE_COUNT = sizeof types / sizeof *types };

size_t tensor_count(const struct tensor *tensor)
{
    size_t count = 1;
    for (size_t i = 0; i < tensor->dim_count; i++)
        count *= tensor->dims[i];
    return count;
}

const char *tensor_shape_text(const struct tensor *tensor, char text[TENSOR_SHAPE_BYTES])
{
    size_t at = 0;
    snprintf(text, TENSOR_SHAPE_BYTES, "a single value");
    for (size_t i = 0; i < tensor->dim_count; i++)
        at += (size_t)snprintf(text + at, TENSOR_SHAPE_BYTES - at, "%s%zu", i == 0 ? "" : "x", tensor->dims[i]);
    return text;
}

/* ---- the head: characters ---- */

struct head {
    const char *file;
    const uint8_t *begin, *end, *at;
    char *names; /* owned by the result; the next name is stored at `name_at` */
    size_t name_at;
    struct safetensors *ret;
    size_t room; /* allocated elements of ret->tensors */
    uint64_t data_bytes;
    struct reason *reason;
};

static bool bad(const struct head *head, const char *what)
{
    return because(head->reason, "%s: byte %td: %s", head->file, FRONT_BYTES + (head->at - head->begin), what);
}

static bool bad_tensor(const struct head *head, const char *name, const char *what)
{
    return because(head->reason, "%s: tensor \"%.100s\": %s", head->file, name, what);
}

static void skip_space(struct head *head)
{
    while (head->at < head->end && (*head->at == ' ' || *head->at == '\t' || *head->at == '\n' || *head->at == '\r'))
        head->at++;
}

/* If the next character is `wanted`, skip it and return true. */
static bool takes(struct head *head, char wanted)
{
    skip_space(head);
    if (head->at == head->end || *head->at != (uint8_t)wanted)
        return false;
    head->at++;
    return true;
}

static bool needs(struct head *head, char wanted)
{
    char what[] = "expected '?'";
    if (takes(head, wanted))
        return true;
    what[10] = wanted;
    return bad(head, what);
}

static bool read_hex(struct head *head, uint32_t *ret)
{
    uint32_t value = 0;
    for (int i = 0; i < 4; i++, head->at++) {
        uint8_t c = head->at < head->end ? *head->at : 0;
        uint8_t low = c | 0x20;
        if (c >= '0' && c <= '9')
            value = value * 16 + (c - '0');
        else if (low >= 'a' && low <= 'f')
            value = value * 16 + (low - 'a' + 10u);
        else
            return bad(head, "\\u is not followed by four hexadecimal digits");
    }
    *ret = value;
    return true;
}

static void put_utf8(char **out, uint32_t point)
{
    char *at = *out;
    if (point < 0x80) {
        *at++ = (char)point;
    } else if (point < 0x800) {
        *at++ = (char)(0xC0 | point >> 6);
        *at++ = (char)(0x80 | (point & 0x3F));
    } else {
        if (point < 0x10000) {
            *at++ = (char)(0xE0 | point >> 12);
        } else {
            *at++ = (char)(0xF0 | point >> 18);
            *at++ = (char)(0x80 | (point >> 12 & 0x3F));
        }
        *at++ = (char)(0x80 | (point >> 6 & 0x3F));
        *at++ = (char)(0x80 | (point & 0x3F));
    }
    *out = at;
}

/* Read what follows "\u": one code unit, or two that form a surrogate pair. */
static bool read_unicode(struct head *head, char **out)
{
    uint32_t point = 0, low = 0;
    if (!read_hex(head, &point))
        return false;
    if (point == 0)
        return bad(head, "a zero character in a string");
    if (point >= 0xD800 && point < 0xE000) {
        if (point >= 0xDC00 || head->end - head->at < 2 || head->at[0] != '\\' || head->at[1] != 'u')
            return bad(head, "half of a surrogate pair");
        head->at += 2;
        if (!read_hex(head, &low))
            return false;
        if (low < 0xDC00 || low >= 0xE000)
            return bad(head, "half of a surrogate pair");
        point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00);
    }
    put_utf8(out, point);
    return true;
}

static bool read_escape(struct head *head, char **out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    char c = head->at < head->end ? (char)*head->at : '\0';
    const char *is = c == '\0' ? NULL : strchr(from, c);
    if (c == 'u') {
        head->at++;
        return read_unicode(head, out);
    }
    if (is == NULL)
        return bad(head, "an unknown escape sequence in a string");
    head->at++;
    *(*out)++ = to[is - from];
    return true;
}

/* Read a string into the room for names, where it stays until the next call unless the caller advances name_at. The
 * room is as large as the head, and no string is longer than its text in the head. */
static bool read_string(struct head *head, const char **ret)
{
    char *begin = head->names + head->name_at, *out = begin;
    if (!needs(head, '"'))
        return false;
    for (;;) {
        if (head->at == head->end)
            return bad(head, "the head ends inside a string");
        uint8_t c = *head->at;
        if (c < 0x20)
            return bad(head, "a control character in a string");
        head->at++;
        if (c == '"')
            break;
        if (c != '\\')
            *out++ = (char)c;
        else if (!read_escape(head, &out))
            return false;
    }
    *out = '\0';
    *ret = begin;
    return true;
}

/* Read a string that error messages may print: it has no control characters. */
static bool read_word(struct head *head, const char **ret)
{
    if (!read_string(head, ret))
        return false;
    for (const char *at = *ret; *at != '\0'; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7F)
            return bad(head, "a control character in the name, key or type before this byte");
    return true;
}

static bool read_number(struct head *head, uint64_t *ret)
{
    uint64_t value = 0;
    skip_space(head);
    const uint8_t *begin = head->at;
    for (; head->at < head->end && *head->at >= '0' && *head->at <= '9'; head->at++) {
        unsigned digit = *head->at - '0';
        if (value > (UINT64_MAX - digit) / 10)
            return bad(head, "the number is too large");
        value = value * 10 + digit;
    }
    if (head->at == begin)
        return bad(head, "expected a number that is not negative");
    if (head->at - begin > 1 && *begin == '0')
        return bad(head, "a number begins with 0");
    *ret = value;
    return true;
}

/* ---- the head: tensors ---- */

enum { HAS_TYPE = 1, HAS_SHAPE = 2, HAS_OFFSETS = 4, HAS_ALL = 7 };

struct entry {
    struct tensor tensor;
    unsigned bits; /* per element */
    uint64_t first, last;
    unsigned has;
};

static bool read_type(struct head *head, struct entry *entry)
{
    const char *text;
    if (!read_word(head, &text))
        return false;
    for (size_t i = 0; i < TYPE_COUNT; i++)
        if (strcmp(types[i].name, text) == 0) {
            entry->tensor.type = types[i].name;
            entry->bits = types[i].bits;
            return true;
        }
    return because(head->reason, "%s: tensor \"%.100s\": unknown type \"%.40s\"", head->file, entry->tensor.name, text);
}

static bool read_shape(struct head *head, struct entry *entry)
{
    if (!needs(head, '['))
        return false;
    if (takes(head, ']'))
        return true;
    do {
        uint64_t side;
        if (entry->tensor.dim_count == TENSOR_DIMS_MAX)
            return bad_tensor(head, entry->tensor.name, "more than 8 dimensions");
        if (!read_number(head, &side))
            return false;
        if ((size_t)side != side)
            return bad_tensor(head, entry->tensor.name, "the shape is too large");
        entry->tensor.dims[entry->tensor.dim_count++] = (size_t)side;
    } while (takes(head, ','));
    return needs(head, ']');
}

static bool read_offsets(struct head *head, struct entry *entry)
{
    return needs(head, '[') && read_number(head, &entry->first) && needs(head, ',') &&
           read_number(head, &entry->last) && needs(head, ']');
}

/* Read one of the three fields of a tensor. */
static bool read_field(struct head *head, struct entry *entry)
{
    static const struct {
        const char *key;
        unsigned bit;
        bool (*read)(struct head *, struct entry *);
    } fields[] = {
        {"dtype", HAS_TYPE, read_type}, {"shape", HAS_SHAPE, read_shape}, {"data_offsets", HAS_OFFSETS, read_offsets}};
    const char *key;
    if (!read_word(head, &key))
        return false;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (strcmp(key, fields[i].key) != 0)
            continue;
        if (entry->has & fields[i].bit)
            return because(head->reason, "%s: tensor \"%.100s\": \"%s\" is given twice", head->file, entry->tensor.name,
                           fields[i].key);
        entry->has |= fields[i].bit;
        return needs(head, ':') && fields[i].read(head, entry);
    }
    return because(head->reason, "%s: tensor \"%.100s\": unknown key \"%.40s\"", head->file, entry->tensor.name, key);
}

/* Check that the shape matches the offsets, and the offsets the file. */
static bool check_entry(const struct head *head, const struct entry *entry)
{
    uint64_t bits = entry->bits;
    if (entry->has != HAS_ALL)
        return bad_tensor(head, entry->tensor.name, "dtype, shape or data_offsets is missing");
    if (entry->first > entry->last || entry->last > head->data_bytes)
        return because(head->reason,
                       "%s: tensor \"%.100s\": offsets %" PRIu64 " to %" PRIu64 " in a file with %" PRIu64
                       " bytes of data",
                       head->file, entry->tensor.name, entry->first, entry->last, head->data_bytes);
    for (size_t i = 0; i < entry->tensor.dim_count; i++)
        if (__builtin_mul_overflow(bits, (uint64_t)entry->tensor.dims[i], &bits))
            return bad_tensor(head, entry->tensor.name, "the shape is too large");
    if (bits % 8 != 0 || bits / 8 != entry->last - entry->first)
        return because(head->reason,
                       "%s: tensor \"%.100s\": shape and type need %" PRIu64 " bits, but the offsets enclose %" PRIu64
                       " bytes",
                       head->file, entry->tensor.name, bits, entry->last - entry->first);
    return true;
}

static bool add_tensor(struct head *head, const struct entry *entry)
{
    struct safetensors *ret = head->ret;
    if (ret->count == head->room) {
        size_t room = head->room == 0 ? FIRST_ROOM : 2 * head->room;
        struct tensor *tensors = realloc(ret->tensors, room * sizeof *tensors);
        if (tensors == NULL)
            return because(head->reason, "%s: no host memory for %zu tensors", head->file, room);
        ret->tensors = tensors;
        head->room = room;
    }
    ret->tensors[ret->count] = entry->tensor;
    ret->tensors[ret->count].data = head->end + entry->first;
    ret->tensors[ret->count].bytes = (size_t)(entry->last - entry->first);
    ret->count++;
    return true;
}

static bool read_tensor(struct head *head, const char *name)
{
    struct entry entry = {.tensor.name = name};
    head->name_at += strlen(name) + 1; /* keep the name */
    if (!needs(head, '{'))
        return false;
    if (!takes(head, '}')) {
        do {
            if (!read_field(head, &entry))
                return false;
        } while (takes(head, ','));
        if (!needs(head, '}'))
            return false;
    }
    return check_entry(head, &entry) && add_tensor(head, &entry);
}

/* Read the texts that the writer added for people. They are not used. */
static bool read_metadata(struct head *head)
{
    const char *text;
    if (!needs(head, '{'))
        return false;
    if (takes(head, '}'))
        return true;
    do {
        if (!read_string(head, &text) || !needs(head, ':') || !read_string(head, &text))
            return false;
    } while (takes(head, ','));
    return needs(head, '}');
}

static bool read_head(struct head *head)
{
    bool has_metadata = false;
    if (!needs(head, '{'))
        return false;
    if (!takes(head, '}')) {
        do {
            const char *name;
            if (!read_word(head, &name) || !needs(head, ':'))
                return false;
            bool is_metadata = strcmp(name, "__metadata__") == 0;
            if (is_metadata && has_metadata)
                return bad(head, "\"__metadata__\" is given twice");
            has_metadata |= is_metadata;
            if (!(is_metadata ? read_metadata(head) : read_tensor(head, name)))
                return false;
        } while (takes(head, ','));
        if (!needs(head, '}'))
            return false;
    }
    skip_space(head);
    return head->at == head->end || bad(head, "something follows the JSON object");
}

/* ---- all tensors ---- */

static int by_data(const void *a, const void *b)
{
    const struct tensor *one = a, *other = b;
    if (one->data != other->data)
        return one->data < other->data ? -1 : 1;
    return one->bytes < other->bytes ? -1 : one->bytes > other->bytes; /* empty tensors come first */
}

static int by_name(const void *a, const void *b)
{
    const struct tensor *const *one = a, *const *other = b;
    return strcmp((*one)->name, (*other)->name);
}

/* Check that the tensors, sorted by their data, fill the data exactly. */
static bool check_places(const struct head *head)
{
    const struct safetensors *ret = head->ret;
    const uint8_t *at = head->end, *end = head->end + head->data_bytes;
    for (size_t i = 0; i < ret->count; i++) {
        const struct tensor *tensor = &ret->tensors[i];
        if (tensor->data < at)
            return because(head->reason, "%s: tensor \"%.100s\" overlaps tensor \"%.100s\"", head->file, tensor->name,
                           ret->tensors[i - 1].name);
        if (tensor->data > at)
            return because(head->reason, "%s: tensor \"%.100s\": %td bytes before it belong to no tensor", head->file,
                           tensor->name, tensor->data - at);
        at += tensor->bytes;
    }
    return at == end || because(head->reason, "%s: %td bytes at the end belong to no tensor", head->file, end - at);
}

static bool check_names(const struct head *head)
{
    const struct safetensors *ret = head->ret;
    const struct tensor **sorted = malloc((ret->count + 1) * sizeof *sorted);
    bool is_good = true;
    if (sorted == NULL)
        return because(head->reason, "%s: no host memory for %zu names", head->file, ret->count);
    for (size_t i = 0; i < ret->count; i++)
        sorted[i] = &ret->tensors[i];
    qsort(sorted, ret->count, sizeof *sorted, by_name);
    for (size_t i = 1; i < ret->count && is_good; i++)
        if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
            is_good = bad_tensor(head, sorted[i]->name, "the name is given twice");
    free(sorted);
    return is_good;
}

static uint64_t get_u64(const uint8_t *at)
{
    uint64_t number = 0;
    for (int i = 7; i >= 0; i--)
        number = number << 8 | at[i];
    return number;
}

static bool parse(struct head *head)
{
    if (!read_head(head))
        return false;
    if (head->ret->count > 0)
        qsort(head->ret->tensors, head->ret->count, sizeof *head->ret->tensors, by_data);
    return check_names(head) && check_places(head);
}

bool safetensors_parse(const char *name, const struct bytes *bytes, struct safetensors *ret, struct reason *reason)
{
    if (bytes->count < FRONT_BYTES)
        return because(reason, "%s: %zu bytes, but the size of the head alone has %d", name, bytes->count, FRONT_BYTES);
    uint64_t head_bytes = get_u64(bytes->data), rest = bytes->count - FRONT_BYTES;
    if (head_bytes > HEAD_BYTES_MAX)
        return because(reason, "%s: byte 0: a head of %" PRIu64 " bytes, but at most %d are allowed", name, head_bytes,
                       HEAD_BYTES_MAX);
    if (head_bytes > rest)
        return because(reason, "%s: byte 0: a head of %" PRIu64 " bytes in a file of %zu", name, head_bytes,
                       bytes->count);
    struct safetensors result = {.names = malloc((size_t)head_bytes + 1)};
    struct head head = {.file = name,
                        .begin = bytes->data + FRONT_BYTES,
                        .at = bytes->data + FRONT_BYTES,
                        .end = bytes->data + FRONT_BYTES + head_bytes,
                        .names = result.names,
                        .ret = &result,
                        .data_bytes = rest - head_bytes,
                        .reason = reason};
    if (result.names == NULL)
        return because(reason, "%s: no host memory for a head of %" PRIu64 " bytes", name, head_bytes);
    if (!parse(&head)) {
        safetensors_clear(&result);
        return false;
    }
    *ret = result;
    return true;
}

void safetensors_clear(struct safetensors *safetensors)
{
    free(safetensors->tensors);
    free(safetensors->names);
    *safetensors = (struct safetensors){0};
}

const struct tensor *safetensors_find(const struct safetensors *safetensors, const char *name)
{
    for (size_t i = 0; i < safetensors->count; i++)
        if (strcmp(safetensors->tensors[i].name, name) == 0)
            return &safetensors->tensors[i];
    return NULL;
}

/* ---- values ---- */

static float from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t get_u16(const uint8_t *at)
{
    return at[0] | (uint32_t)at[1] << 8;
}

static float from_f32(const uint8_t *at)
{
    return from_bits(get_u16(at) | get_u16(at + 2) << 16);
}

static float from_bf16(const uint8_t *at)
{
    return from_bits(get_u16(at) << 16);
}

static float from_f16(const uint8_t *at)
{
    uint32_t half = get_u16(at), sign = half >> 15 << 31, exponent = half >> 10 & 0x1F, fraction = half & 0x3FF;
    if (exponent == 0x1F) /* infinite, or not a number */
        return from_bits(sign | 0x7F800000 | fraction << 13);
    if (exponent == 0) { /* 0 or subnormal: fraction * 2^-24 */
        float value = (float)fraction * 0x1p-24F;
        return sign != 0 ? -value : value;
    }
    return from_bits(sign | (exponent + 112) << 23 | fraction << 13); /* 112: the difference of the biases, 127 - 15 */
}

bool tensor_values(const struct tensor *tensor, float *values)
{
    static const struct {
        const char *type;
        size_t bytes;
        float (*get)(const uint8_t *);
    } readers[] = {{"F32", 4, from_f32}, {"F16", 2, from_f16}, {"BF16", 2, from_bf16}};
    size_t count = tensor_count(tensor);
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++) {
        if (strcmp(readers[i].type, tensor->type) != 0)
            continue;
        for (size_t k = 0; k < count; k++)
            values[k] = readers[i].get(tensor->data + k * readers[i].bytes);
        return true;
    }
    return false;
}

/* ---- writing ---- */

/* Print the entry of one tensor. Returns its length, even if it is longer than `room`. */
static size_t put_entry(char *out, size_t room, const struct tensor *tensor, uint64_t first)
{
    size_t at = (size_t)snprintf(out, room, "\"%s\":{\"dtype\":\"F32\",\"shape\":[", tensor->name);
    for (size_t i = 0; i < tensor->dim_count; i++)
        at += (size_t)snprintf(at < room ? out + at : NULL, at < room ? room - at : 0, "%s%zu", i == 0 ? "" : ",",
                               tensor->dims[i]);
    at += (size_t)snprintf(at < room ? out + at : NULL, at < room ? room - at : 0,
                           "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", first,
                           first + tensor_count(tensor) * sizeof(float));
    return at;
}

bool safetensors_head(const struct tensor *tensors, size_t count, struct bytes *ret, struct reason *reason)
{
    size_t room = FRONT_BYTES + 2 + 8, at = FRONT_BYTES;
    uint64_t first = 0;
    for (size_t i = 0; i < count; i++)
        room += put_entry(NULL, 0, &tensors[i], UINT64_MAX / 2) + 1; /* an offset is never longer than this one */
    char *out = malloc(room);
    if (out == NULL)
        return because(reason, "no host memory for a head of %zu bytes", room);
    out[at++] = '{';
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            out[at++] = ',';
        at += put_entry(out + at, room - at, &tensors[i], first);
        first += tensor_count(&tensors[i]) * sizeof(float);
    }
    out[at++] = '}';
    while (at % 8 != 0)
        out[at++] = ' '; /* so that the data is aligned */
    for (int i = 0; i < FRONT_BYTES; i++)
        out[i] = (char)((uint64_t)(at - FRONT_BYTES) >> 8 * i);
    *ret = (struct bytes){(uint8_t *)out, at};
    return true;
}
