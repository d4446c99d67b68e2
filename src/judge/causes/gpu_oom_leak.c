/* The program keeps memory that it no longer needs: from an earlier run in the same process, from every iteration, or
 * as streams, contexts or executable graphs that are never destroyed.
 *
 * Established only by: streams or contexts (judge_handles()) that hold at least half of the limit, and no less than the
 * program's own allocations. Both their number and the driver's memory beyond all allocations must show this.
 *
 * Memory that grows never establishes a leak, however often it grew: a replay buffer, a cache or a data set that is
 * loaded in pieces makes the same calls, and so does one long sentence.
 *
 * If the refused request was not one of PyTorch's, the cause is a hypothesis if PyTorch's unused cache is large and
 * would have been enough, or if the iterations left less than a quarter of the live memory behind.
 *
 * Supported by:
 * - iterations that left memory behind (gwi_loop_certainty())
 * - live blocks of one size, if the recording does not count work between requests
 * - a second run while the first one's memory is still live (an ensemble that needs all its models makes the same
 *   calls)
 * - a caught failure whose memory is still alive
 * - many equal JAX arrays
 * - executable graphs whose captured requests have much memory (a program may need a graph for each shape)
 *
 * A hypothesis by: a place that allocates again while what it allocated before is held (judge_built_again()).
 *
 * Only a hypothesis in a framework without a report of its allocator, except streams, contexts, executable graphs and
 * the JAX arrays. This does not apply if the framework allocates each tensor from the driver. */
#include "gwi_cause.h"
#include "gwi_plateau.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- an earlier run ---- */

static void say_first_run(gwi_finding *finding, const gwi_memory *memory, const char *kept)
{
    const gw_growth *growth = &memory->growth;
    char own[GW_BYTES_TEXT_MAX], when[64];
    double begin_s = (double)growth->first_begin_ns / 1e9, end_s = (double)growth->first_end_ns / 1e9;
    if (growth->first_has_begin)
        snprintf(when, sizeof when, "between %.2f s and %.2f s", begin_s, end_s);
    else
        snprintf(when, sizeof when, "before %.2f s", end_s);
    gwi_measure(finding, growth->first_has_begin ? growth->first_begin_ns : GWI_NO_TIME, gwi_memory_source(memory),
                (double)growth->first_bytes, "bytes",
                "%s of the %s in use was allocated by the first run, %s, and never freed", kept,
                gw_bytes_text(own, memory->own_bytes), when);
}

static gw_certainty judge_runs(const gwi_case *c, gwi_finding *finding)
{
    const gwi_memory *memory = &c->memory;
    const gw_growth *growth = &memory->growth;
    char kept[GW_BYTES_TEXT_MAX];
    bool is_much = growth->first_bytes * 4 >= memory->own_bytes;
    bool matters = is_much || (!memory->is_other_request && gwi_would_fit(memory, growth->first_bytes));
    if (!growth->repeats || !matters)
        return GW_CERTAINTY_NONE;
    gw_bytes_text(kept, growth->first_bytes);
    gwi_headline(finding, "%s found the GPU full of memory that the first run still held: %s",
                 growth->repeat_count == 2 ? "the second run" : "a later run", kept);
    gwi_say_request(c, finding);
    say_first_run(finding, memory, kept);
    gwi_say_holder(c, finding, growth->first_end_ns, gwi_memory_source(memory), memory->live, growth->first_count,
                   "that");
    gwi_measure(finding, growth->last_begin_ns, gwi_memory_source(memory), (double)growth->repeat_match_count, "count",
                "from %.2f s on, %s in the same order (%zu in a row)%s", (double)growth->last_begin_ns / 1e9,
                growth->repeat_by_place ? "the same call sites requested other sizes"
                                        : "the same sizes were requested again",
                growth->repeat_match_count, growth->repeat_count > 2 ? ", not for the first time" : "");
    gwi_say_memory_ruled_out(c, finding, GWI_NOT_FOREIGN | GWI_NOT_FRAGMENTED);
    return growth->repeat_goes_on ? GW_SUPPORTED : GW_HYPOTHESIS;
}

/* Judge an earlier run if the live blocks clearly show both runs: many equal requests in the same order. Do this before
 * judge_iterations(), because it is stronger evidence than iterations that reach only GW_SUPPORTED. */
