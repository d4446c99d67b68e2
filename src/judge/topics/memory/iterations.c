/* Judges and reports memory that iterations leave behind. It is never established that this is a leak: a program that
 * fills a buffer, loads a data set in pieces or generates one long sentence makes the same calls. */
#include "gwi_cause.h"

#include <inttypes.h>
#include <stdio.h>

/* True if the refused request would have fitted without the memory that the iterations left behind. The current
 * iteration may have left memory, too; it is included. */
static bool would_help(const gwi_memory *memory)
{
    const gw_growth *growth = &memory->growth;
    uint64_t all = growth->loop_bytes + growth->loop_bytes / 16 + growth->loop.leak_bytes_max;
    return memory->has_free ? gwi_would_fit(memory, all) : growth->loop_bytes * 2 >= memory->own_bytes;
}

/* True if the iterations left much of the live memory behind. A library's request for its handle is made only once, so
 * a small leak does not explain why there was no room for it. */
static bool is_much(const gwi_memory *memory)
{
    enum { PART = 4 };
    return memory->growth.loop_bytes * PART >= memory->own_bytes;
}

gw_certainty gwi_loop_certainty(const gwi_memory *memory)
{
    enum { COUNT_MANY = 8 };
    const gw_iterations *loop = &memory->growth.loop;
    if (loop->leak_count == 0 || !would_help(memory))
        return GW_CERTAINTY_NONE;
    if (memory->is_other_request && !is_much(memory))
        return GW_HYPOTHESIS;
    bool works = loop->launches > 0 && (loop->waits > 0 || loop->reads > 0 || loop->launches > 2 * loop->requests);
    switch (loop->doubt) {
    case GW_LOOP_FEW: /* two iterations may be enough evidence if both used the GPU */
        return works && loop->leak_is_current ? GW_SUPPORTED : GW_HYPOTHESIS;
    case GW_LOOP_SURE:
        break;
    default:
        return GW_HYPOTHESIS;
    }
    if (!loop->leak_is_current) /* other work followed the iterations and may have used their memory */
        return loop->each_waited && loop->leak_count >= COUNT_MANY ? GW_SUPPORTED : GW_HYPOTHESIS;
    return GW_SUPPORTED;
}

uint64_t gwi_leak_bytes(const gwi_memory *memory)
{
    const gw_growth *growth = &memory->growth;
    uint64_t loop = gwi_loop_certainty(memory) >= GW_SUPPORTED ? growth->loop_bytes : 0;
    uint64_t runs = growth->repeats && growth->repeat_goes_on ? growth->first_bytes : 0;
    return loop > runs ? loop : runs;
}

bool gwi_may_leak_more(const gwi_memory *memory, uint64_t bytes)
{
    return memory->has_gaps || memory->has_losses || gwi_leak_bytes(memory) > bytes;
}

uint64_t gwi_held_while_built_again(const gwi_memory *memory)
{
    enum { PART = 4 };
    uint64_t bytes = memory->growth.loop.again_bytes;
    bool matters = bytes * PART >= memory->own_bytes && gwi_would_fit(memory, bytes) && !gwi_would_fit(memory, 0);
    return matters && !gwi_loop_is_balanced(memory) ? bytes : 0;
}

/* True if the refused request might have fitted without contexts, streams, graphs or modules. In measurements, a stream
 * took 0.55 MiB, and a context with its code 527 MiB. The size of a graph or a module depends on its kernels. */
bool gwi_objects_may_hold(const gwi_memory *memory)
{
    enum { STREAMS_USUAL = 64, GRAPHS_USUAL = 16, MODULES_USUAL = 128 };
    const uint64_t stream_bytes = 563u << 10, context_bytes = 500u << 20, first_bytes = (uint64_t)1 << 30;
    if (memory->snapshot == NULL)
        return false;
    const uint64_t *count = memory->snapshot->usage.class_count;
    uint64_t held = memory->made_context_count * context_bytes;
    held += memory->stream_count > STREAMS_USUAL ? memory->stream_count * stream_bytes : 0;
    if (count[GW_CLASS_GRAPH_EXEC] > GRAPHS_USUAL || count[GW_CLASS_MODULE] > MODULES_USUAL) {
        uint64_t beyond = memory->rest_bytes > first_bytes ? memory->rest_bytes - first_bytes : 0;
        if (!memory->rest_known)
            held = UINT64_MAX / 2;
        else if (beyond > held)
            held = beyond;
    }
    return held > 0 && (!memory->has_free || gwi_would_fit(memory, held));
}

