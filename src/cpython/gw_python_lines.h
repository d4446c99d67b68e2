/* Line numbers of Python code, from the table that the interpreter stores with it.
 *
 * There are three formats, depending on the interpreter's version: line increments (co_lnotab, before 3.10), ranges
 * (co_linetable of 3.10), locations (co_linetable since 3.11). The bytes are those in the interpreter's memory, as they
 * are in a recording. They may be damaged, and nothing here trusts them. Pure functions: any thread. */
#ifndef GW_PYTHON_LINES_H
#define GW_PYTHON_LINES_H

#include <stddef.h>
#include <stdint.h>

/* The supported versions, numbered as in PYTHON_CODE: 0x030B is 3.11. */
enum { GW_PYTHON_FIRST = 0x0309, GW_PYTHON_LAST = 0x030E };

/* Return the line of an instruction, as the interpreter itself reports it (frame.f_lineno).
 *
 * `version` 0x030B is CPython 3.11. `table` is the whole table of `bytes` bytes (NULL only if `bytes` is 0); do not
 * pass an incomplete table. `first_line` is co_firstlineno. `instruction` is the offset from the start of the code in
 * bytes, in every version.
 *
 * -1: not known: the version is not supported, the instruction is negative or beyond the end of the table, it has no
 * line in the source, or the table is damaged. A damaged table may also give a wrong line, which is then any number
 * from 0 to INT32_MAX. */
int32_t gw_python_line(unsigned version, const uint8_t *table, size_t bytes, int32_t first_line, int32_t instruction);

#endif
