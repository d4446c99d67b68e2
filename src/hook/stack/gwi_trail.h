/* Trails: walks that were made before, to be made again at a glance.
 *
 * A walk by rules is a chain: each word of stack says where the next one lies. But where a walk goes from a frame is
 * decided by that frame's registers and the words that it reads on its way, and by nothing else (as long as the files
 * are the same). So when registers and words are what they were, so is everything else; and to compare words at places
 * that are known costs a tenth of following them.
 *
 * Any number of threads; a trail that another thread is just writing is passed over. */
#ifndef GWI_TRAIL_H
#define GWI_TRAIL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GWI_TRAIL_WORDS = 140, GWI_TRAIL_MODULES = 16 };

/* Where a trail begins. */
typedef struct gwi_trail_start {
    uint64_t sp, bp, pc;
    uint64_t key; /* what else tells trails apart that begin alike */
} gwi_trail_start;

/* A trail as it is recorded. `words` are what the walk read: values and their distance from the first stack pointer. */
typedef struct gwi_trail_draft {
    gwi_trail_start start;
    bool is_good; /* false: something happened that no trail tells */
    bool uses_bp; /* the first frame pointer mattered */
    uint32_t word_count, module_count;
    uint64_t value[GWI_TRAIL_WORDS];
    uint32_t distance[GWI_TRAIL_WORDS]; /* bytes */
    uint16_t module[GWI_TRAIL_MODULES];
    uint64_t module_pc[GWI_TRAIL_MODULES]; /* an instruction in it */
} gwi_trail_draft;

/* Memory, all zero: GWI_TRAIL_BYTES, a multiple of a page. NULL: no trails. */
enum { GWI_TRAIL_SETS = 128, GWI_TRAIL_WAYS = 4, GWI_TRAIL_BYTES = GWI_TRAIL_SETS * GWI_TRAIL_WAYS * 2048 };
void gwi_trail_place(void *memory);

/* Whether a walk that begins so goes a way that is known. The stack may be read from the start's stack pointer, a
 * multiple of eight, to `stack_end`, at least a word. `*ret_result` is what was kept with it. */
bool gwi_trail_follow(const gwi_trail_start *start, uint64_t stack_end, uint64_t *ret_result);

/* Whether a trail from there should be recorded although it costs a longer walk: there is room, or it is time to look
 * for one that is worth more than those that are kept. */
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
