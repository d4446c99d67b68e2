/* Two 64-bit hashes, and SHA-256. gw_hash_mix() may change: use it only for tables in memory. gw_hash_bytes() is
 * FNV-1a; its results may be stored. */
#ifndef GW_HASH_H
#define GW_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Return a new hash, computed from `hash` and `value`. */
static inline uint64_t gw_hash_mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

/* The `hash` to pass to the first gw_hash_bytes() or gw_hash_step(). */
#define GW_HASH_START UINT64_C(0xcbf29ce484222325)

/* Return the hash after one step of FNV-1a. `value` is a byte, or a larger number where a weak hash is enough. */
static inline uint64_t gw_hash_step(uint64_t hash, uint64_t value)
{
    return (hash ^ value) * UINT64_C(0x100000001b3);
}

/* Return the FNV-1a hash of `count` bytes. `hash` is GW_HASH_START, or the hash of the bytes before them. */
static inline uint64_t gw_hash_bytes(uint64_t hash, const void *bytes, size_t count)
{
    const unsigned char *byte = bytes;
    for (size_t i = 0; i < count; i++)
        hash = gw_hash_step(hash, byte[i]);
    return hash;
}

/* Compute the SHA-256 of the data, as 64 lower-case hexadecimal digits. Only who knows the data has this hash, and
 * other data with it cannot be found. Returns `out`. */
enum { GW_SHA256_TEXT_MAX = 65 };
char *gw_sha256(const void *data, size_t bytes, char out[GW_SHA256_TEXT_MAX]);

#endif
