/* Check that the packages of a Python interpreter fit the driver and the cards. */
#include "gw_data.h"
#include "gw_text.h"
#include "gwi_doctor.h"

#include <stdio.h>
#include <string.h>

static const char section[] = "python";

/* Check that the driver supports the CUDA version of a framework. */
static void check_cuda(const gw_facts *facts, gw_checkup *checkup, const char *name, const char *release,
                       const char *cuda)
{
    const char *driver = gwi_driver(facts);
    const gw_cuda_family *family = gw_data_cuda_family(gw_version_part(gwi_version(cuda), 0));
    gw_driver_fit fit = gw_data_driver_fit(gwi_version(driver), gwi_version(cuda), NULL);
    if (fit == GW_DRIVER_TOO_OLD)
        gwi_check(checkup, section, "driver-too-old",
                  family != NULL && family->verified == GW_VERIFIED_YES ? GW_CHECK_FAIL : GW_CHECK_WARN,
                  "Install the build for an older CUDA (PyTorch: --index-url https://download.pytorch.org/whl/cu126), "
                  "or update the driver",
                  "%s %s is built for CUDA %s, which needs driver %s or newer; this one is %s", name, release, cuda,
                  family != NULL ? family->driver_minimum_text : "?", driver);
    else if (fit == GW_DRIVER_UNKNOWN)
        gwi_check(checkup, section, "package", GW_CHECK_UNKNOWN, NULL,
                  "%s %s, built for CUDA %s: unknown whether the driver runs it", name, release, cuda);
    else
        gwi_check(checkup, section, "package", GW_CHECK_PASS, NULL, "%s %s, built for CUDA %s%s", name, release, cuda,
                  fit == GW_DRIVER_MINOR ? ", on a driver of the same family" : "");
}

/* Convert "sm_75 sm_80 compute_90" to "7.5 8.0 9.0+PTX". `flags` may be NULL. Leaves out "sm_90a": its code runs only
 * on that architecture. */
static void architectures_of(const char *flags, char *out, size_t room)
{
    out[0] = '\0';
    for (const char *at = flags; at != NULL && *at != '\0';) {
        bool ptx = gw_begins(at, "compute_");
        const char *number = NULL;
        if (ptx)
            number = at + 8;
        else if (gw_begins(at, "sm_"))
            number = at + 3;
        size_t digits = number == NULL ? 0 : strspn(number, "0123456789");
        size_t used = strlen(out);
        if (digits >= 2 && digits <= 3 && (number[digits] == ' ' || number[digits] == '\0') && used + 16 < room)
            snprintf(out + used, room - used, "%s%.*s.%c%s", used > 0 ? " " : "", (int)digits - 1, number,
                     number[digits - 1], ptx ? "+PTX" : "");
        at += strcspn(at, " ");
        at += *at == ' ';
    }
}

/* Check that the framework has code for each card. The framework's own list of architectures is used or, if it has
 * none, the list in our table. */
static void check_architectures(const gw_facts *facts, gw_checkup *checkup, const char *release, const char *cuda)
{
    char own[512];
    const gw_framework_row *row = gw_data_framework("pytorch", release, gwi_version(cuda));
    architectures_of(gw_facts_get(facts, "python.torch.arch"), own, sizeof own);
    const char *list = NULL;
    if (own[0] != '\0')
        list = own;
    else if (row != NULL)
        list = row->architectures;
    bool sure = own[0] != '\0' || (row != NULL && row->verified == GW_VERIFIED_YES);
    long long count = gwi_card_count(facts), covered = 0, known = 0;
    for (long long i = 0; i < count; i++) {
        const char *capability = gw_facts_getf(facts, "card.%lld.capability", i), *name = gwi_card(facts, i, "name");
        if (capability == NULL || list == NULL)
            continue;
        known++;
        gw_cover cover = gw_data_covers(list, gwi_version(capability));
        const gw_framework_row *other = gw_data_framework_for("pytorch", gwi_version(capability));
        char todo[256] = "Build PyTorch for this card";
        if (other != NULL)
            snprintf(todo, sizeof todo, "Use a build with code for it: the newest is PyTorch %s for CUDA %s%s",
                     other->release, other->cuda, other->verified == GW_VERIFIED_YES ? "" : " (not confirmed)");
        if (cover == GW_COVER_NONE)
            gwi_check(checkup, section, "arch-not-in-binary", sure ? GW_CHECK_FAIL : GW_CHECK_WARN, todo,
                      "torch %s has no code for card %lld %s (compute capability %s); it has code for %s", release, i,
                      name != NULL ? name : "", capability, list);
        else if (cover == GW_COVER_PTX)
            gwi_check(checkup, section, "arch-not-in-binary", GW_CHECK_WARN, todo,
                      "torch %s has only PTX for card %lld %s (%s): the first start compiles for minutes, and "
                      "extensions may fail",
                      release, i, name != NULL ? name : "", capability);
        else
            covered++;
    }
    if (known > 0 && covered == known)
        gwi_check(checkup, section, "arch-not-in-binary", GW_CHECK_PASS, NULL, "torch has code for %s (%s)",
                  count == 1 ? "the card" : "every card", list);
    else if (known == 0 && count > 0)
        gwi_check(checkup, section, "arch-not-in-binary", GW_CHECK_UNKNOWN, NULL,
                  "unknown whether torch has code for the card%s",
                  list == NULL ? ": its architectures are unknown" : "");
}