bool gwi_loop_is_balanced(const gwi_memory *memory)
{
    const gw_iterations *loop = &memory->growth.loop;
    return !gwi_objects_may_hold(memory) && loop->balanced_count > 0 && loop->balanced_whole && loop->balanced_asked &&
           !memory->growth.repeats && (loop->leak_count == 0 || loop->doubt == GW_LOOP_HELD_BEFORE);
}

/* Report what the last iterations left behind. Example: "each of the last 5 iterations (11 allocations, 24 kernel
 * launches) left 64.00 MiB behind, in 2 blocks". */
static void say_left(const gwi_case *c, gwi_finding *finding)
{
    const gwi_memory *memory = &c->memory;
    const gw_iterations *loop = &memory->growth.loop;
    char one[GW_BYTES_TEXT_MAX], most[GW_BYTES_TEXT_MAX], at[GWI_PLACE_TEXT_MAX] = "";
    const gw_keeper *first = &loop->keeper[0];
    if (loop->keeper_count > 0)
        gwi_at(c, first->site, at);
    bool partly = loop->keeper_count > 1 && at[0] != '\0';
    uint64_t share = loop->leak_bytes == 0 ? 0 : first->bytes * 100 / loop->leak_bytes;
    char from[64] = "";
    if (partly)
        snprintf(from, sizeof from, "; %" PRIu64 " %% of it was allocated", share);
    else if (at[0] != '\0')
        snprintf(from, sizeof from, ", allocated");
    uint64_t blocks = (loop->leak_blocks + loop->leak_count / 2) / loop->leak_count;
    gw_bytes_text(one, loop->leak_bytes_median);
    gw_bytes_text(most, loop->leak_bytes_max);
    gwi_measure(finding, loop->leak_end_ns, gwi_memory_source(memory), (double)loop->leak_bytes_median, "bytes",
                "each of the last %" PRIu64 " iterations (%" PRIu64 " allocation%s, %" PRIu64
                " kernel launch%s) left %s%s%s%s behind, in %" PRIu64 " block%s%s%s",
                loop->leak_count, loop->requests, GWI_PLURAL(loop->requests), loop->launches,
                loop->launches == 1 ? "" : "es", one, loop->is_even ? "" : " (at most ", loop->is_even ? "" : most,
                loop->is_even ? "" : ")", blocks, GWI_PLURAL(blocks), from, at);
}

/* True if the site's stack has a line of the program itself. The stack of a backward pass may have none. */
static bool has_own_line(const gwi_case *c, uint32_t site)
{
    const gw_stack *stack = site == 0 ? NULL : gw_sites_stack(c->model->sites, site);
    return stack != NULL && stack->user < stack->count && stack->frame[stack->user].whose <= GW_WHOSE_USER;
}

/* Set the verdict's place to the one that kept most memory. A place that kept little counts only if the refused request
 * has no line of the program. */
static void say_keeper(const gwi_case *c, gwi_finding *finding)
{
    const gw_iterations *loop = &c->memory.growth.loop;
    bool needs_line = !has_own_line(c, gwi_request_site(c));
    for (size_t i = loop->keeper_count; i-- > 0;) { /* the last call of gwi_where() wins, so end with the largest */
        const gw_keeper *keeper = &loop->keeper[i];
        if (keeper->site != 0 && keeper->bytes * 4 >= loop->keeper[0].bytes)
            gwi_where(finding, keeper->site, "the memory that is never freed is allocated here");
        else if (needs_line && has_own_line(c, keeper->site))
            gwi_where(finding, keeper->site, "a part of the memory that is never freed is allocated here");
    }
}

