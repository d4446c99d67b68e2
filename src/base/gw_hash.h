/* One step of a 64-bit hash. Start with any number, and mix in one value after another. Use it only for tables in
 * memory. Never write a hash to a file. */
#ifndef GW_HASH_H
#define GW_HASH_H

#include <stdint.h>

/* Return `hash` with `value` mixed in. */
static inline uint64_t gw_hash_mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

#endif
