/* Check the cards, using data from NVML and the PCI bus. */
#include "gwi_doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char section[] = "cards";

/* The checks of single facts about a card. A row applies if the fact `what` has the value `when`. If `when` is NULL,
 * any value is accepted except "0", "no", "off", "none" and "unknown". */
static const struct {
    const char *what, *when, *id;
    gw_check_state state;
    const char *text, *todo;
} rules[] = {
    {"lost", NULL, "gpu-off-bus", GW_CHECK_FAIL, "has fallen off the bus",
     "Reboot, then check power, seating and PCIe errors"},
    {"remap_failed", NULL, "ecc-uncorrectable", GW_CHECK_FAIL, "could not remap faulty memory rows",
     "Run the vendor's diagnostics; the card is due for replacement"},
    {"remap_pending", NULL, "remap-pending", GW_CHECK_WARN, "has memory rows that will be remapped at the next reset",
     "Reset the card when it is idle (nvidia-smi -r), or reboot. Nothing is broken until then"},
    {"ecc_uncorrected", NULL, "ecc-uncorrectable", GW_CHECK_WARN,
     "has had uncorrectable memory errors since the driver was loaded",
     "Reset the card when it is idle. If the errors return, run the vendor's diagnostics"},
    {"recovery", "reset", "remap-pending", GW_CHECK_FAIL, "needs a reset", "Reset the card (nvidia-smi -r)"},
    {"recovery", "reboot", "gpu-off-bus", GW_CHECK_FAIL, "needs a reboot of the machine", "Reboot"},
    {"recovery", "drain", "gpu-off-bus", GW_CHECK_WARN, "needs to be drained",
     "Start no new work on it, then reset the card or reboot"},
    {"compute_mode", "prohibited", "device-busy-or-partition", GW_CHECK_FAIL,
     "accepts no process (compute mode: prohibited)", "nvidia-smi -c 0"},
    {"compute_mode", "exclusive", "device-busy-or-partition", GW_CHECK_WARN,
     "accepts only one process at a time (compute mode: exclusive)", "nvidia-smi -c 0, unless this is intended"},
    {"mig", "empty", "device-busy-or-partition", GW_CHECK_FAIL, "is in MIG mode but has no instance",
     "Create one (nvidia-smi mig -cgi ... -C), or disable MIG"},
    {"fabric", "not-started", "fabric-not-ready", GW_CHECK_FAIL,
     "is not registered with the NVLink fabric: cuInit returns 802",
     "Start nvidia-fabricmanager of exactly the driver's version"},
    {"fabric", "in-progress", "fabric-not-ready", GW_CHECK_WARN, "is being registered with the NVLink fabric",
     "Wait. If this does not change, check the log of nvidia-fabricmanager"},
    {"fabric", "failed", "fabric-not-ready", GW_CHECK_FAIL, "could not be registered with the NVLink fabric",
     "Check the log of nvidia-fabricmanager. Its version must be exactly that of the driver"},
    {"persistence", "off", "persistence", GW_CHECK_PASS,
     "is reinitialised after each idle period (persistence is off): start-up takes a second or more longer", NULL},
    {"throttle.thermal", NULL, "thermal-throttle", GW_CHECK_WARN, "is throttled because of heat",
     "Check fans, airflow and inlet temperature"},
    {"throttle.brake", NULL, "power-limit-or-brake", GW_CHECK_WARN, "is throttled at the request of the power supply",
     "Check power supplies, cables and the limits of the rack"},
};

static bool is_set(const char *value, const char *when)
{
    if (value == NULL)
        return false;
    if (when != NULL)
        return strcmp(value, when) == 0;
    return strcmp(value, "0") != 0 && strcmp(value, "no") != 0 && strcmp(value, "off") != 0 &&
           strcmp(value, "none") != 0 && strcmp(value, "unknown") != 0;
}

static const char *name_of(const gw_facts *facts, long long card, char out[160])
{
    const char *name = gwi_card(facts, card, "name"), *pci = gwi_card(facts, card, "pci");
    snprintf(out, 160, "card %lld%s%.80s%s%.40s%s", card, name != NULL ? " " : "", name != NULL ? name : "",
             pci != NULL ? " (" : "", pci != NULL ? pci : "", pci != NULL ? ")" : "");
    return out;
}

static size_t check_rules(const gw_facts *facts, gw_checkup *checkup, long long card)
{
    char name[160];
    size_t bad = 0;
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        const char *value = gw_facts_getf(facts, "card.%lld.%s", card, rules[i].what);
        if (!is_set(value, rules[i].when))
            continue;
        gwi_check(checkup, section, rules[i].id, rules[i].state, rules[i].todo, "%s %s", name_of(facts, card, name),
                  rules[i].text);
        bad += rules[i].state != GW_CHECK_PASS;
    }
    return bad;
}