static gw_certainty judge_clear_runs(const gwi_case *c, gwi_finding *finding)
{
    enum { MATCH_MANY = 6 };
    const gw_growth *growth = &c->memory.growth;
    bool is_clear = growth->repeat_goes_on && !growth->repeat_by_requests && growth->repeat_match_count >= MATCH_MANY;
    return is_clear && gwi_would_fit(&c->memory, growth->first_bytes) ? judge_runs(c, finding) : GW_CERTAINTY_NONE;
}

/* ---- every iteration ---- */

/* Report how many blocks were kept, one per iteration. So many blocks explain why the memory ran out when it did. */
static void say_iterations(const gwi_case *c, gwi_finding *finding)
{
    const gw_growth *growth = &c->memory.growth;
    gwi_measure(finding, growth->step_end_ns, gwi_memory_source(&c->memory), (double)growth->step_count, "count",
                "%" PRIu64 " such blocks, one per iteration: the memory had to run out at about this time",
                growth->step_count);
}

/* Judge memory use that rose and fell all the time, but rose more than it fell. Only a framework's observer shows
 * this. */
static gw_certainty judge_accumulation(const gwi_case *c, gwi_finding *finding)
{
    const gwi_memory *memory = &c->memory;
    const gw_growth *growth = &memory->growth;
    char all[GW_BYTES_TEXT_MAX], one[GW_BYTES_TEXT_MAX], own[GW_BYTES_TEXT_MAX], peak[GW_BYTES_TEXT_MAX];
    if (growth->step_all_bytes * 2 < memory->own_bytes || !gwi_would_fit(memory, growth->step_all_bytes))
        return GW_CERTAINTY_NONE;
    gw_bytes_text(all, growth->step_all_bytes);
    char at[GWI_PLACE_TEXT_MAX];
    gwi_headline(finding, "every few steps some memory is kept: %s more in %" PRIu64 " steps", all, growth->step_count);
    gwi_say_request(c, finding);
    gwi_measure(finding, growth->step_begin_ns, gwi_memory_source(memory), (double)growth->step_all_bytes, "bytes",
                "%s of the %s in use was allocated between %.2f s and %.2f s, and never freed", all,
                gw_bytes_text(own, memory->own_bytes), (double)growth->step_begin_ns / 1e9,
                (double)growth->step_end_ns / 1e9);
    gwi_measure(finding, growth->step_end_ns, gwi_memory_source(memory), (double)growth->step_count, "count",
                "among them %" PRIu64 " blocks of %s%s; between %" PRIu64 " of them, at least as much memory was freed",
                growth->step_count, gw_bytes_text(one, growth->step_bytes), gwi_at(c, growth->step_site, at),
                growth->step_fallen);
    if (growth->step_site != 0)
        gwi_where(finding, growth->step_site, "the memory that is never freed is allocated here");
    if (growth->earlier_peak_bytes != 0)
        gwi_measure(finding, growth->earlier_t_ns, gwi_memory_source(memory), (double)growth->earlier_peak_bytes,
                    "bytes", "until %.2f s the same work needed at most %s at once and freed all of it",
                    (double)growth->earlier_t_ns / 1e9, gw_bytes_text(peak, growth->earlier_peak_bytes));
    gwi_say_memory_ruled_out(c, finding, GWI_NOT_FOREIGN | GWI_NOT_FRAGMENTED);
    return GW_SUPPORTED;
}

