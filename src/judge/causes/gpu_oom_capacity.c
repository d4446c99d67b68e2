/* The program needs more memory at one time than it may use. Freeing unneeded memory would not have helped.
 *
 * Established only by: one of these, if the program did not continue afterwards:
 * - (1) One request exceeds the whole card, the guard's limit or the framework's own limit. In a log alone, the message
 *   has these numbers.
 * - (2) The live memory is what one iteration needs (is_one_need()). With the request and the contexts, it nearly fills
 *   or exceeds the limit.
 *
 * Only a hypothesis in case (2), if one of these may hold enough memory: other processes, idle pages, a caught failure,
 * an earlier run, further contexts.
 * Dropped if another cause is established.
 * If the refused request was not one of PyTorch's, only (1) is established, and the cause is a hypothesis if PyTorch's
 * unused cache would have been enough.
 * If only a framework's message with its pool's sums is known, a hypothesis, unless the framework's own limit was
 * reached. Supported by:
 * - a request that did not fit, without (1) or (2)
 * - a request that would have fitted without idle memory or other processes */
#include "gwi_cause.h"
#include "gwi_request.h"

#include <inttypes.h>
#include <stdio.h>

/* True if one block, usually a data set, is at least half of all live memory and half of the limit. */
static bool is_dominant(const gwi_memory *memory)
{
    return memory->growth.largest_bytes * 2 >= memory->own_bytes &&
           memory->growth.largest_bytes * 2 >= memory->limit_bytes && memory->growth.largest_bytes >= (64u << 20);
}

static void say_largest(const gwi_case *c, gwi_finding *finding)
{
    const gwi_memory *memory = &c->memory;
    char bytes[GW_BYTES_TEXT_MAX], own[GW_BYTES_TEXT_MAX], at[GWI_PLACE_TEXT_MAX];
    if (memory->growth.largest_bytes * 20 < memory->own_bytes ||
        memory->growth.largest_bytes * 20 < memory->wanted_bytes || memory->growth.largest_bytes == 0 ||
        gwi_request_is_impossible(c))
        return;
    uint64_t t_ns = memory->growth.largest_has_time ? memory->growth.largest_t_ns : GWI_NO_TIME;
    gwi_measure(finding, t_ns, memory->report != NULL ? "observer" : "ledger", (double)memory->growth.largest_bytes,
                "bytes", "the largest block has %s of %s in total%s%s",
                gw_bytes_text(bytes, memory->growth.largest_bytes), gw_bytes_text(own, memory->own_bytes),
                gwi_at(c, memory->growth.largest_site, at)[0] == '\0' ? "" : ", allocated", at);
    if (is_dominant(memory))
        gwi_next(finding,
                 "Do not keep the whole block of %s on the GPU: if it is the data set, keep it in host memory and copy "
                 "one batch at a time",
                 bytes);
}

/* Report that the program ignored the failed allocation and continued with a NULL pointer. */
static void say_ignored(const gwi_case *c, gwi_finding *finding)
{
    const gw_failure *oom = c->oom;
    if (oom == NULL || c->sticky == NULL || c->sticky->t_ns < oom->t_ns)
        return;
    char call[GWI_CALL_TEXT_MAX], bytes[GW_BYTES_TEXT_MAX], fault[GWI_CALL_TEXT_MAX], at[GWI_PLACE_TEXT_MAX];
    gwi_call_text(call, oom->fn_name);
    gwi_measure(finding, oom->t_ns, "driver", (double)oom->bytes_wanted, "bytes",
                "the program did not check the result of this %s of %s%s: it continued with a NULL pointer, and %s "
                "reported %u (%s) %.1f ms later",
                call, gw_bytes_text(bytes, oom->bytes_wanted), gwi_at(c, oom->site, at),
                c->sticky->by_dump ? "the driver" : gwi_call_text(fault, c->sticky->fn_name), c->sticky->result,
                gw_result_name(c->sticky->result), (double)(c->sticky->t_ns - oom->t_ns) / 1e6);
    gwi_next(finding, "Check the result of every %s: an unchecked error surfaces later, in another call", call);
}

static void say_null_use(const gwi_case *c, gwi_finding *finding)
{
    const gw_failure *oom = c->oom;
    if (oom == NULL || oom->after.null_used_at == 0 || c->sticky != NULL)
        return;
    const gw_failure *use = &c->model->failure[oom->after.null_used_at - 1];
    char call[GWI_CALL_TEXT_MAX];
    gwi_evidence(finding, use->t_ns, "driver", "%s was then called with the NULL address of the failed allocation",
                 gwi_call_text(call, use->fn_name));
}

