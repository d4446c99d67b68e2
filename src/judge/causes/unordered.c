/* Memory that was used or freed before a copy had ended.
 *
 * Never established: see the comment of each cause. */
#include "gwi_order.h"

#include <inttypes.h>

/* The program did not wait for a copy to the host, so the host may have read old data.
 *
 * Never established: this is a hypothesis at most. The recording does not show whether and when the host read the
 * copied data. */

static void say_freed(const gwi_case *c, gwi_finding *finding, const gw_unordered *it)
{
    char bytes[GW_BYTES_TEXT_MAX], call[GWI_CALL_TEXT_MAX], at[GWI_PLACE_TEXT_MAX];
    char stream[GWI_ORDER_STREAM_TEXT_MAX];
    gwi_measure(finding, it->t_copy_ns, "driver", (double)it->copy_bytes, "bytes", "%s of %s to the host began on %s",
                gwi_call_text(call, it->copy_fn), gw_bytes_text(bytes, it->copy_bytes),
                gwi_order_stream_text(stream, it->copy_stream));
    gwi_evidence(finding, it->t_free_ns, "driver",
                 "%s freed its page-locked memory%s, and the program had neither waited for the copy, nor queried it, "
                 "nor received a callback after it",
                 gwi_call_text(call, it->free_fn), gwi_at(c, it->free_site, at));
    gwi_where(finding, it->free_site, "the memory that was freed");
}

static void say_unwaited(gwi_finding *finding, const gw_unwaited *it)
{
    char bytes[GW_BYTES_TEXT_MAX], call[GWI_CALL_TEXT_MAX], stream[GWI_STREAM_TEXT_MAX];
    gwi_measure(
        finding, it->t_ns, "driver", (double)it->bytes, "bytes",
        "%s of %s to the host began on %s, and the program did not wait for any later work until the process ended",
        gwi_call_text(call, it->copy_fn), gw_bytes_text(bytes, it->bytes), gwi_stream_text(stream, it->stream));
}

static gw_certainty judge_host_read_not_ordered(const gwi_case *c, gwi_finding *finding)
{
    gwi_host_read read;
    if (gwi_find_host_read(c, &read) == GW_CERTAINTY_NONE)
        return GW_CERTAINTY_NONE;
    gwi_headline(finding, "the program never waited for a copy to the host: the host may have read old data");
    if (read.freed != NULL)
        say_freed(c, finding, read.freed);
    if (read.unwaited != NULL)
        say_unwaited(finding, read.unwaited);
    return GW_HYPOTHESIS;
}

const gw_cause gwi_cause_host_read_not_ordered = {
    .id = "host-read-not-ordered",
    .summary = "The host may have read the destination of an asynchronous copy before the copy had ended.",
    .proof = "a copy to page-locked memory for which nothing waited until the memory was freed or the program ended; "
             "never more than a hypothesis, because gpuwhy does not see the host's reads",
    .fixes = {[GW_FRAMEWORK_RAW] = "Wait for the copy before the host reads its result: cuStreamSynchronize, or an "
                                   "event after it and cuEventSynchronize",
              [GW_FRAMEWORK_TORCH] =
                  "After .to('cpu', non_blocking=True) call torch.cuda.current_stream().synchronize() "
                  "before the values are used"},
    .judge = judge_host_read_not_ordered,
};

/* Stream-ordered memory was freed while a copy on another stream may still have been using it. The free did not wait
 * for the copy, and the pool may reuse the memory immediately.
 *
 * Never established: the recording does not show whether the block was reused or read. topics/order.c explains
 * when the cause is supported. */

