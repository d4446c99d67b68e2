/* Publishes the state of the run about once a second, for `gpuwhy watch` (gw_live.h). */
#ifndef GWI_LIVE_H
#define GWI_LIVE_H

#include "gw_live.h"

typedef struct gwi_live {
    uint64_t written_at_ns; /* run time; 0: not yet */
} gwi_live;

struct gw_supervisor;
/* Write the state if it is due. Call it after gwi_memory_look(). */
void gwi_live_look(struct gw_supervisor *run);

#endif
