/* Judges two findings of the model: frees that are not ordered after a copy, and copies that nothing waited for.
 *
 * A free is a supported finding if all steps since the copy are known, none orders the two, and either the free came
 * sooner than any card can copy that much, or it came within 0.1 s and nothing could show the program that the copy had
 * ended. Otherwise it is a hypothesis: the host may have checked memory that the copy wrote. It is none if a graph was
 * launched in between, or if launches into the default stream may have ordered the two. A supported finding is a fault
 * even if the program exits 0, because its results may be wrong. A copy to page-locked memory that nothing waited for
 * is always a hypothesis, because the host's reads are not visible. */
#include "gwi_order.h"

#include "gwi_fault.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    /* Upper bounds for the speed of copies and fills, in bytes per microsecond: twice the rates of the fastest
     * known cards. */
    HOST_COPY_BYTES_A_US = 1 << 20,
    DEVICE_COPY_BYTES_A_US = 8 << 20,
    FILL_BYTES_A_US = 16 << 20
};

/* Return the shortest possible duration of the copy in nanoseconds, counted from its call. */
static uint64_t shortest_ns(const gw_unordered *it)
{
    uint64_t a_us = DEVICE_COPY_BYTES_A_US;
    if (it->is_fill)
        a_us = FILL_BYTES_A_US;
    else if (it->to_host || it->from_host)
        a_us = HOST_COPY_BYTES_A_US;
    return (uint64_t)((double)it->copy_bytes * 1e3 / (double)a_us);
}

/* True if the copy was certainly still running when the memory was freed. A kernel after the copy makes this
 * uncertain: it could have polled memory and delayed the free. */
static bool is_in_flight(const gw_unordered *it)
{
    return it->launches_known && it->launch_count == 0 && it->t_free_ns - it->t_copy_ns < shortest_ns(it);
}

/* True if the program could not know whether the copy had ended: there was no launch, no recorded event and no later
 * copy, and the copy was not to the host. Elapsed time does not count as knowledge, because it says nothing about the
 * card: a busy machine makes any program slow. */
static bool is_unseen(const gw_unordered *it)
{
    return it->launches_known && it->launch_count == 0 && it->later_count == 0 && !it->recorded && !it->to_host;
}

/* True if graphs, launches into the default stream or unrecorded calls may have ordered the free after the copy. */
static bool may_be_ordered(const gw_process *process, const gw_unordered *it)
{
    if (it->launches_known)
        return it->graph_count > 0 || (it->on_blocking && it->default_count > 0);
    return it->on_blocking || process->counter[GW_COUNT_GRAPH_LAUNCH] > 0;
}

static bool is_complete(const gw_model *model, const gw_process *process)
{
    return model->damaged_count == 0 && process->lost_events == 0 && process->lost_threads == 0 &&
           !process->is_several && gw_model_fact(model, GW_FACT_DROPPED_EVENTS) == NULL;
}

static gw_certainty weigh(const gwi_case *c, const gw_process *process, const gw_unordered *it,
                          gwi_race_reason *ret_reason)
{
    if (it->kind != GW_UNORDERED_FREE || may_be_ordered(process, it))
        return GW_CERTAINTY_NONE;
    bool in_flight = is_in_flight(it);
    *ret_reason = in_flight ? GWI_RACE_IN_FLIGHT : GWI_RACE_UNSEEN;
    if (!is_complete(c->model, process) || gwi_launches_block(c))
        return GW_CERTAINTY_NONE;
    return in_flight || is_unseen(it) ? GW_SUPPORTED : GW_HYPOTHESIS;
}

gw_certainty gwi_find_race(const gwi_case *c, gwi_race *ret_race)
{
    gw_certainty most = GW_CERTAINTY_NONE;
    for (size_t i = 0; i < c->model->unordered_count && c->process != NULL; i++) {
        const gw_unordered *it = &c->model->unordered[i];
        gwi_race_reason reason;
        if (it->pid != c->process->pid)
            continue;
        gw_certainty certainty = weigh(c, c->process, it, &reason);
        if (certainty <= most)
            continue;
        most = certainty;
        *ret_race = (gwi_race){it, certainty, reason};
    }
    return most;
}

