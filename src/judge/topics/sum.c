/* Reports the memory that a refused request needed, as a sum: the parts in use plus the request. */
#include "gwi_cause.h"
#include "gwi_request.h"

#include <stdio.h>

enum { PARTS_MAX = 5, HUNDRED = 100 };

typedef struct part {
    uint64_t bytes;
    const char *what;
    bool if_zero; /* print this part even if it is 0 bytes */
} part;

typedef struct sum {
    part part[PARTS_MAX];
    size_t count;
    uint64_t total_bytes;
} sum;

static void add(sum *it, uint64_t bytes, const char *what, bool if_zero)
{
    if (bytes == 0 && !if_zero)
        return;
    it->part[it->count++] = (part){.bytes = bytes, .what = what, .if_zero = if_zero};
    it->total_bytes += bytes;
}

/* Return the bytes that the process took from the driver, counted as find_rest() in case.c counts them. */
static uint64_t taken_bytes(const gwi_memory *memory)
{
    const gw_snapshot *snapshot = memory->snapshot;
    uint64_t own = memory->own_bytes > memory->reserved_bytes ? memory->own_bytes : memory->reserved_bytes;
    if (memory->rest_known && snapshot != NULL)
        own = snapshot->held_bytes > snapshot->usage.live_bytes ? snapshot->held_bytes : snapshot->usage.live_bytes;
    return own;
}

/* Return the label for used memory that is not in the ledger. It names other processes if they may hold a part of this
 * memory. */
static const char *rest_text(const gwi_memory *memory, bool few_pages)
{
    if (memory->has_gaps)
        return "what the recording does not show";
    if (memory->limit_is_guard && memory->foreign_known && memory->foreign_bytes > 0)
        return "context, libraries and other processes of this run";
    return (memory->foreign_known || memory->limit_is_guard) && !few_pages ? "context and libraries"
                                                                           : "context, libraries and others";
}

/* Fill in the parts of the sum. Returns false, with only the live memory and the request, if the memory of contexts,
 * libraries and other processes is unknown. */
static bool find_parts(const gwi_memory *memory, sum *it)
{
    uint64_t cached = memory->reserved_bytes > memory->own_bytes ? memory->reserved_bytes - memory->own_bytes : 0;
    uint64_t accounted = memory->own_bytes + cached, taken = taken_bytes(memory);
    /* memory that the ledger has no blocks for: of libraries, and half-used pages */
    uint64_t beyond = taken > accounted ? taken - accounted : 0;
    bool framework = memory->limit_is_framework; /* the framework's own limit counts only what it reserved */
    bool few_pages = memory->report != NULL || beyond * 64 < memory->limit_bytes;
    add(it, memory->own_bytes, "live", false);
    add(it, memory->wanted_bytes, "requested", false);
    if (!framework && !memory->rest_known)
        return false;
    add(it, cached, "cached", false);
    if (framework)
        return true;
    if (!few_pages)
        add(it, beyond, "half-used pages", false);
    add(it, memory->rest_bytes + (few_pages ? beyond : 0),
        rest_text(memory, memory->report == NULL && few_pages && beyond > 0), false);
    if (memory->foreign_known && !memory->limit_is_guard)
        add(it, memory->foreign_bytes, "other processes", true);
    return true;
}

/* Return the unit in which gw_bytes_text() would print `bytes`. All parts use the unit of the largest number, so that
 * they are easy to add up. */
static const char *unit_for(uint64_t bytes, uint64_t *ret_bytes)
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t at = 0;
    for (*ret_bytes = 1; at + 1 < sizeof names / sizeof names[0] && bytes / *ret_bytes >= 1024; at++)
        *ret_bytes *= 1024;
    return names[at];
}

/* Return the total in hundredths of `unit` bytes, and round the parts so that they add up to the total. */
static uint64_t round_parts(const sum *it, uint64_t unit, uint64_t ret_hundredths[PARTS_MAX])
{
    long double rest[PARTS_MAX];
    uint64_t total = (uint64_t)((long double)it->total_bytes * HUNDRED / (long double)unit + 0.5L), given = 0;
    for (size_t i = 0; i < it->count; i++) {
        long double exact = (long double)it->part[i].bytes * HUNDRED / (long double)unit;
        ret_hundredths[i] = (uint64_t)exact;
        rest[i] = exact - (long double)ret_hundredths[i];
        given += ret_hundredths[i];
    }
    for (; given < total; given++) {
        size_t most = 0;
        for (size_t i = 1; i < it->count; i++)
            most = rest[i] > rest[most] ? i : most;
        ret_hundredths[most]++;
        rest[most] = -1;
    }
    return total;
}

static void add_amount(gw_text *text, uint64_t hundredths, uint64_t unit_bytes, const char *unit)
{
    if (unit_bytes == 1)
        gw_text_addf(text, "%llu %s", (unsigned long long)(hundredths / HUNDRED), unit);
    else
        gw_text_addf(text, "%llu.%02u %s", (unsigned long long)(hundredths / HUNDRED), (unsigned)(hundredths % HUNDRED),
                     unit);
}

static void write_sum(const gwi_memory *memory, const sum *it, gw_text *text)
{
    uint64_t unit_bytes, hundredths[PARTS_MAX] = {0};
    const char *unit = unit_for(memory->limit_bytes, &unit_bytes);
    uint64_t total = round_parts(it, unit_bytes, hundredths);
    uint64_t limit = (uint64_t)((long double)memory->limit_bytes * HUNDRED / (long double)unit_bytes + 0.5L);
    const char *between = "needed: ";
    for (size_t i = 0; i < it->count; i++) {
        if (hundredths[i] == 0 && !it->part[i].if_zero)
            continue;
        gw_text_add_str(text, between);
        if (it->part[i].bytes == 0)
            gw_text_add_str(text, "0 B");
        else
            add_amount(text, hundredths[i], unit_bytes, unit);
        gw_text_addf(text, " %s", it->part[i].what);
        between = " + ";
    }
    gw_text_add_str(text, " = ");
    add_amount(text, total, unit_bytes, unit);
    gw_text_add_str(text, it->total_bytes > memory->limit_bytes ? " > " : ", of ");
    add_amount(text, limit, unit_bytes, unit);
    if (it->total_bytes > memory->limit_bytes && total == limit) {
        char more[GW_BYTES_TEXT_MAX];
        gw_text_addf(text, " by %s", gw_bytes_text(more, it->total_bytes - memory->limit_bytes));
    }
    if (memory->limit_is_framework)
        gw_text_add_str(text, ", PyTorch's own limit");
}

void gwi_say_sum(const gwi_case *c, gwi_finding *finding)
{

    const gwi_memory *memory = &c->memory;
    sum it = {0};
    gw_text text = {0};
    if (!memory->has_limit || memory->limit_is_about || memory->wanted_bytes == 0 || gwi_request_is_impossible(c))
        return;
    bool whole = find_parts(memory, &it);
    write_sum(memory, &it, &text);
    if (!whole)
        gw_text_add_str(&text, ", plus the memory of contexts, libraries and other processes");
    gwi_measure(finding, memory->t_ns, memory->report != NULL ? "observer" : "ledger", (double)it.total_bytes, "bytes",
                "%s", gw_text_str(&text));
    gwi_weigh(finding, GW_WEIGHT_DECIDES);
    finding->failed = finding->failed || text.failed;
    gw_text_free(&text);
}
