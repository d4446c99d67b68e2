/* The driver works but shows no card to this process.
 *
 * Established only by: result 100 (no card is visible) before the process had any context, if the run ended because of
 * it (gwi_sure_of_end()). Some programs continue without a card.
 * Supported by: a framework's own message, without a driver call. */
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

/* Judge a framework's message without a failed call: a framework that was built without CUDA makes no driver call. */
static gw_certainty judge_told(const gwi_case *c, gwi_finding *finding)
{
    static const char *const words[] = {"Torch not compiled with CUDA enabled", "No CUDA GPUs are available"};
    const gw_stderr_line *told = &c->model->stderr_facts.exception;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (!told->seen || !c->bad_end || c->root != NULL || strstr(told->text, words[i]) == NULL)
            continue;
        gwi_headline(finding,
                     i == 0 ? "the framework was built without CUDA: it sees no GPU" : "the framework sees no GPU");
        gwi_evidence(finding, told->t_ns, "stderr", "%s", told->text);
        if (gwi_visible_devices(c) != NULL)
            gwi_evidence(finding, GWI_NO_TIME, "host", "CUDA_VISIBLE_DEVICES=\"%s\"", gwi_visible_devices(c));
        if (i == 0)
            gwi_next(finding, "Install the framework's CUDA build (PyTorch: the index URL that its site names)");
        return GW_SUPPORTED;
    }
    return GW_CERTAINTY_NONE;
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
    .fixes = {[GW_FRAMEWORK_RAW] =
                  "Check CUDA_VISIBLE_DEVICES: an empty value, -1 and unknown UUIDs hide all cards\n"
                  "In a container: start it with --gpus all; in a cluster: request a GPU from the scheduler\n"
                  "Check whether nvidia-smi shows a card here, and whether the kernel driver is loaded",
              [GW_FRAMEWORK_JAX] =
                  "pip install -U \"jax[cuda12]\" or \"jax[cuda13]\": plain jax has no GPU\n"
                  "Set JAX_PLATFORMS=cuda for one run: JAX then reports why it finds no GPU\n"
                  "Check CUDA_VISIBLE_DEVICES, and whether nvidia-smi shows a card here (in a container: --gpus all)"},
    .judge = judge,
};
