/* What this process holds of a card's memory, by NVML: everything, also what the driver holds for it (contexts, code,
 * streams). NVML is opened at the first call, so only the guard and a rehearsal call it. A call takes 25 us (H100). */
#ifndef GWI_OWN_MEMORY_H
#define GWI_OWN_MEMORY_H

#include <stdint.h>

/* Return the bytes that NVML counts for this process on a device, or UINT64_MAX if it does not tell. *ret_extra is what
 * the card holds beyond all its processes; UINT64_MAX: not known. Call without locks. */
uint64_t gwi_own_memory_read(int device, uint64_t *ret_extra);

#endif
