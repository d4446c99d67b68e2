/* Enough memory is free, but in pieces that cannot serve the request.
 *
 * Established only by: unused memory that would have sufficed, in one of these places
 * - Driver pages of 2 MiB with small blocks. At least a tenth of the limit is idle there, and at least three quarters
 *   of what these blocks use. Rounding alone wastes at most half of that.
 * - PyTorch's cache. The largest inactive block is smaller than the request. The cache is several times the request, or
 *   a large share of all memory. Otherwise, the process must need at most 80 % of the memory that it could use.
 * - Stream-ordered pools. By the driver's numbers right after the refusal, they hold at least as much unused memory as
 *   the process holds elsewhere.
 *
 * Supported by:
 * - less idle memory in the pages or pools;
 * - a cache whose largest piece is unknown, or which suffices only together with the card's free memory.
 *
 * Only a hypothesis if one of these is true:
 * - a leak, which leaves free pieces too, is larger than the idle memory;
 * - PyTorch's memory use kept growing;
 * - PyTorch uses expandable segments. */
#include "gwi_cause.h"

#include <inttypes.h>
#include <stdlib.h>

/* Report the call site whose small blocks keep the pages occupied. */
static void say_small(const gwi_case *c, gwi_finding *finding)
{
    enum { SMALL_BYTES_MAX = 1 << 20 };
    const gw_snapshot *snapshot = c->memory.snapshot;
    gw_live *small = snapshot->live_count == 0 ? NULL : malloc(snapshot->live_count * sizeof *small);
    size_t count = 0;
    for (size_t i = 0; small != NULL && i < snapshot->live_count; i++)
        if (snapshot->live[i].bytes <= SMALL_BYTES_MAX)
            small[count++] = snapshot->live[i];
    gwi_say_holder(c, finding, c->memory.t_ns, "ledger", small, count, "these blocks");
    free(small);
}

static gw_certainty judge_driver(const gwi_case *c, gwi_finding *finding)
{
    const gwi_memory *memory = &c->memory;
    const gw_snapshot *snapshot = memory->snapshot;
    char idle[GW_BYTES_TEXT_MAX], held[GW_BYTES_TEXT_MAX], used[GW_BYTES_TEXT_MAX];
    if (snapshot == NULL || !memory->has_free || memory->wanted_bytes == 0 || snapshot->small_page_count == 0)
        return GW_CERTAINTY_NONE;
    uint64_t idle_bytes = snapshot->small_idle_bytes, held_bytes = snapshot->small_page_count << 21;
    if (gwi_would_fit(memory, 0) || !gwi_would_fit(memory, idle_bytes) || idle_bytes * 10 < memory->limit_bytes)
        return GW_CERTAINTY_NONE;
    gw_bytes_text(idle, idle_bytes);
    gw_bytes_text(held, held_bytes);
    gwi_headline(finding, "%s is unused in 2 MiB pages that small blocks keep occupied", idle);
    gwi_say_request(c, finding);
    gwi_measure(finding, memory->t_ns, "ledger", (double)held_bytes, "bytes",
                "%" PRIu64 " pages of 2 MiB (%s) were held by blocks of at most 1 MiB", snapshot->small_page_count,
                held);
    gwi_measure(finding, memory->t_ns, "ledger", (double)idle_bytes, "bytes",
                "these blocks used %s of them: %s was unused in these pages and could not serve a larger request",
                gw_bytes_text(used, snapshot->small_bytes), idle);
    say_small(c, finding);
    gwi_say_memory_ruled_out(c, finding, GWI_NOT_FOREIGN);
    if (gwi_may_leak_more(memory, idle_bytes))
        return GW_HYPOTHESIS;
    /* Rounding alone can leave half as many bytes unused as used: a page of 2 MiB holds only two blocks of just over
     * 2/3 MiB. The threshold is higher than that. */
    return idle_bytes * 4 >= snapshot->small_bytes * 3 ? GW_ESTABLISHED : GW_SUPPORTED;
}

