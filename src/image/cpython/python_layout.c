/* Find the row of a CPython version, and check and read the offsets that an interpreter publishes. */
#include "gw_python_layout.h"
#include "gw_python_versions.h"

#include <string.h>

const gw_python_layout *gw_python_layout_of(unsigned version)
{
    for (size_t i = 0; i < GW_PYTHON_ROWS; i++)
        if (gw_python_rows[i].version == version)
            return &gw_python_rows[i];
    return NULL;
}

/* ---- offsets published by the interpreter ---- */

/* The interpreter publishes a cookie, its version, a flag for a free-threaded build, and then groups of words. A group
 * has the size of one structure, then the offsets of its members. A published_groups row has the index of each group's
 * first word in one Python version. Within a group, the members that we read never move. */
typedef struct published_groups {
    unsigned version;
    uint8_t thread, frame, code, object, bytes, text;
} published_groups;

/* GROUP_RUNTIME and GROUP_INTERPRETER: index of the first word of these groups, the same in all versions.
 * PUBLISHED_SINCE: the first version that publishes offsets. */
enum { GROUP_RUNTIME = 3, GROUP_INTERPRETER = 6, PUBLISHED_SINCE = 0x030D };

static const published_groups published_rows[] = {
    {0x030D, 19, 28, 34, 44, 64, 67},
    {0x030E, 22, 31, 39, 50, 74, 77},
};
_Static_assert(sizeof published_rows / sizeof published_rows[0] == GW_PYTHON_LAST - PUBLISHED_SINCE + 1,
               "a row for each version that publishes its offsets");

static const published_groups *groups_of(unsigned version)
{
    for (size_t i = 0; i < sizeof published_rows / sizeof published_rows[0]; i++)
        if (published_rows[i].version == version)
            return &published_rows[i];
    return NULL;
}

/* Read word `member` of a group: the offset of a member of `bytes` bytes. `size` points to the group's first word, the
 * size of the structure. Returns false if the member is outside the structure or not aligned. */
static bool take(const uint64_t *size, unsigned member, unsigned bytes, uint16_t *ret_offset)
{
    uint64_t offset = size[member];
    if (*size > UINT16_MAX || offset > *size || bytes > *size - offset || offset % bytes != 0)
        return false;
    *ret_offset = (uint16_t)offset;
    return true;
}

bool gw_python_layout_publish(gw_python_layout *layout, const uint64_t published[GW_PYTHON_PUBLISHED_WORDS],
                              unsigned long version_hex)
{
    static const char cookie[8] = {'x', 'd', 'e', 'b', 'u', 'g', 'p', 'y'};
    const published_groups *row = groups_of(layout->version);
    uint16_t object_type, bytes_data, ascii_bytes;
    if (memcmp(published, cookie, sizeof cookie) != 0 || published[1] != version_hex || published[2] != 0 ||
        row == NULL)
        return false;
    const uint64_t *thread = published + row->thread, *frame = published + row->frame, *code = published + row->code;
    const uint64_t *bytes = published + row->bytes;
    if (!take(thread, 3, 8, &layout->thread_interpreter) || !take(thread, 4, 8, &layout->thread_frame) ||
        !take(thread, 5, 8, &layout->thread_ident) || !take(frame, 1, 8, &layout->frame_previous) ||
        !take(frame, 2, 8, &layout->frame_code) || !take(frame, 3, 8, &layout->frame_instruction) ||
        !take(frame, 5, 1, &layout->frame_mark) || !take(code, 1, 8, &layout->code_file) ||
        !take(code, 3, 8, &layout->code_name) || !take(code, 4, 8, &layout->code_table) ||
        !take(code, 5, 4, &layout->code_first_line) || !take(code, 9, 1, &layout->code_start) ||
        !take(published + row->object, 1, 8, &object_type) || !take(bytes, 2, 1, &bytes_data))
        return false;
    ascii_bytes = (uint16_t)published[row->text + 3];
    return object_type == GW_PYTHON_OB_TYPE && bytes_data == GW_PYTHON_BYTES_DATA && ascii_bytes == layout->ascii_bytes;
}

/* Like take(), for structures that may be larger than 64 KiB, such as the interpreter's state. */
static bool take_far(const uint64_t *size, unsigned member, uint32_t *ret_offset)
{
    uint64_t offset = size[member];
    if (*size > 1u << 24 || offset > *size || *size - offset < 8 || offset % 8 != 0)
        return false;
    *ret_offset = (uint32_t)offset;
    return true;
}

bool gw_python_lists_of(const gw_python_layout *layout, const uint64_t *published, gw_python_lists *ret_lists)
{
    enum { WITH_NATIVE_ID = 0x030B };
    *ret_lists =
        (gw_python_lists){.interpreter_next = layout->interpreter_next,
                          .interpreter_threads = layout->interpreter_threads,
                          .thread_next = layout->thread_next,
                          .thread_native_id = layout->version >= WITH_NATIVE_ID ? layout->thread_ident + 8u : 0};
    if (layout->version < GW_PYTHON_PUBLISHED_SINCE)
        return true;
    const published_groups *row = groups_of(layout->version);
    return row != NULL && published != NULL &&
           take_far(published + GROUP_RUNTIME, 2, &ret_lists->runtime_interpreters) &&
           ret_lists->runtime_interpreters != 0 &&
           take_far(published + GROUP_INTERPRETER, 2, &ret_lists->interpreter_next) &&
           take_far(published + GROUP_INTERPRETER, 3, &ret_lists->interpreter_threads) &&
           take_far(published + row->thread, 2, &ret_lists->thread_next) &&
           take_far(published + row->thread, 6, &ret_lists->thread_native_id);
}

/* Convert Python's strings to UTF-8. */

/* Write the character at index `at` as UTF-8. A control character becomes '?', and an invalid one becomes U+FFFD.
 * Returns the number of bytes written. */
static size_t encode(const gw_python_text *t, size_t at, char out[4])
{
    uint32_t c = 0;
    t->fetch(t->user, t->data + at * t->width, &c, t->width); /* the low bytes of `c`: we support only little-endian */
    if (c < 0x80) {
        out[0] = c < 0x20 || c == 0x7f ? '?' : (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c > 0x10ffff ||
        (c >= 0xd800 && c < 0xe000)) /* half of a surrogate pair, or an undecodable byte of a file name */
        c = 0xfffd;
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (char)(0x80 | (c >> 6 & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

size_t gw_python_text_put(const gw_python_text *t, size_t from, char *out, size_t room)
{
    size_t used = 0;
    char one[4];
    for (size_t at = from; t->data != 0 && at < t->count; at++) {
        size_t bytes = encode(t, at, one);
        if (bytes > room - used)
            break;
        memcpy(out + used, one, bytes);
        used += bytes;
    }
    return used;
}

size_t gw_python_text_put_end(const gw_python_text *t, char *out, size_t room)
{
    static const char cut[] = "...";
    char one[4];
    size_t from = t->count, bytes = 0;
    while (t->data != 0 && from > 0) {
        size_t more = encode(t, from - 1, one);
        if (bytes + more > room)
            break;
        bytes += more;
        from--;
    }
    if (t->data == 0 || from == 0)
        return gw_python_text_put(t, 0, out, room);
    for (size_t given = 0; given < sizeof cut - 1 && from < t->count; from++)
        given += encode(t, from, one);
    memcpy(out, cut, sizeof cut - 1);
    return sizeof cut - 1 + gw_python_text_put(t, from, out + sizeof cut - 1, room - (sizeof cut - 1));
}
