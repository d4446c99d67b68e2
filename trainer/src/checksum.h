/* CRC-32 as in zlib, computed by zlib if the build has it. */
#ifndef TRAINER_CHECKSUM_H
#define TRAINER_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/* Return the checksum `sum`, updated with more bytes. Pass 0 as `sum` with the first bytes. `data` may be NULL if
 * `bytes` is 0. */
uint32_t checksum(uint32_t sum, const void *data, size_t bytes);
/* Compute the same checksum without zlib. */
uint32_t checksum_by_bits(uint32_t sum, const void *data, size_t bytes);

#endif
