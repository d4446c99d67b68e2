/* Call sites inside the hook: from a stack to the number of a site.
 *
 *   site.c     the key, the table of known keys, the records of a new site
 *   trail.c    stacks that were seen lately, so that most calls need no walk
 *   unwind.c   the native walk, with cached rules
 *   cfi.c      the rules, from the call frame information in every file
 *   modules.c  the file that is mapped at an address
 *
 * Everything runs on the calling thread, in a wrapper after the real call or in a callback of PyTorch's allocator. It
 * follows the hook's rules: hold no lock while other code may be called, use neither malloc nor dl_iterate_phdr,
 * preserve errno, and never cause a fault, even if the memory is damaged. If a stack cannot be read, its site is 0 or
 * has a flag for the missing part. */
#ifndef GWI_SITE_H
#define GWI_SITE_H

#include "gw_buffer.h"
#include "gw_site.h"

#include <stdbool.h>
#include <stdint.h>

/* Call this before the first event of a process that starts to record, and of a forked child, which has no sites
 * yet. Call it from one thread, with the hook's lock held. */
void gwi_site_begin(void);

/* Return the calling thread's site; 0: not known. Call inside the wrapper of `fn`, or with GW_FN_COUNT inside
 * PyTorch's allocator. If the site is new, its records are written first, with the time `ticks`, which must also be
 * the event's time. If `is_precious` is true, these records may use the room reserved for failures. */
uint32_t gwi_site(gw_slot *slot, unsigned fn, uint64_t ticks, bool is_precious);

#endif
