/* Compare the books with a plain model over a million random calls: one bit for each step of 512 B of the addresses,
 * and sums. The model checks each call: a block covers no other block, and the card holds the pages, chunks and
 * physical memory that the rules name, to the byte. A second test does the same from several threads, each of which
 * holds the caller's lock during a call. */
#include "gw_unit_test.h"
#include <stdio.h>
#include <string.h>

#include <pthread.h>

#include "gw_pages.h"
#include "gw_pool.h"

#define MIB   ((uint64_t)1 << 20)
#define CHUNK GW_PLACES_CHUNK_BYTES
#define STEP  GW_SMALL_STEP

/* Checks that also work in threads, where cmocka's cannot jump. */
#define check(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: after %u calls: %s\n", __FILE__, __LINE__, model.call_count, #condition);          \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

static const uint64_t card_bytes = 2048 * MIB, pages_base = (uint64_t)1 << 40, pages_bytes = 8192 * MIB,
                      pool_bytes = 4096 * MIB;

enum { POOLS = 3, SLOTS = 3000, CALLS = 1000000, THREADS = 4 };

typedef struct block {
    uint64_t base, bytes; /* bytes 0: the slot is free */
    gw_small_page *page;
    int pool; /* -1: plain memory */
} block;

/* What the model knows. Bits and counts are kept by the test alone. */
static struct {
    unsigned call_count, refused_count;
    uint64_t free_bytes; /* as the books have taken and given */
    uint64_t held_bytes; /* as the rules say */
    uint64_t *used;      /* one bit for each step of the addresses of pages and pools */
    uint16_t *small;     /* small blocks in each page of 2 MiB */
    unsigned *uses[POOLS];
    bool *is_held[POOLS];
    uint64_t live[POOLS]; /* bytes of blocks, as requested */
    uint64_t reserved[POOLS], reserved_high[POOLS], live_high[POOLS];
} model;

static gw_pages pages;
static gw_pool pools[POOLS];

static bool card_take(void *data, uint64_t bytes)
{
    if (model.free_bytes < bytes)
        return false;
    model.free_bytes -= bytes;
    return true;
}

static void card_give(void *data, uint64_t bytes)
{
    model.free_bytes += bytes;
}

static uint64_t up(uint64_t bytes, uint64_t step)
{
    return (bytes + step - 1) / step * step;
}

static uint64_t pool_base(int pool)
{
    return pages_base + pages_bytes + (uint64_t)pool * pool_bytes;
}

static void begin(void)
{
    uint64_t steps = (pages_bytes + POOLS * pool_bytes) / STEP;
    memset(&model, 0, sizeof model);
    memset(&pages, 0, sizeof pages);
    memset(pools, 0, sizeof pools);
    model.free_bytes = card_bytes;
    model.used = calloc((size_t)(steps / 64), sizeof *model.used);
    model.small = calloc((size_t)(pages_bytes / GW_PAGE_BYTES), sizeof *model.small);
    check(model.used != NULL && model.small != NULL);
    pages.take = card_take;
    pages.give = card_give;
    check(gw_places_add(&pages.addresses, pages_base, pages_bytes));
    for (int i = 0; i < POOLS; i++) {
        pools[i].take = card_take;
        pools[i].give = card_give;
        pools[i].bytes_max = i == 2 ? 256 * MIB : 0;
        check(gw_pool_begin(&pools[i], pool_base(i), pool_bytes));
        model.uses[i] = calloc((size_t)(pool_bytes / CHUNK), sizeof *model.uses[i]);
        model.is_held[i] = calloc((size_t)(pool_bytes / CHUNK), sizeof *model.is_held[i]);
        check(model.uses[i] != NULL && model.is_held[i] != NULL);
    }
}

static void end(void)
{
    gw_places_free(&pages.addresses);
    for (int i = 0; i < POOLS; i++) {
        gw_pool_end(&pools[i]);
        free(model.uses[i]);
        free(model.is_held[i]);
    }
    free(model.used);
    free(model.small);
}

/* Set or clear the bits of a block. All of them must have been the opposite. */
static void mark(uint64_t base, uint64_t bytes, bool used)
{
    uint64_t step = (base - pages_base) / STEP, end_step = step + up(bytes, STEP) / STEP;
    for (; step < end_step; step++) {
        bool whole = step % 64 == 0 && end_step - step >= 64;
        uint64_t bits = whole ? UINT64_MAX : (uint64_t)1 << step % 64;
        check((model.used[step / 64] & bits) == (used ? 0 : bits));
        model.used[step / 64] ^= bits;
        step += whole ? 63 : 0;
    }
}

/* --- plain memory ---------------------------------------------------------------------------------------- */

