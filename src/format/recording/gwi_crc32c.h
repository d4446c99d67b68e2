/* CRC-32C (Castagnoli), the checksum that iSCSI and ext4 use. The result is the same on every processor. */
#ifndef GWI_CRC32C_H
#define GWI_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Extend the checksum `crc` by the given bytes and return the result. Pass 0 as `crc` in the first call. */
uint32_t gwi_crc32c(uint32_t crc, const void *data, size_t bytes);

/* Compute the same checksum from tables. Used on machines that lack the CRC instruction, and by the test. */
uint32_t gwi_crc32c_by_table(uint32_t crc, const void *data, size_t bytes);

#endif
