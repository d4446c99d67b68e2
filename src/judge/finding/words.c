/* Formats calls, kernels, streams and processes for use in sentences. */
#include "gwi_cause.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

char *gwi_call_text(char out[GWI_CALL_TEXT_MAX], const char *fn_name)
{
    _Static_assert((int)GWI_CALL_TEXT_MAX == (int)GW_CALL_TEXT_MAX, "the same names");
    return gw_call_text(out, fn_name);
}

/* Read one length-prefixed part of a mangled C++ name, such as "4fill". Returns a pointer to the text after it, or NULL
 * if there is no such part. */
static const char *name_part(const char *at, const char **ret_text, size_t *ret_bytes)
{
    size_t bytes = 0, digits = 0;
    for (; at[digits] >= '0' && at[digits] <= '9' && digits < 4; digits++)
        bytes = bytes * 10 + (size_t)(at[digits] - '0');
    if (digits == 0 || bytes == 0 || strnlen(at + digits, bytes) < bytes)
        return NULL;
    *ret_text = at + digits;
    *ret_bytes = bytes;
    return at + digits + bytes;
}

char *gwi_kernel_text(char out[GWI_KERNEL_TEXT_MAX], const char *kernel)
{
    snprintf(out, GWI_KERNEL_TEXT_MAX, "%s", kernel);
    if (!gw_begins(kernel, "_Z"))
        return out;
    const char *at = kernel + 2, *text;
    bool nested = *at == 'N';
    size_t used = 0, bytes;
    at += nested;
    while ((at = name_part(at, &text, &bytes)) != NULL) {
        bool anonymous = bytes > 9 && gw_begins(text, "_GLOBAL__");
        if (!anonymous && used + bytes + 3 < GWI_KERNEL_TEXT_MAX)
            used += (size_t)snprintf(out + used, GWI_KERNEL_TEXT_MAX - used, "%s%.*s",
                                     used == 0 ? "" : "::", (int)bytes, text);
        if (!nested)
            break;
    }
    return out;
}

const char *gwi_stream_text(char out[GWI_STREAM_TEXT_MAX], uint64_t stream)
{
    static const char *const special[] = {"the default stream", "the legacy stream", "the per-thread stream"};
    if (stream < sizeof special / sizeof special[0])
        snprintf(out, GWI_STREAM_TEXT_MAX, "%s", special[stream]);
    else
        snprintf(out, GWI_STREAM_TEXT_MAX, "stream 0x%" PRIx64, stream);
    return out;
}

char *gwi_who_text(char out[GWI_WHO_TEXT_MAX], const gw_process *process)
{
    if (process->has_rank && process->has_restart && process->restart > 0)
        snprintf(out, GWI_WHO_TEXT_MAX, "rank %" PRIu32 ", restart %" PRIu32 " (pid %" PRIu32 ")", process->rank,
                 process->restart, process->pid);
    else if (process->has_rank)
        snprintf(out, GWI_WHO_TEXT_MAX, "rank %" PRIu32 " (pid %" PRIu32 ")", process->rank, process->pid);
    else
        snprintf(out, GWI_WHO_TEXT_MAX, "pid %" PRIu32, process->pid);
    return out;
}

char *gwi_numbers_text(char out[GWI_NUMBERS_TEXT_MAX], const uint32_t *number, size_t count)
{
    enum { TAIL_BYTES_MAX = 56 }; /* ", 4294967295-4294967295" and " and 4294967295 more" */
    size_t used = 0, i = 0;
    out[0] = '\0';
    while (i < count && used + TAIL_BYTES_MAX < GWI_NUMBERS_TEXT_MAX) {
        size_t last = i;
        while (last + 1 < count && number[last + 1] == number[last] + 1)
            last++;
        used += (size_t)snprintf(out + used, GWI_NUMBERS_TEXT_MAX - used, "%s%" PRIu32, i == 0 ? "" : ", ", number[i]);
        if (last > i)
            used += (size_t)snprintf(out + used, GWI_NUMBERS_TEXT_MAX - used, "%s%" PRIu32, last > i + 1 ? "-" : ", ",
                                     number[last]);
        i = last + 1;
    }
    if (i < count)
        snprintf(out + used, GWI_NUMBERS_TEXT_MAX - used, " and %zu more", count - i);
    return out;
}
