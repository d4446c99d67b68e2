/* Code shared by the back ends on a GPU. It manages a scope with all memory of a schedule in one arena, a stream for
 * computing, and a stream that copies the next inputs at the same time. backend.h describes which threads may call
 * which functions. */
#ifndef TRAINER_CARD_H
#define TRAINER_CARD_H

#include "backend.h"

struct card {
    gs_scope *scope; /* NULL: not open */
    CUstream compute, copy;
    CUevent fed[2];                  /* the copy of the inputs of this turn has ended */
    CUevent used[2];                 /* the steps that read the inputs of this turn have ended */
    const struct schedule *schedule; /* borrowed; NULL: no memory yet */
    gs_arena *arena;                 /* memory of the schedule, in the scope `memory` */
    gs_scope *memory;                /* scope of the arena, created and released by load() */
};

/* Open the scope, streams and events. On failure, everything opened so far is closed again. */
bool card_open(struct card *card, const struct backend_options *options, struct reason *reason);
bool card_close(struct card *card, gs_report **ret_report, struct reason *reason);
CUdeviceptr card_at(const struct card *card, size_t block); /* 0 for NO_BLOCK */

/* The functions below are entries of a back end's table: `state` begins with the back end's struct card. */
bool card_load(void *state, const struct schedule *schedule, struct reason *reason);
bool card_put(void *state, size_t block, const void *data, size_t bytes, struct reason *reason);
bool card_get(void *state, size_t block, void *data, size_t bytes, struct reason *reason);
bool card_host_alloc(void *state, size_t bytes, void **ret, struct reason *reason);
void card_host_free(void *state, void *memory);
bool card_feed(void *state, unsigned turn, const float *images, const int32_t *labels, struct reason *reason);
bool card_fed(void *state, unsigned turn, struct reason *reason);
/* Call these before and after the steps that read the inputs of a turn. They order work on the compute stream. */
bool card_begin(struct card *card, unsigned turn, struct reason *reason);
bool card_end(struct card *card, unsigned turn, struct reason *reason);

/* True if `status` is GS_OK. Otherwise, set `reason` to `doing` and the scope's first failure, or the status if the
 * scope has no failure. */
bool card_well(const struct card *card, gs_status status, const char *doing, struct reason *reason);

#endif
