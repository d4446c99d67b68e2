/* Find the line of a bytecode offset in the tables of CPython 3.9 to 3.14. */
#include "gw_python_lines.h"

enum { VERSION_RANGES = 0x030A, VERSION_LOCATIONS = 0x030B, CODE_UNIT_BYTES = 2, NO_LINE = -128 };

static int32_t checked(int64_t line)
{
    return line >= 0 && line <= INT32_MAX ? (int32_t)line : -1;
}

/* Search a table of CPython 3.9, which has pairs of an address increment and a line increment. The line of a pair
 * applies from its address up to the address of the next pair. */
static int32_t line_by_increments(const uint8_t *table, size_t bytes, int32_t first_line, int32_t instruction)
{
    int64_t line = first_line;
    uint64_t address = 0;
    if (bytes % 2 != 0)
        return -1;
    for (size_t at = 0; at < bytes; at += 2) {
        address += table[at];
        if (address > (uint64_t)instruction)
            break;
        line += (int8_t)table[at + 1];
    }
    return checked(line);
}

/* Search a table of CPython 3.10, which has pairs of a range's size in bytes and a line increment. NO_LINE as the
 * increment: the range has no line. */
static int32_t line_by_ranges(const uint8_t *table, size_t bytes, int32_t first_line, int32_t instruction)
{
    int64_t line = first_line;
    uint64_t end = 0;
    if (bytes % 2 != 0)
        return -1;
    for (size_t at = 0; at < bytes; at += 2) {
        int8_t lines = (int8_t)table[at + 1];
        if (lines != NO_LINE)
            line += lines;
        end += table[at];
        if ((uint64_t)instruction < end)
            return lines == NO_LINE ? -1 : checked(line);
    }
    return -1;
}

/* Read a number that is stored in groups of six bits, lowest first. Bit 6 of a byte is set if another group follows.
 * Bit 7 is set only in the head of an entry. Returns false if the table is damaged. */
static bool read_number(const uint8_t *table, size_t bytes, size_t *at, uint64_t *ret_number)
{
    uint64_t number = 0;
    for (unsigned shift = 0; shift < 36; shift += 6) {
        if (*at >= bytes || (table[*at] & 0x80) != 0)
            return false;
        uint8_t byte = table[(*at)++];
        number |= (uint64_t)(byte & 0x3f) << shift;
        if ((byte & 0x40) == 0) {
            *ret_number = number;
            return true;
        }
    }
    return false;
}

/* Read a signed number, whose lowest bit is the sign. */
static bool read_signed(const uint8_t *table, size_t bytes, size_t *at, int64_t *ret_number)
{
    uint64_t number;
    if (!read_number(table, bytes, at, &number))
        return false;
    *ret_number = (number & 1) != 0 ? -(int64_t)(number >> 1) : (int64_t)(number >> 1);
    return true;
}

/* Kinds of entries: bits 3 to 6 of an entry's head. */
enum {
    KIND_ONE_LINE_FIRST = 10, /* below 10: same line as the previous entry; 10, 11, 12: 0, 1, 2 lines later */
    KIND_LINE_ONLY = 13,
    KIND_LONG = 14,
    KIND_NONE = 15
};

/* Read the line increment of an entry. `at` is the byte after the entry's head. */
static bool read_line_step(const uint8_t *table, size_t bytes, unsigned kind, size_t at, int64_t *ret_step)
{
    *ret_step = 0;
    if (kind == KIND_LINE_ONLY || kind == KIND_LONG)
        return read_signed(table, bytes, &at, ret_step);
    if (kind >= KIND_ONE_LINE_FIRST && kind < KIND_LINE_ONLY)
        *ret_step = kind - KIND_ONE_LINE_FIRST;
    return true;
}

/* An entry of a table of CPython 3.11 or later. */
typedef struct location {
    unsigned kind;
    int64_t line;
    size_t at; /* index of the byte after the head */
} location;

/* Search a table of CPython 3.11 or later. An entry is a head (bit 7 set, kind, number of code units minus one), then
 * data that depends on the kind. The next byte with bit 7 set is the next head. */
static bool find_location(const uint8_t *table, size_t bytes, int32_t first_line, int32_t instruction, location *ret)
{
    int64_t line = first_line;
    uint64_t end = 0;
    for (size_t at = 0; at < bytes;) {
        uint8_t head = table[at++];
        unsigned kind = (head >> 3) & 15;
        int64_t step;
        if ((head & 0x80) == 0 || !read_line_step(table, bytes, kind, at, &step))
            return false;
        line += step;
        end += ((head & 7u) + 1) * CODE_UNIT_BYTES;
        if ((uint64_t)instruction < end) {
            *ret = (location){.kind = kind, .line = line, .at = at};
            return kind != KIND_NONE;
        }
        while (at < bytes && (table[at] & 0x80) == 0)
            at++;
    }
    return false;
}

static int32_t line_by_locations(const uint8_t *table, size_t bytes, int32_t first_line, int32_t instruction)
{
    location found;
    return find_location(table, bytes, first_line, instruction, &found) ? checked(found.line) : -1;
}

/* Read the columns of an entry that has them as numbers. 0 means that a column is not known, so the others are one too
 * large. Returns false if they are unknown, or if the part ends in another line. */
static bool read_long(const uint8_t *table, size_t bytes, size_t at, uint64_t *ret_begin, uint64_t *ret_end)
{
    int64_t step;
    uint64_t lines, begin, end;
    if (!read_signed(table, bytes, &at, &step) || !read_number(table, bytes, &at, &lines) ||
        !read_number(table, bytes, &at, &begin) || !read_number(table, bytes, &at, &end))
        return false;
    *ret_begin = begin - 1;
    *ret_end = end - 1;
    return lines == 0 && begin != 0 && end != 0;
}

bool gw_python_columns_find(unsigned version, const uint8_t *table, size_t bytes, int32_t instruction,
                            gw_python_columns *ret_columns)
{
    location found;
    uint64_t begin = 0, end = 0;
    if (version < VERSION_LOCATIONS || version > GW_PYTHON_LAST || instruction < 0 ||
        !find_location(table, bytes, 0, instruction, &found))
        return false;
    if (found.kind == KIND_LONG && !read_long(table, bytes, found.at, &begin, &end))
        return false;
    if (found.kind < KIND_ONE_LINE_FIRST) { /* one byte: three low bits of the begin, four of the length */
        if (found.at >= bytes)
            return false;
        begin = found.kind << 3 | table[found.at] >> 4;
        end = begin + (table[found.at] & 15);
    } else if (found.kind < KIND_LINE_ONLY) { /* two bytes */
        if (bytes - found.at < 2)
            return false;
        begin = table[found.at];
        end = table[found.at + 1];
    }
    if (begin >= end || end > UINT32_MAX)
        return false;
    *ret_columns = (gw_python_columns){.begin = (uint32_t)begin, .end = (uint32_t)end};
    return true;
}

int32_t gw_python_line(unsigned version, const uint8_t *table, size_t bytes, int32_t first_line, int32_t instruction)
{
    if (instruction < 0 || version < GW_PYTHON_FIRST || version > GW_PYTHON_LAST)
        return -1;
    if (version >= VERSION_LOCATIONS)
        return line_by_locations(table, bytes, first_line, instruction);
    if (version == VERSION_RANGES)
        return line_by_ranges(table, bytes, first_line, instruction);
    return line_by_increments(table, bytes, first_line, instruction);
}
