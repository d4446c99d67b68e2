/* The simulated allocator. It has no addresses of its own: it asks a gwi_device for memory, as PyTorch asks the driver.
 *
 *   blocks.c      the parts of segments
 *                 ordered sets of blocks: best fit is a search in one
 *   allocator.c   requests, frees, splitting, merging, release of the cache, garbage collection
 *   expandable.c  expandable segments: mapping and unmapping pages
 *   devices.c     a device that follows a recording, and reports where it differs; one with a given amount of memory
 *   replay.c      the events of an input, one by one */
#ifndef GWI_REPLAY_ALLOCATOR_H
#define GWI_REPLAY_ALLOCATOR_H

#include "gw_replay.h"

#include <stdint.h>

/* PyTorch's fixed sizes, in bytes. */

#define GWI_MIB           ((uint64_t)1 << 20)
#define GWI_UNIT          ((uint64_t)512) /* smallest block, and the unit of sizes */
#define GWI_SMALL_MAX     GWI_MIB         /* larger blocks are in the large pool */
#define GWI_SMALL_SEGMENT (2 * GWI_MIB)
#define GWI_LARGE_SEGMENT (20 * GWI_MIB) /* for blocks below GWI_OWN_SEGMENT */
#define GWI_OWN_SEGMENT   (10 * GWI_MIB) /* blocks of at least this size get a segment of their own ... */
#define GWI_OWN_ROUNDING  (2 * GWI_MIB)  /* ... which is a multiple of this */

/* The largest size that the replay accepts, so that sums of sizes do not overflow. */
#define GWI_BYTES_MAX ((uint64_t)1 << 56)

typedef enum gwi_answer {
    GWI_GRANTED,
    GWI_REFUSED,
    GWI_STOPPED /* the replay cannot go on: the recording differs, or there is no memory */
} gwi_answer;

/* The driver, as the allocator sees it. give() and unmap() return false to stop the replay. */
typedef struct gwi_device {
    void *user;
    gwi_answer (*take)(void *user, uint64_t bytes, uint64_t *ret_address);
    bool (*give)(void *user, uint64_t address, uint64_t bytes);
    gwi_answer (*reserve)(void *user, uint64_t bytes, uint64_t *ret_address);
    /* Create `count` pages for an expandable segment: all of them or, if it is refused, none. */
    gwi_answer (*create)(void *user, uint64_t page_bytes, uint64_t count);
    bool (*unmap)(void *user, uint64_t address, uint64_t page_bytes, uint64_t count);
} gwi_device;

/* A part of a segment. Blocks are elements of gwi_allocator.block; 0 stands for none. */
typedef struct gwi_block {
    uint64_t address, bytes;
    uint64_t base;        /* number of searches of its pool when the block was last put into the set of free blocks */
    uint32_t space;       /* index + 1 of its expandable segment; 0: the segment is from cudaMalloc */
    uint32_t prev, next;  /* neighbours in the segment */
    uint32_t left, right; /* in its set */
    uint32_t stream;
    bool is_small, is_used, is_mapped;
} gwi_block;

/* The addresses of an expandable segment. */
typedef struct gwi_space {
    uint64_t address, bytes;
} gwi_space;

/* Sorted by stream, then by size (unless by_address), then by address. */
typedef struct gwi_set {
    uint32_t root;
    bool by_address;
} gwi_set;

typedef struct gwi_pool {
    gwi_set free, unmapped;
    uint64_t searches;
    bool is_small;
} gwi_pool;

typedef struct gwi_allocator {
    const gw_replay_settings *settings;
    const gwi_device *device;
    uint64_t card_bytes; /* decides the address space of expandable segments */
    gwi_block *block;    /* owned; element 0 is unused */
    size_t block_count, block_capacity;
    uint32_t unused;  /* first unused element, linked by `next` */
    gwi_space *space; /* owned */
    size_t space_count;
    gwi_pool small, large;
    uint64_t reserved_bytes, reserved_peak, live_bytes, live_peak;
    size_t retry_count;
    bool was_split; /* the last request was given the first part of a larger block */
    bool no_memory;
} gwi_allocator;

void gwi_allocator_free(gwi_allocator *a);
void gwi_allocator_init(gwi_allocator *a, const gw_replay_settings *settings, const gwi_device *device,
                        uint64_t card_bytes);

/* Give a block of `bytes`, already rounded. GWI_GRANTED: *ret_block is the block, which may be larger. GWI_REFUSED: the
 * program gets an out-of-memory error. */