static void say_use(const gwi_case *c, gwi_finding *finding, const gw_unordered *it)
{
    char bytes[GW_BYTES_TEXT_MAX], block[GW_BYTES_TEXT_MAX], call[GWI_CALL_TEXT_MAX], at[GWI_PLACE_TEXT_MAX];
    char stream[GWI_ORDER_STREAM_TEXT_MAX];
    gwi_measure(finding, it->t_copy_ns, "driver", (double)it->copy_bytes, "bytes",
                "%s of %s on %s began: it uses the block 0x%" PRIx64 " of %s allocated at %.2f s%s",
                gwi_call_text(call, it->copy_fn), gw_bytes_text(bytes, it->copy_bytes),
                gwi_order_stream_text(stream, it->copy_stream), it->address, gw_bytes_text(block, it->block_bytes),
                (double)it->t_block_ns / 1e9, gwi_at(c, it->block_site, at));
    gwi_call_text(call, it->free_fn);
    gwi_at(c, it->free_site, at);
    double between_us = (double)(it->t_free_ns - it->t_copy_ns) / 1e3;
    if (it->by_free)
        gwi_measure(finding, it->t_free_ns, "driver", between_us / 1e3, "ms",
                    "%s freed it immediately, %.1f us later%s: for stream-ordered memory, this call does not wait",
                    call, between_us, at);
    else
        gwi_measure(finding, it->t_free_ns, "driver", between_us / 1e3, "ms",
                    "%s freed it in the order of %s, %.1f us later%s", call,
                    gwi_order_stream_text(stream, it->free_stream), between_us, at);
}

static void say_reason(gwi_finding *finding, const gwi_race *race)
{
    const gw_unordered *it = race->found;
    gwi_evidence(finding, it->t_free_ns, "driver",
                 "every ordering call in between was recorded: %s waited for no event recorded after the copy, and the "
                 "program neither synchronised with the copy, nor queried it, nor received a callback after it",
                 it->by_free ? "the host" : "that stream");
    if (race->certainty < GW_SUPPORTED)
        gwi_evidence(finding, it->t_free_ns, "driver",
                     "the copy may have ended by then, and the program may have found out in another way");
    else if (race->reason == GWI_RACE_IN_FLIGHT)
        gwi_evidence(finding, it->t_free_ns, "driver",
                     "no card copies that much in that time: the copy was still running");
    else
        gwi_evidence(
            finding, it->t_free_ns, "driver",
            "no work followed the copy on its stream that could have shown the program that the copy had ended");
}

static gw_certainty judge_cross_stream_use_after_free(const gwi_case *c, gwi_finding *finding)
{
    gwi_race race;
    char at[GWI_PLACE_TEXT_MAX], bytes[GW_BYTES_TEXT_MAX];
    if (gwi_find_race(c, &race) == GW_CERTAINTY_NONE)
        return GW_CERTAINTY_NONE;
    const gw_unordered *it = race.found;
    gwi_headline(finding, "a block of %s was freed%s while %s on another, unordered stream still used it",
                 gw_bytes_text(bytes, it->block_bytes), gwi_at(c, it->free_site, at),
                 it->is_fill ? "a fill" : "a copy");
    say_use(c, finding, it);
    say_reason(finding, &race);
    if (c->model->unordered_total > 1)
        gwi_measure(finding, GWI_NO_TIME, "driver", (double)c->model->unordered_total, "count",
                    "the run freed memory without such an order %" PRIu64 " times in all", c->model->unordered_total);
    gwi_where(finding, it->free_site, "the free that came too early");
    gwi_rule_out(c, finding, GWI_OF_PROCESS,
                 "an order by events, host callbacks, queries or synchronisation (all such calls were recorded)");
    return race.certainty;
}

const gw_cause gwi_cause_cross_stream_use_after_free = {
    .id = "cross-stream-use-after-free",
    .summary = "Memory was freed on one stream while unordered work on another stream still used it: it may have been "
               "overwritten.",
    .proof = "a free of stream-ordered memory after a copy that uses it on another stream, where every call in between "
             "was recorded and none orders the two",
    .fixes = {[GW_FRAMEWORK_RAW] = "Free the block on the stream that uses it last\n"
                                   "Or record an event after the last use, and make the freeing stream wait for it "
                                   "(cuEventRecord, cuStreamWaitEvent) before cuMemFreeAsync\n"
                                   "Before cuMemFree of stream-ordered memory, wait for the streams that use it",
              [GW_FRAMEWORK_TORCH] = "Call tensor.record_stream(stream) for each other stream that uses the tensor\n"
                                     "Or make the current stream wait before the tensor is released: "
                                     "torch.cuda.current_stream().wait_stream(side)"},
    .judge = judge_cross_stream_use_after_free,
};
