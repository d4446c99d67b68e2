/* Line numbers of Python code, from the table that the interpreter keeps with it.
 *
 * Three formats, by the interpreter's version: line increments (co_lnotab, before 3.10), ranges (co_linetable of 3.10),
 * locations (co_linetable from 3.11 on). The bytes are those that the interpreter holds in its memory, which is what a
 * recording carries; they may be damaged, and nothing here trusts them. Pure functions: any thread. */
#ifndef GW_PYTHON_LINES_H
#define GW_PYTHON_LINES_H

#include <stddef.h>
#include <stdint.h>

/* Versions as in PYTHON_CODE: 0x030B is 3.11. */
enum { GW_PYTHON_FIRST = 0x0309, GW_PYTHON_LAST = 0x030E };

/* The line of an instruction, the same that the interpreter itself would say (frame.f_lineno).
 *
 * `version` 0x030B is CPython 3.11. `table` is the whole table of `bytes` bytes (NULL only with 0): give no table of
 * which a part is missing. `first_line` is co_firstlineno. `instruction` is in bytes from the start of the code,
 * whatever the version.
 *
 * -1: not known: the version is none of ours, the instruction is negative or beyond what the table describes, it has no
 * line in the source, or the table is damaged so that no line can be told. A damaged table may also lead to a wrong
 * line, which is a number from 0 to INT32_MAX as any other. */
int32_t gw_python_line(unsigned version, const uint8_t *table, size_t bytes, int32_t first_line, int32_t instruction);

#endif
