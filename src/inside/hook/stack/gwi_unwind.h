/* Walks the native stack: from registers to the return addresses of the calling frames.
 *
 * The walk uses each file's call frame information. Rules are cached by instruction; a cached frame costs one table
 * lookup and one or two words of the stack.
 * It reads only the thread's current stack (gwi_stack_known) and files that the loader reports as mapped. */
#ifndef GWI_UNWIND_H
#define GWI_UNWIND_H

#include "gw_site.h"
#include "gwi_modules.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Trails: recorded stack walks that can be repeated cheaply.
 *
 * In a walk by rules, each word read from the stack determines where the next word is. So the registers at the start
 * and these words determine the result, while the mapped files are the same. Comparing them takes a tenth of the time
 * of a walk.
 *
 * Any number of threads may use trails. A trail that another thread is writing is skipped. */

enum { GWI_TRAIL_WORDS = 140, GWI_TRAIL_MODULES = 16 };

/* The registers at the start of a trail. */
typedef struct gwi_trail_start {
    uint64_t sp, bp, pc;
    uint64_t key; /* distinguishes trails with equal registers */
} gwi_trail_start;

/* A trail that is being recorded: the words that the walk read, and the distance of each from the stack pointer at the
 * start. */
typedef struct gwi_trail_draft {
    gwi_trail_start start;
    bool is_good; /* false: the walk depended on something that a trail cannot record */
    bool uses_bp; /* the walk used the value that the frame pointer had at the start */
    uint32_t word_count, module_count;
    uint64_t value[GWI_TRAIL_WORDS];
    uint32_t distance[GWI_TRAIL_WORDS]; /* in bytes */
    uint16_t module[GWI_TRAIL_MODULES];
    uint64_t module_pc[GWI_TRAIL_MODULES]; /* for each module: an address in it */
} gwi_trail_draft;

/* Set the memory for trails: GWI_TRAIL_BYTES bytes (whole pages), all zero. NULL: use no trails. */
enum { GWI_TRAIL_SETS = 128, GWI_TRAIL_WAYS = 4, GWI_TRAIL_BYTES = GWI_TRAIL_SETS * GWI_TRAIL_WAYS * 2048 };
void gwi_trail_place(void *memory);

/* Return whether a stored trail matches the walk that starts with `start`, and its value in `*ret_result`. The stack
 * must be readable from start->sp (a multiple of eight) to `stack_end`, at least eight bytes higher. */
bool gwi_trail_follow(const gwi_trail_start *start, uint64_t stack_end, uint64_t *ret_result);

/* Return whether to record the walk that starts with `start` as a trail. Without a free entry, this is true only once
 * in 16 calls, because recording slows the walk down. */
bool gwi_trail_is_wanted(const gwi_trail_start *start);

void gwi_trail_begin(gwi_trail_draft *draft, const gwi_trail_start *start);
static inline void gwi_trail_word(gwi_trail_draft *draft, uint64_t at, uint64_t value)
{
    if (draft->word_count == GWI_TRAIL_WORDS || at < draft->start.sp || at - draft->start.sp > UINT32_MAX / 2) {
        draft->is_good = false;
        return;
    }
    draft->value[draft->word_count] = value;
    draft->distance[draft->word_count++] = (uint32_t)(at - draft->start.sp);
}
void gwi_trail_module(gwi_trail_draft *draft, uint32_t module, uint64_t pc);
void gwi_trail_keep(const gwi_trail_draft *draft, uint64_t result);

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
