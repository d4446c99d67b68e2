/* Looks up native addresses in the mapped files: functions, source lines and inlined functions.
 *
 * elfutils (libelf, libdw) reads symbol tables and DWARF. Separate debug files on this machine are used if their build
 * id matches. Nothing is requested over a network. libstdc++ or libc++abi, if installed, demangles C++ names and Rust
 * names of the old scheme.
 *
 * A file is skipped if its build id differs, or if it has no build id and was changed after the run began.
 *
 * Files may be damaged, huge or malicious, so a child process reads them. The child may crash, has a time limit, and
 * may use at most 4 GiB of memory. If a hung disk blocks the killed child, we stop waiting for it after a second.
 *
 * Call gw_symbols_resolve() from one thread. It forks, so no other thread of the caller may hold a lock. */
#ifndef GW_SYMBOLS_H
#define GW_SYMBOLS_H

#include "gw_site.h"
#include "gw_status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An address in a file, and the names found for it. */
typedef struct gw_symbol {
    const char *path;       /* the mapped file; borrowed from the caller */
    uint64_t build_id;      /* first eight bytes of the file's build id, little-endian; 0: it had none */
    uint64_t address;       /* as in the file's symbol table, inside the call instruction: return address - 1 - bias */
    uint8_t state;          /* gw_symbol_state; set it to NOT_ASKED to look up the symbol */
    gw_symbol_frame *frame; /* array, innermost first; owned; free(frame) also frees its strings */
    uint32_t count;
} gw_symbol;

typedef struct gw_symbols_options {
    uint64_t begun_realtime_ns; /* start of the run; 0: not known */
    uint32_t soft_ms;           /* after this CPU time, only functions are looked up, no source lines */
    /* limit on CPU time; the limit on real time is four times as long. Symbols not looked up by then get the state
     * LATE */
    uint32_t hard_ms;
} gw_symbols_options;

/* Look up every symbol whose state is NOT_ASKED, and change its state. Returns GW_OK, GW_NOMEM, or GW_IO if a process
 * or pipe cannot be created. On failure, found names are kept, and the other symbols get the state LATE. */
GW_MUST_CHECK gw_status gw_symbols_resolve(gw_symbol *symbols, size_t count, const gw_symbols_options *options,
                                           gw_error *err);

#endif
