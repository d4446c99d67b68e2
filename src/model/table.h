/* An index: which of the caller's things have a key with this hash? The keys stay with the things.
 *
 * A bucket is one cache line of seven hashes and seven values, and all seven are compared at once: a loop that goes on
 * until it finds something would be guessed wrong by the processor at every other event, and cost more than the memory.
 * What finds its bucket full goes to the next one, and each bucket counts what passed it by: where nothing did, nothing
 * further on needs a look. Taking something out clears its place and leaves everything else where it is. */
#ifndef GWI_TABLE_H
#define GWI_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum { GWI_BUCKET_LANES = 7, GWI_BUCKET_FILL = 3 }; /* grown when the buckets hold so many each on average */

typedef struct gwi_bucket {
    uint32_t hash[GWI_BUCKET_LANES + 1]; /* 0: empty; the last one is not used */
    uint32_t value[GWI_BUCKET_LANES];
    uint32_t passed_count;
} gwi_bucket;
_Static_assert(sizeof(gwi_bucket) == 64, "a bucket is one cache line");

typedef struct gwi_table {
    gwi_bucket *bucket; /* owned; NULL while empty */
    uint32_t mask;      /* buckets - 1 */
    uint32_t count;
} gwi_table;

typedef struct gwi_spot { /* good until the table changes */
    gwi_bucket *bucket;   /* NULL: nowhere */
    unsigned lane;
} gwi_spot;

/* Never 0. */
static inline uint32_t gwi_hash(uint64_t key)
{
    key ^= key >> 29;
    key *= 0x9e3779b97f4a7c15u;
    return (uint32_t)(key >> 32) | 1;
}

/* It will be read and written soon. A function that only fetches has no effect in the compiler's eyes, and gcc drops
 * the calls of such functions: the empty statement stands for one. */
static inline void gwi_prefetch(const void *address)
{
    __builtin_prefetch(address, 1);
    __asm__ volatile("");
}

/* Memory that begins at a cache line, on huge pages where it is large and the system has them. Freed by free(). */
static inline void *gwi_big_alloc(size_t bytes)
{
    const size_t huge_bytes = 2u << 20;
    size_t step = bytes >= huge_bytes ? huge_bytes : 64, whole = (bytes + step - 1) / step * step;
    void *memory = aligned_alloc(step, whole);
    if (memory != NULL && step == huge_bytes)
        (void)madvise(memory, whole, MADV_HUGEPAGE); /* a wish */
    return memory;
}

static inline void gwi_table_free(gwi_table *table)
{
    free(table->bucket);
    *table = (gwi_table){0};
}

/* The lanes that hold `hash`, as bits. */
static inline unsigned gwi_bucket_lanes(const gwi_bucket *bucket, uint32_t hash)
{
    unsigned lanes = 0;
#ifdef __SSE2__
    __m128i wanted = _mm_set1_epi32((int)hash);
    __m128i low = _mm_cmpeq_epi32(_mm_load_si128((const __m128i *)&bucket->hash[0]), wanted);
    __m128i high = _mm_cmpeq_epi32(_mm_load_si128((const __m128i *)&bucket->hash[4]), wanted);
    lanes = (unsigned)_mm_movemask_epi8(_mm_packs_epi16(_mm_packs_epi32(low, high), _mm_setzero_si128()));
#else
    for (unsigned i = 0; i < GWI_BUCKET_LANES; i++)
        lanes |= (unsigned)(bucket->hash[i] == hash) << i;
#endif
    return lanes & ((1u << GWI_BUCKET_LANES) - 1);
}

static inline gwi_bucket *gwi_table_home(const gwi_table *table, uint32_t hash)
{
    return &table->bucket[hash >> 1 & table->mask];
}

static inline gwi_bucket *gwi_table_after(const gwi_table *table, const gwi_bucket *bucket)
{
    return &table->bucket[(uint32_t)(bucket - table->bucket + 1) & table->mask];
}

