/* The program waits for a kernel that does not end.
 *
 * Never established: work that is merely slow looks the same. */
#include "gwi_alone.h"
#include "gwi_cause.h"
#include "gwi_hang.h"

#include <inttypes.h>

/* Judge a kernel that the program did not wait for. The kernel may have ended, or it may be meant to keep running. */
static gw_certainty judge_alone(const gwi_case *c, gwi_finding *finding)
{
    if (c->hang.kind != GWI_HANG_NONE || !gwi_is_any_alone(c))
        return GW_CERTAINTY_NONE;
    gwi_headline(finding, "a kernel may not have ended, on a stream that the program did not wait for");
    gwi_say_alone(c, finding);
    return GW_HYPOTHESIS;
}

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    if (c->hang.kind != GWI_HANG_KERNEL)
        return judge_alone(c, finding);
    const gw_hang *hang = c->hang.hang;
    gwi_headline(finding, "no progress for %.1f s: the program waits for %s that does not end",
                 (double)hang->for_ns / 1e9, c->hang.is_off_record ? "work on the GPU" : "a kernel");
    gwi_say_waiting(c, finding);
    if (c->root == NULL)
        gwi_rule_out(c, finding, GWI_OF_PROCESS, "an error on the GPU (no driver call failed)");
    gwi_rule_out(c, finding, GWI_OF_PROCESS, "a deadlock in the program (thread %" PRIu32 " waits for the GPU)",
                 c->hang.waiting->tid);
    return c->root != NULL && (c->root->is_sticky || c->root->is_allocation) ? GW_HYPOTHESIS : GW_SUPPORTED;
}

const gw_cause gwi_cause_kernel_never_ends = {
    .id = "kernel-never-ends",
    .summary = "The program waits for a kernel that does not end.",
    .proof = "a thread that was inside a waiting driver call or only polled the GPU, for the time given by "
             "--hang-after, with launches that nothing had waited for and without other progress of the program; work "
             "that is merely slow looks the same. For a stream that nothing waited for while the program waited for "
             "other streams, this is only a hypothesis",
    .fixes = {[GW_FRAMEWORK_RAW] =
                  "If the kernel may take that long, wait longer before calling it a hang (--hang-after SECONDS)\n"
                  "Check the loops of the named kernel: a condition that never becomes true, a flag or lock in memory "
                  "that no other block sets, a grid that waits for blocks that cannot be resident\n"
                  "Stop it in a debugger (cuda-gdb -p PID, then info cuda kernels) to see where it loops",
              [GW_FRAMEWORK_TORCH] =
                  "If the kernel may take that long, wait longer before calling it a hang (--hang-after SECONDS)\n"
                  "Check the custom kernels (Triton, extensions) among those named for a loop or a spin lock that "
                  "never ends\n"
                  "With several GPUs: check that all ranks call the same collectives"},
    .judge = judge,
};