/* Decide the certainty by the total size of the cached pieces. This total must have been enough to keep the program
 * running, not only to serve this one request. */
static gw_certainty weight_of(const gwi_memory *memory, bool knows_largest)
{
    uint64_t cached = memory->cached_bytes, wanted = memory->wanted_bytes, reserved = memory->reserved_bytes;
    uint64_t need = memory->own_bytes + wanted;
    bool share = cached * 100 >= reserved * 15 && cached >= 2 * wanted;
    bool times = cached >= 4 * wanted && cached * 100 >= reserved * 5;
    /* true if the process needs at most 80 % of the memory that it could use */
    bool room = memory->has_free && need * 100 <= (memory->free_bytes + reserved) * 80;
    /* A leak, or a need for memory that keeps growing, leaves free pieces in the cache, too. */
    const gw_growth *growth = &memory->growth;
    bool grew = memory->has_gaps || memory->has_losses || (growth->repeats && growth->repeat_goes_on) ||
                (growth->steps && growth->step_all_bytes * 4 >= memory->own_bytes) ||
                (gwi_leak_bytes(memory) > 0 && gwi_leak_bytes(memory) * 4 >= memory->own_bytes);
    /* A saved snapshot without times does not show whether anything grew. */
    bool blind = memory->limit_bytes == 0 && memory->report->peak_count == 0;
    if (grew || blind || !(share || times || room))
        return GW_HYPOTHESIS;
    return knows_largest ? GW_ESTABLISHED : GW_SUPPORTED;
}

static gw_certainty judge_framework(const gwi_case *c, gwi_finding *finding)
{
    const gwi_memory *memory = &c->memory;
    const gw_allocator_report *report = memory->report;
    char wanted[GW_BYTES_TEXT_MAX], cached[GW_BYTES_TEXT_MAX], allocated[GW_BYTES_TEXT_MAX],
        reserved[GW_BYTES_TEXT_MAX];
    char largest[GW_BYTES_TEXT_MAX];
    if (report == NULL || memory->wanted_bytes == 0 || memory->is_other_request)
        return GW_CERTAINTY_NONE; /* another library cannot use the cache, whatever the size of its pieces */
    /* Before the refusal, the framework returned its wholly unused segments to the driver, so what is still cached is
     * in pieces. */
    bool inside = memory->cached_bytes >= memory->wanted_bytes;
    bool both = !inside && memory->cached_bytes * 10 >= memory->reserved_bytes && !gwi_would_fit(memory, 0) &&
                gwi_would_fit(memory, memory->cached_bytes);
    if (!inside && !both)
        return GW_CERTAINTY_NONE;
    bool knows_largest = report->has_field[GW_ALLOCATOR_LARGEST_INACTIVE];
    uint64_t largest_bytes = report->field[GW_ALLOCATOR_LARGEST_INACTIVE];
    if (knows_largest && largest_bytes >= memory->wanted_bytes)
        return GW_CERTAINTY_NONE;
    gw_bytes_text(wanted, memory->wanted_bytes);
    gw_bytes_text(cached, memory->cached_bytes);
    if (inside)
        gwi_headline(finding, "%s was cached and not in use, but no single piece was as large as the requested %s",
                     cached, wanted);
    else
        gwi_headline(finding,
                     "%s was cached in pieces and %s was free on the card: together enough for the requested %s",
                     cached, gw_bytes_text(largest, memory->free_bytes), wanted);
    gwi_say_request(c, finding);
    gwi_measure(finding, report->t_ns, "observer", (double)memory->cached_bytes, "bytes",
                "the framework had reserved %s and allocated %s of it: %s was inactive, and the request was for %s",
                gw_bytes_text(reserved, memory->reserved_bytes), gw_bytes_text(allocated, memory->own_bytes), cached,
                wanted);
    if (knows_largest)
        gwi_measure(finding, report->t_ns, "observer", (double)largest_bytes, "bytes",
                    "the largest inactive block was %s", gw_bytes_text(largest, largest_bytes));
    if (report->has_field[GW_ALLOCATOR_SEGMENTS])
        gwi_measure(finding, report->t_ns, "observer", (double)report->field[GW_ALLOCATOR_SEGMENTS], "count",
                    "in %" PRIu64 " segments", report->field[GW_ALLOCATOR_SEGMENTS]);
    gwi_say_live_holder(c, finding, "the blocks between the free pieces");
    gwi_say_peak(c, finding, report);
    bool expandable = report->has_field[GW_ALLOCATOR_EXPANDABLE] && report->field[GW_ALLOCATOR_EXPANDABLE] != 0;
    if (expandable)
        gwi_rule_out(c, finding, GWI_OF_PROCESS, "fixed-size segments (expandable segments are on)");
    gwi_say_memory_ruled_out(c, finding, GWI_NOT_FOREIGN);
    return expandable ? GW_HYPOTHESIS : weight_of(memory, knows_largest && inside);
}

