/* Threads that fill host buffers with images, and copy them to a device while the device computes.
 *
 *    loader_take(loader, &load, reason)     the next micro-batch is being copied to the device
 *    backend->iterate(... load.turn ...)
 *    loader_passed(loader)                  the computation was submitted: the device's buffers may be filled again
 *
 * The threads call `next` ahead of time to learn what to load. Only one thread may call loader_take().
 * loader_close() stops the threads at any point and frees the buffers. Call it before the back end's state is closed.
 */
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
    unsigned turn; /* index of the buffers, 0 or 1; set by the loader */
};

enum { LOADER_QUEUE_MIN = 2, LOADER_QUEUE_MAX = 64 };

struct loader_options {
    const struct backend *backend;
    void *state; /* open state of the back end, which has loaded a schedule */
    const struct data *data;
    uint64_t seed;      /* seed of the order of the images */
    size_t images;      /* images per micro-batch; a shorter micro-batch is padded with its first image */
    size_t image_count; /* number of values per image (channels x height x width) */
    int threads;        /* threads that fill buffers; 0: one. The loader works with fewer if some cannot be created */
    int queue; /* micro-batches that may be in host memory, filled or being filled; LOADER_QUEUE_MIN (0: this) to _MAX
                */
    bool (*next)(void *user, struct load *load); /* set *load to the next content to load; false at the end */
    void *user;
};

struct loader;
bool loader_open(const struct loader_options *options, struct loader **ret_loader, struct reason *reason);
bool loader_take(struct loader *loader, struct load *ret_load, struct reason *reason);
/* Return for how long loader_take() has waited so far, in s: the next micro-batch was not filled yet. Call it from the
 * thread that calls loader_take(). */
double loader_waited(const struct loader *loader);
void loader_passed(struct loader *loader);
void loader_close(struct loader *loader); /* accepts NULL */

#endif
