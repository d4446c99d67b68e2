/* A thread that fills two host buffers in turn and copies them to a device while the device computes. Helper threads
 * can take part in filling.
 *
 *     loader_take(loader, &load, reason)     the next micro-batch is being copied to the device
 *     backend->iterate(... load.turn ...)
 *     loader_passed(loader)                  the computation was submitted: the device's buffers may be filled again
 *
 * The loader's thread calls `next` ahead of time to learn what to load. Only one thread may call loader_take().
 * loader_close() stops the loader at any point, waits for it, and frees the buffers. Call it before the state is
 * closed. */
#ifndef TRAINER_LOADER_H
#define TRAINER_LOADER_H

#include "backend.h"
#include "data.h"

/* The content of one micro-batch: images `first` to `first + count - 1` in the order of an epoch, or in the stored
 * order of the test part. */
struct load {
    enum part part;
    uint64_t epoch;
    size_t first, count;
    unsigned turn; /* set by the loader */
};

struct loader_options {
    const struct backend *backend;
    void *state; /* an open state whose memory is loaded */
    const struct data *data;
    uint64_t seed;      /* seed of the order of the images */
    size_t images;      /* images per micro-batch; a shorter micro-batch is padded with its first image */
    size_t image_count; /* numbers per image */
    int threads;        /* threads that fill buffers; 0: one. Fewer are used if they cannot be created */
    bool (*next)(void *user, struct load *load); /* return the next content to load; false at the end */
    void *user;
};

struct loader;
bool loader_open(const struct loader_options *options, struct loader **ret_loader, struct reason *reason);
bool loader_take(struct loader *loader, struct load *ret_load, struct reason *reason);
void loader_passed(struct loader *loader);
void loader_close(struct loader *loader); /* accepts NULL */

#endif
