/* Replay of PyTorch's caching allocator: what it would have asked of the driver under other settings.
 *
 * The input is the recorded stream of a process on one device: requests, frees, refused requests and releases of the
 * cache, with the calls that the allocator made to the driver. gw_replay_check_input() replays it with the recorded
 * settings and compares every call to the driver with the recorded one. Only if all of them are equal, the replay is
 * trusted. gw_replay_try() then replays the same stream with other settings and on a card of a given size.
 *
 * The rules are those of PyTorch's native allocator, 1.13 and later. Not replayed: other back ends (cudaMallocAsync,
 * pluggable allocators), the private pools of CUDA graphs, and blocks that wait for another stream. A recording with
 * these differs from its replay, and gw_replay_check_input() reports where.
 *
 * Sizes are in bytes. The functions use no global state, and do not block. */
#ifndef GW_REPLAY_H
#define GW_REPLAY_H

#include "gw_status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GW_REPLAY_INTERVALS = 16 }; /* of roundup_power2_divisions: sizes from 1 MiB to 64 GiB */

/* PyTorch's settings, as in PYTORCH_ALLOC_CONF. */
typedef struct gw_replay_settings {
    bool is_expandable;
    uint64_t max_split_bytes;                /* UINT64_MAX: no limit */
    uint64_t non_split_rounding_bytes;       /* max_non_split_rounding_mb */
    uint64_t large_segment_bytes;            /* large_segment_size_mb; also the page of expandable segments */
    double collect_ratio;                    /* garbage_collection_threshold; 0: off */
    uint64_t limit_bytes;                    /* set_per_process_memory_fraction() as bytes; UINT64_MAX: not set */
    uint32_t divisions[GW_REPLAY_INTERVALS]; /* roundup_power2_divisions; 0 or 1: off */
} gw_replay_settings;

/* Return the settings that PyTorch has if neither the environment nor the program changes any. */
gw_replay_settings gw_replay_settings_default(void);

/* Change `settings` as the text of PYTORCH_ALLOC_CONF says, for example
 * "expandable_segments:True,max_split_size_mb:64". Keys that do not change which segments there are, and keys of newer
 * versions, are ignored. GW_USAGE: a value is invalid. GW_UNSUPPORTED: the text chooses another allocator, such as
 * cudaMallocAsync. On failure `settings` may be changed in part. */
GW_MUST_CHECK gw_status gw_replay_settings_read(gw_replay_settings *settings, const char *text, gw_error *err);

/* Return the size of the block for a request: PyTorch's rounding. */
uint64_t gw_replay_round(const gw_replay_settings *settings, uint64_t bytes);

typedef enum gw_replay_kind {
    GW_REPLAY_REQUEST, /* a granted request; `block` is its number */
    GW_REPLAY_FREE,    /* `block` is the number of the freed block's request */
    GW_REPLAY_REFUSED, /* PyTorch raised an out-of-memory error for this request */
    GW_REPLAY_EMPTY    /* the program released the cache: torch.cuda.empty_cache() */
} gw_replay_kind;

/* One event of the program. Recordings often have only the size of the block that a request was given. If the block was
 * not split, it may be larger than the request. */
typedef struct gw_replay_event {
    gw_replay_kind kind;
    uint32_t block;    /* requests are numbered from 0, in their order */
    uint32_t stream;   /* number of the stream; blocks are never shared between streams */
    uint64_t bytes;    /* the request's size, or the most that it can be */
    uint64_t least;    /* the least that it can be; equal to `bytes` if the size is known */
    uint64_t address;  /* where the block was; 0: not known */
    uint64_t t_ns;     /* not exact: at most the time of the event */
    bool is_requested; /* `bytes` is the requested size, not yet rounded by the allocator */
} gw_replay_event;

