/* Which row fits, and what an interpreter publishes about itself. */
#include "gwi_python_rows.h"

#include <string.h>

const gwi_python_layout *gwi_python_layout_of(unsigned version)
{
    for (size_t i = 0; i < GWI_PYTHON_ROWS; i++)
        if (gwi_python_rows[i].version == version)
            return &gwi_python_rows[i];
    return NULL;
}

/* ---- what the interpreter publishes ---- */

/* Its words: a cookie, the version, whether it runs without its lock; then groups, each of a size and offsets. A row
 * says at which word a group begins; what we read stands at the same place of its group in all versions. */
typedef struct published_groups {
    unsigned version;
    uint8_t thread, frame, code, object, bytes, text;
} published_groups;

static const published_groups published_rows[] = {
    {0x030D, 19, 28, 34, 44, 64, 67},
    {0x030E, 22, 31, 39, 50, 74, 77},
};

/* A member's offset; `size` is the group's first word. */
static bool take(const uint64_t *size, unsigned member, unsigned bytes, uint16_t *ret_offset)
{
    uint64_t offset = size[member];
    if (*size > UINT16_MAX || offset > *size || bytes > *size - offset || offset % bytes != 0)
        return false;
    *ret_offset = (uint16_t)offset;
    return true;
}

bool gwi_python_layout_publish(gwi_python_layout *layout, const uint64_t published[GWI_PYTHON_PUBLISHED_WORDS],
                               unsigned long version_hex)
{
    static const char cookie[8] = {'x', 'd', 'e', 'b', 'u', 'g', 'p', 'y'};
    const published_groups *row = published_rows;
    const published_groups *end = row + sizeof published_rows / sizeof published_rows[0];
    uint16_t object_type, bytes_data, ascii_bytes;
    if (memcmp(published, cookie, sizeof cookie) != 0 || published[1] != version_hex || published[2] != 0)
        return false;
    while (row != end && row->version != layout->version)
        row++;
    if (row == end)
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
    return object_type == GWI_PYTHON_OB_TYPE && bytes_data == GWI_PYTHON_BYTES_DATA &&
           ascii_bytes == layout->ascii_bytes;
}