/* Report that the program caught and printed the failure, and failed later because it used a value that the refused
 * step should have written. */
static void say_told(const gwi_case *c, gwi_finding *finding)
{
    const gw_stderr_facts *facts = &c->model->stderr_facts;
    if (c->told == NULL)
        return;
    gwi_say_line(c, finding, &facts->exception,
                 "the program caught the error and continued, then failed on a value that had never been written: ");
    gwi_say_line(c, finding, &facts->frame, "raised at ");
    gwi_next(finding, "Do not just print an out-of-memory error and continue: retry with less memory, or stop");
}

/* True if iterations left memory behind, and the only reason to doubt a leak is that they were few or did no work. */
static bool may_be_leak(const gwi_memory *memory)
{
    const gw_iterations *loop = &memory->growth.loop;
    return gwi_loop_certainty(memory) == GW_HYPOTHESIS &&
           (loop->doubt == GW_LOOP_FEW ||
            ((loop->doubt == GW_LOOP_NO_WORK || loop->doubt == GW_LOOP_OTHER_WORK) && loop->leak_is_current));
}

/* True if another explanation (see the head of this file) holds enough memory. */
static bool explained_otherwise(const gwi_memory *memory)
{
    enum { CONTEXTS_MANY = 2 }; /* this many contexts besides the primary one may come from a loop */
    const gw_growth *growth = &memory->growth;
    return memory->caught != NULL || (memory->made_context_count >= CONTEXTS_MANY && gwi_objects_may_hold(memory)) ||
           gwi_loop_certainty(memory) >= GW_SUPPORTED || may_be_leak(memory) ||
           (growth->repeats && growth->repeat_goes_on && gwi_would_fit(memory, growth->first_bytes)) ||
           (growth->steps && growth->step_live_bytes * 2 >= memory->own_bytes) ||
           (growth->steps && growth->step_fallen > growth->step_waited &&
            growth->step_all_bytes * 2 >= memory->own_bytes) ||
           (memory->foreign_bytes > 0 && gwi_would_fit(memory, memory->foreign_bytes) &&
            memory->foreign_bytes * 4 >= memory->limit_bytes) ||
           (memory->wanted_bytes != 0 && gwi_would_fit(memory, memory->idle_page_bytes) &&
            memory->idle_page_bytes * 10 >= memory->limit_bytes && memory->idle_page_bytes > 0);
}

/* True if the live memory is what one iteration needs. There are two proofs:
 * - (1) Whole iterations freed all that they allocated, and this iteration requests more than they held.
 * - (2) The first iteration has not ended. Since the first request, nothing was freed, the host neither waited nor
 *   read, and no call site allocated twice. The work before the refused request is no more than before others:
 *   additional work may hide iterations without requests.
 *
 * Proof (2) needs the driver's requests, because a framework's report does not count work. */
static bool is_one_need(const gwi_case *c)
{
    const gwi_memory *memory = &c->memory;
    const gw_growth *growth = &memory->growth;
    const gw_iterations *loop = &growth->loop;
    if (!loop->searched)
        return false;
    if (gwi_loop_is_balanced(memory))
        return memory->own_bytes + memory->wanted_bytes > loop->balanced_peak_bytes;
    if (memory->report != NULL || memory->snapshot == NULL)
        return false;
    return growth->requests_whole && loop->leak_count == 0 && !growth->repeats && !growth->steps_unsure &&
           memory->snapshot->frees == 0 && memory->snapshot->reads == 0 && loop->waits_between == 0 &&
           loop->most_requests <= 1 && loop->last_work <= (loop->least_work > 1 ? loop->least_work : 1);
}

/* True if the program would have fitted into the limit without the memory of other processes, or without the idle
 * memory in half-used pages. */
static bool had_fitted(const gwi_memory *memory)
{
    bool others_matter = memory->foreign_bytes > 0 && gwi_would_fit(memory, memory->foreign_bytes);
    bool idle_matters = memory->idle_page_bytes > 0 && gwi_would_fit(memory, memory->idle_page_bytes);
    return (others_matter || idle_matters) && memory->own_bytes + memory->wanted_bytes <= memory->limit_bytes;
}

