/* A hash table of 32-bit values, such as indexes. The table stores the hashes. The caller stores the keys and compares
 * them.
 *
 * A bucket is one cache line with seven hashes and seven values. All seven hashes are compared at once. A loop with an
 * early exit would be mispredicted at every other event, which costs more than the memory access.
 *
 * If a bucket is full, a new value goes to the next bucket with a free lane. Each bucket counts the values that it
 * passed on. A search ends at a bucket whose count is 0. Erasing a value clears its lane and moves no other value. */
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

/* Marks a rarely called function, to keep its code apart from the code that runs at every event. */
#define GWI_RARE __attribute__((noinline, cold))

enum {
    GWI_BUCKET_LANES = 7,
    GWI_BUCKET_FULL = (1 << GWI_BUCKET_LANES) - 1, /* bit mask of all lanes */
    GWI_BUCKET_FILL = 3 /* the table grows when the average number of values per bucket reaches this */
};

typedef struct gwi_bucket {
    uint32_t hash[GWI_BUCKET_LANES];
    uint32_t used; /* bit mask of the occupied lanes */
    uint32_t value[GWI_BUCKET_LANES];
    uint32_t passed_count;
} gwi_bucket;
_Static_assert(sizeof(gwi_bucket) == 64, "a bucket is one cache line");

typedef struct gwi_table {
    gwi_bucket *bucket; /* owned; NULL if empty */
    uint32_t mask;      /* number of buckets - 1 */
    uint32_t room;      /* number of values that can still be added before the table grows */
} gwi_table;

typedef struct gwi_spot { /* a lane of a bucket; valid until the table changes */
    gwi_bucket *bucket;   /* NULL: not found */
    unsigned lane;
} gwi_spot;

static inline uint32_t gwi_hash(uint64_t key)
{
    key ^= key >> 29;
    key *= 0x9e3779b97f4a7c15u;
    return (uint32_t)(key >> 32);
}

/* Prefetch for reading and writing. Without the empty asm statement, gcc removes calls to this function, which seems to
 * have no effect. */
static inline void gwi_prefetch(const void *address)
{
    __builtin_prefetch(address, 1);
    __asm__ volatile("");
}

/* Allocate memory aligned to a cache line. A large block gets huge pages if the system has them. Free the memory with
 * free(). */
static inline void *gwi_big_alloc(size_t bytes)
{
    const size_t huge_bytes = 2u << 20;
    size_t step = bytes >= huge_bytes ? huge_bytes : 64, whole = (bytes + step - 1) / step * step;
    void *memory = aligned_alloc(step, whole);
    if (memory != NULL && step == huge_bytes)
        (void)madvise(memory, whole, MADV_HUGEPAGE); /* only an optimisation, so failure is ignored */
    return memory;
}

static inline void gwi_table_free(gwi_table *table)
{
    free(table->bucket);
    *table = (gwi_table){0};
}

/* Return a bit mask of the occupied lanes that contain `hash`. */
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
    return lanes & bucket->used;
}

static inline gwi_bucket *gwi_table_home(const gwi_table *table, uint32_t hash)
{
    return &table->bucket[hash & table->mask];
}

static inline gwi_bucket *gwi_table_after(const gwi_table *table, const gwi_bucket *bucket)
{
    return &table->bucket[(uint32_t)(bucket - table->bucket + 1) & table->mask];
}

static inline uint32_t gwi_spot_value(gwi_spot spot)
{
    return spot.bucket->value[spot.lane];
}

/* Return false only if no value has this hash. The result may be true even if none has it. Reads one cache line. */
static inline bool gwi_table_may_have(const gwi_table *table, uint32_t hash)
{
    if (table->bucket == NULL)
        return false;
    const gwi_bucket *home = gwi_table_home(table, hash);
    return (gwi_bucket_lanes(home, hash) | home->passed_count) != 0;
}

/* Find the value with this hash for which is(context, value) returns true. Otherwise, the result's bucket is NULL.
 * Inlined together with `is`. */
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

/* Return the first value in the bucket `home` with this hash. Without one, return the bucket's last lane: any present
 * or erased value of the table, or 0. */
static inline uint32_t gwi_bucket_guess(const gwi_bucket *home, uint32_t hash)
{
    return home->value[__builtin_ctz(gwi_bucket_lanes(home, hash) | 1u << (GWI_BUCKET_LANES - 1))];
}

static inline void gwi_table_fill(gwi_table *table, uint32_t hash, uint32_t value)
{
    gwi_bucket *bucket = gwi_table_home(table, hash);
    while (bucket->used == GWI_BUCKET_FULL) {
        bucket->passed_count++;
        bucket = gwi_table_after(table, bucket);
    }
    unsigned lane = (unsigned)__builtin_ctz(~bucket->used);
    bucket->used |= 1u << lane;
    bucket->hash[lane] = hash;
    bucket->value[lane] = value;
}

/* Double the number of buckets. Values keep their order within the lower and the upper half, so both tables are
 * accessed sequentially. Unused in some files that include this header. */
static GWI_RARE __attribute__((unused)) bool gwi_table_grow(gwi_table *table)
{
    size_t buckets = table->bucket == NULL ? 16 : ((size_t)table->mask + 1) * 2;
    gwi_table wider = {gwi_big_alloc(buckets * sizeof(gwi_bucket)), (uint32_t)(buckets - 1),
                       (uint32_t)(buckets - (table->bucket == NULL ? 0 : buckets / 2)) * GWI_BUCKET_FILL};
    if (wider.bucket == NULL)
        return false;
    memset(wider.bucket, 0, buckets * sizeof(gwi_bucket));
    for (size_t i = 0; table->bucket != NULL && i <= table->mask; i++) {
        const gwi_bucket *old = &table->bucket[i];
        for (unsigned lane = 0; lane < GWI_BUCKET_LANES; lane++) {
            if ((old->used >> lane & 1) != 0)
                gwi_table_fill(&wider, old->hash[lane], old->value[lane]);
        }
    }
    free(table->bucket);
    *table = wider;
    return true;
}

/* Add a value, even if another value has the same hash. If there is no memory, return false. */
static inline bool gwi_table_add(gwi_table *table, uint32_t hash, uint32_t value)
{
    if (table->room == 0 && !gwi_table_grow(table))
        return false;
    gwi_table_fill(table, hash, value);
    table->room--;
    return true;
}

static inline void gwi_table_erase(gwi_table *table, gwi_spot spot)
{
    uint32_t hash = spot.bucket->hash[spot.lane];
    for (gwi_bucket *at = gwi_table_home(table, hash); at != spot.bucket; at = gwi_table_after(table, at))
        at->passed_count--;
    spot.bucket->used &= ~(1u << spot.lane);
    table->room++;
}

#endif
