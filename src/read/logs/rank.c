/* Recognise the prefixes that show which rank printed a line:
 *
 * - [rank3]: ... (torchrun and PyTorch's own log)
 * - [Rank 3] ... (PyTorch's NCCL watchdog, in lines without [rank3])
 * - [1,3]<stderr>: ... (mpirun --tag-output: job, rank)
 * - 3: ... (srun --label)
 * - host:1001:1002 [3] ... (NCCL's own log: the device's number, which equals the rank on a single host) */
#include "gwi_logs.h"

#include <ctype.h>
#include <string.h>

enum { RANK_MAX = 1 << 20, PREFIX_BYTES = 160 };

/* Parse the number at offset *at and move *at to its end. Returns false if there is no number. */
static bool number(const char *line, size_t bytes, size_t *at, int *ret)
{
    size_t i = *at;
    long value = 0;
    while (i < bytes && isdigit((unsigned char)line[i]) && value <= RANK_MAX)
        value = 10 * value + (line[i++] - '0');
    if (i == *at || value > RANK_MAX)
        return false;
    *at = i;
    *ret = (int)value;
    return true;
}

static bool is_at(const char *line, size_t bytes, size_t at, char wanted)
{
    return at < bytes && line[at] == wanted;
}

static int labelled(const char *line, size_t bytes)
{
    size_t at = 0;
    int rank = -1;
    while (at < bytes && line[at] == ' ')
        at++;
    return number(line, bytes, &at, &rank) && is_at(line, bytes, at, ':') && is_at(line, bytes, at + 1, ' ') ? rank
                                                                                                             : -1;
}

static int tagged(const char *line, size_t bytes)
{
    size_t at = 1;
    int job, rank = -1;
    if (!is_at(line, bytes, 0, '[') || !number(line, bytes, &at, &job) || !is_at(line, bytes, at, ','))
        return -1;
    at++;
    return number(line, bytes, &at, &rank) && is_at(line, bytes, at, ']') ? rank : -1;
}

/* Find "[rank3]" or "[Rank 3]" near the start of the line and return the rank. Returns -1 if there is none. */
static int bracketed(const char *line, size_t bytes)
{
    size_t limit = bytes < PREFIX_BYTES ? bytes : PREFIX_BYTES;
    for (size_t i = 0; i + 6 < limit; i++) {
        int rank = -1;
        if (line[i] != '[' || (line[i + 1] != 'r' && line[i + 1] != 'R') || memcmp(line + i + 2, "ank", 3) != 0)
            continue;
        size_t at = i + 5 + (line[i + 5] == ' ');
        if (number(line, bytes, &at, &rank) && (is_at(line, bytes, at, ']') || is_at(line, bytes, at, ':')))
            return rank;
    }
    return -1;
}

/* Find the "[3]" of a line such as "host:1001:1002 [3] NCCL ..." and return the number. Returns -1 if there is none. */
static int of_nccl(const char *line, size_t bytes)
{
    const char *word = memmem(line, bytes, " NCCL ", 6);
    const char *bracket = memchr(line, '[', bytes);
    int rank = -1;
    if (word == NULL || bracket == NULL || bracket > word)
        return -1;
    size_t at = (size_t)(bracket - line) + 1;
    return number(line, bytes, &at, &rank) && is_at(line, bytes, at, ']') ? rank : -1;
}

int gwi_rank_of(const char *line, size_t bytes)
{
    static int (*const ways[])(const char *, size_t) = {bracketed, tagged, labelled, of_nccl};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        int rank = ways[i](line, bytes);
        if (rank >= 0)
            return rank;
    }
    return -1;
}
