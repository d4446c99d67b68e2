/* CRC-32, computed by zlib if the build has it: see checksum.h. */
#include "checksum.h"

#ifdef TRAINER_HAVE_ZLIB
#include <zlib.h>
#endif

uint32_t checksum_by_bits(uint32_t sum, const void *data, size_t bytes)
{
    const uint8_t *at = data;
    sum = ~sum;
    for (size_t i = 0; i < bytes; i++) {
        sum ^= at[i];
        for (int bit = 0; bit < 8; bit++)
            sum = sum >> 1 ^ (sum & 1 ? 0xEDB88320 : 0);
    }
    return ~sum;
}

uint32_t checksum(uint32_t sum, const void *data, size_t bytes)
{
    if (bytes == 0)
        return sum;
#ifdef TRAINER_HAVE_ZLIB
    return (uint32_t)crc32_z(sum, data, bytes);
#else
    return checksum_by_bits(sum, data, bytes);
#endif
}
