/* Line numbers of Python code, from the table that the interpreter stores with the code.
 *
 * The format of the table depends on the interpreter's version: line increments (co_lnotab, before 3.10), ranges
 * (co_linetable of 3.10) or locations (co_linetable since 3.11). A recording contains a copy of the interpreter's
 * table. The copy may be damaged, but the functions never read outside it. They keep no state, and any thread may call
 * them. */
#ifndef GW_PYTHON_LINES_H
#define GW_PYTHON_LINES_H

#include <stddef.h>
#include <stdint.h>

/* The first and last supported version, numbered as in the event PYTHON_CODE: 0x030B is 3.11. */
enum { GW_PYTHON_FIRST = 0x0309, GW_PYTHON_LAST = 0x030E };

/* Return the line of an instruction, as the interpreter itself reports it (frame.f_lineno).
 *
 * `version` 0x030B is CPython 3.11. `table` is the whole table of `bytes` bytes (NULL only if `bytes` is 0); do not
 * pass an incomplete table. `first_line` is co_firstlineno. `instruction` is the offset from the start of the code, in
 * bytes in every version.
 *
 * Returns -1 if the version is not supported, if the table is damaged, or if the instruction is negative, has no line
 * in the source or (since 3.10) is beyond the end of the table. For a damaged table, the result may also be a wrong
 * line, from 0 to INT32_MAX. */
int32_t gw_python_line(unsigned version, const uint8_t *table, size_t bytes, int32_t first_line, int32_t instruction);

#endif
