/* Computes CRC-32C with the processor's CRC instruction, or with a table if the processor has none. */
#include "gwi_layout.h"

#include <pthread.h>
#include <string.h>

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#endif

enum { POLYNOMIAL_REVERSED = 0x82f63b78 };

/* table[k][b]: what a byte with value b contributes to the CRC if k bytes of its group of eight come after it. */
static uint32_t table[8][256];
static pthread_once_t table_once = PTHREAD_ONCE_INIT;

static void make_table(void)
{
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t crc = b;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ ((crc & 1) ? (uint32_t)POLYNOMIAL_REVERSED : 0);
        table[0][b] = crc;
    }
    for (int k = 1; k < 8; k++)
        for (int b = 0; b < 256; b++)
            table[k][b] = (table[k - 1][b] >> 8) ^ table[0][table[k - 1][b] & 0xff];
}

uint32_t gwi_crc32c_by_table(uint32_t crc, const void *data, size_t bytes)
{
    const uint8_t *p = data;
    pthread_once(&table_once, make_table);
    crc = ~crc;
    for (; bytes >= 8; p += 8, bytes -= 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        word ^= crc;
        crc = 0;
        for (int k = 0; k < 8; k++)
            crc ^= table[7 - k][(word >> (8 * k)) & 0xff];
    }
    for (; bytes > 0; p++, bytes--)
        crc = (crc >> 8) ^ table[0][(crc ^ *p) & 0xff];
    return ~crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t by_instruction(uint32_t crc, const void *data, size_t bytes)
{
    const uint8_t *p = data;
    uint64_t crc64 = (uint32_t)~crc;
    for (; bytes >= 8; p += 8, bytes -= 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        crc64 = _mm_crc32_u64(crc64, word);
    }
    uint32_t crc32 = (uint32_t)crc64;
    for (; bytes > 0; p++, bytes--)
        crc32 = _mm_crc32_u8(crc32, *p);
    return ~crc32;
}
#elif defined(__ARM_FEATURE_CRC32)
static uint32_t by_instruction(uint32_t crc, const void *data, size_t bytes)
{
    const uint8_t *p = data;
    crc = ~crc;
    for (; bytes >= 8; p += 8, bytes -= 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        crc = __crc32cd(crc, word);
    }
    for (; bytes > 0; p++, bytes--)
        crc = __crc32cb(crc, *p);
    return ~crc;
}
#endif

uint32_t gwi_crc32c(uint32_t crc, const void *data, size_t bytes)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2"))
        return by_instruction(crc, data, bytes);
#elif defined(__ARM_FEATURE_CRC32)
    return by_instruction(crc, data, bytes);
#endif
    return gwi_crc32c_by_table(crc, data, bytes);
}