static size_t check_power(const gw_facts *facts, gw_checkup *checkup, long long card)
{
    const char *limit = gw_facts_getf(facts, "card.%lld.power_limit_w", card),
               *standard = gw_facts_getf(facts, "card.%lld.power_default_w", card);
    char name[160];
    if (limit == NULL || standard == NULL || atof(limit) >= atof(standard) * 0.97)
        return 0;
    gwi_check(checkup, section, "power-limit-or-brake", GW_CHECK_WARN,
              "Set the default with nvidia-smi -pl, unless the limit is intended",
              "%s is limited to %s W; its default is %s W", name_of(facts, card, name), limit, standard);
    return 1;
}

/* True if both texts name the same PCI address. NVML writes 00000000:1B:00.0 where Linux writes 0000:1b:00.0. */
static bool is_same_place(const char *a, const char *b)
{
    enum { PLACE_BYTES = 12 };
    size_t x = strlen(a), y = strlen(b);
    return x >= PLACE_BYTES && y >= PLACE_BYTES && strcasecmp(a + x - PLACE_BYTES, b + y - PLACE_BYTES) == 0;
}

/* Return the card's index among the cards on the PCI bus, or -1 if unknown. In a container, it may differ from
 * `card`. */
static long long bus_index(const gw_facts *facts, long long card)
{
    const char *place = gwi_card(facts, card, "pci");
    long long count = gwi_number_or(facts, "pci.cards", 0);
    if (place == NULL)
        return count == gwi_card_count(facts) ? card : -1;
    for (long long i = 0; i < count && i < GWI_CARDS_MAX; i++) {
        const char *name = gw_facts_getf(facts, "pci.card.%lld.pci", i);
        if (name != NULL && is_same_place(name, place))
            return i;
    }
    return -1;
}

static bool is_slow_now(const gw_facts *facts, long long index)
{
    const char *speed = gw_facts_getf(facts, "pci.card.%lld.speed", index),
               *fastest = gw_facts_getf(facts, "pci.card.%lld.speed_max", index);
    return speed != NULL && fastest != NULL && atof(speed) > 0 && atof(speed) < atof(fastest);
}

/* Report links below their maximum speed, as "unknown": an idle card slows down its link. */
static void check_speed(const gw_facts *facts, gw_checkup *checkup, long long count)
{
    long long slow = 0, first = -1;
    for (long long i = 0; i < count; i++) {
        long long index = bus_index(facts, i);
        if (index < 0 || !is_slow_now(facts, index))
            continue;
        slow++;
        first = first < 0 ? index : first;
    }
    if (slow == 0)
        return;
    gwi_check(checkup, section, "pcie-degraded", GW_CHECK_UNKNOWN,
              "Run a program that copies a lot of data: gpuwhy run -- PROGRAM records the speed of the link and "
              "reports a slow one",
              "%lld of %lld cards: the PCIe link is currently below its maximum speed (%s: %s of %s). This is normal "
              "for idle cards. The speed under load is unknown",
              slow, count, gw_facts_getf(facts, "pci.card.%lld.pci", first),
              gw_facts_getf(facts, "pci.card.%lld.speed", first),
              gw_facts_getf(facts, "pci.card.%lld.speed_max", first));
}

/* Check the width of the link. Unlike the speed, the width does not depend on the load. */
static size_t check_link(const gw_facts *facts, gw_checkup *checkup, long long card)
{
    long long index = bus_index(facts, card);
    const char *width = gw_facts_getf(facts, "pci.card.%lld.width", index),
               *widest = gw_facts_getf(facts, "pci.card.%lld.width_max", index),
               *pci = gw_facts_getf(facts, "pci.card.%lld.pci", index);
    if (width == NULL || widest == NULL || atoi(width) <= 0 || atoi(width) >= atoi(widest))
        return 0;
    gwi_check(checkup, section, "pcie-degraded", GW_CHECK_WARN,
              "Reseat the card, try another slot or riser, and check the BIOS setting for bifurcation. Some boards "
              "connect fewer lanes",
              "the card at %s uses %s of its %s PCIe lanes", pci != NULL ? pci : "?", width, widest);
    return 1;
}

static void check_mixed(const gw_facts *facts, gw_checkup *checkup, long long count)
{
    const char *first = gwi_card(facts, 0, "name"), *order = gw_facts_get(facts, "env.CUDA_DEVICE_ORDER");
    bool mixed = false;
    for (long long i = 1; i < count && first != NULL; i++) {
        const char *name = gwi_card(facts, i, "name");
        mixed = mixed || (name != NULL && strcmp(name, first) != 0);
    }
    if (!mixed)
        return;
    if (gwi_is(order, "PCI_BUS_ID"))
        gwi_check(checkup, section, "device-order", GW_CHECK_PASS, NULL,
                  "different cards, numbered in bus order as in nvidia-smi (CUDA_DEVICE_ORDER)");
    else
        gwi_check(checkup, section, "device-order", GW_CHECK_WARN, "Set CUDA_DEVICE_ORDER=PCI_BUS_ID",
                  "different cards (%s and others): CUDA numbers the fastest card first, nvidia-smi numbers cards in "
                  "bus order, so the numbers may differ",
                  first);
}

