/* Detects a run whose memory use in PyTorch was level and rose only near the end. A later phase, such as
 * validation, then needs more memory. The input is the peak of live bytes in each of many equal spans of time
 * (gw_allocator_report). */
#ifndef GWI_PLATEAU_H
#define GWI_PLATEAU_H

#include "gwi_cause.h"

typedef struct gwi_plateau {
    uint64_t bytes;     /* live bytes at the level: the median of the peaks */
    uint64_t end_ns;    /* end of the last span at the level; all later spans were higher */
    uint64_t rising_ns; /* start of the last span whose own peak was at the level; the rise may begin in this span */
} gwi_plateau;

/* True if the peak of live bytes was level for at least half of the run, then rose by more than a quarter. False if
 * `report` is NULL or too short. */
bool gwi_find_plateau(const gw_allocator_report *report, gwi_plateau *ret_plateau);

#endif
