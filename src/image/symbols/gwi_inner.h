/* Declarations shared by the files of symbols/. */
#ifndef GWI_SYMBOLS_INNER_H
#define GWI_SYMBOLS_INNER_H

#include "gw_symbols.h"

/* Callbacks that receive results while files are read. A later result for a symbol replaces an earlier one. Strings are
 * valid only during the call. */
typedef struct gwi_listener {
    /* The next results come from the file of symbol `index`. `lines`: they come from its debug information; otherwise,
     * from its symbol tables. */
    void (*begin)(void *user, size_t index, bool lines);
    void (*found)(void *user, size_t index, uint8_t state, const gw_symbol_frame *frame, uint32_t count);
    void *user;
} gwi_listener;

/* Which part of a symbol's file to skip because reading it has crashed a child. */
enum { GWI_AVOID_NOTHING, GWI_AVOID_LINES, GWI_AVOID_FILE };

/* elf.c: look up all symbols with the state NOT_ASKED in this process. Lines are skipped after `deadline_ns` (CPU time
 * as from gw_processor_ns()). `avoid`: one GWI_AVOID_... per symbol; NULL: skip nothing. */
void gwi_symbols_read(const gw_symbol *symbols, size_t count, const uint8_t *avoid, uint64_t begun_realtime_ns,
                      uint64_t deadline_ns, const gwi_listener *listener);

/* whose.c: true for a file whose frames are never the user's frame. Its functions get names, but no lines. */
bool gwi_is_runtime(const char *module);

/* demangle.c: return the function's name as a programmer would write it, without parameters and return type. The caller
 * owns it. NULL: no memory. */
char *gwi_demangle(const char *name);

#endif
