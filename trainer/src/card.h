/* Code shared by the back ends on a GPU: a scope with all memory of a schedule in one arena, a stream for computing,
 * and a stream that copies the next inputs meanwhile. backend.h says which threads may call what. */
#ifndef TRAINER_CARD_H
#define TRAINER_CARD_H

#include "backend.h"

/* More than the number of inputs that were expected or fed, and whose waiting time was not measured yet. */
enum { CARD_WAITS = 8 };

struct card {
    gs_scope *scope; /* NULL: not open */
    CUstream compute, copy;
    CUevent fed[2];                  /* fed[i]: recorded when the copy to input buffers i has ended */
    CUevent used[2];                 /* used[i]: recorded when the steps that read input buffers i have ended */
    const struct schedule *schedule; /* borrowed; NULL: nothing is loaded */
    gs_arena *arena;                 /* memory of the schedule, in the scope `memory` */
    /* scope of the arena, which card_load() creates and a later card_load() replaces; NULL: none */
    gs_scope *memory;
    /* Inputs number n use two events: idle[n % CARD_WAITS] completes after all work that was submitted before they were
     * expected, and arrived[n % CARD_WAITS] when they are copied. */
    CUevent idle[CARD_WAITS], arrived[CARD_WAITS];
    uint64_t fed_count; /* used only by the thread that calls card_feed() */
    uint64_t expected_count, measured_count;
    double waited_s; /* of the first measured_count inputs */
};

/* Open the scope, streams and events. On failure, everything opened so far is closed again. */
bool card_open(struct card *card, const struct backend_options *options, struct reason *reason);
bool card_close(struct card *card, gs_report **ret_report, struct reason *reason);
CUdeviceptr card_at(const struct card *card, size_t block); /* address of a block; 0 for NO_BLOCK */

/* The functions up to card_waited() are for a back end's table of functions (backend.h). `state` must begin with a
 * struct card. */
bool card_load(void *state, const struct schedule *schedule, struct reason *reason);
bool card_put(void *state, size_t block, const void *data, size_t bytes, struct reason *reason);
bool card_get(void *state, size_t block, void *data, size_t bytes, struct reason *reason);
bool card_host_alloc(void *state, size_t bytes, void **ret, struct reason *reason);
void card_host_free(void *state, void *memory);
bool card_feed(void *state, unsigned turn, const float *images, const int32_t *labels, struct reason *reason);
bool card_fed(void *state, unsigned turn, struct reason *reason);
bool card_expect(void *state, struct reason *reason);
double card_waited(void *state);
/* Call card_begin() before the steps that read the inputs of a turn, and card_end() after them. The steps then wait for
 * the copy of these inputs, and the next copy to these buffers waits for the steps. */
bool card_begin(struct card *card, unsigned turn, struct reason *reason);
bool card_end(struct card *card, unsigned turn, struct reason *reason);
/* Wait for all work, and measure the waiting time of all inputs. */
gs_status card_settle(struct card *card);

/* True if `status` is GS_OK. Otherwise sets `reason` to `doing` and the first failure of the arena's scope. If there is
 * none, the first failure of the card's scope follows, or else the text of `status`. */
bool card_well(const struct card *card, gs_status status, const char *doing, struct reason *reason);

#endif
