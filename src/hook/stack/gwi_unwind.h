/* The native walk: from registers to the return addresses of the calling frames.
 *
 * The walk follows the call frame information of each file and caches the rules of each instruction. A frame whose
 * rules are cached costs one table lookup and one or two words read from the stack. The walk reads only the thread's
 * current stack (gwi_stack_known) and files that the loader reports as mapped. */
#ifndef GWI_UNWIND_H
#define GWI_UNWIND_H

#include "gw_site.h"
#include "gwi_modules.h"
#include "gwi_trail.h"

struct gwi_stack_known;

typedef struct gwi_walk {
    struct gwi_stack_known *known; /* in: the thread's own stack; borrowed */
    uint32_t skip_module;          /* in: leave out the innermost frames that are in this module; 0: none */
    uint64_t salt;                 /* in: distinguishes stacks whose walks start with equal registers */
    bool only_key;                 /* in: do not list the frames if the key can be computed without them */
    bool is_short;                 /* out: because of only_key, the frames are incomplete and `flags` is not set */
    unsigned flags;                /* out: GW_SITE_NATIVE_* */
    uint64_t key;                  /* out: identifies all frames and their files */
    uint32_t count;
    /* Return addresses, innermost first. For a frame interrupted by a signal, one byte past the interrupted
     * instruction, so that the byte before the address is always in the code that was running. */
    uintptr_t pc[GW_SITE_NATIVE_MAX];
    uint16_t module[GW_SITE_NATIVE_MAX]; /* 0: no file */
    gwi_trail_draft draft;               /* private */
} gwi_walk;

/* Set the memory for cached rules: GWI_UNWIND_BYTES bytes (whole pages), all zero. NULL: cache nothing. */
enum { GWI_UNWIND_ENTRIES = 16 << 10, GWI_UNWIND_BYTES = GWI_UNWIND_ENTRIES * 16 };
void gwi_unwind_place(void *memory);

/* Walk from the registers `reg`, which gwi_registers_here() stored in a function that has not returned. `known` is
 * the result of gwi_registers_here(). */
void gwi_unwind(gwi_walk *walk, const uint64_t reg[GWI_REGISTER_COUNT], uint32_t known);

#endif
