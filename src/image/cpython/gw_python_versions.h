/* Offsets in CPython's structures: one column per minor version, for 64-bit builds with the GIL and without debugging
 * options. Readers refuse a build with other type sizes, because its offsets differ, too.
 *
 * The values are from the headers of 3.9.18, 3.10.13, 3.11.7, 3.12.1, 3.13.0, 3.13.5 and 3.14.8. */
#ifndef GW_PYTHON_VERSIONS_H
#define GW_PYTHON_VERSIONS_H

#include "gw_python_layout.h"
#include "gw_python_lines.h"

enum { GW_PYTHON_ROWS = 6 };

/* X(field, its values in CPython 3.9, 3.10, 3.11, 3.12, 3.13, 3.14). shim_owner of 3.14: 3 is the evaluation loop, 4
 * the C stack. */
#define GW_PYTHON_FIELDS(X)                                                                                            \
    X(version, 0x0309, 0x030A, 0x030B, 0x030C, 0x030D, 0x030E)                                                         \
    X(entry, GW_PYTHON_ENTRY_ALL, GW_PYTHON_ENTRY_ALL, GW_PYTHON_ENTRY_FLAG, GW_PYTHON_ENTRY_SHIM,                     \
      GW_PYTHON_ENTRY_SHIM, GW_PYTHON_ENTRY_SHIM)                                                                      \
    X(code_bytes, 176, 176, 184, 192, 200, 208)                                                                        \
    X(frame_bytes, 368, 360, 120, 120, 136, 152)                                                                       \
    X(unicode_bytes, 80, 80, 80, 64, 64, 64)                                                                           \
    X(thread_next, 8, 8, 8, 8, 8, 8)                                                                                   \
    X(thread_interpreter, 16, 16, 16, 16, 16, 16)                                                                      \
    X(thread_frame, 24, 24, 56, 56, 72, 72)                                                                            \
    X(thread_ident, 176, 176, 152, 136, 152, 152)                                                                      \
    X(thread_id, 256, 256, 240, 224, 224, 224)                                                                         \
    X(has_holder, false, false, true, true, false, false)                                                              \
    X(holder_frame, 0, 0, 8, 0, 0, 0)                                                                                  \
    X(thread_stack, 0, 0, 296, 232, 232, 232)                                                                          \
    X(hides_subinterpreters, true, true, true, false, false, false)                                                    \
    X(interpreter_next, 0, 0, 0, 0, 0, 0)                                                                              \
    X(interpreter_threads, 8, 8, 16, 72, 0, 0)                                                                         \
    X(frame_code, 32, 32, 32, 0, 0, 0)                                                                                 \
    X(frame_previous, 24, 24, 48, 8, 8, 8)                                                                             \
    X(frame_instruction, 104, 96, 56, 56, 56, 56)                                                                      \
    X(frame_mark, 0, 0, 68, 70, 70, 74)                                                                                \
    X(shim_owner, 0, 0, 0, 3, 3, 3)                                                                                    \
    X(instruction_bytes, 1, 2, 0, 0, 0, 0)                                                                             \
    X(code_version, 0, 0, 0, 92, 92, 92)                                                                               \
    X(code_first_line, 40, 40, 72, 68, 68, 68)                                                                         \
    X(code_file, 104, 104, 112, 112, 112, 112)                                                                         \
    X(code_name, 112, 112, 128, 128, 128, 128)                                                                         \
    X(code_table, 120, 120, 136, 136, 136, 136)                                                                        \
    X(code_start, 48, 48, 184, 192, 200, 208)                                                                          \
    X(ascii_bytes, 48, 48, 48, 40, 40, 40)                                                                             \
    X(compact_bytes, 72, 72, 72, 56, 56, 56)

#define GW_PYTHON_39(field, value, v10, v11, v12, v13, v14) .field = (value),
#define GW_PYTHON_310(field, v9, value, v11, v12, v13, v14) .field = (value),
#define GW_PYTHON_311(field, v9, v10, value, v12, v13, v14) .field = (value),
#define GW_PYTHON_312(field, v9, v10, v11, value, v13, v14) .field = (value),
#define GW_PYTHON_313(field, v9, v10, v11, v12, value, v14) .field = (value),
#define GW_PYTHON_314(field, v9, v10, v11, v12, v13, value) .field = (value),
static const gw_python_layout gw_python_rows[] = {
    {GW_PYTHON_FIELDS(GW_PYTHON_39)},  {GW_PYTHON_FIELDS(GW_PYTHON_310)}, {GW_PYTHON_FIELDS(GW_PYTHON_311)},
    {GW_PYTHON_FIELDS(GW_PYTHON_312)}, {GW_PYTHON_FIELDS(GW_PYTHON_313)}, {GW_PYTHON_FIELDS(GW_PYTHON_314)},
};
_Static_assert(sizeof gw_python_rows / sizeof gw_python_rows[0] == GW_PYTHON_ROWS, "a row for each version");
_Static_assert(GW_PYTHON_LAST - GW_PYTHON_FIRST + 1 == GW_PYTHON_ROWS, "the range in gw_python_lines.h");

#endif