gwi_answer gwi_allocate(gwi_allocator *a, uint64_t bytes, uint32_t stream, uint32_t *ret_block);
void gwi_release(gwi_allocator *a, uint32_t block);
/* Return all wholly free segments and pages to the device: torch.cuda.empty_cache(). False: the replay stops. */
bool gwi_empty(gwi_allocator *a);

/* The largest free block that a request of less than `bytes` from this stream could have been given; 0: none. */
uint64_t gwi_largest_below(gwi_allocator *a, uint64_t bytes, uint32_t stream);

/* ---- blocks.c: ordered sets ---- */

typedef struct gwi_key {
    uint64_t stream, bytes, address;
} gwi_key;

void gwi_set_add(gwi_allocator *a, gwi_set *set, uint32_t block);
void gwi_set_remove(gwi_allocator *a, gwi_set *set, uint32_t block);
/* Return the first block that is not before the key, the first one after the block, or the last one before the key; 0:
 * none. `bytes` of the key is ignored in a set by address. */
uint32_t gwi_set_from(const gwi_allocator *a, const gwi_set *set, gwi_key key);
uint32_t gwi_set_after(const gwi_allocator *a, const gwi_set *set, uint32_t block);
uint32_t gwi_set_before(const gwi_allocator *a, const gwi_set *set, gwi_key key);

/* ---- blocks.c ---- */

uint32_t gwi_block_new(gwi_allocator *a, const gwi_pool *pool, uint32_t stream, uint64_t address, uint64_t bytes);
void gwi_block_drop(gwi_allocator *a, uint32_t block);
/* Keep the first `bytes` of the block. Returns a new block with the rest, which is in no set; 0: no memory. */
uint32_t gwi_block_cut(gwi_allocator *a, const gwi_pool *pool, uint32_t block, uint64_t bytes);
/* Merge the neighbour `other` into `block` if both are free and in the same state. `other` must be in its set, `block`
 * in none. */
void gwi_block_merge(gwi_allocator *a, gwi_pool *pool, uint32_t block, uint32_t other);
void gwi_pool_put(gwi_allocator *a, gwi_pool *pool, uint32_t block);
void gwi_reserved_add(gwi_allocator *a, uint64_t bytes);

/* ---- expandable.c ---- */

/* Get a free block of at least `bytes` by mapping pages. GWI_GRANTED: *ret_block is in no set. */
gwi_answer gwi_expand(gwi_allocator *a, gwi_pool *pool, uint64_t bytes, uint32_t stream, uint32_t *ret_block);
/* Unmap the whole pages of a free block of an expandable segment. False: the replay stops. */
bool gwi_shrink(gwi_allocator *a, gwi_pool *pool, uint32_t block);
/* Number of bytes that the block has or can grow to. */
uint64_t gwi_expandable_bytes(const gwi_allocator *a, uint32_t block);

/* ---- replay.c ---- */

typedef struct gwi_run {
    const gw_replay_input *input;
    gwi_allocator allocator;
    uint32_t *place; /* owned; the block of each request; 0: none */
    bool use_least;  /* replay the least sizes that the requests can have had */
} gwi_run;

GW_MUST_CHECK gw_status gwi_run_init(gwi_run *run, const gw_replay_input *input, const gw_replay_settings *settings,
                                     const gwi_device *device, uint64_t card_bytes, gw_error *err);
void gwi_run_free(gwi_run *run);
/* Replay one event. A refused request that is granted now is freed at once. */
gwi_answer gwi_run_event(gwi_run *run, const gw_replay_event *event);

/* ---- devices ---- */

typedef struct gwi_recorded {
    const gw_replay_input *input;
    size_t at;        /* next step */
    char *difference; /* borrowed; GWI_DIFFERENCE_MAX bytes; "" until the recording differs */
} gwi_recorded;
enum { GWI_DIFFERENCE_MAX = 256 };

gwi_device gwi_recorded_device(gwi_recorded *recorded);
const gw_replay_step *gwi_recorded_step(const gwi_recorded *recorded); /* the next one; NULL: none */
__attribute__((format(printf, 2, 3))) void gwi_recorded_differ(gwi_recorded *recorded, const char *format, ...);
/* Format "cudaMalloc of 20.00 MiB". Writes to `out` and returns it. */
enum { GWI_STEP_TEXT_MAX = 96 };
char *gwi_step_text(char out[GWI_STEP_TEXT_MAX], const gw_replay_step *step);

typedef struct gwi_card {
    uint64_t room_bytes, used_bytes;
    uint64_t next_address;
    bool is_falling; /* new segments have lower addresses than older ones */
    uint64_t next_space;
} gwi_card;

gwi_device gwi_card_device(gwi_card *card, uint64_t room_bytes, bool is_falling);

#endif
