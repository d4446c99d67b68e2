/* Check the machine around the cards: shared memory, limits, control group, IOMMU and PCIe bridges. */
#include "gw_text.h"
#include "gwi_doctor.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Report environment variables that slow programs down or make them fail. They are often left over from debugging. */

static const char environment[] = "environment";

/* A row applies if the value of the variable `name` is `when`. If `when` is NULL, the row applies to any value except
 * "" and "0". */
static const struct {
    const char *name, *when;
    const char *text;
} knobs[] = {
    {"CUDA_LAUNCH_BLOCKING", NULL, "every launch blocks: several times slower"},
    {"CUDA_DISABLE_JIT", NULL, "PTX is not compiled: modules without native code fail (223)"},
    {"CUDA_FORCE_PTX_JIT", NULL, "native code is ignored: every start compiles PTX"},
    {"CUDA_ENABLE_COREDUMP_ON_EXCEPTION", NULL, "a GPU exception writes a dump and ends the program"},
    {"CUDA_CACHE_DISABLE", NULL, "compiled PTX is not cached: every start compiles it again"},
    {"CUDA_MODULE_LOADING", "EAGER",
     "all kernels are loaded at the start, which is slower and takes hundreds of MiB of GPU memory"},
    {"PYTORCH_NO_CUDA_MEMORY_CACHING", NULL, "PyTorch calls the driver for every tensor: very slow"},
    {"NCCL_P2P_DISABLE", NULL, "copies between cards go through the host: slower"},
    {"NCCL_IB_DISABLE", NULL, "InfiniBand is not used: communication between hosts is slower"},
    {"NCCL_SHM_DISABLE", NULL, "processes on one host communicate over the network"},
    {"NCCL_DEBUG", "TRACE", "NCCL logs every operation"},
    {"NVIDIA_TF32_OVERRIDE", "0", "TF32 is off: matrix products in FP32 are several times slower"},
    {"TF_GPU_ALLOCATOR", "cuda_malloc", "TensorFlow calls the driver for every tensor: very slow"},
};

void gwi_check_environment(const gw_facts *facts, gw_checkup *checkup)
{
    const char *mask = gw_facts_get(facts, "env.CUDA_VISIBLE_DEVICES");
    size_t before = checkup->count;
    if (mask != NULL && (mask[0] == '\0' || gw_begins(mask, "-1") || strcmp(mask, "NoDevFiles") == 0))
        gwi_check(checkup, environment, "no-device-visible", GW_CHECK_FAIL, "unset CUDA_VISIBLE_DEVICES",
                  "CUDA_VISIBLE_DEVICES=\"%s\" hides all cards", mask);
    for (size_t i = 0; i < sizeof knobs / sizeof knobs[0]; i++) {
        const char *value = gw_facts_getf(facts, "env.%s", knobs[i].name);
        bool set = value != NULL && (knobs[i].when != NULL ? strcmp(value, knobs[i].when) == 0
                                                           : value[0] != '\0' && strcmp(value, "0") != 0);
        if (set) {
            char todo[96];
            snprintf(todo, sizeof todo, "unset %s, unless it is intended", knobs[i].name);
            gwi_check(checkup, environment, "debug-knob-left-on", GW_CHECK_WARN, todo, "%s=%.100s: %s", knobs[i].name,
                      value, knobs[i].text);
        }
    }
    if (checkup->count == before)
        gwi_check(checkup, environment, "debug-knob-left-on", GW_CHECK_PASS, NULL,
                  "no variable that slows programs down is set");
}

static const char section[] = "host";

static void check_shm(const gw_facts *facts, gw_checkup *checkup)
{
    long long bytes;
    char text[GW_BYTES_TEXT_MAX];
    if (!gw_facts_number(facts, "shm.bytes", &bytes)) {
        gwi_check(checkup, section, "shm-exhausted", GW_CHECK_UNKNOWN, NULL, "the size of /dev/shm is unknown");
        return;
    }
    gw_bytes_text(text, (uint64_t)bytes);
    if (bytes < 1ll << 30)
        gwi_check(checkup, section, "shm-exhausted", GW_CHECK_WARN,
                  gw_facts_get(facts, "container") != NULL ? "Start the container with --shm-size=8g, or --ipc=host"
                                                           : "mount -o remount,size=8G /dev/shm",
                  "/dev/shm has %s: when it is full, data loader workers and NCCL end with a bus error", text);
    else
        gwi_check(checkup, section, "shm-exhausted", GW_CHECK_PASS, NULL, "/dev/shm has %s", text);
}