typedef enum gw_replay_step_kind {
    GW_REPLAY_TAKE,           /* cudaMalloc */
    GW_REPLAY_TAKE_REFUSED,   /* the driver refused it */
    GW_REPLAY_GIVE,           /* cudaFree */
    GW_REPLAY_RESERVE,        /* cuMemAddressReserve, for an expandable segment */
    GW_REPLAY_CREATE,         /* cuMemCreate: one page of an expandable segment */
    GW_REPLAY_CREATE_REFUSED, /* the driver refused it */
    GW_REPLAY_UNMAP,          /* cuMemUnmap: one page */
    GW_REPLAY_STEP_COUNT
} gw_replay_step_kind;

/* A call that PyTorch's allocator made to the driver. */
typedef struct gw_replay_step {
    gw_replay_step_kind kind;
    uint64_t address, bytes; /* 0: the call has none */
    uint64_t t_ns;           /* start of the call */
} gw_replay_step;

typedef struct gw_replay_input {
    gw_replay_settings settings; /* as recorded */
    gw_replay_event *event;      /* owned */
    size_t event_count;
    uint32_t block_count;
    gw_replay_step *step; /* owned */
    size_t step_count;
    bool steps_have_refusals; /* false: steps come from PyTorch's history, which has no calls that the driver refused */
    bool steps_have_order;    /* `step_at` says how many steps came before each event */
    uint32_t *step_at;        /* owned; NULL without steps_have_order; event_count + 1 elements */
    uint64_t card_bytes;      /* total memory of the device as the program saw it; 0: not known. Decides how
                               * many addresses an expandable segment has */
    /* Memory that the allocator could have had at its end: what it had reserved and what was free. 0: not known */
    uint64_t room_bytes;
    uint64_t reserved_bytes; /* PyTorch's own value at the end; 0: not known */
} gw_replay_input;

void gw_replay_input_free(gw_replay_input *input); /* takes a zeroed input */

/* What the replay with the recorded settings found. */
typedef struct gw_replay_check {
    bool is_exact;
    char difference[256]; /* the first difference, if not exact */
    size_t event;         /* number of events replayed before it */
    size_t step_count;    /* calls to the driver that were equal */
    size_t place_count;   /* blocks whose address was compared */
    uint64_t reserved_peak, live_peak;
    uint64_t live_bytes; /* at the end */
    size_t unsure_count; /* requests whose exact size is not known */
} gw_replay_check;

/* Replay with the recorded settings and compare. Releases of the cache by the program are found here and added to
 * `input` as events, and the sizes that a request can have had are narrowed down. GW_OK: *ret_check is filled, whether
 * exact or not. GW_CORRUPT: the input contradicts itself, for example because it frees a block twice. Otherwise
 * GW_NOMEM. */
GW_MUST_CHECK gw_status gw_replay_check_input(gw_replay_input *input, gw_replay_check *ret_check, gw_error *err);

/* Other settings to try. */
typedef struct gw_replay_variant {
    gw_replay_settings settings;
    uint64_t room_bytes;        /* memory that the allocator can have; UINT64_MAX: no limit */
    uint64_t card_bytes;        /* total memory of the card; 0: as recorded */
    const size_t *empty_before; /* borrowed; also release the cache before these events, in ascending order */
    size_t empty_count;
} gw_replay_variant;

/* The result of a replay. Where sizes or addresses are not known, several replays bound it: `least` and `most` are the
 * lowest and the highest peak among them. */
typedef struct gw_replay_result {
    uint64_t reserved_least, reserved_most; /* peak of the reserved memory */
    uint64_t live_peak;
    size_t retry_count; /* most releases of the cache because the driver refused memory */
    bool lives;         /* no request was refused, in any of the replays */
    bool fails;         /* a request was refused, in all of the replays */
    size_t failed_at;   /* the first event that was refused in any of them; event_count: none */
} gw_replay_result;

/* Replay an input that gw_replay_check_input() found exact. A replay goes on after a refused request, as the recorded
 * program did; one that the recording does not have ends it. */
GW_MUST_CHECK gw_status gw_replay_try(const gw_replay_input *input, const gw_replay_variant *variant,
                                      gw_replay_result *ret_result, gw_error *err);

#endif
