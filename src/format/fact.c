/* Reads and writes facts as text. Reading and writing use the same tables of fields, which are made from facts.def. */
#include "gw_fact.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef enum fact_form { WORDS, LINES, COLUMNS } fact_form;
typedef enum value_type { U32, U64, HEX, I32, FLAG, THREE, TEXT } value_type;

typedef struct fact_field {
    const char *name;
    value_type type;
    size_t at, has_at; /* offsets in the struct of the member and of its has_ flag */
    size_t bytes_max;  /* maximum length of a text; 0: no limit */
} fact_field;

#define GW_FACT(fact, form) static const fact_field fact##_fields[] = {
#define GW_NUMBER(fact, type, member, name, unit)                                                                      \
    {name, type, offsetof(gw_fact_##fact, member), offsetof(gw_fact_##fact, has_##member), 0},
#define GW_TEXT(fact, member, name, bytes_max)                                                                         \
    {name, TEXT, offsetof(gw_fact_##fact, member), offsetof(gw_fact_##fact, has_##member), bytes_max},
#define GW_FACT_END(fact)                                                                                              \
    }                                                                                                                  \
    ;
#define GW_KEY(id, key)
#include "facts.def"

/* ---- one value ---- */

/* Parse a decimal number, or a hexadecimal one after "0x". Returns false if it is larger than `max`, or if the text
 * contains anything else. */
static bool read_number(gw_fact_text text, uint64_t max, uint64_t *ret_number)
{
    bool is_hex = text.bytes > 2 && text.data[0] == '0' && (text.data[1] | 0x20) == 'x';
    uint64_t base = is_hex ? 16 : 10, number = 0;
    size_t at = is_hex ? 2 : 0;
    if (text.bytes == 0)
        return false;
    for (; at < text.bytes; at++) {
        unsigned char c = (unsigned char)text.data[at];
        uint64_t digit = 16;
        if (c >= '0' && c <= '9')
            digit = (uint64_t)(c - '0');
        else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
            digit = (uint64_t)((c | 0x20) - 'a' + 10);
        if (digit >= base || number > (max - digit) / base)
            return false;
        number = number * base + digit;
    }
    *ret_number = number;
    return true;
}

static bool read_signed(gw_fact_text text, int32_t *ret_number)
{
    uint64_t number;
    bool negative = text.bytes > 0 && text.data[0] == '-';
    gw_fact_text digits = {text.data + negative, text.bytes - negative};
    if (!read_number(digits, INT32_MAX, &number))
        return false;
    *ret_number = negative ? -(int32_t)number : (int32_t)number;
    return true;
}

static bool read_three(gw_fact_text text, gw_fact_THREE *ret_three)
{
    gw_fact_THREE three;
    for (int i = 0; i < 3; i++) {
        const char *comma = i == 2 ? NULL : memchr(text.data, ',', text.bytes);
        gw_fact_text part = {text.data, comma == NULL ? text.bytes : (size_t)(comma - text.data)};
        uint64_t number;
        if ((comma == NULL && i < 2) || !read_number(part, UINT32_MAX, &number))
            return false;
        three.at[i] = (uint32_t)number;
        if (comma != NULL)
            text = (gw_fact_text){comma + 1, text.bytes - part.bytes - 1};
    }
    *ret_three = three;
    return true;
}

static bool read_value(gw_fact_text text, value_type type, void *value)
{
    uint64_t number = 0;
    switch (type) {
    case TEXT:
        *(gw_fact_text *)value = text;
        return true;
    case THREE:
        return read_three(text, value);
    case I32:
        return read_signed(text, value);
    case U32:
        if (!read_number(text, UINT32_MAX, &number))
            return false;
        *(uint32_t *)value = (uint32_t)number;
        return true;
    case FLAG:
        if (!read_number(text, UINT64_MAX, &number))
            return false;
        *(bool *)value = number != 0;
        return true;
    case U64:
    case HEX:
        return read_number(text, UINT64_MAX, value);
    }
    return false;
}

/* Write a text, cut after bytes_max bytes (0: not cut). In the forms LINES and COLUMNS, separators in the text become
 * '?'. */
static void write_text(const fact_field *it, fact_form form, gw_fact_text value, gw_text *text)
{
    size_t begin = text->bytes, bytes = strnlen(value.data, value.bytes);
    gw_text_add(text, value.data, it->bytes_max != 0 && bytes > it->bytes_max ? it->bytes_max : bytes);
    for (size_t i = begin; text->data != NULL && i < text->bytes; i++)
        if (form != WORDS && (text->data[i] == '\n' || (form == COLUMNS && text->data[i] == '\t')))
            text->data[i] = '?';
}

static void write_value(const fact_field *it, fact_form form, const void *value, gw_text *text)
{
    const gw_fact_THREE *three = value;
    switch (it->type) {
    case TEXT:
        write_text(it, form, *(const gw_fact_text *)value, text);
        break;
    case THREE:
        gw_text_addf(text, "%" PRIu32 ",%" PRIu32 ",%" PRIu32, three->at[0], three->at[1], three->at[2]);
        break;
    case I32:
        gw_text_addf(text, "%" PRId32, *(const int32_t *)value);
        break;
    case U32:
        gw_text_addf(text, "%" PRIu32, *(const uint32_t *)value);
        break;
    case FLAG:
        gw_text_addf(text, "%d", *(const bool *)value);
        break;
    case U64:
        gw_text_addf(text, "%" PRIu64, *(const uint64_t *)value);
        break;
    case HEX:
        gw_text_addf(text, "0x%" PRIx64, *(const uint64_t *)value);
        break;
    }
}

/* ---- all fields ---- */

static void take(const fact_field *it, gw_fact_text value, void *fact)
{
    bool *has = (bool *)((char *)fact + it->has_at);
    if (!*has)
        *has = read_value(value, it->type, (char *)fact + it->at);
}

static const fact_field *field_of(const fact_field *list, size_t count, const char *name, size_t bytes)
{
    for (size_t i = 0; i < count; i++)
        if (strlen(list[i].name) == bytes && strncmp(list[i].name, name, bytes) == 0)
            return &list[i];
    return NULL;
}

static const char *end_of(const char *at, const char *end, char separator)
{
    const char *found = memchr(at, separator, (size_t)(end - at));
    return found == NULL ? end : found;
}

static void read_named(const fact_field *list, size_t count, fact_form form, gw_fact_text text, void *fact)
{
    const char separator = form == WORDS ? ' ' : '\n', *end = text.data + text.bytes;
    for (const char *at = text.data; at < end;) {
        const char *part_end = end_of(at, end, separator), *equals = end_of(at, part_end, '=');
        const fact_field *it = equals == part_end ? NULL : field_of(list, count, at, (size_t)(equals - at));
        if (form == WORDS && it == &list[count - 1] && it->type == TEXT)
            part_end = end; /* the last text field may contain spaces and text that looks like other fields */
        if (it != NULL)
            take(it, (gw_fact_text){equals + 1, (size_t)(part_end - equals - 1)}, fact);
        at = part_end + (part_end < end);
    }
}

static void read_columns(const fact_field *list, size_t count, gw_fact_text text, void *fact)
{
    const char *end = text.data + text.bytes;
    const char *at = text.data;
    for (size_t i = 0; i < count && at <= end; i++) {
        const char *part_end = end_of(at, end, '\t');
        if (part_end > at)
            take(&list[i], (gw_fact_text){at, (size_t)(part_end - at)}, fact);
        at = part_end + 1;
    }
}

static const struct {
    const fact_field *list;
    size_t count;
    fact_form form;
} facts[] = {
#define GW_FACT(fact, form) {fact##_fields, sizeof fact##_fields / sizeof fact##_fields[0], form},
#define GW_NUMBER(fact, type, member, name, unit)
#define GW_TEXT(fact, member, name, bytes_max)
#define GW_FACT_END(fact)
#define GW_KEY(id, key)
#include "facts.def"
};
_Static_assert(sizeof facts / sizeof facts[0] == GW_FACT_KIND_COUNT, "one row a fact");

void gw_fact_parse(gw_fact_kind kind, gw_fact_text text, void *ret_fact)
{
    const fact_field *list = facts[kind].list;
    if (text.data != NULL && facts[kind].form == COLUMNS)
        read_columns(list, facts[kind].count, text, ret_fact);
    else if (text.data != NULL)
        read_named(list, facts[kind].count, facts[kind].form, text, ret_fact);
}

void gw_fact_format(gw_fact_kind kind, const void *fact, gw_text *text)
{
    fact_form form = facts[kind].form;
    bool any = false;
    for (size_t i = 0; i < facts[kind].count; i++) {
        const fact_field *it = &facts[kind].list[i];
        bool has = *(const bool *)((const char *)fact + it->has_at);
        if (form == COLUMNS && i > 0)
            gw_text_add_str(text, "\t");
        if (!has)
            continue;
        if (form == WORDS && any)
            gw_text_add_str(text, " ");
        if (form != COLUMNS)
            gw_text_addf(text, "%s=", it->name);
        write_value(it, form, (const char *)fact + it->at, text);
        if (form == LINES)
            gw_text_add_str(text, "\n");
        any = true;
    }
}

/* ---- keys ---- */

static const char *const keys[] = {
    [GW_FACT_OTHER] = "",
#define GW_FACT(fact, form)
#define GW_NUMBER(fact, type, member, name, unit)
#define GW_TEXT(fact, member, name, bytes_max)
#define GW_FACT_END(fact)
#define GW_KEY(id, key) [GW_FACT_##id] = (key),
#include "facts.def"
};
_Static_assert(sizeof keys / sizeof keys[0] == GW_FACT_KEY_COUNT, "a text for each key");

const char *gw_fact_key_text(gw_fact_key key)
{
    return (unsigned)key < GW_FACT_KEY_COUNT ? keys[key] : "";
}

gw_fact_key gw_fact_key_of(const char *text)
{
    for (unsigned key = GW_FACT_OTHER + 1; text != NULL && key < GW_FACT_KEY_COUNT; key++)
        if (strcmp(keys[key], text) == 0)
            return (gw_fact_key)key;
    return GW_FACT_OTHER;
}

/* ---- texts ---- */

gw_fact_text gw_fact_text_of(const char *string)
{
    return (gw_fact_text){string, string == NULL ? 0 : strlen(string)};
}

bool gw_fact_text_is(gw_fact_text text, const char *string)
{
    return text.data != NULL && strlen(string) == text.bytes && strncmp(text.data, string, text.bytes) == 0;
}

char *gw_fact_text_copy(char *out, size_t room, gw_fact_text text)
{
    snprintf(out, room, "%.*s", (int)(text.bytes < room ? text.bytes : room), text.data == NULL ? "" : text.data);
    return out;
}

bool gw_fact_line(const char *text, const char *name, gw_fact_text *ret_value)
{
    size_t name_bytes = strlen(name);
    for (const char *line = text; line != NULL && *line != '\0';) {
        size_t bytes = strcspn(line, "\n");
        if (bytes > name_bytes && strncmp(line, name, name_bytes) == 0 && line[name_bytes] == '=') {
            *ret_value = (gw_fact_text){line + name_bytes + 1, bytes - name_bytes - 1};
            return true;
        }
        line += bytes + (line[bytes] == '\n');
    }
    return false;
}
