/* Collects facts about a machine from files. The paths are those of Linux and of the driver's packages. A missing file
 * is not an error. */
#include "gwi_doctor.h"

#include "gw_process.h"
#include "gw_text.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* ---- small readers ---- */

/* Store the first line of a file as a fact. */
static void line_fact(gw_facts *facts, const char *root, const char *path, const char *key)
{
    char *text = gwi_read_file(root, path);
    if (text == NULL)
        return;
    text[strcspn(text, "\n")] = '\0';
    if (text[0] != '\0')
        gw_facts_set(facts, key, "%s", text);
    free(text);
}

static DIR *open_folder(const char *root, const char *path)
{
    gw_text whole = {0};
    gw_text_addf(&whole, "%s%s", root, path);
    DIR *folder = opendir(gw_text_str(&whole));
    gw_text_free(&whole);
    return folder;
}

static bool exists(const char *root, const char *path)
{
    gw_text whole = {0};
    gw_text_addf(&whole, "%s%s", root, path);
    bool found = access(gw_text_str(&whole), F_OK) == 0;
    gw_text_free(&whole);
    return found;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* List the names in a folder, sorted. The caller frees the names. Returns their number. */
static size_t list_names(const char *root, const char *path, char **names, size_t room)
{
    size_t count = 0;
    DIR *folder = open_folder(root, path);
    for (struct dirent *entry; folder != NULL && count < room && (entry = readdir(folder)) != NULL;) {
        if (entry->d_name[0] != '.' && (names[count] = strdup(entry->d_name)) != NULL)
            count++;
    }
    if (folder != NULL)
        closedir(folder);
    qsort(names, count, sizeof *names, by_name);
    return count;
}

static void free_names(char **names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(names[i]);
}

/* ---- the kernel driver ---- */

/* Parses "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build ...". */
static void look_at_module(gw_facts *facts, const char *root)
{
    line_fact(facts, root, "/sys/module/nvidia/version", "driver.module");
    char *text = gwi_read_file(root, "/proc/driver/nvidia/version");
    if (text == NULL)
        return;
    gw_facts_set(facts, "driver.module.kind", "%s",
                 strstr(text, "Open Kernel Module") != NULL ? "open" : "proprietary");
    for (char *at = text; *at != '\0' && gw_facts_get(facts, "driver.module") == NULL; at++) {
        gw_version version;
        const char *end;
        if (at != text && at[-1] == ' ' && isdigit((unsigned char)*at) && gw_version_parse(at, &version, &end) &&
            gw_version_part(version, 0) > 99 && (*end == ' ' || *end == '\n'))
            gw_facts_set(facts, "driver.module", "%.*s", (int)(end - at), at);
    }
    free(text);
}

/* Store the value that follows `name` in `text`, as in "Model:  NVIDIA H200", as a fact about a card. */
static void information_fact(gw_facts *facts, const char *text, const char *name, size_t card, const char *what)
{
    char key[GWI_FACT_KEY_MAX];
    const char *at = strstr(text, name);
    if (at == NULL)
        return;
    at += strlen(name);
    at += strspn(at, " \t");
    snprintf(key, sizeof key, "driver.card.%zu.%s", card, what);
    gw_facts_set(facts, key, "%.*s", (int)strcspn(at, "\n"), at);
}

static void look_at_driver_cards(gw_facts *facts, const char *root)
{
    char *names[GWI_CARDS_MAX], path[600];
    if (!exists(root, "/proc/driver/nvidia/gpus"))
        return;
    size_t count = list_names(root, "/proc/driver/nvidia/gpus", names, GWI_CARDS_MAX);
    gw_facts_set(facts, "driver.cards", "%zu", count);
    for (size_t i = 0; i < count; i++) {
        char key[GWI_FACT_KEY_MAX];
        snprintf(path, sizeof path, "/proc/driver/nvidia/gpus/%s/information", names[i]);
        snprintf(key, sizeof key, "driver.card.%zu.pci", i);
        gw_facts_set(facts, key, "%s", names[i]);
        char *text = gwi_read_file(root, path);
        if (text == NULL)
            continue;
        information_fact(facts, text, "Model:", i, "name");
        information_fact(facts, text, "GPU UUID:", i, "uuid");
        information_fact(facts, text, "Device Minor:", i, "minor");
        free(text);
    }
    free_names(names, count);
}

/* ---- the PCI bus ---- */

static void look_at_card_on_bus(gw_facts *facts, const char *root, const char *name, size_t index)
{
    static const struct {
        const char *file, *what;
    } files[] = {{"current_link_width", "width"}, {"max_link_width", "width_max"}, {"current_link_speed", "speed"},
                 {"max_link_speed", "speed_max"}, {"numa_node", "numa"},           {"device", "device"},
                 {"iommu_group/type", "iommu"}};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char path[600], key[GWI_FACT_KEY_MAX];
        snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/%s", name, files[i].file);
        snprintf(key, sizeof key, "pci.card.%zu.%s", index, files[i].what);
        line_fact(facts, root, path, key);
    }
    char key[GWI_FACT_KEY_MAX];
    snprintf(key, sizeof key, "pci.card.%zu.pci", index);
    gw_facts_set(facts, key, "%s", name);
}