static gw_certainty judge_steps(const gwi_case *c, gwi_finding *finding)
{
    const gwi_memory *memory = &c->memory;
    const gw_growth *growth = &memory->growth;
    char all[GW_BYTES_TEXT_MAX], one[GW_BYTES_TEXT_MAX], own[GW_BYTES_TEXT_MAX];
    if (growth->steps && growth->step_waited < growth->step_fallen)
        return judge_accumulation(c, finding);
    bool matters = growth->step_live_bytes * 4 >= memory->own_bytes &&
                   (gwi_would_fit(memory, growth->step_live_bytes) || !memory->has_free);
    if (!growth->steps || !matters)
        return GW_CERTAINTY_NONE;
    char at[GWI_PLACE_TEXT_MAX];
    gw_bytes_text(all, growth->step_live_bytes);
    gw_bytes_text(one, growth->step_bytes);
    gwi_headline(finding, "every iteration kept another %s that was never freed, %s in total", one, all);
    gwi_say_request(c, finding);
    gwi_measure(finding, growth->step_begin_ns, gwi_memory_source(memory), (double)growth->step_bytes, "bytes",
                "%s per iteration: %" PRIu64
                " blocks of that size, %s of the %s in use, allocated one after the other from %.2f s to %.2f s%s",
                one, growth->step_count, all, gw_bytes_text(own, memory->own_bytes),
                (double)growth->step_begin_ns / 1e9, (double)growth->step_end_ns / 1e9,
                gwi_at(c, growth->step_site, at));
    if (growth->step_site != 0)
        gwi_where(finding, growth->step_site, "the memory that is never freed is allocated here");
    if (growth->step_turnover > 0)
        gwi_measure(finding, GWI_NO_TIME, gwi_memory_source(memory), (double)growth->step_turnover, "count",
                    "meanwhile %" PRIu64 " other blocks were allocated and freed", growth->step_turnover);
    if (growth->step_freed > 0)
        gwi_measure(finding, GWI_NO_TIME, "ledger", (double)growth->step_freed, "count",
                    "%" PRIu64 " others of the same kind were freed", growth->step_freed);
    say_iterations(c, finding);
    gwi_say_memory_ruled_out(c, finding, GWI_NOT_FOREIGN | GWI_NOT_FRAGMENTED);
    return GW_SUPPORTED;
}

/* True if memory use was level for most of the run, and only the last, short phase kept more. That phase might have
 * freed it at its end. An example is a validation that keeps autograd graphs. */
static bool is_late_phase(const gwi_memory *memory)
{
    gwi_plateau plateau;
    return gwi_find_plateau(memory->report, &plateau) && memory->growth.loop.leak_begin_ns >= plateau.rising_ns;
}

static gw_certainty judge_iterations(const gwi_case *c, gwi_finding *finding)
{
    gw_certainty certainty = gwi_loop_certainty(&c->memory);
    if (certainty == GW_CERTAINTY_NONE)
        return certainty;
    if (certainty == GW_SUPPORTED && !gw_iterations_are_sure(&c->memory.growth.loop) && is_late_phase(&c->memory))
        certainty = GW_HYPOTHESIS;
    gwi_say_loop_leak(c, finding);
    gwi_say_memory_ruled_out(c, finding, GWI_NOT_FOREIGN | GWI_NOT_FRAGMENTED);
    return certainty;
}

/* Judge a place that requests memory again while all that it had requested before is held: perhaps a model is built
 * again in a loop, and the variable still holds the old one. Two models that are needed at once make the same calls. */
static gw_certainty judge_built_again(const gwi_case *c, gwi_finding *finding)
{
    uint64_t bytes = gwi_held_while_built_again(&c->memory);
    char held[GW_BYTES_TEXT_MAX];
    if (bytes == 0)
        return GW_CERTAINTY_NONE;
    gw_bytes_text(held, bytes);
    gwi_headline(finding, "%s from before is still held while the same place allocates again", held);
    gwi_say_request(c, finding);
    gwi_measure(finding, GWI_NO_TIME, gwi_memory_source(&c->memory), (double)bytes, "bytes",
                "kernels had run and the host had waited since this place allocated; %s more is held now", held);
    return GW_HYPOTHESIS;
}

/* ---- streams, contexts and graphs ---- */

typedef struct handle_leak {
    gw_class cls;
    const char *name;
    /* number of live objects; from count_few on a leak is a hypothesis, from count_min on it is supported */
    uint64_t count, count_min, count_few;
    uint64_t each_bytes; /* size of one object, measured on a real card, or what the captured calls requested */
    const char *destroy; /* the call that destroys one */
} handle_leak;

/* Return the size of one object, 0 if unknown: the growth of used memory outside of allocations, divided by `count`. */
static uint64_t bytes_each(const gwi_case *c, uint64_t count)
{
    const gwi_memory *memory = &c->memory;
    const gw_device *device = &c->model->device[memory->device];
    uint64_t used_first = 0;
    if (!memory->rest_known || count == 0)
        return 0;
    if (device->known && device->bytes_free_first != 0 && device->bytes_total > device->bytes_free_first &&
        !memory->limit_is_guard)
        used_first = device->bytes_total - device->bytes_free_first;
    return memory->rest_bytes > used_first ? (memory->rest_bytes - used_first) / count : 0;
}