static void plain_model(const block *b, bool alloc)
{
    check(b->base % STEP == 0 && b->base >= pages_base && b->base + b->bytes <= pages_base + pages_bytes);
    mark(b->base, b->bytes, alloc);
    if (b->bytes > GW_SMALL_BYTES_MAX) {
        uint64_t own = up(b->bytes, GW_PAGE_BYTES);
        check(b->base % GW_PAGE_BYTES == 0 && b->page == NULL);
        model.held_bytes = alloc ? model.held_bytes + own : model.held_bytes - own;
        return;
    }
    uint64_t page = (b->base - pages_base) / GW_PAGE_BYTES;
    check(b->page != NULL && (b->base + b->bytes - 1 - pages_base) / GW_PAGE_BYTES == page);
    if (alloc && model.small[page]++ == 0)
        model.held_bytes += GW_PAGE_BYTES;
    if (!alloc && --model.small[page] == 0)
        model.held_bytes -= GW_PAGE_BYTES;
}

static bool plain_alloc(block *b)
{
    uint64_t needed = b->bytes > GW_SMALL_BYTES_MAX ? up(b->bytes, GW_PAGE_BYTES) : GW_PAGE_BYTES;
    if (!gw_pages_alloc(&pages, b->bytes, &b->base, &b->page)) {
        check(model.free_bytes < needed); /* addresses are four times the card, and never the reason */
        return false;
    }
    plain_model(b, true);
    return true;
}

static void plain_free(block *b)
{
    plain_model(b, false);
    gw_pages_free(&pages, b->base, b->bytes, b->page);
}

/* --- pools ----------------------------------------------------------------------------------------------- */

static void chunk_set(int pool, uint64_t chunk, bool held)
{
    model.is_held[pool][chunk] = held;
    model.held_bytes = held ? model.held_bytes + CHUNK : model.held_bytes - CHUNK;
    model.reserved[pool] = held ? model.reserved[pool] + CHUNK : model.reserved[pool] - CHUNK;
    if (model.reserved[pool] > model.reserved_high[pool])
        model.reserved_high[pool] = model.reserved[pool];
}

static void pool_model(const block *b, bool alloc)
{
    uint64_t first = (b->base - pool_base(b->pool)) / CHUNK;
    uint64_t last = (b->base - pool_base(b->pool) + up(b->bytes, STEP) - 1) / CHUNK;
    check(b->base % STEP == 0 && b->base >= pool_base(b->pool) && last < pool_bytes / CHUNK);
    mark(b->base, b->bytes, alloc);
    for (uint64_t chunk = first; chunk <= last; chunk++) {
        model.uses[b->pool][chunk] += alloc ? 1 : -1U;
        if (alloc && !model.is_held[b->pool][chunk])
            chunk_set(b->pool, chunk, true);
    }
    model.live[b->pool] = alloc ? model.live[b->pool] + b->bytes : model.live[b->pool] - b->bytes;
    if (model.live[b->pool] > model.live_high[b->pool])
        model.live_high[b->pool] = model.live[b->pool];
}

static bool pool_alloc(block *b)
{
    const gw_pool *pool = &pools[b->pool];
    if (!gw_pool_alloc(&pools[b->pool], b->bytes, &b->base)) {
        uint64_t most = up(b->bytes, CHUNK) + CHUNK; /* of all chunks that the block can touch */
        check(model.free_bytes < most || (pool->bytes_max != 0 && model.reserved[b->pool] + most > pool->bytes_max));
        return false;
    }
    pool_model(b, true);
    check(pool->bytes_max == 0 || pool->reserved <= pool->bytes_max);
    return true;
}

static void pool_free(block *b)
{
    gw_pool_unuse(&pools[b->pool], b->bytes);
    gw_pool_free(&pools[b->pool], b->base, b->bytes);
    pool_model(b, false);
}

static void pool_trim(int pool, uint64_t keep)
{
    gw_pool_trim(&pools[pool], keep);
    for (uint64_t chunk = pool_bytes / CHUNK; chunk-- > 0 && model.reserved[pool] > keep;)
        if (model.is_held[pool][chunk] && model.uses[pool][chunk] == 0 && model.reserved[pool] - CHUNK >= keep)
            chunk_set(pool, chunk, false);
}

/* --- random calls ---------------------------------------------------------------------------------------- */

static uint32_t next(uint32_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 17;
    *seed ^= *seed << 5;
    return *seed;
}

/* Sizes as programs ask for them: many small ones, some of whole pages, few large ones; and the limits themselves. */
static uint64_t size(uint32_t *seed)
{
    static const uint64_t edges[] = {1,           511,     512,         513,           MIB - 1,   MIB,
                                     MIB + 1,     2 * MIB, 2 * MIB + 1, CHUNK - STEP,  CHUNK - 1, CHUNK,
                                     CHUNK + 512, 3 * MIB, 34 * MIB,    CHUNK * 2 + 1, 8 * MIB,   MIB / 2};
    uint32_t kind = next(seed) % 64;
    if (kind < 8)
        return edges[next(seed) % (sizeof edges / sizeof *edges)];
    if (kind < 44)
        return 1 + next(seed) % 20000;
    if (kind < 58)
        return 1 + next(seed) % MIB;
    return 1 + next(seed) % (kind == 63 ? 100 * MIB : 6 * MIB);
}

static void compare(int pool)
{
    check(model.free_bytes == card_bytes - model.held_bytes);
    if (pool < 0)
        return;
    check(pools[pool].used == model.live[pool] && pools[pool].used_high == model.live_high[pool]);
    check(pools[pool].reserved == model.reserved[pool] && pools[pool].reserved_high == model.reserved_high[pool]);
}

