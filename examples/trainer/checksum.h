/* CRC-32 as in zlib, computed by zlib if the build has it. */
#ifndef TRAINER_CHECKSUM_H
#define TRAINER_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/* Update the checksum `sum` with more bytes. `sum` is 0 at the beginning. `data` may be NULL if `bytes` is 0. */
uint32_t checksum(uint32_t sum, const void *data, size_t bytes);
/* Compute the same checksum without zlib. */
uint32_t checksum_by_bits(uint32_t sum, const void *data, size_t bytes);

#endif
