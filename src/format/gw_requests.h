/* The text of an ALLOCATOR_REQUESTS event: consecutive requests of an allocator, each as six numbers. Writer and reader
 * are both here, as static inline functions without allocation.
 *
 * A number is written in digits of five bits, lowest first, as letters of base64: a digit from the upper half of the
 * alphabet is followed by another one, a digit from the lower half is the last. So the text holds no zero byte, and a
 * usual request takes ten.
 *
 * The numbers: twice the bytes / 512, or twice the bytes plus one if 512 does not divide them; freed_after;
 * microseconds since the previous request; launches since then; waits since then, both modulo 2^32; the site. For the
 * first request of a text, launches and waits count from 0, and its time is 0.
 *
 * An example: a request of 2 MiB, alive, 70 us after the previous one, with 3 launches, no wait and no site: 8192
 * "ggI", 0 "A", 70 "mC", 3 "D", 0 "A", 0 "A". */
#ifndef GW_REQUESTS_H
#define GW_REQUESTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GW_REQUEST_NUMBERS = 6, GW_REQUEST_TEXT_MAX = GW_REQUEST_NUMBERS * 13, GW_REQUEST_UNIT = 512 };

typedef struct gw_packed_request {
    uint64_t bytes;
    uint64_t freed_after; /* 0: not freed; otherwise 1 + the number of requests between this request and its free */
    uint64_t t_us;        /* microseconds since the first request of the text */
    uint32_t launches, waits;
    uint32_t site; /* 0: unknown */
} gw_packed_request;

/* Write a number in base64 digits. Returns the number of bytes; writes no terminator. */
static inline size_t gw_number_write(char *out, uint64_t value)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t n = 0;
    for (; value >= 32; value >>= 5)
        out[n++] = letters[32 + (value & 31)];
    out[n++] = letters[value];
    return n;
}

/* The value of a base64 letter, or -1. */
static inline int gw_digit_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '+')
        return 62;
    if (c == '/')
        return 63;
    return -1;
}

/* Read a number and move *at behind it. Returns false if there is no valid number; *at is then undefined. */
static inline bool gw_number_read(const char **at, uint64_t *ret_value)
{
    uint64_t value = 0;
    for (unsigned bits = 0; bits < 65; bits += 5) {
        int digit = gw_digit_of(**at);
        if (digit < 0)
            return false;
        (*at)++;
        value |= (uint64_t)(digit & 31) << bits;
        if (digit < 32) {
            *ret_value = value;
            return true;
        }
    }
    return false;
}

/* Append `request` to a text. `before` is the previous request, all zero for the first. Returns the number of bytes,
 * at most GW_REQUEST_TEXT_MAX. Writes no terminator. */
static inline size_t gw_request_write(char *out, const gw_packed_request *request, const gw_packed_request *before)
{
    size_t n = 0;
    bool whole = request->bytes % GW_REQUEST_UNIT == 0;
    n += gw_number_write(out + n, whole ? request->bytes / GW_REQUEST_UNIT * 2 : request->bytes * 2 + 1);
    n += gw_number_write(out + n, request->freed_after);
    n += gw_number_write(out + n, request->t_us > before->t_us ? request->t_us - before->t_us : 0);
    n += gw_number_write(out + n, (uint32_t)(request->launches - before->launches));
    n += gw_number_write(out + n, (uint32_t)(request->waits - before->waits));
    n += gw_number_write(out + n, request->site);
    return n;
}

/* Read the next request of a text. On input `request` holds the previous one, all zero for the first. Returns false
 * at the end of the text or if the rest is damaged. */
static inline bool gw_request_read(const char **at, gw_packed_request *request)
{
    uint64_t number[GW_REQUEST_NUMBERS];
    for (int i = 0; i < GW_REQUEST_NUMBERS; i++)
        if (!gw_number_read(at, &number[i]))
            return false;
    request->bytes = number[0] % 2 != 0 ? number[0] / 2 : number[0] / 2 * GW_REQUEST_UNIT;
    request->freed_after = number[1];
    request->t_us += number[2];
    request->launches += (uint32_t)number[3];
    request->waits += (uint32_t)number[4];
    request->site = (uint32_t)number[5];
    return true;
}

#endif
