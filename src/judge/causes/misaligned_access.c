/* A kernel used an address that is not aligned to the size of the access.
 *
 * Established only by: one of these, because the hardware reports 716 for nothing else:
 * - The driver's result 716 is the first result that destroyed the context.
 * - A GPU core dump has this exception.
 * - In a log alone, compute-sanitizer reports the access, and an error follows.
 *
 * Supported by: 716 after a refused allocation that the program did not check, or after a reset that destroyed
 * memory. */
#include "gwi_sticky.h"

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    enum { MISALIGNED_ADDRESS = 716 };
    const gw_failure *sticky = c->sticky;
    if (sticky == NULL || sticky->result != MISALIGNED_ADDRESS)
        return GW_CERTAINTY_NONE;
    char culprit[GWI_CULPRIT_MAX], surfaced[GWI_SURFACED_MAX];
    gwi_headline(finding, "%s made a misaligned access%s", gwi_culprit_text(culprit, c, sticky),
                 gwi_surfaced_text(surfaced, c, sticky));
    gwi_say_sticky(c, finding, sticky, "the address was not a multiple of the access size");
    gwi_say_consequences(c, finding, sticky);
    return gwi_is_explained_earlier(c, sticky) ? GW_SUPPORTED : GW_ESTABLISHED;
}

const gw_cause gwi_cause_misaligned_access = {
    .id = "misaligned-access",
    .summary = "A kernel used an address that is not aligned to the size of the access.",
    .proof = "the driver's result 716 as the first result that destroyed the context, or such an exception in a GPU "
             "core dump",
    .fixes =
        {[GW_FRAMEWORK_RAW] =
             "Check vector loads and stores (float4, half2) on views that do not start at a multiple of their size\n"
             "Run it under compute-sanitizer --tool memcheck",
         [GW_FRAMEWORK_TORCH] = "Make the inputs of custom kernels contiguous and aligned: .contiguous(), padding"},
    .depth = GWI_IS_FAULT,
    .judge = judge,
};
