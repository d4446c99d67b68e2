/* A back end for tests: "input, linear" in plain C, on any number of devices. It really learns, and equal calls give
 * bit-identical results. Every function can be made to fail. A violation of backend.h's rules ends the program. */
#ifndef TRAINER_FAKE_H
#define TRAINER_FAKE_H

#include "backend.h"

#define FAKE_CALLS(X)                                                                                                  \
    X(open)                                                                                                            \
    X(close)                                                                                                           \
    X(plan)                                                                                                            \
    X(load) X(put) X(get) X(host_alloc) X(feed) X(fed) X(iterate) X(invite) X(join) X(sum) X(update) X(swap) X(settle)
enum fake_call {
#define X(name) FAKE_##name,
    FAKE_CALLS(X)
#undef X
        FAKE_CALL_COUNT
};
const char *fake_call_text(enum fake_call call);

struct fake_watch {
    int calls[FAKE_CALL_COUNT];
    enum fake_call fails; /* call number `fails_at` of this function fails; 0: none */
    int fails_at;
    /* update() calls with these numbers, and all calls between them, find gradients that are not finite; the first call
     * is number 1 */
    uint64_t broken_first, broken_last;
    int states, host_blocks;   /* opened or allocated, and not released yet */
    int iterate_ms;            /* how long each iterate() sleeps */
    struct backend_watch seen; /* returned by watch() */
};
/* Reset the requested failures and all counts. */
void fake_reset(void);
struct fake_watch *fake_watch(void); /* use it between training runs, from one thread */

extern const struct backend backend_fake; /* "fake" */

#endif