/* Return the call site with the largest number of objects of class `cls` that were alive at one time. */
static const gw_group *find_maker(const gwi_case *c, gw_class cls)
{
    const gw_group *best = NULL;
    for (size_t i = 1; i < c->model->group_count; i++) {
        const gw_group *group = &c->model->group[i];
        if (group->pid == c->memory.pid && group->cls == cls && group->site != 0 &&
            (best == NULL || group->live_count_peak > best->live_count_peak))
            best = group;
    }
    return best;
}

static gw_certainty judge_handles(const gwi_case *c, gwi_finding *finding, const handle_leak *leak)
{
    const gwi_memory *memory = &c->memory;
    char bytes[GW_BYTES_TEXT_MAX], each[GW_BYTES_TEXT_MAX], rest[GW_BYTES_TEXT_MAX];
    uint64_t taken = leak->count * leak->each_bytes; /* estimate, by the size measured on a real card */
    uint64_t held = memory->rest_known && memory->rest_bytes < taken ? memory->rest_bytes : taken;
    bool is_most = held * 4 >= memory->limit_bytes && gwi_kept_from_others(memory) <= held;
    bool matters = held * 16 >= memory->limit_bytes && memory->has_free && gwi_would_fit(memory, held);
    if (taken == 0 || leak->count < leak->count_few || held < taken / 2 || !(is_most || matters))
        return GW_CERTAINTY_NONE;
    uint64_t one = bytes_each(c, leak->count);
    char place[GWI_PLACE_TEXT_MAX];
    const gw_group *maker = find_maker(c, leak->cls);
    gwi_headline(finding, "%" PRIu64 " %ss were created and never destroyed; each takes device memory", leak->count,
                 leak->name);
    gwi_say_request(c, finding);
    gwi_measure(finding, memory->t_ns, "ledger", (double)leak->count, "count",
                "%" PRIu64 " %ss were alive in this process", leak->count, leak->name);
    if (leak->cls == GW_CLASS_GRAPH_EXEC)
        gwi_measure(finding, memory->t_ns, "ledger", (double)taken, "bytes",
                    "the requests that were captured in them have %s in total, which belongs to the graphs",
                    gw_bytes_text(bytes, taken));
    if (maker != NULL && gwi_place(c, maker->site, place)[0] != '\0') {
        gwi_measure(finding, maker->t_first_ns, "ledger", (double)maker->live_count_peak, "count",
                    "%" PRIu64 " of them were created at %s, between %.2f s and %.2f s", maker->live_count_peak, place,
                    (double)maker->t_first_ns / 1e9, (double)maker->t_last_ns / 1e9);
        gwi_where(finding, maker->site, "they are created here and never destroyed");
    }
    if (memory->rest_known && one == 0)
        gwi_measure(finding, memory->t_ns, "driver", (double)memory->rest_bytes, "bytes",
                    "the driver held %s beyond all allocations", gw_bytes_text(rest, memory->rest_bytes));
    else if (memory->rest_known)
        gwi_measure(finding, memory->t_ns, "driver", (double)memory->rest_bytes, "bytes",
                    "the driver held %s beyond all allocations, about %s per %s",
                    gw_bytes_text(rest, memory->rest_bytes), gw_bytes_text(each, one), leak->name);
    gwi_measure(finding, memory->t_ns, "ledger", (double)memory->own_bytes, "bytes",
                is_most ? "the program's own allocations were only %s" : "the program's own allocations were %s",
                gw_bytes_text(bytes, memory->own_bytes));
    gwi_next(finding, "Create %ss once and reuse them, or destroy each one (%s) when its work is done", leak->name,
             leak->destroy);
    gwi_say_memory_ruled_out(c, finding, GWI_NOT_FOREIGN | GWI_NOT_FRAGMENTED);
    if (leak->count < leak->count_min)
        return GW_HYPOTHESIS;
    bool may_be_plan = leak->cls == GW_CLASS_GRAPH_EXEC; /* a graph for each shape */
    return is_most && memory->rest_known && held * 2 >= memory->limit_bytes && !may_be_plan ? GW_ESTABLISHED
                                                                                            : GW_SUPPORTED;
}

