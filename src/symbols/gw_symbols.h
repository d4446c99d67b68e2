/* Names of native addresses, from the mapped files: functions, source lines and inlined functions.
 *
 * Symbol tables and DWARF are read with elfutils (libelf, libdw). Separate debug files are used if they are on this
 * machine (found by build id, or by debug link with the same build id); nothing is requested over a network. C++ names,
 * and Rust names in the old scheme, are demangled with libstdc++ if it is installed.
 *
 * A file is not used if it is not the one that was mapped: its build id differs, or it has none and was changed after
 * the run began. Files may be damaged, huge or malicious, so they are read in a child process. The child may crash, is
 * killed when its time is over, and may use at most 4 GiB of memory. Large files are mapped, not read, and only the
 * needed units of their debug information are parsed. Call from one thread; other threads of the caller must not hold
 * locks, because this forks. */
#ifndef GW_SYMBOLS_H
#define GW_SYMBOLS_H

#include "gw_site.h"
#include "gw_status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One address of one file, and its names. */
typedef struct gw_symbol {
    const char *path;       /* the mapped file; borrowed from the caller */
    uint64_t build_id;      /* its first eight bytes, little-endian; 0: the mapped file had none */
    uint64_t address;       /* as in the file's symbol table, inside the call instruction: return address - 1 - bias */
    uint8_t state;          /* gw_symbol_state; in: NOT_ASKED if it should be looked up */
    gw_symbol_frame *frame; /* innermost first; owned; one block with its strings: free(frame) */
    uint32_t count;
} gw_symbol;

typedef struct gw_symbols_options {
    uint64_t begun_realtime_ns; /* start of the run; 0: not known */
    uint32_t soft_ms;           /* CPU time after which no more source lines are looked up, only functions */
    uint32_t hard_ms;           /* limit in CPU time, or four times as much in real time; names not found by then get
                                 * GW_SYMBOL_LATE */
} gw_symbols_options;

/* Fill in every symbol whose state is NOT_ASKED. No symbol is NOT_ASKED afterwards. GW_OK; GW_NOMEM, GW_IO (no process
 * or pipe): names found so far are kept, the others are LATE. */
GW_MUST_CHECK gw_status gw_symbols_resolve(gw_symbol *symbols, size_t count, const gw_symbols_options *options,
                                           gw_error *err);

#endif
