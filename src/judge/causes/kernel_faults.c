/* Faults of a kernel that destroyed the context.
 *
 * Established only by: see the comment of each cause. */
#include "gw_data.h"
#include "gwi_sticky.h"

/* A kernel used an address that is not aligned to the size of the access.
 *
 * Established only by: one of these, because the hardware reports 716 for nothing else:
 * - The driver's result 716 is the first result that destroyed the context.
 * - A GPU core dump has this exception.
 * - In a log alone, compute-sanitizer reports the access, and an error follows.
 *
 * Supported by: 716 after a refused allocation that the program did not check, or after a reset that destroyed
 * memory. */
static gw_certainty judge_misaligned_access(const gwi_case *c, gwi_finding *finding)
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
    .judge = judge_misaligned_access,
};

/* A kernel ran longer than the display's watchdog allows.
 *
 * Established only by: the driver's result 702 as the first result that destroyed the context. Only a display's
 * watchdog causes 702. */
static gw_certainty judge_launch_timeout(const gwi_case *c, gwi_finding *finding)
{
    enum { LAUNCH_TIMEOUT = 702 };
    if (c->sticky == NULL || c->sticky->result != LAUNCH_TIMEOUT)
        return GW_CERTAINTY_NONE;
    gwi_headline(finding, "a kernel ran longer than the display's watchdog allows");
    gwi_say_sticky(c, finding, c->sticky, "the watchdog stopped a kernel");
    gwi_say_consequences(c, finding, c->sticky);
    return GW_ESTABLISHED;
}

const gw_cause gwi_cause_launch_timeout = {
    .id = "launch-timeout",
    .summary = "A kernel ran longer than the display's watchdog allows.",
    .proof = "the driver's result 702",
    .fixes = {[GW_FRAMEWORK_RAW] = "Run on a card that has no display attached, or end the desktop session on it\n"
                                   "Split the work into shorter kernels\n"
                                   "On Windows raise the display driver's time limit (TdrDelay); on Linux set "
                                   "Interactive to off for that X screen"},
    .judge = judge_launch_timeout,
};

/* A kernel was ended by a trap, an illegal instruction, a stack error or an unspecified failure.
 *
 * Established only by: the result 714, 715, 718, 719 or 721 as the first that destroyed the context, or such an
 * exception in a GPU core dump. No refused allocation and no reset may have come before.
 * Supported by: a GPU core dump from which no exception could be read. */
static bool is_its_result(uint16_t result)
{
    return result == 714 || result == 715 || result == 718 || result == 719 || result == 721;
}

static gw_certainty judge_kernel_fault_other(const gwi_case *c, gwi_finding *finding)
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
    .judge = judge_kernel_fault_other,
};

/* A kernel accessed an address that is not mapped, or one in another memory space (result 717). Measurements showed
 * that a badly computed address may cause either result.
 *
 * Established only by: one of these, with no refused allocation and no reset before:
 * - the driver's result 700 or 717, as the first result that destroyed the context;
 * - such an exception in a GPU core dump;
 * - in a log alone, compute-sanitizer's report of the access, followed by an error.
 * Supported by: the same result after a refused allocation, if the program continued without a successful retry. The
 * kernel may have used the pointer of the refused block.
 * Only a hypothesis after an unhandled refusal, or after a reset that destroyed memory. */
static gw_certainty judge_illegal_address(const gwi_case *c, gwi_finding *finding)
{
    enum { ILLEGAL_ADDRESS = 700, INVALID_ADDRESS_SPACE = 717 };
    const gw_failure *sticky = c->sticky;
    if (sticky == NULL || (sticky->result != ILLEGAL_ADDRESS && sticky->result != INVALID_ADDRESS_SPACE))
        return GW_CERTAINTY_NONE;
    bool other_space = sticky->result == INVALID_ADDRESS_SPACE;
    char culprit[GWI_CULPRIT_MAX], surfaced[GWI_SURFACED_MAX];
    gwi_headline(finding, "%s accessed an illegal address%s", gwi_culprit_text(culprit, c, sticky),
                 gwi_surfaced_text(surfaced, c, sticky));
    gwi_say_sticky(c, finding, sticky,
                   other_space ? "a kernel used an address in a memory space that its instruction cannot access: the "
                                 "address was computed wrongly"
                               : "a kernel used an address that is not mapped");
    /* Work succeeded after the refusal, but it may not have used the refused memory. */
    bool outlived = c->handled != NULL && c->handled->recovery == GW_RECOVERED_NOT;
    if (outlived)
        gwi_evidence(
            finding, c->handled->t_ns, "driver",
            "an allocation was refused before, but in between the program waited for other work, which succeeded");
    else if (c->handled != NULL)
        gwi_rule_out(c, finding, GWI_OF_PROCESS, "the refused allocation before it (the program recovered from it)");
    else if (c->oom == NULL)
        gwi_rule_out(c, finding, GWI_OF_PROCESS, "an unchecked allocation (none had failed)");
    gwi_say_consequences(c, finding, sticky);
    if (gwi_is_explained_earlier(c, sticky))
        return GW_HYPOTHESIS;
    return outlived ? GW_SUPPORTED : GW_ESTABLISHED;
}

const gw_cause gwi_cause_illegal_address = {
    .id = "illegal-address",
    .summary = "A kernel read or wrote an address that is not mapped.",
    .proof = "the driver's result 700 or 717, usually returned by a later call, or such an exception in a GPU core "
             "dump, with no earlier failed allocation or device reset that would explain a bad pointer",
    .fixes = {[GW_FRAMEWORK_RAW] =
                  "Run it under compute-sanitizer --tool memcheck: it names the kernel and the access\n"
                  "Check sizes over 2^31 elements, strides, freed memory, and deep recursion (a stack overflow gives "
                  "the same error)",
              [GW_FRAMEWORK_TORCH] =
                  "Suspect custom, Triton and extension kernels first; then indices and views with "
                  "over 2^31 elements\nRun under compute-sanitizer --tool memcheck with a small input",
              [GW_FRAMEWORK_JAX] = "Suspect your own kernels first: Pallas, Triton, foreign calls\n"
                                   "Run a small input under jax.disable_jit() to find the operation"},
    .depth = GWI_IS_FAULT,
    .judge = judge_illegal_address,
};