static gw_certainty judge_objects(const gwi_case *c, gwi_finding *finding)
{
    const gwi_memory *memory = &c->memory;
    /* Measured on a real card: a stream takes 0.55 MiB of device memory, a context 527 MiB. */
    const gw_usage none = {0}, *usage = memory->snapshot == NULL ? &none : &memory->snapshot->usage;
    /* a captured graph need not be instantiated, and may be several times: the larger number gives the smaller size */
    uint64_t execs = usage->class_made[GW_CLASS_GRAPH_EXEC];
    uint64_t graphs = usage->graphs_captured > execs ? usage->graphs_captured : execs;
    const handle_leak leaks[] = {
        {GW_CLASS_STREAM, "stream", memory->stream_count, 256, 256, 563u << 10, "cuStreamDestroy"},
        {GW_CLASS_CONTEXT, "context", memory->made_context_count, 3, 2, 500u << 20, "cuCtxDestroy"},
        {GW_CLASS_GRAPH_EXEC, "executable graph", usage->class_count[GW_CLASS_GRAPH_EXEC], 16, 16,
         graphs == 0 ? 0 : usage->captured_bytes / graphs, "cuGraphExecDestroy"}};
    gw_certainty certainty = GW_CERTAINTY_NONE;
    for (size_t i = 0; i < sizeof leaks / sizeof leaks[0] && certainty == GW_CERTAINTY_NONE; i++)
        certainty = judge_handles(c, finding, &leaks[i]);
    return certainty;
}

/* ---- memory that a failed first run still holds ---- */

/* Judge a caught out-of-memory error. The program kept the exception, so the memory of the failing step stays alive. */
static gw_certainty judge_kept_exception(const gwi_case *c, gwi_finding *finding)
{
    const gwi_memory *memory = &c->memory;
    const gw_allocator_report *first = memory->caught;
    if (first == NULL)
        return GW_CERTAINTY_NONE;
    uint64_t held = memory->caught_bytes, then = first->field[GW_ALLOCATOR_ALLOCATED];
    char kept[GW_BYTES_TEXT_MAX], before[GW_BYTES_TEXT_MAX];
    gw_bytes_text(kept, held);
    gwi_headline(finding, "the first run failed for lack of memory, and %s of what it held is still referenced", kept);
    gwi_say_request(c, finding);
    gwi_evidence(finding, first->t_ns, "observer", "the program caught a first out-of-memory error; %s was in use then",
                 gw_bytes_text(before, then));
    gwi_measure(
        finding, memory->t_ns, "observer", (double)held, "bytes",
        "%s allocated before that is still alive: a stored exception keeps the frames of the failing step alive", kept);
    size_t old = 0; /* number of blocks from before the error; blocks are sorted by time */
    while (old < memory->live_count && memory->live[old].t_ns <= first->t_ns)
        old++;
    gwi_say_holder(c, finding, memory->t_ns, "observer", memory->live, old, "that");
    gwi_next(finding, "Drop the exception object and its traceback before the next run (leave the except block, del "
                      "it): emptying the cache cannot free referenced memory");
    return GW_SUPPORTED;
}

/* Return the bytes that the phase allocated before its out-of-memory error and that are still alive. */
static uint64_t held_of(const gwi_case *c, const gw_phase *phase, const gw_failure *failure)
{
    const gwi_memory *memory = &c->memory;
    uint64_t held = 0;
    for (size_t i = 0; i < memory->live_count; i++)
        held += memory->live[i].has_time && memory->live[i].t_ns >= phase->t_ns &&
                        memory->live[i].t_ns <= failure->t_last_ns
                    ? memory->live[i].bytes
                    : 0;
    return held;
}

/* Judge a phase that ran out of memory and still holds memory, if a later phase needs this memory. The program names
 * its phases, for example a notebook its cells. */
