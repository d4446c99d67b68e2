/* A call that a stream must not make while it is being captured into a graph broke the capture.
 *
 * Never established: results 900 to 908 name the broken capture, but the call that reports it need not be the one that
 * broke it. */
#include "gwi_cause.h"

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    enum { CAPTURE_FIRST = 900, CAPTURE_LAST = 908 };
    const gw_failure *root = c->root;
    char call[GWI_CALL_TEXT_MAX], at[GWI_PLACE_TEXT_MAX];
    if (root == NULL || root->result < CAPTURE_FIRST || root->result > CAPTURE_LAST)
        return GW_CERTAINTY_NONE;
    gwi_headline(finding, "%s broke the capture of a stream into a graph", gwi_call_text(call, root->fn_name));
    gwi_evidence(finding, root->t_ns, "driver", "%s answered %s%s", gwi_call_text(call, root->fn_name),
                 gw_result_name(root->result), gwi_at(c, root->site, at));
    gwi_where(finding, root->site, "the call that the capture does not allow");
    gwi_say_consequences(c, finding, root);
    return c->bad_end ? GW_SUPPORTED : GW_HYPOTHESIS;
}

const gw_cause gwi_cause_graph_capture_violation = {
    .id = "graph-capture-violation",
    .summary = "A call that a stream must not make while it is being captured into a graph broke the capture.",
    .proof = "a driver result between 900 and 908 as the first failure",
    .fixes = {[GW_FRAMEWORK_RAW] =
                  "Make no synchronising call, allocation or query between the begin and the end of a capture\n"
                  "Let no other stream depend on the capturing one without an event that is captured, too\n"
                  "Warm libraries up before the capture: their first call allocates and loads modules",
              [GW_FRAMEWORK_TORCH] =
                  "Warm up on a side stream before the capture, and copy results to the host only after a replay\n"
                  "No .item(), print or .cpu() between the begin and the end of the capture\n"
                  "Under torch.compile use mode=\"default\" where an operation cannot be captured",
              [GW_FRAMEWORK_JAX] =
                  "Let kernels and libraries of your own run on the stream that XLA gives them, on no other\n"
                  "Set XLA_FLAGS=--xla_gpu_enable_command_buffer= (nothing behind it): XLA then captures nothing"},
    .judge = judge,
    .is_told = true,
};
