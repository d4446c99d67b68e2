/* The memory layout of a schedule: where each block is, and which steps may run beside others. */
#ifndef TRAINER_LAYOUT_H
#define TRAINER_LAYOUT_H

#include "schedule.h"

/* Set `awaited` of each step, make schedule->plan, and replace the numbers of all blocks by their numbers in the plan.
 * The schedule's steps and blocks must be complete. On failure, the caller must still call schedule_clear(). */
bool layout_find(struct schedule *schedule, struct reason *reason);

#endif
