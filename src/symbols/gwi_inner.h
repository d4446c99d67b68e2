/* Declarations shared by the files of symbols/. */
#ifndef GWI_SYMBOLS_INNER_H
#define GWI_SYMBOLS_INNER_H

#include "gw_symbols.h"

/* Receives results while files are read. A later result for the same symbol replaces an earlier one. Strings live until
 * the call returns. */
typedef struct gwi_listener {
    /* The following results are from the file of this symbol; `lines`: from its debug information. */
    void (*begin)(void *user, size_t index, bool lines);
    void (*found)(void *user, size_t index, uint8_t state, const gw_symbol_frame *frame, uint32_t count);
    void *user;
} gwi_listener;

/* What to skip, for each symbol: a file that has crashed a reader. */
enum { GWI_AVOID_NOTHING, GWI_AVOID_LINES, GWI_AVOID_FILE };

/* elf.c: look up all symbols in this process. No lines are looked up after `deadline_ns` (gw_processor_ns()). `avoid`:
 * one entry per symbol; NULL: skip nothing. */
void gwi_symbols_read(const gw_symbol *symbols, size_t count, const uint8_t *avoid, uint64_t begun_realtime_ns,
                      uint64_t deadline_ns, const gwi_listener *listener);

/* whose.c: true for a file whose frames are never the user's. Its functions get names, but no lines. */
bool gwi_is_runtime(const char *module);

/* demangle.c: the function's name as a programmer would write it, without parameters and return type. The caller owns
 * the result; NULL: no memory. */
char *gwi_demangle(const char *name);

#endif
