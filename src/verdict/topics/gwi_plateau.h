/* Whether PyTorch's memory was level for most of a run and rose at its end: a later phase needs more, such as
 * validation after training. From the peaks of live bytes in equal spans of time (gw_allocator_report). */
#ifndef GWI_PLATEAU_H
#define GWI_PLATEAU_H

#include "gwi_cause.h"

/* True if the peak of live bytes was level for at least half of the run and then rose by more than a quarter: the
 * level, and the time of the last span on it. False if `report` is NULL or has too few spans. */
bool gwi_find_plateau(const gw_allocator_report *report, uint64_t *ret_flat_bytes, uint64_t *ret_end_ns);

#endif
