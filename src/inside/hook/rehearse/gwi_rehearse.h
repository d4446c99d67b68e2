/* A rehearsal: the program runs in front of the real driver, but takes no memory and computes nothing.
 *
 * The rehearsal is a layer between the wrappers and the driver (gwi_hook.h), so it is recorded like a real run. Calls
 * that neither take device memory nor name an address of it go to the driver: contexts, modules, streams, events, host
 * memory, captures. Device memory has addresses that the driver has reserved and nobody maps; the books below follow
 * the driver's rules for a card of the size asked for. Launches, copies and fills of such memory are skipped. A kernel
 * is loaded at its first skipped launch, so that code takes the memory that it takes in a real run. What is read back
 * is zero.
 *
 * Such an address must never reach the driver. api/driver.api decides it: apigen gives each call that names an address
 * a function that asks gwi_rehearses(), and refuses the call if no function here handles it.
 *
 * Functions named cu... take the hook's lock themselves. Functions whose comment says so need it.
 *
 * Three tests check this: rehearse_rows_test looks at the types of all rows, rehearse-strict puts a driver behind the
 * hook that ends the program if it gets such an address, and rehearse-calls compares the results of each kind of call
 * with those of a real run on the virtual card. */
#ifndef GWI_REHEARSE_H
#define GWI_REHEARSE_H

#include "gw_pages.h"
#include "gw_pool.h"
#include "gwi_hook.h"

enum { GWI_CARDS_MAX = 32 };

/* The card that the program sees in place of a device. */
typedef struct gwi_card {
    int device;
    bool ready;
    uint64_t total_bytes;    /* as the program sees it */
    uint64_t held_bytes;     /* by the books: pages, chunks of pools, physical memory */
    uint64_t share_bytes;    /* what the driver holds for this process: contexts, code, streams; the last reading */
    uint64_t extra_bytes;    /* what the driver holds for the card once it has a context */
    uint64_t peak_bytes;     /* most of held_bytes + share_bytes */
    uint64_t mirrored_bytes; /* of share_bytes: how much lies among the addresses of the pages */
    gw_pages pages;
    uint64_t held_chunk; /* addresses that are free once a kernel was loaded; 0: they are free */
} gwi_card;

typedef enum gwi_held_kind {
    GWI_HELD_PLAIN,
    GWI_HELD_MANAGED, /* host memory stands behind it */
    GWI_HELD_POOL,
    GWI_HELD_MAPPED /* physical memory that is mapped */
} gwi_held_kind;

typedef struct gwi_rehearsed_pool gwi_rehearsed_pool;
typedef struct gwi_physical gwi_physical;

/* A block of memory that exists only in the books. */
typedef struct gwi_held {
    gw_range range; /* must be first */
    gwi_held_kind kind;
    gwi_card *card;
    uint64_t context; /* the context that owns a plain block */
    uint64_t id;
    bool accessible;          /* of a mapping: cuMemSetAccess() was called */
    gw_small_page *page;      /* of a small plain block */
    gwi_rehearsed_pool *pool; /* of a pool's block; borrowed */
    gwi_physical *physical;   /* of a mapping; borrowed */
} gwi_held;

/* What a call needs to know: the current context and its card. */
typedef struct gwi_here {
    uint64_t context;
    gwi_card *card;
} gwi_here;

/* ---- card.c ---- */

/* Set the size of the cards that the program sees; 0: the cards' own. With the lock, before the first call. */
void gwi_cards_limit(uint64_t bytes);
/* Find the current context and its card, and read the driver's share. Returns 0 or the driver's error. Call without the
 * lock. */
int gwi_here_find(gwi_here *ret_here);
/* Return the card of a device, or NULL if there is no such device. Call without the lock. */
gwi_card *gwi_card_of(int device);
/* Read again what the driver holds for this process on the card. Call without the lock. */
void gwi_card_measure(gwi_card *card);
/* Take memory from the card, or return it. gwi_card_take() returns false if the card is full. With the lock. */
bool gwi_card_take(void *card, uint64_t bytes);
void gwi_card_give(void *card, uint64_t bytes);
/* Write an event if the process holds more of the card than ever. Call without the lock. */
void gwi_card_tell(gwi_card *card);
/* Reserve addresses that the driver gives to nobody else. Returns 0 if it cannot. Call without the lock. */
uint64_t gwi_addresses_reserve(uint64_t bytes);
/* Return the most that the process held of all cards together. With the lock. */
uint64_t gwi_cards_peak(void);
/* Measure all cards once more, and write an event for each new peak. Call without the lock. */
void gwi_cards_settle(void);
/* True if gwi_addresses_reserve() has ever returned a range with this address. With the lock. */
bool gwi_addresses_are_ours(uint64_t address);
/* The first kernel was loaded: the driver frees addresses that it held for it. With the lock. */
void gwi_cards_launched(void);

