/* A thread that fills two host buffers in turn and feeds them to a device while it computes; others help to fill.
 *
 *     loader_take(loader, &load, reason)     the next micro-batch is on its way to the device
 *     backend->iterate(... load.turn ...)
 *     loader_passed(loader)                  the device was told to compute it: its buffers may be fed again
 *
 * What comes next is asked of `next`, in the loader's thread and ahead of time. One thread takes; loader_close() ends
 * the loader wherever it is, waits for it, and gives the buffers back; it comes before the state's close(). */
#ifndef TRAINER_LOADER_H
#define TRAINER_LOADER_H

#include "backend.h"
#include "data.h"

/* One micro-batch: images `first` to `first + count - 1` of an epoch's order, or of the test part as it lies. */
struct load {
    enum part part;
    uint64_t epoch;
    size_t first, count;
    unsigned turn; /* written by the loader */
};

struct loader_options {
    const struct backend *backend;
    void *state; /* loaded */
    const struct data *data;
    uint64_t seed;                               /* of the order */
    size_t images;                               /* in a micro-batch; a shorter one is filled up with the first image */
    size_t image_count;                          /* numbers in an image */
    int threads;                                 /* that fill; 0: one. Fewer where they cannot be had */
    bool (*next)(void *user, struct load *load); /* false: that was all */
    void *user;
};

struct loader;
bool loader_open(const struct loader_options *options, struct loader **ret_loader, struct reason *reason);
bool loader_take(struct loader *loader, struct load *ret_load, struct reason *reason);
void loader_passed(struct loader *loader);
void loader_close(struct loader *loader); /* takes NULL */

#endif
