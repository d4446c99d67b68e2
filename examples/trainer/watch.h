/* What NVML says of a card, before there is a context and beside it.
 *
 * NVML and the driver are loaded at run time, once for the process. A card is found by the driver's number for it
 * (CUDA_VISIBLE_DEVICES counts) and its PCI address. Nothing here makes a context. Any thread. */
#ifndef TRAINER_WATCH_H
#define TRAINER_WATCH_H

#include "backend.h"

/* What cannot be told is -1: own_bytes, too, where NVML does not name this process (in a container that has its own
 * process numbers). */
void card_watch(int device, struct backend_watch *ret_watch);

/* Whether a back end takes its memory of a card. */
static inline bool has_card(const struct backend *backend)
{
    return backend->watch == card_watch;
}

#endif
