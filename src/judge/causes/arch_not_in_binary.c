/* The program contains no code for this card.
 *
 * Established only by: both of these facts, because the driver returns 209 only if an image is missing:
 * - The driver's result 209 is the root failure, and the run ended because of it (gwi_sure_of_end()).
 * - The program printed "no kernel image", or launched nothing afterwards. A library may try several images until one
 *   works.
 */
#include "gwi_start.h"

enum { NO_BINARY_FOR_GPU = 209 };

static void say_card(const gwi_versions *versions, gwi_finding *finding)
{
    char text[GW_VERSION_TEXT_MAX], cuda[GW_VERSION_TEXT_MAX];
    const gw_capability *row = versions->has_capability ? gw_data_capability(versions->capability) : NULL;
    if (!versions->has_capability)
        return;
    gwi_evidence(finding, GWI_NO_TIME, "driver", "the card's compute capability is %s (sm_%u%u%s%s)",
                 gw_version_text(text, versions->capability), gw_version_part(versions->capability, 0),
                 gw_version_part(versions->capability, 1), row != NULL ? ", " : "",
                 row != NULL ? row->architecture : "");
    if (row == NULL)
        return;
    gwi_next(finding, "Build with -gencode arch=compute_%u%u,code=sm_%u%u (CUDA %s or newer%s)",
             gw_version_part(versions->capability, 0), gw_version_part(versions->capability, 1),
             gw_version_part(versions->capability, 0), gw_version_part(versions->capability, 1),
             gw_version_text(cuda, row->cuda_first),
             row->cuda_last != 0 ? ", but not the newest, which no longer supports this card" : "");
}

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    const gw_failure *failure = gwi_root_with(c, NO_BINARY_FOR_GPU);
    const struct gw_log_find *said = gwi_said(c, finding->cause);
    if (failure == NULL)
        return GW_CERTAINTY_NONE;
    gwi_versions versions = gwi_versions_of(c);
    gwi_headline(finding, "the program or one of its libraries contains no code for this card");
    gwi_say_failed_call(c, finding, failure);
    if (said != NULL)
        gwi_say_said(c, finding, said);
    say_card(&versions, finding);
    gwi_say_versions(&versions, finding);
    const gw_framework_row *row = c->framework == GW_FRAMEWORK_TORCH && versions.has_capability
                                      ? gw_data_framework_for("pytorch", versions.capability)
                                      : NULL;
    if (row != NULL)
        gwi_next(finding, "the newest PyTorch build with code for this card: %s for CUDA %s%s", row->release, row->cuda,
                 row->verified == GW_VERIFIED_YES ? "" : " (not confirmed)");
    gwi_rule_out(c, finding, GWI_OF_PROCESS, "a driver that is too old (it reported that the code is for other cards)");
    /* A library may try several images until one of them works. Only the printed message, or an end without further
     * work, shows that none worked. */
    bool alone = said != NULL || failure->after.launches == 0;
    return gwi_sure_of_end(c, failure, alone ? GW_ESTABLISHED : GW_HYPOTHESIS);
}

const gw_cause gwi_cause_arch_not_in_binary = {
    .id = "arch-not-in-binary",
    .summary = "The program, or one of its libraries, was not built for this card.",
    .proof = "a module load that failed with 209, or the framework's message \"no kernel image is available\"",
    .fixes = {[GW_FRAMEWORK_RAW] = "Rebuild for the card's architecture, or include PTX beside the native code",
              [GW_FRAMEWORK_TORCH] = "Compare torch.cuda.get_arch_list() with the card; install a build that lists it "
                                     "(Pascal and Volta: cu126; Blackwell: 2.7 or newer, cu128 or newer)\n"
                                     "Rebuild extensions with TORCH_CUDA_ARCH_LIST set to the card's capability\n"
                                     "torch.cuda.is_available() does not check this: it returns True anyway",
              [GW_FRAMEWORK_JAX] = "Install wheels that support the card: the CUDA 13 wheels support Turing and newer "
                                   "cards, the CUDA 12 wheels Maxwell and newer\n"
                                   "Rebuild your own kernels for the card's architecture"},
    .judge = judge,
};
