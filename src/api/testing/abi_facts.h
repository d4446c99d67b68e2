/* Sizes, offsets and numbers of the driver's ABI, as one header defines them. A test compares our header with a
 * toolkit's cuda.h. */
#ifndef ABI_FACTS_H
#define ABI_FACTS_H

#include <stddef.h>

typedef struct abi_fact {
    const char *name; /* what `value` is, for example "sizeof CUmemLocation"; static */
    long long value;
} abi_fact;

extern const abi_fact abi_ours[], abi_theirs[];
extern const size_t abi_ours_count, abi_theirs_count;

#endif
