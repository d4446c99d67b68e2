/* The driver works but shows no card to this process.
 *
 * Established only by: result 100 (no card is visible) before the process had any context, if the run ended because of
 * it (gwi_sure_of_end()). Some programs continue without a card.
 * Supported by: a message about the driver or the GPU on a machine without a driver. */
#include "gwi_coverage.h"
#include "gwi_start.h"

#include "gw_text.h"

#include <string.h>

enum { NO_DEVICE = 100 };

/* True if this value of CUDA_VISIBLE_DEVICES alone hides all cards. */
static bool hides_all(const char *mask)
{
    return mask != NULL && (mask[0] == '\0' || strcmp(mask, "-1") == 0 || gw_begins(mask, "-1,") ||
                            strcmp(mask, "NoDevFiles") == 0 || strcmp(mask, "none") == 0);
}

/* True if the program's output is about the driver, or about a card that the driver should show. On a machine without a
 * driver, all these messages have the same reason. */
static bool is_told_of_driver(const gwi_case *c)
{
    static const char *const causes[] = {"no-device-visible", "driver-too-old", "driver-state-lost"};
    for (size_t i = 0; i < sizeof causes / sizeof causes[0]; i++) {
        if (gwi_is_told(c, gwi_cause_of(causes[i])))
            return true;
    }
    return false;
}

/* Judge the program's output: no driver call shows a framework without CUDA, or a machine without a driver. */
static gw_certainty judge_told(const gwi_case *c, gwi_finding *finding)
{
    if (gwi_is_decided_by(c, GW_SAYS_CPU_BUILD, NULL)) {
        gw_certainty certainty = gwi_judge_by_text(c, finding);
        gwi_headline(finding, "the framework was built without CUDA: it sees no GPU");
        gwi_next(finding, "Install the framework's CUDA build (PyTorch: the index URL that its site names)");
        return certainty;
    }
    if (!gwi_has_no_driver(c->model) || !is_told_of_driver(c))
        return GW_CERTAINTY_NONE;
    gwi_headline(finding, "this machine has no GPU driver, so the program sees no GPU");
    gwi_say_no_driver(c->model, finding);
    gwi_say_told(c, finding);
    gwi_where_raised(finding);
    gwi_next(finding,
             "Run it where there is a GPU and its driver (in a container: --gpus all), install the driver if this "
             "machine has a GPU (gpuwhy doctor), or let the program use the CPU");
    return GW_SUPPORTED;
}

/* True if NVML sees a card of this machine that CUDA does not show, and nothing known hides it. */
static bool is_card_not_usable(const gwi_case *c)
{
    bool known, has_file = gwi_has_device_file(c, "nvidia0", &known);
    return c->model->machine.card_count > 0 && gwi_visible_devices(c) == NULL && known && has_file &&
           !c->model->is_virtual;
}

/* Report the first line that the kernel module logged during the run. */
static void say_driver_log(const gwi_case *c, gwi_finding *finding)
{
    const gw_machine_event *event = gw_machine_event_next(c->model, NULL, GW_MACHINE_DRIVER_LOG, true);
    if (event != NULL)
        gwi_evidence(finding, event->t_ns, "kernel log", "%s", event->text);
}

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    const gw_failure *failure = gwi_root_with(c, NO_DEVICE);
    if (failure == NULL)
        return judge_told(c, finding);
    if (!gwi_is_before_context(c, failure))
        return GW_CERTAINTY_NONE;
    const char *mask = gwi_visible_devices(c);
    bool known, has_file = gwi_has_device_file(c, "nvidia0", &known);
    if (hides_all(mask))
        gwi_headline(finding, "the program sees no GPU: CUDA_VISIBLE_DEVICES=\"%s\" hides all of them", mask);
    else if (known && !has_file && !c->model->is_virtual)
        gwi_headline(finding, "the program sees no GPU: /dev/nvidia0 does not exist");
    else if (is_card_not_usable(c))
        gwi_headline(finding, "CUDA shows no GPU to the program, although NVML sees %zu: %s",
                     c->model->machine.card_count, c->model->machine.card[0].name);
    else
        gwi_headline(finding, "the program sees no GPU");
    gwi_say_failed_call(c, finding, failure);
    if (mask != NULL)
        gwi_evidence(finding, GWI_NO_TIME, "host", "CUDA_VISIBLE_DEVICES=\"%s\"", mask);
    if (known && !c->model->is_virtual)
        gwi_evidence(finding, GWI_NO_TIME, "host", "device files: %s", gw_model_meta(c->model, "device.files"));
    if (is_card_not_usable(c)) {
        say_driver_log(c, finding);
        gwi_next(finding, "Try another program on this card: if none works, check the kernel log (dmesg), and reset "
                          "the card or restart the machine");
    }
    gwi_versions versions = gwi_versions_of(c);
    gwi_say_versions(&versions, finding);
    return gwi_sure_of_end(c, failure, GW_ESTABLISHED);
}

const gw_cause gwi_cause_no_device_visible = {
    .id = "no-device-visible",
    .summary = "The driver shows no card to this process.",
    .proof = "result 100 from cuInit",
    .fixes =
        {[GW_FRAMEWORK_RAW] =
             "Run nvidia-smi in the same place: if it shows no card, start the container with --gpus all, request a "
             "GPU from the scheduler, or install and load the driver\n"
             "If it shows one, check CUDA_VISIBLE_DEVICES (an empty value, -1 and unknown UUIDs hide all cards), "
             "and whether the framework's build has CUDA",
         [GW_FRAMEWORK_JAX] =
             "pip install -U \"jax[cuda12]\" or \"jax[cuda13]\": plain jax has no GPU\n"
             "Set JAX_PLATFORMS=cuda for one run: JAX then reports why it finds no GPU\n"
             "Check CUDA_VISIBLE_DEVICES, and whether nvidia-smi shows a card here (in a container: --gpus all)"},
    .judge = judge,
};