/* ---- card.c: blocks; all with the lock ---- */

gwi_held *gwi_held_at(uint64_t address);
gwi_held *gwi_held_from(uint64_t address);
bool gwi_held_add(gwi_held *held);
void gwi_held_remove(gwi_held *held);
/* True if all bytes lie in one block, or in mappings side by side that the card may access. */
bool gwi_held_covers(uint64_t address, uint64_t bytes);

/* ---- what generated functions call ---- */

/* True if the address, or the handle of physical memory, exists only in the books. */
bool gwi_rehearses(uint64_t address_or_handle);
/* True if a launch on this stream is skipped. A launch that is captured is not: it only adds a node to a graph. */
bool gwi_rehearses_launch(uint64_t stream);
/* Record where the program reads this value, once for each call site. Call it inside the wrapper of `fn`, without the
 * lock. */
void gwi_reads_see(unsigned fn, uint64_t bytes);
int gwi_rehearse_copy(unsigned fn, uint64_t to, uint64_t from, uint64_t bytes);
int gwi_rehearse_fill(unsigned fn, uint64_t to, uint64_t value, uint64_t bytes);
int gwi_rehearse_launch(unsigned fn, uint64_t function);
/* Refuse a call that the rehearsal does not understand: record its name and return 801. */
int gwi_rehearse_refuse(unsigned fn);

/* ---- others ---- */

/* Read GPUWHY_REHEARSE and add the layer. With the lock, before the driver's functions are stored. */
void gwi_rehearse_begin(void);
extern GWI_HIDDEN bool gwi_rehearsal_is_on;
/* The first handle of physical memory. Handles are addresses of the driver's structures in a real run, so no handle of
 * the driver has these upper bits. */
#define GWI_PHYSICAL_FIRST ((uint64_t)0x7265 << 48)
/* True for a handle that gwi_rehearse_cuMemCreate() made. */
static inline bool gwi_physical_is_ours(uint64_t handle)
{
    return handle >> 48 == GWI_PHYSICAL_FIRST >> 48;
}
/* Remove a plain or managed block. Returns the host memory to unmap, or NULL. With the lock. */
void *gwi_block_drop(gwi_held *held, size_t *ret_bytes);
/* Remove a block of a pool. With the lock. */
void gwi_pool_block_drop(gwi_held *held);
/* Return the driver's handle of a pool; 0 for NULL. */
uint64_t gwi_pool_handle(const gwi_rehearsed_pool *pool);
/* Return unused memory of pools, as the driver does at a synchronisation. Call without the lock. */
void gwi_pools_synchronised(void);
/* Remove the memory of a destroyed context. Call without the lock. */
void gwi_held_context_gone(uint64_t context);
/* Remove the pools of a device whose primary context has ended. Call without the lock. */
void gwi_pools_device_gone(int device);
/* A context has ended, so the driver holds less for the process. Call without the lock. */
void gwi_cards_share_gone(void);
/* Return 0 if calls can be answered from the books: not before cuInit(), nor in a forked child. A context need not be
 * current. Call without the lock. */
int gwi_driver_state(void);
/* True if the range lies in live managed memory of the books. Call without the lock. */
bool gwi_is_managed(uint64_t address, uint64_t bytes);
/* steady.c: note a launch (`is_step`: of a step of an optimizer), or a copy from or to the host. */
void gwi_steady_launch(uint64_t function, bool is_step);
void gwi_steady_copy(uint64_t bytes, bool to_host);
/* steady.c: how many equal iterations are enough; 0: no number is. */
void gwi_steady_want(uint64_t iterations);
/* clock.c: let time pass on the card. */
void gwi_clock_pass(uint64_t ns);

#define GWI_REHEARSE(symbol) int gwi_rehearse_##symbol

#endif
