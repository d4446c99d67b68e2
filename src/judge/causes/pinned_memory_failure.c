/* A request for page-locked host memory was refused. The "out of memory" error is about the host's memory.
 *
 * Established only by: a request that failed with 2, 205, 304 or 712, if the run ended because of it
 * (gwi_sure_of_end()). It needs no GPU memory.
 * Supported by: the result 1, which a wrong argument causes, too. */
#include "gwi_start.h"

#include <inttypes.h>

static bool is_pinned_call(const gw_failure *failure)
{
    if (failure->kind != GW_EV_HOST_ALLOC && failure->kind != GW_EV_HOST_REGISTER)
        return false;
    switch (failure->result) {
    case 1:
    case 2:
    case 205:
    case 304:
    case 712:
        return true;
    default:
        return false;
    }
}

static const char *reason_of(const gw_failure *failure)
{
    if (failure->result == 712)
        return "this range was already registered";
    if (failure->result == 2)
        return "the host or the driver had no page-locked memory left, or a limit was reached";
    return "the host refused to lock these pages";
}

static void say_limits(const gwi_case *c, gwi_finding *finding)
{
    const char *memlock = gw_model_meta(c->model, "rlimit.memlock");
    char bytes[GW_BYTES_TEXT_MAX];
    if (c->process != NULL)
        gwi_measure(finding, GWI_NO_TIME, "ledger", (double)c->process->pinned_bytes_peak, "bytes",
                    "most page-locked memory held at once: %s", gw_bytes_text(bytes, c->process->pinned_bytes_peak));
    if (memlock != NULL)
        gwi_evidence(finding, GWI_NO_TIME, "host", "limit on locked memory (ulimit -l): %s", memlock);
}

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    const gw_failure *failure = c->other;
    char call[GWI_CALL_TEXT_MAX], bytes[GW_BYTES_TEXT_MAX], at[GWI_PLACE_TEXT_MAX];
    if (failure == NULL || c->root != failure || !is_pinned_call(failure))
        return GW_CERTAINTY_NONE;
    gwi_call_text(call, failure->fn_name);
    gwi_headline(finding, "page-locked (pinned) host memory was refused: %s", reason_of(failure));
    gwi_measure(finding, failure->t_ns, "driver", (double)failure->bytes_wanted, "bytes",
                "%s of %s%s returned %u (%s): %s", call, gw_bytes_text(bytes, failure->bytes_wanted),
                gwi_at(c, failure->site, at), failure->result, gw_result_name(failure->result), reason_of(failure));
    gwi_where(finding, failure->site, "the call that was refused");
    if (failure->result != 712)
        say_limits(c, finding);
    gwi_rule_out(c, finding, GWI_OF_PROCESS, "a shortage of GPU memory (the call requests host memory)");
    if (failure->result == 712)
        gwi_next(finding,
                 "Register each range only once: keep track of registered ranges, or unregister the range first");
    gwi_say_consequences(c, finding, failure);
    return gwi_sure_of_end(c, failure, failure->result == 1 ? GW_SUPPORTED : GW_ESTABLISHED);
}

const gw_cause gwi_cause_pinned_memory_failure = {
    .id = "pinned-memory-failure",
    .summary = "A request for page-locked host memory was refused; the GPU's memory is not involved.",
    .proof = "a failed call for page-locked host memory, and no later call that succeeded instead",
    .fixes = {[GW_FRAMEWORK_RAW] = "Use fewer or smaller page-locked buffers, and reuse them\n"
                                   "Raise the limit on locked memory (ulimit -l) or the cgroup's memory limit",
              [GW_FRAMEWORK_TORCH] = "Use pin_memory=False, fewer workers or a smaller prefetch_factor\n"
                                     "Use smaller offload buffers\n"
                                     "Raise ulimit -l or the cgroup's memory limit"},
    .judge = judge,
};
