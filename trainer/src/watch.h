/* Reads the memory use and the temperature of a GPU from NVML, without a CUDA context. NVML and the driver are loaded
 * at run time, once per process. Any thread may call these functions.
 *
 * `device` is the driver's index of the GPU, which depends on CUDA_VISIBLE_DEVICES. NVML numbers GPUs differently, so
 * the GPU is looked up by its PCI address. */
#ifndef TRAINER_WATCH_H
#define TRAINER_WATCH_H

#include "backend.h"

/* Read the current values of a GPU. A value that cannot be read is -1. own_bytes is also -1 if NVML does not list this
 * process, as in a container with its own process ids. */
void card_watch(int device, struct backend_watch *ret_watch);

/* True if the back end allocates its memory on a GPU. Only such back ends use card_watch(). */
static inline bool has_card(const struct backend *backend)
{
    return backend->watch == card_watch;
}

#endif