/* Find NVIDIA's devices on the PCI bus. Display and 3D controllers are cards, and bridges are NVSwitches. */
static void look_at_bus(gw_facts *facts, const char *root)
{
    enum { DEVICES_MAX = 1024 };
    char *names[DEVICES_MAX];
    size_t cards = 0, switches = 0;
    if (!exists(root, "/sys/bus/pci/devices"))
        return;
    size_t count = list_names(root, "/sys/bus/pci/devices", names, DEVICES_MAX);
    for (size_t i = 0; i < count; i++) {
        char path[600];
        snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/vendor", names[i]);
        char *vendor = gwi_read_file(root, path);
        snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/class", names[i]);
        char *class = gwi_read_file(root, path);
        if (vendor != NULL && class != NULL && gw_begins(vendor, "0x10de")) {
            if (gw_begins(class, "0x0300") || gw_begins(class, "0x0302"))
                look_at_card_on_bus(facts, root, names[i], cards++);
            switches += gw_begins(class, "0x0680");
        }
        free(vendor);
        free(class);
    }
    free_names(names, count);
    gw_facts_set(facts, "pci.cards", "%zu", cards);
    gw_facts_set(facts, "pci.nvswitches", "%zu", switches);
}

/* True if this device file exists, CUDA programs need it, and this user may not open it. */
static bool is_refused(const char *name)
{
    char path[300];
    const char *rest = name + strlen("nvidia");
    bool needed = strcmp(name, "nvidiactl") == 0 || strcmp(name, "nvidia-uvm") == 0 ||
                  (gw_begins(name, "nvidia") && isdigit((unsigned char)*rest));
    snprintf(path, sizeof path, "/dev/%.200s", name);
    return needed && access(path, F_OK) == 0 && access(path, R_OK | W_OK) != 0;
}

static void look_at_devices(gw_facts *facts, const char *root)
{
    enum { NAMES_MAX = 4096 };
    static char *names[NAMES_MAX];
    gw_text list = {0};
    if (!exists(root, "/dev"))
        return;
    size_t count = list_names(root, "/dev", names, NAMES_MAX);
    for (size_t i = 0; i < count; i++) {
        if (!gw_begins(names[i], "nvidia") && strcmp(names[i], "dxg") != 0)
            continue;
        gw_text_addf(&list, "%s%s", list.bytes == 0 ? "" : " ", names[i]);
        if (root[0] == '\0' && is_refused(names[i]))
            gw_facts_set(facts, "device.refused", "%.100s", names[i]);
    }
    gw_facts_set(facts, "device.files", "%s", gw_text_str(&list));
    gw_text_free(&list);
    free_names(names, count);
}

