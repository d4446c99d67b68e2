/* Reads the facts about every card from NVML once, for `gpuwhy doctor`. */
#include "gw_room.h"
#include "gwi_nvml.h"

#include "gw_fact.h"
#include "gw_nvml_abi.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct survey {
    gw_survey_fact *fact;
    void *user;
    void *library; /* owned; the NVML library, opened again to call functions that gwi_nvml.h does not offer */
} survey;

__attribute__((format(printf, 4, 5))) static void say(const survey *s, uint32_t card, const char *what,
                                                      const char *format, ...)
{
    char key[96], value[256];
    va_list args;
    snprintf(key, sizeof key, "card.%" PRIu32 ".%s", card, what);
    va_start(args, format);
    vsnprintf(value, sizeof value, format, args);
    va_end(args);
    s->fact(s->user, key, value);
}

/* Report PCI address, UUID and name from the fact "index=0 pci=00000000:18:00.0 uuid=GPU-1 name=NVIDIA H200". */
static void say_names(const survey *s, gwi_nvml *nvml, uint32_t card)
{
    gw_text text = {0};
    gw_fact_card fact;
    if (!gwi_nvml_card_text(nvml, card, &text)) {
        say(s, card, "lost", "1");
        return;
    }
    gw_fact_card_read(gw_fact_text_of(gw_text_str(&text)), &fact);
    const struct {
        const char *what;
        gw_fact_text text;
    } names[] = {{"pci", fact.pci}, {"uuid", fact.uuid}, {"name", fact.name}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].text.bytes > 0)
            say(s, card, names[i].what, "%.*s", (int)names[i].text.bytes, names[i].text.data);
    gw_text_free(&text);
}

static void say_reasons(const survey *s, uint32_t card, uint64_t bits)
{
    say(s, card, "throttle.thermal", "%d", (bits & (GW_CLOCK_REASON_SW_THERMAL | GW_CLOCK_REASON_HW_THERMAL)) != 0);
    say(s, card, "throttle.brake", "%d", (bits & GW_CLOCK_REASON_POWER_BRAKE) != 0);
}

static void say_word(const survey *s, uint32_t card, const char *what, const char *const *words, size_t count,
                     uint64_t value)
{
    if (value < count)
        say(s, card, what, "%s", words[value]);
    else
        say(s, card, what, "unknown (%" PRIu64 ")", value);
}

static void say_metric(const survey *s, uint32_t card, const gw_sample_value *value)
{
    static const char *const modes[] = {"default", "exclusive", "prohibited", "exclusive"};
    static const char *const actions[] = {"none", "reset", "reboot", "drain", "drain"};
    static const char *const switches[] = {"off", "on"};
    if (value->state != GW_SAMPLE_KNOWN)
        return;
    switch ((gw_metric)value->metric) {
    case GW_METRIC_CARD_MEMORY_TOTAL:
        say(s, card, "memory_bytes", "%" PRIu64, value->value);
        break;
    case GW_METRIC_CARD_TEMPERATURE:
        say(s, card, "temperature", "%" PRIu64, value->value);
        break;
    case GW_METRIC_CARD_POWER_LIMIT:
        say(s, card, "power_limit_w", "%" PRIu64, value->value / 1000);
        break;
    case GW_METRIC_CARD_POWER_LIMIT_DEFAULT:
        say(s, card, "power_default_w", "%" PRIu64, value->value / 1000);
        break;
    case GW_METRIC_CARD_CLOCK_REASONS:
        say_reasons(s, card, value->value);
        break;
    case GW_METRIC_CARD_ECC_MODE:
        say_word(s, card, "ecc", switches, 2, value->value);
        break;
    case GW_METRIC_CARD_ECC_UNCORRECTED:
        say(s, card, "ecc_uncorrected", "%" PRIu64, value->value);
        break;
    case GW_METRIC_CARD_REMAP_PENDING:
        say(s, card, "remap_pending", "%" PRIu64, value->value);
        break;
    case GW_METRIC_CARD_REMAP_FAILED:
        say(s, card, "remap_failed", "%" PRIu64, value->value);
        break;
    case GW_METRIC_CARD_RECOVERY_ACTION:
        say_word(s, card, "recovery", actions, sizeof actions / sizeof actions[0], value->value);
        break;
    case GW_METRIC_CARD_COMPUTE_MODE:
        say_word(s, card, "compute_mode", modes, sizeof modes / sizeof modes[0], value->value);
        break;
    case GW_METRIC_CARD_PERSISTENCE:
        say_word(s, card, "persistence", switches, 2, value->value);
        break;
    case GW_METRIC_CARD_STATUS:
        if (value->value == NVML_ERROR_GPU_IS_LOST)
            say(s, card, "lost", "1");
        else if (value->value == NVML_ERROR_RESET_REQUIRED)
            say(s, card, "recovery", "reset");
        break;
    default:
        break;
    }
}