gw_certainty gwi_find_host_read(const gwi_case *c, gwi_host_read *ret_read)
{
    const gw_model *model = c->model;
    *ret_read = (gwi_host_read){0};
    if (c->process == NULL || !is_complete(model, c->process) || c->sticky != NULL)
        return GW_CERTAINTY_NONE;
    for (size_t i = 0; i < model->unordered_count && ret_read->freed == NULL; i++) {
        const gw_unordered *it = &model->unordered[i];
        if (it->kind == GW_UNORDERED_HOST_FREE && it->pid == c->process->pid && !may_be_ordered(c->process, it))
            ret_read->freed = it;
    }
    for (size_t i = 0; i < model->unwaited_count && !c->bad_end; i++) {
        if (model->unwaited[i].pid == c->process->pid)
            ret_read->unwaited = &model->unwaited[i];
    }
    return ret_read->freed != NULL || ret_read->unwaited != NULL ? GW_HYPOTHESIS : GW_CERTAINTY_NONE;
}

const char *gwi_order_stream_text(char out[GWI_ORDER_STREAM_TEXT_MAX], uint64_t stream)
{
    char text[GWI_STREAM_TEXT_MAX];
    if (stream > 0xff && (stream & 7) == 2)
        snprintf(out, GWI_ORDER_STREAM_TEXT_MAX, "the per-thread default stream of thread %" PRIu64, stream >> 8);
    else
        snprintf(out, GWI_ORDER_STREAM_TEXT_MAX, "%s", gwi_stream_text(text, stream));
    return out;
}

static bool advise(gw_string_list *advice, const char *text)
{
    return gwi_list_add(advice, text);
}

bool gwi_advise_order(const gwi_case *c, gw_string_list *advice)
{
    gwi_race race;
    gwi_host_read read;
    char text[2 * GWI_PLACE_TEXT_MAX], at[GWI_PLACE_TEXT_MAX], bytes[GW_BYTES_TEXT_MAX], call[GWI_CALL_TEXT_MAX];
    bool good = true;
    if (gwi_find_race(c, &race) == GW_HYPOTHESIS) {
        snprintf(text, sizeof text,
                 "possibly not ordered: before the block of %s was freed%s at %.2f s, %s used it on another stream, "
                 "with no event, wait or synchronisation in between (cross-stream-use-after-free)",
                 gw_bytes_text(bytes, race.found->block_bytes), gwi_at(c, race.found->free_site, at),
                 (double)race.found->t_free_ns / 1e9, gwi_call_text(call, race.found->copy_fn));
        good = advise(advice, text);
    }
    if (!good || gwi_find_host_read(c, &read) == GW_CERTAINTY_NONE)
        return good;
    if (read.freed != NULL)
        snprintf(text, sizeof text,
                 "possibly read too early: nothing waited for %s of %s at %.2f s before its page-locked memory was "
                 "freed%s at %.2f s (host-read-not-ordered)",
                 gwi_call_text(call, read.freed->copy_fn), gw_bytes_text(bytes, read.freed->copy_bytes),
                 (double)read.freed->t_copy_ns / 1e9, gwi_at(c, read.freed->free_site, at),
                 (double)read.freed->t_free_ns / 1e9);
    else
        snprintf(text, sizeof text,
                 "possibly read too early: nothing waited for %s of %s at %.2f s until the program ended "
                 "(host-read-not-ordered)",
                 gwi_call_text(call, read.unwaited->copy_fn), gw_bytes_text(bytes, read.unwaited->bytes),
                 (double)read.unwaited->t_ns / 1e9);
    return advise(advice, text);
}
