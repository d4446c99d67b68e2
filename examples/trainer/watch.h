/* Values of a GPU reported by NVML, available even before there is a context.
 *
 * NVML and the driver are loaded at run time, once per process. A GPU is identified by its driver index (affected by
 * CUDA_VISIBLE_DEVICES) and found in NVML by its PCI address. Nothing here creates a context. Any thread. */
#ifndef TRAINER_WATCH_H
#define TRAINER_WATCH_H

#include "backend.h"

/* Unknown values are -1. own_bytes is also -1 if NVML does not list this process (in a container with its own
 * process ids). */
void card_watch(int device, struct backend_watch *ret_watch);

/* Whether a back end allocates its memory on a GPU. */
static inline bool has_card(const struct backend *backend)
{
    return backend->watch == card_watch;
}

#endif