static void check_fabric(const gw_facts *facts, gw_checkup *checkup)
{
    bool has_switch = gwi_has_device(facts, "nvidia-nvswitchctl") || gwi_number_or(facts, "pci.nvswitches", 0) > 0;
    if (!has_switch)
        return;
    if (gw_facts_get(facts, "process.fabricmanager") != NULL)
        gwi_check(checkup, section, "fabric-not-ready", GW_CHECK_PASS, NULL,
                  "NVSwitches found, and the Fabric Manager is running");
    else if (gwi_is(gw_facts_getf(facts, "card.0.fabric"), "completed"))
        gwi_check(checkup, section, "fabric-not-ready", GW_CHECK_PASS, NULL,
                  "NVSwitches found, and the cards are registered");
    else if (gw_facts_get(facts, "container") != NULL || gw_facts_get(facts, "processes.seen") == NULL)
        gwi_check(checkup, section, "fabric-not-ready", GW_CHECK_UNKNOWN, NULL,
                  "NVSwitches found; unknown whether the Fabric Manager of the host is running");
    else
        gwi_check(checkup, section, "fabric-not-ready", GW_CHECK_FAIL,
                  "Start nvidia-fabricmanager. Its version must be exactly that of the driver",
                  "the machine has NVSwitches, but the Fabric Manager is not running: cuInit returns 802");
}

static void check_seen(const gw_facts *facts, gw_checkup *checkup, long long count)
{
    long long bus, driver, nvml;
    char names[320] = "";
    for (long long i = 0; i < count && strlen(names) < 200; i++) {
        const char *name = gwi_card(facts, i, "name");
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%.60s", i > 0 ? ", " : "",
                 name != NULL ? name : "?");
    }
    if (gw_facts_number(facts, "pci.cards", &bus) && gw_facts_number(facts, "driver.cards", &driver) && bus > driver &&
        driver > 0 && gw_facts_get(facts, "container") == NULL)
        gwi_check(checkup, section, "gpu-off-bus", GW_CHECK_UNKNOWN,
                  "Check the kernel log for NVRM lines about the other cards",
                  "%lld cards are on the bus, but the driver uses only %lld: the others belong to a virtual machine, "
                  "or have failed",
                  bus, driver);
    else if (gw_facts_number(facts, "driver.cards", &driver) && gw_facts_number(facts, "nvml.cards", &nvml) &&
             nvml < driver && gw_facts_get(facts, "container") == NULL)
        gwi_check(checkup, section, "gpu-off-bus", GW_CHECK_FAIL, "Check the kernel log (Xid 79), then reboot",
                  "the driver found %lld cards, but NVML lists only %lld", driver, nvml);
    else if (count > 0)
        gwi_check(checkup, section, "cards", GW_CHECK_PASS, NULL, "%lld: %s", count, names);
}

static void check_mps(const gw_facts *facts, gw_checkup *checkup)
{
    if (gw_facts_get(facts, "process.mps") != NULL || gw_facts_get(facts, "env.CUDA_MPS_PIPE_DIRECTORY") != NULL)
        gwi_check(checkup, section, "mps-neighbour-fault", GW_CHECK_PASS, NULL,
                  "programs share the card through MPS: a fault in one of them also ends the others");
}

void gwi_check_cards(const gw_facts *facts, gw_checkup *checkup)
{
    long long count = gwi_card_count(facts);
    if (count <= 0)
        return;
    check_seen(facts, checkup, count);
    size_t said = 0;
    for (long long i = 0; i < count; i++)
        said += check_rules(facts, checkup, i) + check_power(facts, checkup, i) + check_link(facts, checkup, i);
    if (gw_facts_get(facts, "nvml.cards") == NULL)
        gwi_check(checkup, section, "nvml", GW_CHECK_UNKNOWN, NULL,
                  "memory errors, throttling, modes and partitions are unknown: %s",
                  gw_facts_get(facts, "nvml.why") != NULL ? gw_facts_get(facts, "nvml.why") : "NVML was not queried");
    else if (said == 0)
        gwi_check(checkup, section, "nvml", GW_CHECK_PASS, NULL,
                  "no errors, no throttling, and no mode that rejects programs");
    check_speed(facts, checkup, count);
    check_mps(facts, checkup);
    check_mixed(facts, checkup, count);
    check_fabric(facts, checkup);
}
