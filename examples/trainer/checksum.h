/* CRC-32 as zlib's, by zlib where the build has it. */
#ifndef TRAINER_CHECKSUM_H
#define TRAINER_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/* Go on with `sum`, 0 at the beginning. `data` may be NULL where there are no bytes. */
uint32_t checksum(uint32_t sum, const void *data, size_t bytes);
/* Without zlib; the same numbers. */
uint32_t checksum_by_bits(uint32_t sum, const void *data, size_t bytes);

#endif