static void check_memory(const gw_facts *facts, gw_checkup *checkup)
{
    long long limit, bytes;
    char text[GW_BYTES_TEXT_MAX];
    if (gw_facts_number(facts, "memory.limit", &limit) && limit < 4ll << 30)
        gwi_check(checkup, section, "host-oom-kill", GW_CHECK_WARN,
                  "Raise the memory limit of the container or the job",
                  "the control group may use only %s of host memory: a framework alone takes 2 to 4 GiB",
                  gw_bytes_text(text, (uint64_t)limit));
    else if (gw_facts_number(facts, "memory.bytes", &bytes) && bytes > 0)
        gwi_check(checkup, section, "host-oom-kill", GW_CHECK_PASS, NULL, "%s of host memory%s",
                  gw_bytes_text(text, (uint64_t)bytes),
                  gw_facts_get(facts, "memory.limit") != NULL ? ", limited by the control group" : "");
    if (gwi_number_or(facts, "memory.overcommit", 0) == 2)
        gwi_check(checkup, section, "pinned-memory-failure", GW_CHECK_WARN, "sysctl vm.overcommit_memory=0",
                  "the kernel refuses to overcommit memory (vm.overcommit_memory=2): CUDA reserves far more address "
                  "space than it uses");
}

static void check_limits(const gw_facts *facts, gw_checkup *checkup)
{
    long long number;
    char text[GW_BYTES_TEXT_MAX];
    if (gw_facts_number(facts, "limit.address", &number))
        gwi_check(checkup, section, "limits", GW_CHECK_FAIL,
                  "ulimit -v unlimited; limit memory with a control group instead",
                  "the address space is limited to %s (ulimit -v): CUDA reserves far more and cannot start",
                  gw_bytes_text(text, (uint64_t)number));
    if (gw_facts_number(facts, "limit.files", &number) && number < 1024)
        gwi_check(checkup, section, "fd-or-process-limit", GW_CHECK_WARN, "ulimit -n 65536",
                  "a process may open only %lld files: data loaders with many workers need more", number);
    if (gw_facts_number(facts, "limit.processes", &number) && number < 1024)
        gwi_check(checkup, section, "fd-or-process-limit", GW_CHECK_WARN, "ulimit -u 65536",
                  "a user may have only %lld processes and threads: frameworks start one thread per core, plus workers",
                  number);
    if (gw_facts_number(facts, "limit.memlock", &number) && number < 64 << 10)
        gwi_check(checkup, section, "pinned-memory-failure", GW_CHECK_WARN, "ulimit -l unlimited",
                  "a process may lock only %lld bytes of memory: RDMA (NCCL over InfiniBand) needs more", number);
}

static void check_platform(const gw_facts *facts, gw_checkup *checkup)
{
    const char *clock = gw_facts_get(facts, "clocksource");
    if (gwi_is(clock, "hpet") || gwi_is(clock, "acpi_pm") || gwi_is(clock, "jiffies"))
        gwi_check(checkup, section, "clock", GW_CHECK_WARN,
                  "Boot with clocksource=tsc if the processor's clock is reliable",
                  "the clock source is %s, which takes a microsecond to read, and frameworks and profilers read it all "
                  "the time",
                  clock);
    long long nodes, cards = gwi_card_count(facts);
    if (!gw_facts_number(facts, "numa.nodes", &nodes) || nodes < 2)
        return;
    for (long long i = 0; i < cards; i++) {
        if (gwi_is(gw_facts_getf(facts, "pci.card.%lld.numa", i), "-1")) {
            gwi_check(checkup, section, "numa", GW_CHECK_UNKNOWN, NULL,
                      "%lld NUMA nodes, but the firmware does not report the node of the cards: copies may cross nodes",
                      nodes);
            return;
        }
    }
}

