/* One step of a hash of 64 bits: start with any number, mix in one value after the other. For tables in memory, never
 * for what is written down. */
#ifndef GW_HASH_H
#define GW_HASH_H

#include <stdint.h>

static inline uint64_t gw_hash_mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

#endif
