/* Finds a setting that would have let a failed run live (`gpuwhy run --cure`). */
#ifndef GWI_CURE_H
#define GWI_CURE_H

#include "gw_verdict.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct gwi_cure {
    char name[64], value[192];  /* an environment variable */
    uint64_t peak_bytes;        /* expected peak of the reserved memory with the setting */
    uint64_t peak_bytes_before; /* what the failed run would have needed without it */
} gwi_cure;

/* Find a setting with which the recorded allocations would have fitted. `recording` is the path of the recording or of
 * its run folder, and `verdict` the verdict on it. Returns false if none is known. */
typedef bool gwi_cure_find_fn(const char *recording, const gw_verdict *verdict, gwi_cure *ret_cure);

/* The search in use: a replay of PyTorch's allocator. */
extern gwi_cure_find_fn *const gwi_cure_find;

#endif
