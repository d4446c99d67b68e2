/* The text of an ALLOCATOR_REQUESTS event: consecutive requests to an allocator, six numbers each.
 *
 * A number is written in base64 letters, five bits per letter, lowest bits first. A letter from the upper half of the
 * alphabet means that another letter follows. So the text has no zero bytes, and a typical request takes ten bytes.
 *
 * The six numbers of a request:
 * - size: 2 * (bytes / 512); if bytes is no multiple of 512, 2 * bytes + 1
 * - freed_after (see gw_packed_request)
 * - microseconds since the previous request
 * - launches since the previous request, modulo 2^32
 * - waits since the previous request, modulo 2^32
 * - call site; 0: unknown
 *
 * In the first request of a text, launches and waits are the process's totals so far, and the time is 0.
 *
 * Example: a request of 2 MiB, not freed, 70 us after the previous one, with 3 launches, no wait and no site. The
 * numbers and their letters: 8192 "ggI", 0 "A", 70 "mC", 3 "D", 0 "A", 0 "A". */
#ifndef GW_REQUESTS_H
#define GW_REQUESTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GW_REQUEST_NUMBERS = 6, GW_REQUEST_TEXT_MAX = GW_REQUEST_NUMBERS * 13, GW_REQUEST_UNIT = 512 };

typedef struct gw_packed_request {
    uint64_t bytes;
    uint64_t freed_after; /* 0: not freed; otherwise 1 + the number of requests between this request and the free of its
                             block */
    uint64_t t_us;        /* microseconds since the first request of the text */
    uint32_t launches, waits;
    uint32_t site; /* 0: unknown */
} gw_packed_request;

/* Write a number in base64 letters. Returns the number of bytes; writes no terminator. */
static inline size_t gw_number_write(char *out, uint64_t value)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t n = 0;
    for (; value >= 32; value >>= 5)
        out[n++] = letters[32 + (value & 31)];
    out[n++] = letters[value];
    return n;
}

/* Return the value of a base64 letter, or -1 for any other character. */
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

/* Read a number and advance *at past it. Returns false if there is no valid number; *at is then unspecified. */
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

/* Append `request` to a text, without a terminator. `before` is the previous request, at first all zero. Returns at
 * most GW_REQUEST_TEXT_MAX bytes. */
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

/* Read the next request of a text. On input, `request` is the previous one, all zero for the first one. Returns false
 * at the end or if the rest is damaged. */
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
