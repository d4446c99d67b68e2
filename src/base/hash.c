/* Computes SHA-256 (FIPS 180-4). The names of the variables are those of the standard. */
#include "gw_hash.h"

#include <stdio.h>
#include <string.h>

static const uint32_t k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t x, unsigned n)
{
    return x >> n | x << (32 - n);
}

/* Return variable `n` of round i (0: a, 7: h). They are not moved; instead, the index of the first one counts down. */
static uint32_t *value(uint32_t s[8], unsigned i, unsigned n)
{
    return &s[(n - i) % 8];
}

static void take_block(uint32_t state[8], const unsigned char *block)
{
    uint32_t w[64], s[8];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
               block[4 * i + 3];
    for (int i = 16; i < 64; i++)
        w[i] = w[i - 16] + (rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3) + w[i - 7] +
               (rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10);
    memcpy(s, state, sizeof s);
    for (unsigned i = 0; i < 64; i++) {
        uint32_t a = *value(s, i, 0), b = *value(s, i, 1), c = *value(s, i, 2), e = *value(s, i, 4);
        uint32_t *h = value(s, i, 7);
        *h += (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & *value(s, i, 5)) ^ (~e & *value(s, i, 6))) + k[i] +
              w[i];
        *value(s, i, 3) += *h;
        *h += (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    }
    for (int i = 0; i < 8; i++)
        state[i] += s[i];
}

char *gw_sha256(const void *data, size_t bytes, char out[GW_SHA256_TEXT_MAX])
{
    uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    unsigned char last[128] = {0}; /* the rest of the data, padding, and the number of bits */
    size_t rest = bytes % 64, last_bytes = rest < 56 ? 64 : 128;
    const unsigned char *end = (const unsigned char *)data + bytes - rest;
    for (const unsigned char *block = data; block < end; block += 64)
        take_block(state, block);
    memcpy(last, end, rest);
    last[rest] = 0x80;
    for (size_t i = 0; i < 8; i++)
        last[last_bytes - 1 - i] = (unsigned char)((uint64_t)bytes * 8 >> 8 * i);
    for (size_t at = 0; at < last_bytes; at += 64)
        take_block(state, last + at);
    for (size_t i = 0; i < 8; i++)
        snprintf(out + 8 * i, 9, "%08x", (unsigned)state[i]);
    return out;
}
