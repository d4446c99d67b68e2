/* Two 64-bit hashes. gw_hash_mix() is for tables in memory and may change: never write its result to a file.
 * gw_hash_bytes() is FNV-1a, whose results may be stored. */
#ifndef GW_HASH_H
#define GW_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Return `hash` with `value` mixed in. */
static inline uint64_t gw_hash_mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

/* The value from which gw_hash_bytes() starts. */
#define GW_HASH_START UINT64_C(0xcbf29ce484222325)

/* One step of FNV-1a. The value is one byte, or a number that needs no better hash. */
static inline uint64_t gw_hash_step(uint64_t hash, uint64_t value)
{
    return (hash ^ value) * UINT64_C(0x100000001b3);
}

/* Return the FNV-1a hash of `count` bytes, continued from `hash`. */
static inline uint64_t gw_hash_bytes(uint64_t hash, const void *bytes, size_t count)
{
    const unsigned char *byte = bytes;
    for (size_t i = 0; i < count; i++)
        hash = gw_hash_step(hash, byte[i]);
    return hash;
}

#endif