static void say_pool(const gwi_memory *memory, gwi_finding *finding)
{
    const gw_pool_state *pools = memory->pools;
    char reserved[GW_BYTES_TEXT_MAX], used[GW_BYTES_TEXT_MAX], idle[GW_BYTES_TEXT_MAX], keeps[GW_BYTES_TEXT_MAX];
    gw_bytes_text(reserved, pools->bytes_reserved);
    gw_bytes_text(used, pools->bytes_used);
    gw_bytes_text(idle, gwi_pool_idle_bytes(memory));
    if (pools->count == 1)
        gwi_measure(finding, memory->t_ns, "driver", (double)gwi_pool_idle_bytes(memory), "bytes",
                    "pool 0x%" PRIx64 "%s had reserved %s and used %s: %s was unused in it", pools->pool,
                    pools->is_default ? ", the device's default pool," : "", reserved, used, idle);
    else
        gwi_measure(
            finding, memory->t_ns, "driver", (double)gwi_pool_idle_bytes(memory), "bytes",
            "%" PRIu32 " pools had reserved %s and used %s: %s was unused in them, most of it in pool 0x%" PRIx64 "%s",
            pools->count, reserved, used, idle, pools->pool, pools->is_default ? ", the device's default pool" : "");
    if (pools->has_threshold && pools->threshold_bytes >= ((uint64_t)1 << 50))
        gwi_evidence(finding, GWI_NO_TIME, "driver",
                     "its release threshold has no limit: it never returns memory to the driver");
    else if (pools->has_threshold)
        gwi_measure(finding, GWI_NO_TIME, "driver", (double)pools->threshold_bytes, "bytes",
                    "its release threshold is %s: it keeps that much when the program synchronises",
                    gw_bytes_text(keeps, pools->threshold_bytes));
}

/* True if the request was made from the pool that has the unused memory. The pool could have used it, so fragmentation
 * is not the reason. */
static bool is_of_that_pool(const gw_failure *oom, const gw_pool_state *pools)
{
    return oom->kind == GW_EV_ALLOC_ASYNC && (oom->arg[2] == pools->pool || oom->arg[2] == 0);
}

static gw_certainty judge_pool(const gwi_case *c, gwi_finding *finding)
{
    enum { POOLS_MANY = 8 };
    const gwi_memory *memory = &c->memory;
    uint64_t idle_bytes = gwi_pool_idle_bytes(memory);
    char idle[GW_BYTES_TEXT_MAX];
    if (idle_bytes == 0 || !memory->has_free || memory->wanted_bytes == 0 || gwi_would_fit(memory, 0) ||
        !gwi_would_fit(memory, idle_bytes) || idle_bytes * 10 < memory->limit_bytes || c->oom == NULL ||
        is_of_that_pool(c->oom, memory->pools))
        return GW_CERTAINTY_NONE;
    gw_bytes_text(idle, idle_bytes);
    gwi_headline(finding, "%s was unused in the program's own stream-ordered memory pool%s", idle,
                 GWI_PLURAL(memory->pools->count));
    gwi_say_request(c, finding);
    say_pool(memory, finding);
    gwi_say_memory_ruled_out(c, finding, GWI_NOT_FOREIGN);
    if (memory->pools->count >= POOLS_MANY)
        gwi_next(finding,
                 "Create one pool and reuse it, or destroy each pool (cuMemPoolDestroy) when its work is done");
    gwi_next(
        finding,
        "Release it before such a request: synchronise, then call cuMemPoolTrimTo(pool, 0) (cudaMemPoolTrimTo) on %s",
        memory->pools->is_default ? "the device's default pool (cuDeviceGetDefaultMemPool)" : "that pool");
    if (memory->pools->has_threshold)
        gwi_next(finding, "Lower the pool's release threshold (CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)");
    gwi_next(finding, "Allocate this block from the pool, too (cuMemAllocAsync)");
    if (gwi_may_leak_more(memory, idle_bytes))
        return GW_HYPOTHESIS;
    /* If the process holds more than the pools have unused, growing memory use could look the same. */
    return idle_bytes >= memory->own_bytes ? GW_ESTABLISHED : GW_SUPPORTED;
}

