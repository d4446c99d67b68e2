/* Reads the cards and the processes that hold their memory: before a program is started, and for `gpuwhy watch`.
 *
 * NVML is called in a process of its own, because a call may hang on a failing card. Use one thread. */
#ifndef GW_ROOM_H
#define GW_ROOM_H

#include "gw_metrics.h"
#include "gw_sense.h"
#include "gw_status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GW_ROOM_CARDS_MAX = 64, GW_ROOM_HOLDERS_MAX = 128 };

typedef struct gw_room_holder {
    uint32_t pid;
    uint64_t bytes; /* UINT64_MAX: unknown */
    uint64_t
        busy_at_us; /* CLOCK_REALTIME at which NVML last saw it use the card; 0: not in the samples that NVML has */
} gw_room_holder;

/* A card, by NVML's index. */
typedef struct gw_room_card {
    char uuid[96];          /* "GPU-..."; "": unknown */
    char name[96], pci[32]; /* "": unknown. pci: "00000000:17:00.0" */
    bool is_known;          /* free_bytes and total_bytes were read */
    uint64_t free_bytes, total_bytes;
    gw_room_holder holder[GW_ROOM_HOLDERS_MAX]; /* in a container, NVML may report pids of the host */
    size_t holder_count;                        /* 0: none, or not known */
    bool holders_known;
    uint64_t busy_since_us;                 /* the oldest of NVML's samples of the use by processes; 0: it has none */
    gw_sample_value value[GW_METRIC_COUNT]; /* by metric; those of a card, from NVML; state NOT_YET until read */
    uint64_t xid_count, xid_last;           /* Xid events since gw_room_open(), and the code of the last one */
    bool is_lost;
} gw_room_card;

typedef struct gw_room gw_room;

/* Start the process that calls NVML. Only nvml_path, environment, root and is_virtual of
 * `options` are used; they must stay valid. The
 * caller frees *ret_room with gw_room_close(). Returns GW_OK, GW_NOMEM or GW_IO. */
GW_MUST_CHECK gw_status gw_room_open(const gw_sense_options *options, gw_room **ret_room, gw_error *err);
/* Read all cards, and wait for the values at most `wait_ms`. GW_OK: *ret_card has *ret_count cards, and belongs to
 * `room` until the next call. GW_MISSING: there is no NVML, or it reports no card. GW_IO: NVML did not respond in time.
 * GW_END: its process ended. `err` has the reason. */
GW_MUST_CHECK gw_status gw_room_read(gw_room *room, unsigned wait_ms, const gw_room_card **ret_card, size_t *ret_count,
                                     gw_error *err);
/* Like gw_room_read(), but read only the processes anew. The other values are those that the process reads at intervals
 * of a second or more, so that it uses little processor time. Call gw_room_read() first. */
GW_MUST_CHECK gw_status gw_room_refresh(gw_room *room, unsigned wait_ms, const gw_room_card **ret_card,
                                        size_t *ret_count, gw_error *err);
/* True if the pids of the holders are pids of our own namespace. */
bool gw_room_pids_are_ours(const gw_room *room);
void gw_room_close(gw_room *room); /* takes NULL */

/* Queries NVML once for the facts that `gpuwhy doctor` prints about each card. A fact is a key and a value, such as
 * "nvml.cards=2" or "card.0.name=NVIDIA H200". Values that NVML does not return are left out.
 *
 * NVML is loaded into this process and may block on a failing card. So call this function in a separate process. */

typedef void gw_survey_fact(void *user, const char *key, const char *value);

/* Call `fact` for every fact. `path` is the path of the NVML library; NULL: search for it. Returns GW_MISSING without
 * NVML, and GW_UNSUPPORTED if NVML does not work here. */
GW_MUST_CHECK gw_status gw_survey_nvml(const char *path, gw_survey_fact *fact, void *user, gw_error *err);

#endif
