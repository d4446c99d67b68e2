/* Read values of a GPU from NVML, even before the process has a context.
 *
 * NVML and the driver are loaded at run time, once per process. A GPU is identified by its driver index (affected by
 * CUDA_VISIBLE_DEVICES), and its NVML handle is found by the PCI address. The functions create no context. Any thread
 * may call them. */
#ifndef TRAINER_WATCH_H
#define TRAINER_WATCH_H

#include "backend.h"

/* Read the current values of a GPU. Unknown values are -1. own_bytes is also -1 if NVML does not list this process, as
 * in a container with its own process ids. */
void card_watch(int device, struct backend_watch *ret_watch);

/* True if the back end allocates its memory on a GPU. */
static inline bool has_card(const struct backend *backend)
{
    return backend->watch == card_watch;
}

#endif