/* True if the cards of this machine copy data to each other over PCIe, that is, if there are several cards but no
 * NVSwitch. */
static bool has_peers_on_bus(const gw_facts *facts)
{
    return gwi_card_count(facts) > 1 && gwi_number_or(facts, "pci.nvswitches", 0) == 0 &&
           !gwi_has_device(facts, "nvidia-nvswitchctl");
}

static void check_acs(const gw_facts *facts, gw_checkup *checkup)
{
    long long bridges = gwi_number_or(facts, "pci.acs.bridges", 0), read = gwi_number_or(facts, "pci.acs.read", 0);
    const char *redirect = gw_facts_get(facts, "pci.acs.redirect");
    if (!has_peers_on_bus(facts) || bridges == 0)
        return;
    if (redirect != NULL && strcmp(redirect, "none") != 0)
        gwi_check(checkup, section, "p2p-iommu-acs", GW_CHECK_WARN,
                  "Disable ACS on these bridges (setpci, or the firmware setting) if no virtual machine needs it",
                  "ACS of the bridges above the cards (%.120s) redirects copies between cards through the root: they "
                  "are slow, and hang or corrupt data if an IOMMU translates addresses",
                  redirect);
    else if (read < bridges)
        gwi_check(checkup, section, "p2p-iommu-acs", GW_CHECK_UNKNOWN, NULL,
                  "unknown whether ACS redirects copies between the cards: %lld of %lld bridges above them show their "
                  "settings only to root",
                  bridges - read, bridges);
    else
        gwi_check(checkup, section, "p2p-iommu-acs", GW_CHECK_PASS, NULL,
                  "ACS of the %lld bridge%s above the cards allows direct copies between them", bridges,
                  bridges == 1 ? "" : "s");
}

static void check_iommu(const gw_facts *facts, gw_checkup *checkup)
{
    long long groups = gwi_number_or(facts, "iommu.groups", 0), cards = gwi_card_count(facts);
    const char *type = gw_facts_get(facts, "iommu.cards");
    if (groups == 0 || !has_peers_on_bus(facts))
        return;
    if (type != NULL && strcmp(type, "identity") != 0)
        gwi_check(checkup, section, "p2p-iommu-acs", GW_CHECK_WARN,
                  "If copies between cards hang or are wrong, boot with iommu=pt and disable ACS on the bridges above "
                  "the cards",
                  "the IOMMU translates addresses (%s) between %lld cards: copies between them over PCIe may hang or "
                  "corrupt data",
                  type, cards);
    else if (type == NULL)
        gwi_check(checkup, section, "p2p-iommu-acs", GW_CHECK_UNKNOWN, NULL,
                  "unknown whether the IOMMU translates addresses between the cards");
}

static void check_container(const gw_facts *facts, gw_checkup *checkup)
{
    const char *visible = gw_facts_get(facts, "env.NVIDIA_VISIBLE_DEVICES"),
               *capabilities = gw_facts_get(facts, "env.NVIDIA_DRIVER_CAPABILITIES");
    if (gw_facts_get(facts, "container") == NULL)
        return;
    if (gwi_is(visible, "void") || gwi_is(visible, "none"))
        gwi_check(checkup, section, "no-device-visible", GW_CHECK_FAIL, "Start the container with --gpus all",
                  "NVIDIA_VISIBLE_DEVICES=%s: the container runtime adds no card to this container", visible);
    if (capabilities != NULL && strstr(capabilities, "compute") == NULL && strstr(capabilities, "all") == NULL)
        gwi_check(checkup, section, "library-not-found", GW_CHECK_FAIL,
                  "Set NVIDIA_DRIVER_CAPABILITIES=compute,utility",
                  "NVIDIA_DRIVER_CAPABILITIES=%s: the container lacks the driver's compute libraries", capabilities);
}

void gwi_check_host(const gw_facts *facts, gw_checkup *checkup)
{
    check_container(facts, checkup);
    check_shm(facts, checkup);
    check_memory(facts, checkup);
    check_limits(facts, checkup);
    check_platform(facts, checkup);
    check_iommu(facts, checkup);
    check_acs(facts, checkup);
}
