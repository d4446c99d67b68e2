/* What the back ends on a card share: a scope with all memory of a schedule in one arena, a stream that computes and
 * one that copies the next inputs beside it. Threads as backend.h says. */
#ifndef TRAINER_CARD_H
#define TRAINER_CARD_H

#include "backend.h"

struct card {
    gs_scope *scope; /* NULL: not open */
    CUstream compute, copy;
    CUevent fed[2];                  /* the inputs of this turn are there */
    CUevent used[2];                 /* the steps that read them are over */
    const struct schedule *schedule; /* borrowed; NULL: no memory yet */
    gs_arena *arena;                 /* of the schedule, in a scope of its own */
    gs_scope *memory;                /* which load() makes and gives back */
};

/* Opens the scope, streams and events. On failure nothing is left open. */
bool card_open(struct card *card, const struct backend_options *options, struct reason *reason);
bool card_close(struct card *card, gs_report **ret_report, struct reason *reason);
CUdeviceptr card_at(const struct card *card, size_t block); /* 0 for NO_BLOCK */

/* The following are a back end's functions as they are: `state` begins with its struct card. */
bool card_load(void *state, const struct schedule *schedule, struct reason *reason);
bool card_put(void *state, size_t block, const void *data, size_t bytes, struct reason *reason);
bool card_get(void *state, size_t block, void *data, size_t bytes, struct reason *reason);
bool card_host_alloc(void *state, size_t bytes, void **ret, struct reason *reason);
void card_host_free(void *state, void *memory);
bool card_feed(void *state, unsigned turn, const float *images, const int32_t *labels, struct reason *reason);
bool card_fed(void *state, unsigned turn, struct reason *reason);
/* Around the steps that read the inputs of a turn: on the compute stream. */
bool card_begin(struct card *card, unsigned turn, struct reason *reason);
bool card_end(struct card *card, unsigned turn, struct reason *reason);

/* Writes what failed: the scope's first failure where it has one. Returns whether the status is GS_OK. */
bool card_well(const struct card *card, gs_status status, const char *doing, struct reason *reason);

#endif
