/* Read the memory use and the temperature of a GPU from NVML. The process needs no CUDA context for this, and none is
 * created. NVML and the driver are loaded at run time, once per process. `device` is the driver's index of the GPU,
 * which depends on CUDA_VISIBLE_DEVICES. NVML numbers GPUs differently, so the GPU is looked up by its PCI address. Any
 * thread may call these functions. */
#ifndef TRAINER_WATCH_H
#define TRAINER_WATCH_H

#include "backend.h"

/* Read the current values of a GPU. A value that cannot be read is set to -1. own_bytes is also -1 if NVML does not
 * list this process, for example in a container that has its own process ids. */
void card_watch(int device, struct backend_watch *ret_watch);

/* True if the back end allocates its memory on a GPU. Only such back ends use card_watch(). */
static inline bool has_card(const struct backend *backend)
{
    return backend->watch == card_watch;
}

#endif
