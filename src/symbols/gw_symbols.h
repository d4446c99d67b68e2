/* Names of native addresses, from the files that were mapped: functions, source lines and inlined functions.
 *
 * elfutils (libelf, libdw) reads symbol tables and DWARF. Separate debug files are used where they lie on this machine
 * (by build id, or by debug link with the same build id); nothing is ever asked for over a network. C++ names are
 * demangled by libstdc++ where it is there, and Rust names in the old scheme with them.
 *
 * A file that is not the one that was mapped is not used: its build id differs, or it has none and was changed after
 * the run began. Files may be damaged, huge or hostile: they are read in a child process, which may crash, is ended
 * when its time is over, and may take at most 4 GiB of memory; large files are mapped, not read, and of their debug
 * information only the units that are asked for. One call, one thread; the caller must have no other threads that hold
 * locks (it forks). */
#ifndef GW_SYMBOLS_H
#define GW_SYMBOLS_H

#include "gw_site.h"
#include "gw_status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One address of one file, and what lies there. */
typedef struct gw_symbol {
    const char *path;       /* of the mapped file; borrowed from the caller */
    uint64_t build_id;      /* its first eight bytes, little-endian; 0: the mapped file had none */
    uint64_t address;       /* as in the file's symbol table, inside the call: return address - 1 - bias */
    uint8_t state;          /* gw_symbol_state; in: NOT_ASKED where it shall be looked up */
    gw_symbol_frame *frame; /* innermost first; owned, with its strings, by one block: free(frame) */
    uint32_t count;
} gw_symbol;

typedef struct gw_symbols_options {
    uint64_t begun_realtime_ns; /* of the run; 0: not known */
    uint32_t soft_ms;           /* no more source lines are looked up after that, only functions; of a processor */
    uint32_t hard_ms;           /* of a processor, or four times as long by the clock: what is not known by then ends as
                                 * GW_SYMBOL_LATE */
} gw_symbols_options;

/* Fill in every symbol whose state is NOT_ASKED. None is NOT_ASKED afterwards. GW_OK; GW_NOMEM, GW_IO (no process or
 * pipe): what was found until then stays, the rest is LATE. */
GW_MUST_CHECK gw_status gw_symbols_resolve(gw_symbol *symbols, size_t count, const gw_symbols_options *options,
                                           gw_error *err);

#endif
