/* Shared inside symbols/. */
#ifndef GWI_SYMBOLS_INNER_H
#define GWI_SYMBOLS_INNER_H

#include "gw_symbols.h"

/* What reading files tells, as soon as it is known. Later words about the same symbol replace earlier ones; strings
 * live until the call returns. */
typedef struct gwi_listener {
    /* From here on it is about the file of this symbol; `lines`: its debug information. */
    void (*begin)(void *user, size_t index, bool lines);
    void (*found)(void *user, size_t index, uint8_t state, const gw_symbol_frame *frame, uint32_t count);
    void *user;
} gwi_listener;

/* What is left out, per symbol: a file that brought a reader down. */
enum { GWI_AVOID_NOTHING, GWI_AVOID_LINES, GWI_AVOID_FILE };

/* elf.c: look all of them up, here in this process. `deadline_ns` (gw_processor_ns()): no
 * lines after it. `avoid`: one a symbol, NULL: nothing. */
void gwi_symbols_read(const gw_symbol *symbols, size_t count, const uint8_t *avoid, uint64_t begun_realtime_ns,
                      uint64_t deadline_ns, const gwi_listener *listener);

/* whose.c: a file of which no frame is ever the user's: its functions are named, its lines help nobody. */
bool gwi_is_runtime(const char *module);

/* demangle.c: the function's name as one would write it, without parameters and return type. The result is the
 * caller's; NULL: no memory. */
char *gwi_demangle(const char *name);

#endif