/* Free the block of a slot, or allocate one there. */
static void one_call(block *slots, unsigned slot_count, uint32_t *seed)
{
    block *b = &slots[next(seed) % slot_count];
    uint32_t kind = next(seed) % 1000;
    model.call_count++;
    if (kind < 5) {
        int pool = (int)(next(seed) % POOLS);
        pool_trim(pool, next(seed) % 3 == 0 ? 0 : next(seed) % (400 * MIB));
        compare(pool);
        return;
    }
    int pool = b->bytes != 0 ? b->pool : (int)(next(seed) % (2 * POOLS)) - POOLS;
    if (b->bytes != 0) {
        (b->pool < 0 ? plain_free : pool_free)(b);
        b->bytes = 0;
    } else {
        b->pool = pool < 0 ? -1 : pool;
        b->bytes = size(seed);
        if (!(b->pool < 0 ? plain_alloc : pool_alloc)(b)) {
            b->bytes = 0;
            model.refused_count++;
        }
    }
    compare(pool);
}

static void free_all(block *slots, unsigned slot_count)
{
    for (unsigned i = 0; i < slot_count; i++)
        if (slots[i].bytes != 0) {
            (slots[i].pool < 0 ? plain_free : pool_free)(&slots[i]);
            slots[i].bytes = 0;
        }
}

/* Nothing is lost: the card and all addresses are back. */
static void expect_all_back(void)
{
    for (int i = 0; i < POOLS; i++) {
        pool_trim(i, 0);
        compare(i);
        check(pools[i].used == 0 && pools[i].reserved == 0);
        check(pools[i].addresses.count == 1 && gw_runs_largest(&pools[i].addresses) == pool_bytes);
    }
    check(model.free_bytes == card_bytes);
    check(pages.addresses.space.count == 1 && gw_runs_largest(&pages.addresses.space) == pages_bytes);
    check(pages.addresses.chunks.count == 0 && pages.addresses.newest == NULL);
    for (int i = 0; i < GW_PAGE_BINS; i++)
        check(pages.bins[i].first == NULL && pages.bins[i].last == NULL);
}

GW_TEST(test_million_calls)
{
    static block slots[SLOTS];
    uint32_t seed = 2463534242u;
    memset(slots, 0, sizeof slots);
    begin();
    while (model.call_count < CALLS)
        one_call(slots, SLOTS, &seed);
    check(model.refused_count > 1000); /* the card was full now and then */
    free_all(slots, SLOTS);
    expect_all_back();
    end();
}

/* --- threads --------------------------------------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *calls_of_thread(void *number)
{
    static block slots[THREADS][SLOTS / THREADS];
    uint32_t seed = 88675123u + (uint32_t)(uintptr_t)number;
    block *own = slots[(uintptr_t)number];
    for (unsigned i = 0; i < CALLS / 5 / THREADS; i++) {
        pthread_mutex_lock(&lock);
        one_call(own, SLOTS / THREADS, &seed);
        pthread_mutex_unlock(&lock);
    }
    pthread_mutex_lock(&lock);
    free_all(own, SLOTS / THREADS);
    pthread_mutex_unlock(&lock);
    return NULL;
}

GW_TEST(test_threads)
{
    pthread_t threads[THREADS];
    begin();
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, calls_of_thread, (void *)i), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    expect_all_back();
    end();
}

/* --- addresses of destroyed contexts --------------------------------------------------------------------- */

/* Addresses that are retired are handed out again only when there are no others. */
GW_TEST(test_retired)
{
    enum { COUNT = 64 };
    uint64_t first[COUNT], again;
    gw_small_page *page;
    begin();
    for (int i = 0; i < COUNT; i++)
        assert_true(gw_pages_alloc(&pages, CHUNK, &first[i], &page));
    pages.retiring = true;
    for (int i = 0; i < COUNT; i++)
        gw_pages_free(&pages, first[i], CHUNK, NULL);
    pages.retiring = false;
    assert_int_equal(model.free_bytes, card_bytes);
    for (uint64_t k = 0; k < pages_bytes / CHUNK - COUNT; k++) {
        assert_true(gw_pages_alloc(&pages, CHUNK, &again, &page));
        for (int i = 0; i < COUNT; i++)
            assert_int_not_equal(again, first[i]);
        model.free_bytes += CHUNK; /* as if the card were as large as the addresses */
    }
    assert_true(gw_pages_alloc(&pages, CHUNK, &again, &page));
    bool was_retired = false;
    for (int i = 0; i < COUNT; i++)
        was_retired = was_retired || again == first[i];
    assert_true(was_retired);
    /* The retired blocks were neighbours in chunks of their own: all of them can be used again. */
    for (int i = 1; i < COUNT; i++) {
        model.free_bytes += CHUNK;
        assert_true(gw_pages_alloc(&pages, CHUNK, &again, &page));
    }
    gw_runs_free(&pages.retired);
    end();
}

GW_TEST_MAIN(NULL, NULL)
