/* A thread that fills two host buffers in turn and copies them to a device while it computes; helper threads can
 * fill them, too.
 *
 *     loader_take(loader, &load, reason)     the next micro-batch is being copied to the device
 *     backend->iterate(... load.turn ...)
 *     loader_passed(loader)                  the computation was submitted: its buffers may be fed again
 *
 * The loader's thread calls `next` ahead of time to learn what to load. Only one thread may take. loader_close()
 * stops the loader at any point, waits for it, and frees the buffers. Call it before closing the state. */
#ifndef TRAINER_LOADER_H
#define TRAINER_LOADER_H

#include "backend.h"
#include "data.h"

/* One micro-batch: images `first` to `first + count - 1` of an epoch's order, or of the test part in its stored
 * order. */
struct load {
    enum part part;
    uint64_t epoch;
    size_t first, count;
    unsigned turn; /* set by the loader */
};

struct loader_options {
    const struct backend *backend;
    void *state; /* open, with memory loaded */
    const struct data *data;
    uint64_t seed;                               /* seed of the order */
    size_t images;                               /* per micro-batch; a shorter one is padded with the first image */
    size_t image_count;                          /* numbers per image */
    int threads;                                 /* threads that fill; 0: one. Fewer if they cannot be created */
    bool (*next)(void *user, struct load *load); /* returns false at the end */
    void *user;
};

struct loader;
bool loader_open(const struct loader_options *options, struct loader **ret_loader, struct reason *reason);
bool loader_take(struct loader *loader, struct load *ret_load, struct reason *reason);
void loader_passed(struct loader *loader);
void loader_close(struct loader *loader); /* accepts NULL */

#endif