static bool has_gone_on(const gw_failure *oom)
{
    return oom->after.null_used_at == 0 && (oom->after.worked || oom->after.allocs > 0 ||
                                            (oom->after.launches > 0 && oom->after.launches != UINT64_MAX));
}

static gw_certainty certainty_of(const gwi_case *c)
{
    const gwi_memory *memory = &c->memory;
    const uint64_t context_bytes = (uint64_t)1 << 30; /* upper limit for a context with its libraries */
    bool fills = memory->limit_bytes != 0 && memory->own_bytes >= memory->limit_bytes / 10 * 9;
    bool rest_is_contexts = memory->rest_known && memory->own_bytes * 2 >= memory->limit_bytes &&
                            memory->rest_bytes <= context_bytes * (memory->context_count + 1);
    bool only_need = (fills || rest_is_contexts) && !gwi_objects_may_hold(memory);
    /* The request has no size: there was no room for a driver object, such as a context. */
    bool is_object = memory->wanted_bytes == 0;
    if (is_object && (!only_need || !memory->has_free || memory->free_bytes >= context_bytes))
        return GW_HYPOTHESIS;
    if (c->told != NULL)
        return GW_SUPPORTED;
    /* The program continued after the refusal, so the program's end may have another cause. */
    bool went_on =
        c->oom_last != NULL && has_gone_on(c->oom_last) && c->sticky == NULL && c->exception != GW_EXCEPTION_OOM;
    if (memory->limit_bytes != 0 && memory->wanted_bytes > memory->limit_bytes)
        return went_on ? GW_SUPPORTED : GW_ESTABLISHED;
    if (explained_otherwise(memory) || memory->has_losses || memory->has_gaps || gwi_cache_may_explain(memory) ||
        gwi_cache_is_much(memory))
        return GW_HYPOTHESIS;
    if (gwi_unseen_driver(c->model) != NULL && memory->rest_known && gwi_would_fit(memory, memory->rest_bytes))
        return GW_HYPOTHESIS; /* an unobserved process may hold the memory that nothing accounts for */
    if (memory->is_other_request || is_object)
        return GW_SUPPORTED;
    /* Only PyTorch's observer shows what is live in its allocator. Other frameworks print the amount of live memory in
     * their message. */
    if (c->framework == GW_FRAMEWORK_TORCH && memory->report == NULL)
        return GW_HYPOTHESIS;
    if (c->framework != GW_FRAMEWORK_RAW && memory->report == NULL)
        return GW_SUPPORTED;
    /* A saved snapshot does not show the size of the card or the other processes on it. These may have held most of the
     * memory. */
    if (memory->limit_bytes == 0 && memory->report != NULL)
        return GW_HYPOTHESIS;
    if (memory->limit_bytes == 0 || (memory->live_count == 0 && memory->report == NULL))
        return GW_SUPPORTED;
    if (went_on || !is_one_need(c) || had_fitted(memory))
        return GW_SUPPORTED;
    bool exceeds = memory->own_bytes + memory->wanted_bytes > memory->limit_bytes;
    return exceeds || only_need ? GW_ESTABLISHED : GW_SUPPORTED;
}

/* Only the sums of a framework's pool are known, from its message. What is in the pool is not: it may be what a step
 * needs, or what an earlier one kept. So only a limit that the framework was given is a reason (gwi_say_full_pool() has
 * the other cases). */
