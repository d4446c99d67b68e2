/* The program did not wait for a copy to the host, so the host may have read old data.
 *
 * Never established: this is a hypothesis at most. The recording does not show whether and when the host read the
 * copied data. */
#include "gwi_order.h"

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

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
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
    .judge = judge,
};