/* The message of a framework's allocator says that more memory was unused in its pool than was requested. */
static gw_certainty judge_message(const gwi_case *c, gwi_finding *finding)
{
    const gwi_memory *memory = &c->memory;
    char unused[GW_BYTES_TEXT_MAX], wanted[GW_BYTES_TEXT_MAX];
    uint64_t unused_bytes = gwi_pool_in_pieces(memory);
    if (unused_bytes == 0)
        return GW_CERTAINTY_NONE;
    gwi_headline(finding, "%s was unused in the framework's pool, but in pieces smaller than the request of %s",
                 gw_bytes_text(unused, unused_bytes), gw_bytes_text(wanted, memory->wanted_bytes));
    gwi_say_request(c, finding);
    gwi_say_pool_sums(c, finding);
    gwi_next(finding,
             "TensorFlow with memory growth takes its pool in pieces, which cannot be joined: without growth, the "
             "pool is one piece");
    return GW_SUPPORTED;
}

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    if (!c->memory.known || (c->oom == NULL && c->sticky != NULL))
        return GW_CERTAINTY_NONE;
    gw_certainty certainty = judge_pool(c, finding);
    if (certainty == GW_CERTAINTY_NONE)
        certainty = judge_driver(c, finding);
    if (certainty == GW_CERTAINTY_NONE)
        certainty = judge_framework(c, finding);
    if (certainty == GW_CERTAINTY_NONE)
        certainty = judge_message(c, finding);
    if (certainty != GW_CERTAINTY_NONE && c->oom_last != NULL)
        gwi_say_consequences(c, finding, c->oom_last);
    return certainty;
}

const gw_cause gwi_cause_gpu_oom_fragmentation = {
    .id = "gpu-oom-fragmentation",
    .summary =
        "Enough memory is unused, but it is in pieces that are too small, or in a pool that cannot serve the request.",
    .proof = "for driver memory: half-used 2 MiB pages of small blocks that hold the missing memory; for a framework: "
             "a cache of several times the requested size, or of a large share of all memory, whose largest inactive "
             "block is smaller than the request; for the program's own stream-ordered pools: a report of the driver "
             "that the missing memory is reserved and not used",
    .fixes = {[GW_FRAMEWORK_RAW] =
                  "Take small blocks from one large allocation of your own, or from a stream-ordered pool "
                  "(cuMemAllocAsync)\n"
                  "Allocate long-lived blocks first, and free small blocks together that were allocated together",
              [GW_FRAMEWORK_TORCH] = "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True (PyTorch 2.1 or later)\n"
                                     "Pad or bucket shapes so that the same sizes repeat; run the largest shape first",
              [GW_FRAMEWORK_TENSORFLOW] = "Set TF_GPU_ALLOCATOR=cuda_malloc_async",
              [GW_FRAMEWORK_JAX] = "Keep preallocation on, and bucket shapes"},
    .replay = GWI_REPLAY,
    .excludes = "gpu-oom-leak", /* the idle memory is larger than what may have leaked */
    .judge = judge,
};