/* ---- processes and containers ---- */

static void look_at_processes(gw_facts *facts, const char *root)
{
    static const struct {
        const char *name, *key;
    } known[] = {{"nv-fabricmanage", "process.fabricmanager"}, /* Linux truncates process names to 15 bytes */
                 {"nvidia-persiste", "process.persistenced"},
                 {"nvidia-cuda-mps", "process.mps"}};
    DIR *folder = open_folder(root, "/proc");
    bool any = false;
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        char path[300];
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        snprintf(path, sizeof path, "/proc/%.200s/comm", entry->d_name);
        char *name = gwi_read_file(root, path);
        any = any || name != NULL;
        for (size_t i = 0; name != NULL && i < sizeof known / sizeof known[0]; i++) {
            if (gw_begins(name, known[i].name))
                gw_facts_set(facts, known[i].key, "1");
        }
        free(name);
    }
    if (folder != NULL)
        closedir(folder);
    if (any)
        gw_facts_set(facts, "processes.seen", "1");
}

static void look_at_container(gw_facts *facts, const char *root)
{
    char *group = gwi_read_file(root, "/proc/1/cgroup");
    bool named = group != NULL && (strstr(group, "docker") != NULL || strstr(group, "kubepods") != NULL ||
                                   strstr(group, "containerd") != NULL);
    char *mounts = gwi_read_file(root, "/proc/self/mounts"); /* a container's root is usually an overlay */
    bool layered = mounts != NULL && (gw_begins(mounts, "overlay / ") || strstr(mounts, "\noverlay / ") != NULL);
    if (exists(root, "/.dockerenv") || exists(root, "/run/.containerenv") || named || layered)
        gw_facts_set(facts, "container", "1");
    free(mounts);
    free(group);
}

/* ---- limits ---- */

/* Parses "Max open files            1024                 4096                 files". */
static void look_at_limits(gw_facts *facts, const char *root)
{
    static const struct {
        const char *name, *key;
    } limits[] = {{"Max open files", "limit.files"},
                  {"Max locked memory", "limit.memlock"},
                  {"Max address space", "limit.address"},
                  {"Max processes", "limit.processes"},
                  {"Max data size", "limit.data"}};
    char *text = gwi_read_file(root, "/proc/self/limits");
    for (size_t i = 0; text != NULL && i < sizeof limits / sizeof limits[0]; i++) {
        const char *at = strstr(text, limits[i].name);
        if (at == NULL)
            continue;
        at += strlen(limits[i].name);
        at += strspn(at, " ");
        gw_facts_set(facts, limits[i].key, "%.*s", (int)strcspn(at, " \n"), at);
    }
    free(text);
}

/* Parse a size such as "65536k". Returns false for "50%", which is not a number of bytes. */
static bool size_of(const char *text, unsigned long long *ret_bytes)
{
    char *end;
    unsigned long long number = strtoull(text, &end, 10);
    if (end == text)
        return false;
    unsigned shift = 0;
    if (*end == 'k' || *end == 'K')
        shift = 10;
    else if (*end == 'm' || *end == 'M')
        shift = 20;
    else if (*end == 'g' || *end == 'G')
        shift = 30;
    end += shift != 0;
    if ((*end != ',' && *end != ' ' && *end != '\n' && *end != '\0') || number > (1ull << 40))
        return false;
    *ret_bytes = number << shift;
    return true;
}

static void look_at_shm(gw_facts *facts, const char *root)
{
    struct statvfs info;
    char *mounts = gwi_read_file(root, "/proc/self/mounts");
    const char *at = mounts == NULL ? NULL : strstr(mounts, " /dev/shm ");
    if (root[0] == '\0' && statvfs("/dev/shm", &info) == 0) {
        gw_facts_set(facts, "shm.bytes", "%llu", (unsigned long long)info.f_frsize * info.f_blocks);
        gw_facts_set(facts, "shm.bytes_free", "%llu", (unsigned long long)info.f_frsize * info.f_bavail);
    } else if (at != NULL) {
        size_t line = strcspn(at, "\n");
        const char *size = strstr(at, "size=");
        unsigned long long bytes;
        if (size != NULL && size < at + line && size_of(size + strlen("size="), &bytes))
            gw_facts_set(facts, "shm.bytes", "%llu", bytes);
    }
    free(mounts);
}