/* ---- values that only a survey reads ---- */

#define FIND(s, name, variable)                                                                                        \
    gw_nvml_fn_##name *variable = NULL;                                                                                \
    {                                                                                                                  \
        void *found = dlsym((s)->library, #name);                                                                      \
        memcpy(&variable, &found, sizeof found);                                                                       \
    }

/* Report the MIG mode: "off", "on", or "empty" if MIG is on but the card has no instance and so accepts no work. */
static void say_mig(const survey *s, uint32_t card, nvmlDevice_t device)
{
    typedef nvmlReturn_t handle_function(nvmlDevice_t device, unsigned index, nvmlDevice_t *instance);
    enum { INSTANCES_MAX = 16 };
    handle_function *handle = NULL;
    void *address = dlsym(s->library, "nvmlDeviceGetMigDeviceHandleByIndex");
    memcpy(&handle, &address, sizeof address);
    FIND(s, nvmlDeviceGetMigMode, mode)
    unsigned current = 0, pending = 0, count = 0;
    if (mode == NULL || mode(device, &current, &pending) != NVML_SUCCESS)
        return;
    for (unsigned i = 0; current != 0 && handle != NULL && i < INSTANCES_MAX; i++) {
        nvmlDevice_t instance;
        count += handle(device, i, &instance) == NVML_SUCCESS;
    }
    const char *mode_text = "on";
    if (current == 0)
        mode_text = "off";
    else if (handle != NULL && count == 0)
        mode_text = "empty";
    say(s, card, "mig", "%s", mode_text);
    if (current != 0 && handle != NULL)
        say(s, card, "mig_instances", "%u", count);
}

static void say_fabric(const survey *s, uint32_t card, nvmlDevice_t device)
{
    static const char *const states[] = {"none", "not-started", "in-progress", "completed"};
    FIND(s, nvmlDeviceGetGpuFabricInfo, ask)
    nvmlGpuFabricInfo_t info = {.state = NVML_GPU_FABRIC_STATE_NOT_SUPPORTED};
    if (ask == NULL || ask(device, &info) != NVML_SUCCESS || info.state >= sizeof states / sizeof states[0])
        return;
    bool failed = info.state == NVML_GPU_FABRIC_STATE_COMPLETED && info.status != NVML_SUCCESS;
    say(s, card, "fabric", "%s", failed ? "failed" : states[info.state]);
}

static void say_more(const survey *s, uint32_t card)
{
    FIND(s, nvmlDeviceGetHandleByIndex_v2, by_index)
    FIND(s, nvmlDeviceGetCudaComputeCapability, capability)
    nvmlDevice_t device;
    int major = 0, minor = 0;
    if (by_index == NULL || by_index(card, &device) != NVML_SUCCESS)
        return;
    if (capability != NULL && capability(device, &major, &minor) == NVML_SUCCESS)
        say(s, card, "capability", "%d.%d", major, minor);
    say_mig(s, card, device);
    say_fabric(s, card, device);
}

static void say_system(const survey *s, gwi_nvml *nvml)
{
    char driver[96], cards[16];
    gw_text text = {0};
    gw_fact_nvml fact;
    gwi_nvml_version_text(nvml, &text);
    gw_fact_nvml_read(gw_fact_text_of(gw_text_str(&text)), &fact);
    if (fact.driver.bytes > 0)
        s->fact(s->user, "nvml.driver", gw_fact_text_copy(driver, sizeof driver, fact.driver));
    gw_text_free(&text);
    snprintf(cards, sizeof cards, "%" PRIu32, gwi_nvml_card_count(nvml));
    s->fact(s->user, "nvml.cards", cards);
}

gw_status gw_survey_nvml(const char *path, gw_survey_fact *fact, void *user, gw_error *err)
{
    static gwi_nvml_progress progress;
    survey s = {fact, user, NULL};
    gwi_nvml *nvml = NULL;
    gw_status st = gwi_nvml_open(path, &progress, &nvml, err);
    if (st != GW_OK)
        return st;
    s.library = dlopen(path == NULL ? "libnvidia-ml.so.1" : path, RTLD_NOW | RTLD_LOCAL);
    say_system(&s, nvml);
    for (uint32_t card = 0; card < gwi_nvml_card_count(nvml); card++) {
        say_names(&s, nvml, card);
        for (size_t row = 0; row < gwi_nvml_row_count(); row++) {
            gw_sample_value value[GWI_NVML_ROW_METRICS];
            size_t count = gwi_nvml_read(nvml, card, row, value);
            for (size_t i = 0; i < count; i++)
                say_metric(&s, card, &value[i]);
        }
        if (s.library != NULL)
            say_more(&s, card);
    }
    gwi_nvml_close(nvml);
    if (s.library != NULL)
        dlclose(s.library);
    return GW_OK;
}
