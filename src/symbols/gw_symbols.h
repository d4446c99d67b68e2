/* Look up native addresses in the mapped files: functions, source lines and inlined functions.
 *
 * Symbol tables and DWARF are read with elfutils (libelf, libdw). Separate debug files are used if they are on this
 * machine (found by build id, or by debug link with the same build id). Nothing is requested over a network. C++ names,
 * and Rust names in the old scheme, are demangled with libstdc++ or libc++abi, if one of them is installed.
 *
 * A file is skipped if it is not the file that was mapped: its build id differs, or it has no build id and was changed
 * after the run began. Files may be damaged, huge or malicious, so a child process reads them. The child may crash, is
 * killed when its time is over, and may use at most 4 GiB of memory. A child that waits for a hung disk or server may
 * not end even then; after a second, we no longer wait for it. Large files are mapped instead of read, and only the
 * required units of their debug information are parsed. Call gw_symbols_resolve() from one thread. Because it forks, no
 * other thread of the caller may hold a lock. */
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
 * or pipe cannot be created. On failure the names found so far are kept, and the other symbols get the state LATE. */
GW_MUST_CHECK gw_status gw_symbols_resolve(gw_symbol *symbols, size_t count, const gw_symbols_options *options,
                                           gw_error *err);

#endif
