/* Whether PyTorch's memory was level for most of a run and rose at its end: a later phase needs more, such as
 * validation after training. From the peaks of live bytes in equal spans of time (gw_allocator_report). */
#ifndef GWI_PLATEAU_H
#define GWI_PLATEAU_H

#include "gwi_cause.h"

typedef struct gwi_plateau {
    uint64_t bytes;     /* the level */
    uint64_t end_ns;    /* from then on, memory was above it */
    uint64_t rising_ns; /* from then on, it may have been rising: the last span that reached the level began */
} gwi_plateau;

/* True if the peak of live bytes was level for at least half of the run and then rose by more than a quarter. False if
 * `report` is NULL or has too few spans. */
bool gwi_find_plateau(const gw_allocator_report *report, gwi_plateau *ret_plateau);

#endif
