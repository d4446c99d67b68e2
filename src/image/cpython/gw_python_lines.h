/* Line numbers of Python code, from the table that the interpreter stores with the code.
 *
 * The table's format depends on the interpreter's version:
 * - line increments (co_lnotab, before 3.10)
 * - ranges (co_linetable of 3.10)
 * - locations (co_linetable since 3.11)
 * The table may be damaged: the functions never read outside it. They keep no state. Any thread may call them. */
#ifndef GW_PYTHON_LINES_H
#define GW_PYTHON_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The first and last supported version, numbered as in the event PYTHON_CODE: 0x030B is 3.11. */
enum { GW_PYTHON_FIRST = 0x0309, GW_PYTHON_LAST = 0x030E };

/* Return the line of an instruction, as the interpreter itself reports it (frame.f_lineno).
 *
 * - version: 0x030B is CPython 3.11
 * - table: the whole table of `bytes` bytes (NULL only if `bytes` is 0)
 * - first_line: co_firstlineno
 * - instruction: offset from the start of the code, in bytes in every version
 *
 * Returns -1 in these cases:
 * - The version is not supported.
 * - The table is damaged. The result may also be a wrong line, from 0 to INT32_MAX.
 * - The instruction is negative, or has no line in the source.
 * - The instruction is beyond the end of the table (since 3.10). */
int32_t gw_python_line(unsigned version, const uint8_t *table, size_t bytes, int32_t first_line, int32_t instruction);

/* The part of a line that an instruction was compiled from, in bytes of the line as UTF-8, from 0. */
typedef struct gw_python_columns {
    uint32_t begin, end; /* `end` is after the last byte, and above `begin` */
} gw_python_columns;

/* Find the columns of an instruction (since 3.11). The arguments are those of gw_python_line().
 *
 * Returns false, with *ret_columns unchanged, if the line or the columns are not known, or if the part does not end in
 * the line where it begins. */
bool gw_python_columns_find(unsigned version, const uint8_t *table, size_t bytes, int32_t instruction,
                            gw_python_columns *ret_columns);

#endif
