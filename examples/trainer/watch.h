/* Read the memory use and the temperature of a GPU from NVML. This works even before the process has a CUDA context.
 *
 * NVML and the driver are loaded at run time, once per process. A GPU is identified by its driver index, which depends
 * on CUDA_VISIBLE_DEVICES. Its NVML handle is found by its PCI address. The functions create no context. Any thread may
 * call them. */
#ifndef TRAINER_WATCH_H
#define TRAINER_WATCH_H

#include "backend.h"

/* Read the current values of a GPU. Unknown values are set to -1. own_bytes is also unknown if NVML does not list this
 * process, for example in a container that has its own process ids. */
void card_watch(int device, struct backend_watch *ret_watch);

/* True if the back end allocates its memory on a GPU. Only such back ends use card_watch(). */
static inline bool has_card(const struct backend *backend)
{
    return backend->watch == card_watch;
}

#endif