static void look_at_memory(gw_facts *facts, const char *root)
{
    char *text = gwi_read_file(root, "/proc/meminfo");
    const char *at = text == NULL ? NULL : strstr(text, "MemTotal:");
    if (at != NULL)
        gw_facts_set(facts, "memory.bytes", "%llu", strtoull(at + strlen("MemTotal:"), NULL, 10) * 1024);
    free(text);
    line_fact(facts, root, "/proc/sys/vm/overcommit_memory", "memory.overcommit");
}

/* Find the smallest memory limit of our control group and its parents: memory.max (cgroup v2) or memory.limit_in_bytes
 * (v1). */
static void look_at_group(gw_facts *facts, const char *root, const char *base, const char *group, const char *file)
{
    const unsigned long long no_limit = 1ull << 60; /* control groups v1 report a number near 2^63 for "no limit" */
    char path[4400], folder[4096];
    snprintf(folder, sizeof folder, "%s", group);
    for (;;) {
        snprintf(path, sizeof path, "%s%s/%s", base, folder, file);
        char *text = gwi_read_file(root, path);
        unsigned long long bytes =
            text == NULL || !isdigit((unsigned char)text[0]) ? no_limit : strtoull(text, NULL, 10);
        long long known = gwi_number_or(facts, "memory.limit", -1);
        if (bytes < no_limit && (known < 0 || bytes < (unsigned long long)known))
            gw_facts_set(facts, "memory.limit", "%llu", bytes);
        free(text);
        char *slash = strrchr(folder, '/');
        if (slash == NULL)
            return;
        *slash = '\0';
    }
}

static void look_at_groups(gw_facts *facts, const char *root)
{
    char *text = gwi_read_file(root, "/proc/self/cgroup");
    for (char *line = text, *next; line != NULL && *line != '\0'; line = next) {
        size_t bytes = strcspn(line, "\n");
        next = line + bytes + (line[bytes] == '\n');
        line[bytes] = '\0';
        char *controllers = strchr(line, ':'), *group = controllers == NULL ? NULL : strchr(controllers + 1, ':');
        if (group == NULL)
            continue;
        *group++ = '\0';
        if (strcmp(controllers + 1, "") == 0)
            look_at_group(facts, root, "/sys/fs/cgroup", strcmp(group, "/") == 0 ? "" : group, "memory.max");
        else if (strstr(controllers + 1, "memory") != NULL)
            look_at_group(facts, root, "/sys/fs/cgroup/memory", strcmp(group, "/") == 0 ? "" : group,
                          "memory.limit_in_bytes");
    }
    free(text);
}

/* ---- the rest ---- */

/* True for variables that concern CUDA, the frameworks or the loader's search path. Other variables are private and are
 * not stored. */
static bool is_of_interest(const char *name, size_t bytes)
{
    static const char *const beginnings[] = {
        "CUDA_", "NVIDIA_", "NCCL_",   "PYTORCH_",        "TORCH_",       "XLA_",       "JAX_",
        "TF_",   "CUDNN_",  "CUBLAS_", "LD_LIBRARY_PATH", "CONDA_PREFIX", "VIRTUAL_ENV"};
    for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++) {
        if (bytes >= strlen(beginnings[i]) && gw_begins(name, beginnings[i]))
            return true;
    }
    return false;
}

