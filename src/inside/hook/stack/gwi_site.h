/* Call sites inside the hook: reads a thread's stack and returns the number of its call site.
 *
 *   site.c     the key, the table of known keys, the records of a new site
 *   trail.c    recent stack walks, so that most calls need no new walk
 *   unwind.c   the native walk, with cached rules
 *   cfi.c      the rules, from the call frame information in every file
 *   modules.c  the file that is mapped at an address
 *
 * All of this runs on the calling thread, after the real call or in a callback of PyTorch's allocator. So it must not:
 * - hold a lock while other code may be called;
 * - use malloc or dl_iterate_phdr;
 * - change errno;
 * - cause a fault, even if the memory is damaged.
 * If a stack cannot be read, its site is 0 or has a flag for the missing part. */
#ifndef GWI_SITE_H
#define GWI_SITE_H

#include "gw_buffer.h"
#include "gw_site.h"

#include <stdbool.h>
#include <stdint.h>

/* Call this before the first event of a process that starts to record. Forked children need it, too: they have no
 * sites yet. Call it from one thread, with the hook's lock held. */
void gwi_site_begin(void);

/* Return the number of the calling thread's site; 0: unknown. Call this inside the wrapper of `fn` (GW_FN_COUNT
 * inside PyTorch's allocator). A new site is recorded first, with the time `ticks`, which must be the event's time.
 * If `is_precious`, it may use the room reserved for failures. */
uint32_t gwi_site(gw_slot *slot, unsigned fn, uint64_t ticks, bool is_precious);

/* True if the calling thread's driver call was certainly not made by a file whose name begins with `name`. The caller
 * is the innermost file on the stack that is neither the driver nor CUDA's runtime. False also if the stack cannot be
 * read. Call this inside a wrapper. Records nothing, and always walks the whole stack: only for rare calls. */
bool gwi_site_is_not_of(gw_slot *slot, const char *name);

#endif