/* Check that the cuDNN package has the major version that the framework was built with, and supports each card. */
static void check_cudnn(const gw_facts *facts, gw_checkup *checkup, const char *release, const char *cuda)
{
    const char *cudnn = gw_facts_get(facts, "python.cudnn");
    const gw_framework_row *row = gw_data_framework("pytorch", release, gwi_version(cuda));
    if (cudnn == NULL)
        return;
    if (row != NULL && row->cudnn != NULL &&
        gw_version_part(gwi_version(row->cudnn), 0) != gw_version_part(gwi_version(cudnn), 0))
        gwi_check(checkup, section, "library-version-mismatch", GW_CHECK_WARN,
                  "Install the cuDNN version that the framework requires",
                  "torch %s was built with cuDNN %s, but the installed package is %s", release, row->cudnn, cudnn);
    const gw_cudnn_support *support = gw_data_cudnn_support_of(gwi_version(cudnn));
    long long count = gwi_card_count(facts);
    for (long long i = 0; i < count && support != NULL; i++) {
        const char *capability = gw_facts_getf(facts, "card.%lld.capability", i), *name = gwi_card(facts, i, "name");
        if (capability != NULL && gwi_version(capability) < support->capability_first)
            gwi_check(checkup, section, "library-too-old-or-dropped-gpu",
                      support->verified == GW_VERIFIED_YES ? GW_CHECK_FAIL : GW_CHECK_WARN,
                      "Use a build with cuDNN 9.10 or older for this card",
                      "cuDNN %s no longer works with card %lld %s (%s)", cudnn, i, name != NULL ? name : "",
                      capability);
    }
}

static void check_torch(const gw_facts *facts, gw_checkup *checkup)
{
    const char *release = gw_facts_get(facts, "python.package.torch"), *cuda = gw_facts_get(facts, "python.torch.cuda");
    if (release == NULL)
        return;
    if (gw_facts_get(facts, "python.torch.hip") != NULL) {
        gwi_check(checkup, section, "package", GW_CHECK_UNKNOWN, NULL, "torch %s is a build for ROCm", release);
        return;
    }
    if (strstr(release, "+cpu") != NULL || gwi_is(cuda, "none")) {
        gwi_check(checkup, section, "no-device-visible", GW_CHECK_FAIL,
                  "Install the CUDA build (https://pytorch.org/get-started) from the index URL that is given there",
                  "torch %s is a CPU-only build: it will not use the card", release);
        return;
    }
    if (cuda == NULL) {
        gwi_check(checkup, section, "package", GW_CHECK_UNKNOWN, NULL,
                  "torch %s: unknown for which CUDA version it was built", release);
        return;
    }
    check_cuda(facts, checkup, "torch", release, cuda);
    check_architectures(facts, checkup, release, cuda);
    check_cudnn(facts, checkup, release, cuda);
}

/* Check JAX and TensorFlow: the names and files of their packages show the CUDA version that they were built with. */
static void check_others(const gw_facts *facts, gw_checkup *checkup)
{
    const char *jax = gw_facts_get(facts, "python.package.jax"),
               *tensorflow = gw_facts_get(facts, "python.package.tensorflow");
    const char *plugin13 = gw_facts_get(facts, "python.package.jax-cuda13-plugin"),
               *plugin12 = gw_facts_get(facts, "python.package.jax-cuda12-plugin");
    if (jax != NULL && plugin13 != NULL)
        check_cuda(facts, checkup, "jax", jax, "13.0");
    else if (jax != NULL && plugin12 != NULL)
        check_cuda(facts, checkup, "jax", jax, "12.1");
    else if (jax != NULL)
        gwi_check(checkup, section, "no-device-visible", GW_CHECK_WARN, "pip install \"jax[cuda13]\" (or cuda12)",
                  "jax %s has no CUDA plugin: it will run on the CPU", jax);
    if (tensorflow == NULL)
        return;
    const gw_framework_row *row = gw_data_framework("tensorflow", tensorflow, 0);
    const char *cuda = gw_facts_get(facts, "python.tensorflow.cuda");
    if (cuda == NULL && row != NULL)
        cuda = row->cuda;
    if (cuda != NULL)
        check_cuda(facts, checkup, "tensorflow", tensorflow, cuda);
    else
        gwi_check(checkup, section, "package", GW_CHECK_UNKNOWN, NULL,
                  "tensorflow %s: unknown for which CUDA version it was built", tensorflow);
}

void gwi_check_python(const gw_facts *facts, gw_checkup *checkup)
{
    const char *version = gw_facts_get(facts, "python.version"), *why = gw_facts_get(facts, "python.why");
    if (why != NULL)
        gwi_check(checkup, section, "python", GW_CHECK_UNKNOWN, NULL, "the interpreter did not respond: %s", why);
    if (version == NULL)
        return;
    bool any = gw_facts_get(facts, "python.package.torch") != NULL ||
               gw_facts_get(facts, "python.package.jax") != NULL ||
               gw_facts_get(facts, "python.package.tensorflow") != NULL;
    gwi_check(checkup, section, "python", GW_CHECK_PASS, NULL, "Python %s%s%s%s%s", version,
              gw_facts_get(facts, "python.executable") != NULL ? " (" : "",
              gw_facts_get(facts, "python.executable") != NULL ? gw_facts_get(facts, "python.executable") : "",
              gw_facts_get(facts, "python.executable") != NULL ? ")" : "",
              any ? "" : ": torch, jax and tensorflow are not installed");
    const char *conda = gw_facts_get(facts, "python.conda_cuda");
    if (conda != NULL && gw_facts_get(facts, "python.cudnn") != NULL)
        gwi_check(checkup, section, "cudnn-mixed-libraries", GW_CHECK_WARN,
                  "Install CUDA's libraries with conda or with pip, not both",
                  "this environment has CUDA libraries from conda (%s) and from pip", conda);
    check_torch(facts, checkup);
    check_others(facts, checkup);
}
