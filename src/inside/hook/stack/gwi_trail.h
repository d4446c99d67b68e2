/* Trails: recorded stack walks that can be repeated cheaply.
 *
 * In a walk by rules, each word read from the stack determines where the next word is. So the registers at the start
 * and these words determine the result, while the mapped files are the same. Comparing them takes a tenth of the time
 * of a walk.
 *
 * Any number of threads may use trails. A trail that another thread is writing is skipped. */
#ifndef GWI_TRAIL_H
#define GWI_TRAIL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

#endif
