/* A progress bar on stderr for long work, such as reading a large recording.
 *
 * It is drawn only if stderr is a terminal that can erase a line (TERM is set and not "dumb"), and only after half a
 * second of work, so short work and pipes see nothing. A job in the background of a shell draws nothing. A thread of
 * its own draws it, because some work reports nothing for seconds. It is erased when the work ends. One bar at a time.
 */
#ifndef GWI_PROGRESS_H
#define GWI_PROGRESS_H

#include "gw_recording.h"

typedef struct gwi_progress gwi_progress;

/* Begin a piece of work. `what` is static, such as "reading". Returns NULL if nothing can be drawn; all functions take
 * NULL. */
gwi_progress *gwi_progress_begin(const char *what);
/* Name the next part of the work, whose length is unknown. `what` is static. */
void gwi_progress_part(gwi_progress *progress, const char *what);
/* Report how far the work is. */
void gwi_progress_step(gwi_progress *progress, uint64_t done, uint64_t all);
/* Let a reader report how far it is. The bar must be ended after the last use of the reader. */
void gwi_progress_watch(gwi_progress *progress, gw_reader *reader);
/* Erase the bar, and free it. Call this before anything is printed. */
void gwi_progress_end(gwi_progress *progress);

#endif
