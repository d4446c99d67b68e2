/* A kernel was ended by a trap, an illegal instruction, a stack error or an unspecified failure.
 *
 * Established only by: the result 714, 715, 718, 719 or 721 as the first that destroyed the context, or such an
 * exception in a GPU core dump. No refused allocation and no reset may have come before.
 * Supported by: a GPU core dump from which no exception could be read. */
#include "gw_data.h"
#include "gwi_sticky.h"

static bool is_its_result(uint16_t result)
{
    return result == 714 || result == 715 || result == 718 || result == 719 || result == 721;
}

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    const gw_failure *sticky = c->sticky;
    if (sticky == NULL || !is_its_result(sticky->result))
        return GW_CERTAINTY_NONE;
    char culprit[GWI_CULPRIT_MAX], surfaced[GWI_SURFACED_MAX];
    gwi_headline(finding, "%s failed on the GPU (%u, %s)%s", gwi_culprit_text(culprit, c, sticky), sticky->result,
                 gw_result_name(sticky->result), gwi_surfaced_text(surfaced, c, sticky));
    gwi_say_sticky(c, finding, sticky, gw_data_cuda_error(sticky->result)->meaning);
    gwi_say_consequences(c, finding, sticky);
    if (gwi_is_explained_earlier(c, sticky))
        return GW_HYPOTHESIS;
    return sticky->by_dump && gwi_gpu_fault(c) == NULL ? GW_SUPPORTED : GW_ESTABLISHED;
}

const gw_cause gwi_cause_kernel_fault_other = {
    .id = "kernel-fault-other",
    .summary = "A kernel failed on the GPU: a trap, an illegal instruction or a stack error.",
    .proof = "one of the driver's results 714, 715, 718, 719, 721 as the first result that destroyed the context, or "
             "such an exception in a GPU core dump",
    .fixes = {[GW_FRAMEWORK_RAW] =
                  "Search the last launched kernels for trap and assert\n"
                  "Run it under compute-sanitizer --tool memcheck\n"
                  "Try a newer library or driver, and another GPU: if the failure stays with the card, test the card",
              [GW_FRAMEWORK_TORCH] = "Try a newer build; suspect custom and Triton kernels first\n"
                                     "Try another GPU: if the failure stays with the card, test the card"},
    .depth = GWI_IS_FAULT,
    .judge = judge,
};