void gwi_say_loop_leak(const gwi_case *c, gwi_finding *finding)
{
    const gwi_memory *memory = &c->memory;
    const gw_growth *growth = &memory->growth;
    const gw_iterations *loop = &growth->loop;
    char all[GW_BYTES_TEXT_MAX], own[GW_BYTES_TEXT_MAX], one[GW_BYTES_TEXT_MAX];
    gw_bytes_text(all, growth->loop_bytes);
    gw_bytes_text(one, loop->leak_bytes_median);
    gwi_headline(finding, "every iteration keeps %s%s that it never frees, %s in total", loop->is_even ? "" : "about ",
                 one, all);
    gwi_say_request(c, finding);
    say_left(c, finding);
    gwi_weigh(finding, GW_WEIGHT_DECIDES);
    gwi_measure(finding, loop->leak_begin_ns, gwi_memory_source(memory), (double)loop->leak_count, "count",
                "from %.2f s to %.2f s %" PRIu64
                " iterations kept %s of the %s in use; without this memory, the request would have fitted",
                (double)loop->leak_begin_ns / 1e9, (double)loop->leak_end_ns / 1e9, loop->leak_count, all,
                gw_bytes_text(own, memory->own_bytes));
    for (size_t i = 1; i < loop->keeper_count; i++) {
        char bytes[GW_BYTES_TEXT_MAX], at[GWI_PLACE_TEXT_MAX];
        const gw_keeper *keeper = &loop->keeper[i];
        if (gwi_at(c, keeper->site, at)[0] != '\0')
            gwi_measure(finding, GWI_NO_TIME, gwi_memory_source(memory), (double)keeper->bytes, "bytes",
                        "%s of it, in %" PRIu64 " block%s, was allocated%s", gw_bytes_text(bytes, keeper->bytes),
                        keeper->count, GWI_PLURAL(keeper->count), at);
    }
    gwi_next(finding,
             "Does this loop fill a buffer, a cache or a data set on purpose? Then give it a smaller bound, or "
             "keep it in host memory");
    if (loop->idle_count > 0)
        gwi_measure(finding, loop->leak_begin_ns, gwi_memory_source(memory), (double)loop->idle_count, "count",
                    "the %" PRIu64 " iteration%s before them left nothing behind", loop->idle_count,
                    GWI_PLURAL(loop->idle_count));
    if (loop->fitted_before_ns > 0)
        gwi_measure(finding, loop->fitted_before_ns, gwi_memory_source(memory), (double)growth->loop_bytes, "bytes",
                    "before these iterations, as much memory was in use as is needed now without the %s that they kept",
                    all);
    say_keeper(c, finding);
}

/* Report that the last iterations freed all memory they had allocated, if so. Otherwise, report why repeated requests
 * that kept memory do not prove a leak. */
void gwi_say_loop(const gwi_case *c, gwi_finding *finding)
{
    static const char *const doubts[] = {
        [GW_LOOP_FEW] = "fewer than three whole iterations were recorded",
        [GW_LOOP_NO_WORK] = "no kernel ran between these allocations: a pool or data loaded in pieces looks the same",
        [GW_LOOP_OTHER_WORK] = "another thread launches the GPU's work: data that is loaded meanwhile looks the same",
        [GW_LOOP_LOADING] = "it looks like a model that is loaded layer by layer",
        [GW_LOOP_ONE_PASS] = "it looks like one pass through layers, or a model that is built layer by layer",
        [GW_LOOP_UNLIKE] = "each of them called the framework in another way: they look like phases of one iteration",
        [GW_LOOP_UNEVEN] = "one of them left nearly all of it: it looks like one large iteration",
        [GW_LOOP_LATE] = "most of the work was done before: it looks like a phase that needs more memory",
        [GW_LOOP_OUTGROWN] = "a later phase needed more than all of them",
        [GW_LOOP_GROUP] = "earlier groups of them kept their memory, too, and freed it together",
        [GW_LOOP_HELD_BEFORE] = "that call site had held as much before and freed it",
    };
    const gwi_memory *memory = &c->memory;
    const gw_iterations *loop = &memory->growth.loop;
    char bytes[GW_BYTES_TEXT_MAX];
    if (gwi_loop_is_balanced(memory))
        gwi_measure(
            finding, loop->balanced_begin_ns, gwi_memory_source(memory), (double)loop->balanced_peak_bytes, "bytes",
            "the last %" PRIu64 " iterations freed everything that they allocated, and needed at most %s at once",
            loop->balanced_count, gw_bytes_text(bytes, loop->balanced_peak_bytes));
    else if (loop->leak_count > 0 && loop->doubt != GW_LOOP_SURE && would_help(memory))
        gwi_measure(finding, loop->leak_begin_ns, gwi_memory_source(memory), (double)loop->leak_bytes, "bytes",
                    "%s was kept in %" PRIu64 " repetitions of the same requests; %s",
                    gw_bytes_text(bytes, loop->leak_bytes), loop->leak_count, doubts[loop->doubt]);
}