static void look_at_environment(gw_facts *facts, const char *root)
{
    enum { BYTES_MAX = 1 << 20 };
    char *text = malloc(BYTES_MAX + 1);
    ssize_t bytes = text == NULL ? 0 : gw_read_small(text, BYTES_MAX + 1, NULL, "%s/proc/self/environ", root);
    for (size_t at = 0; (ssize_t)at < bytes; at += strlen(text + at) + 1) {
        char *equals = strchr(text + at, '=');
        char key[GWI_FACT_KEY_MAX];
        if (equals == NULL || !is_of_interest(text + at, (size_t)(equals - text - at)) ||
            (size_t)(equals - text - at) >= sizeof key - 5)
            continue;
        snprintf(key, sizeof key, "env.%.*s", (int)(equals - text - (ptrdiff_t)at), text + at);
        gw_facts_set(facts, key, "%s", equals + 1);
    }
    free(text);
}

static void look_at_platform(gw_facts *facts, const char *root)
{
    char *names[64];
    line_fact(facts, root, "/sys/devices/system/clocksource/clocksource0/current_clocksource", "clocksource");
    line_fact(facts, root, "/proc/sys/kernel/osrelease", "kernel");
    size_t count = list_names(root, "/sys/devices/system/node", names, 64), nodes = 0;
    for (size_t i = 0; i < count; i++)
        nodes += gw_begins(names[i], "node") && isdigit((unsigned char)names[i][4]);
    free_names(names, count);
    if (nodes > 0)
        gw_facts_set(facts, "numa.nodes", "%zu", nodes);
}

static void look_at_iommu(gw_facts *facts, const char *root)
{
    char *names[64];
    if (exists(root, "/sys/kernel/iommu_groups")) {
        size_t count = list_names(root, "/sys/kernel/iommu_groups", names, 64);
        free_names(names, count);
        gw_facts_set(facts, "iommu.groups", "%zu", count);
    }
    /* The type "identity" means that the IOMMU does not translate addresses. */
    char *type = gwi_read_file(root, "/sys/kernel/iommu_groups/0/type");
    if (type != NULL)
        gw_facts_set(facts, "iommu.type", "%.*s", (int)strcspn(type, "\n"), type);
    free(type);
    /* Store the IOMMU type of one card, preferably one whose addresses are translated. If no card has a type, store
     * that of group 0. */
    const char *found = gw_facts_get(facts, "iommu.type"), *own = NULL;
    for (long long i = 0; i < gwi_number_or(facts, "pci.cards", 0) && i < GWI_CARDS_MAX; i++) {
        const char *of_card = gw_facts_getf(facts, "pci.card.%lld.iommu", i);
        if (of_card != NULL && (own == NULL || strcmp(own, "identity") == 0))
            own = of_card;
    }
    if (own != NULL || found != NULL)
        gw_facts_set(facts, "iommu.cards", "%s", own != NULL ? own : found);
}

static void take_answers(gw_facts *facts, const char *root)
{
    char *answers = gwi_read_file(root, "/nvml.answers");
    if (answers != NULL)
        gw_facts_parse(facts, answers, "nvml. card.");
    free(answers);
    answers = gwi_read_file(root, "/python.answers");
    if (answers != NULL)
        gw_doctor_take_python(facts, root, answers);
    free(answers);
}

void gw_doctor_look_bus(gw_facts *facts, const char *root)
{
    look_at_bus(facts, root);
    gwi_look_acs(facts, root);
    look_at_iommu(facts, root);
}

void gw_doctor_look(gw_facts *facts, const char *root)
{
    look_at_environment(facts, root);
    look_at_module(facts, root);
    look_at_driver_cards(facts, root);
    gw_doctor_look_bus(facts, root);
    look_at_devices(facts, root);
    look_at_processes(facts, root);
    look_at_container(facts, root);
    look_at_limits(facts, root);
    look_at_shm(facts, root);
    look_at_memory(facts, root);
    look_at_groups(facts, root);
    look_at_platform(facts, root);
    gwi_look_libraries(facts, root);
    if (root[0] != '\0')
        take_answers(facts, root);
}
