/* The native walk: from registers to the return addresses of the frames above.
 *
 * It follows the call frame information of each file. What was found for an instruction is kept, so that a frame which
 * was seen before costs a look into a table and one or two words of stack. It reads nothing but the stack that the
 * thread stands on (gwi_stack), and files that the loader says are there. */
#ifndef GWI_UNWIND_H
#define GWI_UNWIND_H

#include "gw_site.h"
#include "gwi_modules.h"
#include "gwi_trail.h"

/* A stack as far as it may be read. A thread's own one is known from end to end and kept with the thread; of others (a
 * coroutine's, a signal's) each page is asked for. */
typedef struct gwi_stack_known {
    uint64_t low, high; /* the thread's own stack; 0: not looked for yet, or it has none that is known */
    uint32_t looks;     /* how often it was looked for */
} gwi_stack_known;

typedef struct gwi_walk {
    gwi_stack_known *known; /* in: the thread's; borrowed */
    uint32_t skip_module;   /* in: frames that lie in it are left out as long as no other was seen; 0: none */
    uint64_t salt;          /* in: where stacks that begin alike are known to differ: a hint */
    bool only_key;          /* in: frames are not needed where the key can be had without */
    bool is_short;          /* out: frames are missing therefore; `flags` is not filled then */
    unsigned flags;         /* out: GW_SITE_NATIVE_* */
    uint64_t key;           /* out: stands for all frames and the files that they lie in */
    uint32_t count;
    /* Return addresses, innermost first. Of a frame that a signal interrupted: one byte behind its instruction, so
     * that one byte before the address always lies in the code that was running. */
    uintptr_t pc[GW_SITE_NATIVE_MAX];
    uint16_t module[GW_SITE_NATIVE_MAX]; /* 0: no file */
    gwi_trail_draft draft;               /* our own */
} gwi_walk;

/* Memory for what is kept about instructions, all zero: GWI_UNWIND_BYTES, a multiple of a page. NULL: nothing is kept.
 */
enum { GWI_UNWIND_ENTRIES = 16 << 10, GWI_UNWIND_BYTES = GWI_UNWIND_ENTRIES * 16 };
void gwi_unwind_place(void *memory);

/* Walk from `reg`, as gwi_registers_here() filled it in a function that is still running. */
void gwi_unwind(gwi_walk *walk, const uint64_t reg[GWI_REGISTER_COUNT], uint32_t known);

#endif