static gw_certainty judge_kept_phase(const gwi_case *c, gwi_finding *finding)
{
    const gwi_memory *memory = &c->memory;
    const gw_phase *now = gw_model_phase_at(c->model, memory->pid, memory->t_ns), *then = NULL;
    const gw_failure *first = NULL;
    uint64_t held = 0;
    for (size_t i = 0; now != NULL && i < c->model->failure_count; i++) {
        const gw_failure *failure = &c->model->failure[i];
        if (failure->pid != memory->pid || !failure->is_allocation || failure->is_echo ||
            failure->t_last_ns >= now->t_ns)
            continue;
        const gw_phase *phase = gw_model_phase_at(c->model, failure->pid, failure->t_last_ns);
        uint64_t bytes = phase == NULL || phase == now ? 0 : held_of(c, phase, failure);
        if (bytes > held) {
            held = bytes;
            then = phase;
            first = failure;
        }
    }
    bool fits =
        memory->has_free ? gwi_would_fit(memory, held) : memory->wanted_bytes != 0 && held >= memory->wanted_bytes;
    if (first == NULL || held * 4 < memory->own_bytes || gwi_would_fit(memory, 0) || !fits)
        return GW_CERTAINTY_NONE;
    char kept[GW_BYTES_TEXT_MAX], wanted[GW_BYTES_TEXT_MAX], call[GWI_CALL_TEXT_MAX];
    gw_bytes_text(kept, held);
    gwi_headline(finding, "%s failed for lack of memory, and %s of what it had allocated is still referenced",
                 then->name, kept);
    gwi_say_request(c, finding);
    gwi_measure(finding, first->t_last_ns, "driver", (double)first->bytes_wanted, "bytes",
                "in %s, %s of %s had failed, and the program continued", then->name,
                gwi_call_text(call, first->fn_name), gw_bytes_text(wanted, first->bytes_wanted));
    gwi_measure(finding, memory->t_ns, gwi_memory_source(memory), (double)held, "bytes",
                "%s that %s allocated before that is still alive; without it the request would have fitted", kept,
                then->name);
    gwi_next(finding,
             "Before the next try, drop what %s left behind; in Python: variables, stored exception objects and the "
             "last traceback, whose frames keep their local variables alive, then gc.collect()",
             then->name);
    gwi_say_memory_ruled_out(c, finding, GWI_NOT_FOREIGN | GWI_NOT_FRAGMENTED);
    return GW_SUPPORTED;
}

/* Judge JAX's report of its live arrays. JAX's allocator takes most of the card at once, so the driver's calls do not
 * show what is live in it. */
static gw_certainty judge_arrays(const gwi_case *c, gwi_finding *finding)
{
    const gw_arrays *arrays = &c->model->arrays;
    uint64_t reads = c->process == NULL ? 0 : c->process->counter[GW_COUNT_READ];
    const gw_array_kind *pile = c->framework == GW_FRAMEWORK_JAX && arrays->seen ? gw_arrays_pile(arrays, reads) : NULL;
    if (pile == NULL)
        return GW_CERTAINTY_NONE;
    char all[GW_BYTES_TEXT_MAX], in_use[GW_BYTES_TEXT_MAX];
    gw_bytes_text(all, pile->bytes * pile->count);
    gwi_headline(finding, "%" PRIu64 " equal JAX arrays are alive, %s in total", pile->count, all);
    gwi_say_request(c, finding);
    gwi_measure(finding, arrays->t_ns, "observer", (double)(pile->bytes * pile->count), "bytes",
                "%" PRIu64 " live arrays have the type and shape %s, %s in total; JAX had %s in use", pile->count,
                pile->name, all, gw_bytes_text(in_use, arrays->bytes_in_use));
    if (reads >= pile->count / 2)
        gwi_measure(finding, GWI_NO_TIME, "ledger", (double)reads, "count",
                    "the program had read results %" PRIu64 " times, so it had done many steps before it failed",
                    reads);
    return GW_SUPPORTED;
}

/* True if most of the memory is stream-ordered. PyTorch with backend:cudaMallocAsync allocates each tensor from the
 * driver in this way. */
static bool is_asked_one_by_one(const gwi_memory *memory)
{
    uint64_t ordered = 0;
    for (size_t i = 0; i < memory->live_count; i++)
        ordered += memory->live[i].cls == GW_CLASS_POOL ? memory->live[i].bytes : 0;
    return ordered * 2 > memory->own_bytes;
}

