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
#include "gwi_sticky.h"

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
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
    .judge = judge,
};
