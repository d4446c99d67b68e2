/* Waits until the cards have enough free memory, before the program is started (`gpuwhy run --wait-memory`) or started
 * again (--restart). */
#ifndef GWI_ROOM_WAIT_H
#define GWI_ROOM_WAIT_H

#include "gw_room.h"
#include "gw_status.h"
#include "gw_supervisor.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gwi_room_wanted {
    int device;          /* CUDA's number of a card in the program; negative: each card that the program sees */
    uint64_t bytes;      /* 0: do not wait */
    uint64_t timeout_ns; /* 0: no limit */
} gwi_room_wanted;

/* Parse "12GiB" or "12GiB:90s"; the units of time are s, m and h, and s is the default. NULL: nothing is wanted.
 * GW_USAGE: `err` names the option and the reason. */
GW_MUST_CHECK gw_status gwi_room_wanted_parse(const char *text, gwi_room_wanted *ret_wanted, gw_error *err);

/* Choose the card with CUDA's number `device` in a program with this value of CUDA_VISIBLE_DEVICES (NULL: not set), or,
 * if `device` is negative, all cards that the program sees. Sets ret_chosen[i] for NVML's card i. Like CUDA, ignores
 * everything after an entry that names no card. GW_UNSUPPORTED: the cards cannot be determined (MIG). GW_MISSING: the
 * program does not see such a card. */
GW_MUST_CHECK gw_status gwi_room_choose(const char *visible, int device, const gw_room_card *card, size_t count,
                                        bool *ret_chosen, gw_error *err);

/* Wait, and print once who holds the memory. The result is printed, and recorded as the fact "memory.wait". Signals
 * that arrive meanwhile are not passed on to a program. */
gw_wait_end gwi_room_wait(gw_supervisor *run, const gwi_room_wanted *wanted);

#endif
