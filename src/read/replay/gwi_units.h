/* PyTorch's fixed sizes, in bytes. */
#ifndef GWI_REPLAY_UNITS_H
#define GWI_REPLAY_UNITS_H

#include <stdint.h>

#define GWI_MIB           ((uint64_t)1 << 20)
#define GWI_UNIT          ((uint64_t)512) /* smallest block, and the unit of sizes */
#define GWI_SMALL_MAX     GWI_MIB         /* larger blocks are in the large pool */
#define GWI_SMALL_SEGMENT (2 * GWI_MIB)
#define GWI_LARGE_SEGMENT (20 * GWI_MIB) /* for blocks below GWI_OWN_SEGMENT */
#define GWI_OWN_SEGMENT   (10 * GWI_MIB) /* blocks of at least this size get a segment of their own ... */
#define GWI_OWN_ROUNDING  (2 * GWI_MIB)  /* ... which is a multiple of this */

/* The largest size that the replay accepts, so that sums of sizes do not overflow. */
#define GWI_BYTES_MAX ((uint64_t)1 << 56)

#endif