static inline uint32_t gwi_spot_value(gwi_spot spot)
{
    return spot.bucket->value[spot.lane];
}

/* The one of those with `hash` of which `is(context, value)` holds. Inline, so that `is` is no call. */
static inline __attribute__((always_inline)) gwi_spot gwi_table_find(const gwi_table *table, uint32_t hash,
                                                                     bool (*is)(const void *context, uint32_t value),
                                                                     const void *context)
{
    if (table->bucket == NULL)
        return (gwi_spot){NULL, 0};
    for (gwi_bucket *bucket = gwi_table_home(table, hash);; bucket = gwi_table_after(table, bucket)) {
        for (unsigned lanes = gwi_bucket_lanes(bucket, hash); lanes != 0; lanes &= lanes - 1) {
            unsigned lane = (unsigned)__builtin_ctz(lanes);
            if (is(context, bucket->value[lane]))
                return (gwi_spot){bucket, lane};
        }
        if (bucket->passed_count == 0)
            return (gwi_spot){NULL, 0};
    }
}

/* The hash will be looked for soon. */
static inline void gwi_table_prefetch(const gwi_table *table, uint32_t hash)
{
    if (table->bucket != NULL)
        gwi_prefetch(gwi_table_home(table, hash));
}

/* The value that is most likely found for `hash`; any value when there is none. The table must not be empty. */
static inline uint32_t gwi_table_guess(const gwi_table *table, uint32_t hash)
{
    const gwi_bucket *home = gwi_table_home(table, hash);
    return home->value[__builtin_ctz(gwi_bucket_lanes(home, hash) | 1u << (GWI_BUCKET_LANES - 1))];
}

static inline void gwi_table_fill(gwi_table *table, uint32_t hash, uint32_t value)
{
    gwi_bucket *bucket = gwi_table_home(table, hash);
    unsigned empty;
    while ((empty = gwi_bucket_lanes(bucket, 0)) == 0) {
        bucket->passed_count++;
        bucket = gwi_table_after(table, bucket);
    }
    unsigned lane = (unsigned)__builtin_ctz(empty);
    bucket->hash[lane] = hash;
    bucket->value[lane] = value;
}

/* In the order of the old table, which is that of two places in the new one: no jumping about in memory. */
static inline bool gwi_table_grow(gwi_table *table)
{
    size_t buckets = table->bucket == NULL ? 16 : ((size_t)table->mask + 1) * 2;
    gwi_table wider = {gwi_big_alloc(buckets * sizeof(gwi_bucket)), (uint32_t)(buckets - 1), table->count};
    if (wider.bucket == NULL)
        return false;
    memset(wider.bucket, 0, buckets * sizeof(gwi_bucket));
    for (size_t i = 0; table->bucket != NULL && i <= table->mask; i++) {
        const gwi_bucket *old = &table->bucket[i];
        for (unsigned lane = 0; lane < GWI_BUCKET_LANES; lane++) {
            if (old->hash[lane] != 0)
                gwi_table_fill(&wider, old->hash[lane], old->value[lane]);
        }
    }
    free(table->bucket);
    *table = wider;
    return true;
}

/* One more, whether there is another of that hash or not. False: no memory. */
static inline bool gwi_table_add(gwi_table *table, uint32_t hash, uint32_t value)
{
    bool full = table->bucket == NULL || table->count / GWI_BUCKET_FILL > table->mask;
    if (full && !gwi_table_grow(table))
        return false;
    gwi_table_fill(table, hash, value);
    table->count++;
    return true;
}

static inline void gwi_table_erase(gwi_table *table, gwi_spot spot)
{
    uint32_t *hash = &spot.bucket->hash[spot.lane];
    for (gwi_bucket *at = gwi_table_home(table, *hash); at != spot.bucket; at = gwi_table_after(table, at))
        at->passed_count--;
    *hash = 0;
    table->count--;
}

#endif
