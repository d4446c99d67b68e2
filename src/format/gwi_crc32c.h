/* CRC-32C (Castagnoli), as in iSCSI and ext4. The result is the same on every processor. */
#ifndef GWI_CRC32C_H
#define GWI_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Continue `crc` (0 at the start) over `bytes` bytes. */
uint32_t gwi_crc32c(uint32_t crc, const void *data, size_t bytes);

/* The same with tables only, for machines without the instruction and for the test. */
uint32_t gwi_crc32c_by_table(uint32_t crc, const void *data, size_t bytes);

#endif