/* Return the highest certainty of a leak in PyTorch's memory, if another library's request was refused. */
static gw_certainty most_of_other(const gwi_case *c)
{
    return gwi_cache_is_much(&c->memory) ? GW_HYPOTHESIS : GW_SUPPORTED;
}

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    static gw_certainty (*const kinds[])(const gwi_case *, gwi_finding *) = {
        judge_kept_exception, judge_kept_phase, judge_clear_runs, judge_iterations, judge_runs,
        judge_steps,          judge_objects,    judge_arrays,     judge_built_again};
    if (!c->memory.known || (c->oom == NULL && c->sticky != NULL))
        return GW_CERTAINTY_NONE;
    if (c->memory.limit_bytes != 0 && c->memory.wanted_bytes > c->memory.limit_bytes)
        return GW_CERTAINTY_NONE; /* the request would not fit into an empty card either */
    gw_certainty most = GW_CERTAINTY_NONE;
    bool caught = false;
    /* The first two functions judge a failure that the program caught, which explains why the memory was kept. If
     * neither is supported, use the most certain result of all. */
    enum { CAUGHT_KINDS = 2 };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0] && (i < CAUGHT_KINDS || !caught); i++) {
        gwi_finding one = {.cause = finding->cause};
        gw_certainty certainty = kinds[i](c, &one);
        /* With a caching allocator, the driver sees only the allocator's segments, not the live blocks in them, so most
         * kinds are hypotheses. */
        if (certainty != GW_CERTAINTY_NONE && c->framework != GW_FRAMEWORK_RAW && c->memory.report == NULL &&
            !is_asked_one_by_one(&c->memory) && kinds[i] != judge_objects && kinds[i] != judge_arrays)
            certainty = GW_HYPOTHESIS;
        /* PyTorch's layers and phases look like iterations, unless the places of the requests are known. */
        if (certainty > GW_HYPOTHESIS && i >= CAUGHT_KINDS && c->memory.report != NULL &&
            gw_model_meta(c->model, "option.no_sites") != NULL)
            certainty = GW_HYPOTHESIS;
        if (c->memory.is_other_request && kinds[i] != judge_objects && certainty > most_of_other(c))
            certainty = most_of_other(c);
        if (certainty <= most) {
            gwi_finding_free(&one);
            continue;
        }
        gwi_finding_free(finding);
        *finding = one;
        most = certainty;
        caught = i < CAUGHT_KINDS && most >= GW_SUPPORTED;
    }
    /* If events were lost, the blocks may have been freed, or other work may explain them. */
    bool is_sure = most == GW_ESTABLISHED || gw_iterations_are_sure(&c->memory.growth.loop);
    if (most > GW_HYPOTHESIS && (c->memory.has_gaps || (c->memory.has_losses && !is_sure)))
        most = GW_HYPOTHESIS;
    if (most != GW_CERTAINTY_NONE && c->oom_last != NULL)
        gwi_say_consequences(c, finding, c->oom_last);
    return most;
}

const gw_cause gwi_cause_gpu_oom_leak = {
    .id = "gpu-oom-leak",
    .summary = "The program keeps memory that it no longer needs, until the GPU is full.",
    .proof = "memory of an earlier run that is still alive while the same sizes are allocated again; or blocks of one "
             "size that accumulate while other memory is allocated and freed; or streams or contexts that are created "
             "and never destroyed",
    .fixes =
        {[GW_FRAMEWORK_RAW] =
             "Free in every iteration, and at the end of every run, what that iteration or run allocated\n"
             "Do not reset the device instead: whatever the program still holds becomes invalid",
         [GW_FRAMEWORK_TORCH] =
             "Do not keep tensors that reference the autograd graph: append float(loss) or loss.detach(), not loss\n"
             "Before the second run, del the model, optimizer, outputs and batch of the first, and drop stored "
             "exceptions\n"
             "torch.cuda.empty_cache() frees nothing that is still referenced",
         [GW_FRAMEWORK_TENSORFLOW] = "Call tf.keras.backend.clear_session() between runs and del the model\n"
                                     "Do not create variables or functions inside the loop",
         [GW_FRAMEWORK_JAX] = "del the arrays that earlier steps or runs kept; jax.live_arrays() lists what is alive\n"
                              "jax.clear_caches() drops compiled programs"},
    .replay = GWI_REPLAY_OF_LEAK,
    .judge = judge,
};