static gw_certainty judge_pool(const gwi_case *c, gwi_finding *finding)
{
    const gwi_memory *memory = &c->memory;
    char limit[GW_BYTES_TEXT_MAX], card[GW_BYTES_TEXT_MAX];
    bool is_limited = memory->limit_bytes != 0 && memory->pool_limit_bytes * 2 <= memory->limit_bytes;
    if (gwi_pool_in_pieces(memory) > 0)
        return GW_CERTAINTY_NONE;
    if (!is_limited || memory->wanted_bytes <= memory->pool_limit_bytes - memory->pool_used_bytes)
        return GW_HYPOTHESIS;
    gwi_headline(finding, "the framework's own limit of %s was reached",
                 gw_bytes_text(limit, memory->pool_limit_bytes));
    gwi_say_request(c, finding);
    gwi_say_pool_sums(c, finding);
    gwi_measure(finding, GWI_NO_TIME, "ledger", (double)memory->limit_bytes, "bytes", "the card has %s",
                gw_bytes_text(card, memory->limit_bytes));
    gwi_next(finding,
             "Raise the framework's limit of %s (in TensorFlow, memory_limit of the logical device), or do not "
             "set it",
             limit);
    return GW_SUPPORTED;
}

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    const gwi_memory *memory = &c->memory;
    char wanted[GW_BYTES_TEXT_MAX], limit[GW_BYTES_TEXT_MAX], largest[GW_BYTES_TEXT_MAX];
    if (!memory->known || (c->oom == NULL && c->sticky != NULL))
        return GW_CERTAINTY_NONE;
    if (memory->has_pool)
        return judge_pool(c, finding);
    gw_certainty certainty = certainty_of(c);
    gw_bytes_text(wanted, memory->wanted_bytes);
    gw_bytes_text(limit, memory->limit_bytes);
    const char *whose = memory->limit_is_framework ? ", PyTorch's own limit" : "";
    if (c->oom != NULL && c->sticky != NULL && c->sticky->t_ns > c->oom->t_ns)
        gwi_headline(
            finding,
            "an allocation of %s failed, the program did not check its result, and a kernel used the NULL pointer",
            wanted);
    else if (gwi_request_is_impossible(c))
        gwi_say_impossible_request(c, finding);
    else if (memory->limit_bytes != 0 && memory->wanted_bytes > memory->limit_bytes)
        gwi_headline(finding, "one request of %s is larger than the whole %s%s", wanted, limit, whose);
    else if (is_dominant(memory))
        gwi_headline(finding, "the GPU is full, and one block takes %s of it",
                     gw_bytes_text(largest, memory->growth.largest_bytes));
    else if (memory->has_limit)
        gwi_headline(finding, "the memory that the program needs at once does not fit in %s%s", limit, whose);
    else
        gwi_headline(finding, "the memory that the program needs at once does not fit on the GPU");
    gwi_say_request(c, finding);
    say_told(c, finding);
    say_ignored(c, finding);
    say_null_use(c, finding);
    say_largest(c, finding);
    uint64_t again_bytes = gwi_held_while_built_again(memory);
    if (certainty < GW_ESTABLISHED && again_bytes > 0)
        gwi_next(finding,
                 "Is something built a second time here, such as a model in a loop? Then drop the old one first (del "
                 "model): %s from before is still held",
                 gw_bytes_text(largest, again_bytes));
    gwi_say_live_holder(c, finding, "PyTorch's live memory");
    gwi_say_peak(c, finding, c->memory.report);
    gwi_say_sum(c, finding);
    gwi_say_loop(c, finding);
    gwi_say_memory_ruled_out(c, finding, GWI_NOT_FOREIGN | GWI_NOT_FRAGMENTED | GWI_NOT_GROWTH);
    if (c->oom_last != NULL)
        gwi_say_consequences(c, finding, c->oom_last);
    return certainty;
}

const gw_cause gwi_cause_gpu_oom_capacity = {
    .id = "gpu-oom-capacity",
    .summary = "The live working set does not fit on the GPU.",
    .proof = "a request that was refused for lack of memory, where the memory of the process plus the request exceeds "
             "the limit, and no other process, fragmentation or growth explains the refusal",
    .fixes =
        {[GW_FRAMEWORK_RAW] = "Use a smaller batch: activations shrink in proportion\n"
                              "Before the largest step, free what is no longer needed; use smaller workspaces\n"
                              "Tile the problem, or use a GPU with more memory",
         [GW_FRAMEWORK_TORCH] =
             "Use a smaller batch: activations shrink in proportion (in a training, gradient accumulation keeps its "
             "effect)\n"
             "Use torch.autocast(\"cuda\", torch.bfloat16)\n"
             "Use torch.utils.checkpoint on the largest blocks\n"
             "Shard model and optimizer states (FSDP, ZeRO), or use an 8-bit optimizer",
         [GW_FRAMEWORK_TENSORFLOW] = "Use a smaller batch\nUse the mixed_precision policy\n"
                                     "Use tf.recompute_grad on the largest blocks",
         [GW_FRAMEWORK_JAX] = "Use a smaller batch\nUse bfloat16\nUse jax.checkpoint on the largest blocks\n"
                              "Donate arguments that are overwritten (donate_argnums)"},
    .is_remainder = true,
    .replay = GWI_REPLAY,
    .judge = judge,
};
