/* Tells steady growth of the held memory from warm-up, caches, plateaus and memory that every iteration frees. */
#include "gwi_held.h"

/* The history is divided into PARTS parts with equally many rounds. The last part does not count as growth, because its
 * memory may still be freed: it may be the rising side of one iteration. */
enum { PARTS = 8, RECENT_FROM = 4, RECENT_TO = 7 };
enum { SAMPLES_MIN = 16, ROUNDS_MIN = 32, RECENT_GROWING_MIN = 2, GROWING_MIN = 4, LAST_SAMPLES = 3 };
/* Smaller growth is noise: the part of the limit, and the part of the recent growth that counts for one part. */
enum { LIMIT_PART = 512, RECENT_PART = 8 };

size_t gwi_forecast_add(gwi_held_sample *sample, size_t count, size_t room, gwi_held_sample one)
{
    if (count == room) {
        for (size_t i = 0; i + 1 < count; i += 2) {
            gwi_held_sample *later = &sample[i + 1];
            uint64_t bytes = sample[i].bytes < later->bytes ? sample[i].bytes : later->bytes;
            sample[i / 2] = (gwi_held_sample){.t_ns = later->t_ns, .rounds = later->rounds, .bytes = bytes};
        }
        count /= 2;
    }
    sample[count++] = one;
    return count;
}

typedef struct boundary {
    uint64_t t_ns, kept_bytes;
} boundary;

static uint64_t lowest_from(const gwi_held_sample *sample, size_t from, size_t count)
{
    uint64_t lowest = UINT64_MAX;
    for (size_t i = from; i < count; i++)
        lowest = sample[i].bytes < lowest ? sample[i].bytes : lowest;
    return lowest;
}

/* Find time and kept memory at the start of each part, and at the end of the last one. */
static void find_boundaries(const gwi_held_sample *sample, size_t count, boundary at[PARTS + 1])
{
    uint64_t first = sample[0].rounds, rounds = sample[count - 1].rounds - first;
    size_t i = 0;
    for (unsigned part = 0; part <= PARTS; part++) {
        while (i + 1 < count && (sample[i].rounds - first) * PARTS < rounds * part)
            i++;
        at[part] = (boundary){sample[i].t_ns, lowest_from(sample, i, count)};
    }
}

static unsigned growing_parts(const boundary at[PARTS + 1], unsigned from, unsigned to, uint64_t least_bytes)
{
    unsigned count = 0;
    for (unsigned part = from; part < to; part++)
        count += at[part + 1].kept_bytes - at[part].kept_bytes >= least_bytes;
    return count;
}

static bool is_growth(const boundary at[PARTS + 1], uint64_t limit_bytes)
{
    uint64_t recent = at[RECENT_TO].kept_bytes - at[RECENT_FROM].kept_bytes, least = recent / RECENT_PART;
    return recent > 0 && recent >= limit_bytes / LIMIT_PART && at[RECENT_TO].t_ns > at[RECENT_FROM].t_ns &&
           growing_parts(at, RECENT_FROM, RECENT_TO, least) >= RECENT_GROWING_MIN &&
           growing_parts(at, 0, PARTS, least) >= GROWING_MIN;
}

void gwi_forecast_make(const gwi_held_sample *sample, size_t count, uint64_t limit_bytes, gwi_forecast *ret_forecast)
{
    *ret_forecast = (gwi_forecast){.grows = false};
    while (count > 0 && sample[0].bytes == 0) { /* the growth from nothing is the start of the program */
        sample++;
        count--;
    }
    if (count == 0)
        return;
    ret_forecast->kept_bytes = lowest_from(sample, count > LAST_SAMPLES ? count - LAST_SAMPLES : 0, count);
    if (count < SAMPLES_MIN || sample[count - 1].rounds - sample[0].rounds < ROUNDS_MIN)
        return;
    boundary at[PARTS + 1];
    find_boundaries(sample, count, at);
    if (!is_growth(at, limit_bytes))
        return;
    const boundary *from = &at[RECENT_FROM], *to = &at[RECENT_TO];
    double bytes_per_ns = (double)(to->kept_bytes - from->kept_bytes) / (double)(to->t_ns - from->t_ns);
    /* Continue the growth from the last boundary to now. The last samples may be the top of an iteration. */
    double now = (double)to->kept_bytes + bytes_per_ns * (double)(sample[count - 1].t_ns - to->t_ns);
    if (now < (double)ret_forecast->kept_bytes)
        ret_forecast->kept_bytes = (uint64_t)now;
    double left = (double)limit_bytes - (double)ret_forecast->kept_bytes;
    ret_forecast->grows = true;
    ret_forecast->bytes_per_minute = bytes_per_ns * 60e9;
    ret_forecast->full_s = left <= 0 ? 0 : left / bytes_per_ns / 1e9;
    ret_forecast->since_ns = from->t_ns;
}
