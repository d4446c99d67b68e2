/* Where CPython keeps what we read: a row for each version, as its headers lay out a build with the interpreter's lock
 * and without debugging extras on a 64-bit machine. Facts of the
 * versions 3.9.18, 3.10.13, 3.11.7, 3.12.1, 3.13.0, 3.13.5 and 3.14.8; within a version they have not moved. A build
 * that differs has types of other sizes and is not read. */
#include "gwi_python.h"

#include <string.h>

static const gwi_python_layout rows[] = {
    {
        .version = 0x0309,
        .entry = GWI_PYTHON_ENTRY_ALL,
        .code_bytes = 176,
        .frame_bytes = 368,
        .unicode_bytes = 80,
        .thread_next = 8,
        .thread_interpreter = 16,
        .thread_frame = 24,
        .thread_ident = 176,
        .thread_id = 256,
        .hides_subinterpreters = true,
        .interpreter_next = 0,
        .interpreter_threads = 8,
        .frame_code = 32,
        .frame_previous = 24,
        .frame_instruction = 104,
        .instruction_bytes = 1,
        .code_first_line = 40,
        .code_file = 104,
        .code_name = 112,
        .code_table = 120,
        .code_start = 48,
        .ascii_bytes = 48,
        .compact_bytes = 72,
    },
    {
        .version = 0x030A,
        .entry = GWI_PYTHON_ENTRY_ALL,
        .code_bytes = 176,
        .frame_bytes = 360,
        .unicode_bytes = 80,
        .thread_next = 8,
        .thread_interpreter = 16,
        .thread_frame = 24,
        .thread_ident = 176,
        .thread_id = 256,
        .hides_subinterpreters = true,
        .interpreter_next = 0,
        .interpreter_threads = 8,
        .frame_code = 32,
        .frame_previous = 24,
        .frame_instruction = 96,
        .instruction_bytes = 2,
        .code_first_line = 40,
        .code_file = 104,
        .code_name = 112,
        .code_table = 120,
        .code_start = 48,
        .ascii_bytes = 48,
        .compact_bytes = 72,
    },
    {
        .version = 0x030B,
        .entry = GWI_PYTHON_ENTRY_FLAG,
        .code_bytes = 184,
        .frame_bytes = 120,
        .unicode_bytes = 80,
        .thread_next = 8,
        .thread_interpreter = 16,
        .thread_frame = 56,
        .thread_ident = 152,
        .thread_id = 240,
        .has_holder = true,
        .holder_frame = 8,
        .hides_subinterpreters = true,
        .interpreter_next = 0,
        .interpreter_threads = 16,
        .frame_code = 32,
        .frame_previous = 48,
        .frame_instruction = 56,
        .frame_mark = 68,
        .code_first_line = 72,
        .code_file = 112,
        .code_name = 128,
        .code_table = 136,
        .code_start = 184,
        .ascii_bytes = 48,
        .compact_bytes = 72,
    },
    {
        .version = 0x030C,
        .entry = GWI_PYTHON_ENTRY_SHIM,
        .code_bytes = 192,
        .frame_bytes = 120,
        .unicode_bytes = 64,
        .thread_next = 8,
        .thread_interpreter = 16,
        .thread_frame = 56,
        .thread_ident = 136,
        .thread_id = 224,
        .has_holder = true,
        .holder_frame = 0,
        .frame_code = 0,
        .frame_previous = 8,
        .frame_instruction = 56,
        .frame_mark = 70,
        .shim_owner = 3,
        .code_first_line = 68,
        .code_file = 112,
        .code_name = 128,
        .code_table = 136,
        .code_start = 192,
        .ascii_bytes = 40,
        .compact_bytes = 56,
    },
    {
        .version = 0x030D,
        .entry = GWI_PYTHON_ENTRY_SHIM,
        .code_bytes = 200,
        .frame_bytes = 136,
        .unicode_bytes = 64,
        .thread_next = 8,
        .thread_interpreter = 16,
        .thread_frame = 72,
        .thread_ident = 152,
        .thread_id = 224,
        .frame_code = 0,
        .frame_previous = 8,
        .frame_instruction = 56,
        .frame_mark = 70,
        .shim_owner = 3,
        .code_first_line = 68,
        .code_file = 112,
        .code_name = 128,
        .code_table = 136,
        .code_start = 200,
        .ascii_bytes = 40,
        .compact_bytes = 56,
    },
    {
        .version = 0x030E,
        .entry = GWI_PYTHON_ENTRY_SHIM,
        .code_bytes = 208,
        .frame_bytes = 152,
        .unicode_bytes = 64,
        .thread_next = 8,
        .thread_interpreter = 16,
        .thread_frame = 72,
        .thread_ident = 152,
        .thread_id = 224,
        .frame_code = 0,
        .frame_previous = 8,
        .frame_instruction = 56,
        .frame_mark = 74,
        .shim_owner = 3, /* 3: the loop's own, 4: on the C stack */
        .code_first_line = 68,
        .code_file = 112,
        .code_name = 128,
        .code_table = 136,
        .code_start = 208,
        .ascii_bytes = 40,
        .compact_bytes = 56,
    },
};

const gwi_python_layout *gwi_python_layout_of(unsigned version)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].version == version)
            return &rows[i];
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
