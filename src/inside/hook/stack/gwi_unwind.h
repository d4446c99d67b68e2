/* Walks the native stack: from registers to the return addresses of the calling frames.
 *
 * The walk uses each file's call frame information. Rules are cached by instruction; a cached frame costs one table
 * lookup and one or two words of the stack.
 * It reads only the thread's current stack (gwi_stack_known) and files that the loader reports as mapped. */
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
    /* Return addresses, innermost first. The byte before each belongs to the code that was running. So after a signal,
     * it is one byte past the start of the interrupted instruction. */
    uintptr_t pc[GW_SITE_NATIVE_MAX];
    uint16_t module[GW_SITE_NATIVE_MAX]; /* 0: no file */
    gwi_trail_draft draft;               /* private */
} gwi_walk;

/* Set the memory for cached rules: GWI_UNWIND_BYTES bytes (whole pages), all zero. NULL: cache nothing. */
enum { GWI_UNWIND_ENTRIES = 16 << 10, GWI_UNWIND_BYTES = GWI_UNWIND_ENTRIES * 16 };
void gwi_unwind_place(void *memory);

/* Walk from the registers `reg` that gwi_registers_here() stored. `known` is its return value. The function that called
 * gwi_registers_here() must still be running. */
void gwi_unwind(gwi_walk *walk, const uint64_t reg[GWI_REGISTER_COUNT], uint32_t known);

#endif
