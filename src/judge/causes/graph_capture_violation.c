/* The capture of a stream into a graph failed because of a call that is not allowed during the capture.
 *
 * Never established: results 900 to 908 show that the capture is broken. The call that returns one need not be the call
 * that broke it. */
#include "gwi_cause.h"

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    enum { CAPTURE_FIRST = 900, CAPTURE_LAST = 908 };
    const gw_failure *root = c->root;
    char call[GWI_CALL_TEXT_MAX], at[GWI_PLACE_TEXT_MAX];
    if (root == NULL || root->result < CAPTURE_FIRST || root->result > CAPTURE_LAST)
        return GW_CERTAINTY_NONE;
    gwi_headline(finding, "%s broke the capture of a stream into a graph", gwi_call_text(call, root->fn_name));
    gwi_evidence(finding, root->t_ns, "driver", "%s returned %s%s", gwi_call_text(call, root->fn_name),
                 gw_result_name(root->result), gwi_at(c, root->site, at));
    gwi_where(finding, root->site, "the call that is not allowed during the capture");
    gwi_say_consequences(c, finding, root);
    return c->bad_end ? GW_SUPPORTED : GW_HYPOTHESIS;
}

const gw_cause gwi_cause_graph_capture_violation = {
    .id = "graph-capture-violation",
    .summary = "A call that is not allowed while a stream is captured into a graph broke the capture.",
    .proof = "a driver result between 900 and 908 as the first failure",
    .fixes = {[GW_FRAMEWORK_RAW] =
                  "Do not synchronise, allocate or query during a capture\n"
                  "Make no other stream depend on the capturing one, except through an event that is captured, too\n"
                  "Warm up libraries before the capture: their first call allocates and loads modules",
              [GW_FRAMEWORK_TORCH] =
                  "Warm up on a side stream before the capture, and copy results to the host only after a replay\n"
                  "Do not call .item(), print or .cpu() during the capture\n"
                  "With torch.compile, use mode=\"default\" where an operation cannot be captured",
              [GW_FRAMEWORK_JAX] =
                  "Run your own kernels and libraries only on the stream that XLA passes to them\n"
                  "Set XLA_FLAGS=--xla_gpu_enable_command_buffer= (with an empty value): XLA then captures nothing"},
    .judge = judge,
};
