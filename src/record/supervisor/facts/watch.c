/* Records what is visible only from outside a process: the libraries it has mapped, and whether it uses a driver
 * without our hook. Reading /proc does not disturb it. */
#include "gwi_run.h"

#include "gw_clock.h"
#include "gw_fact.h"
#include "gw_hash.h"
#include "gw_libs.h"
#include "gw_process.h"
#include "gw_text.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const uint64_t first_interval_ns = 50000000u;
static const uint64_t last_interval_ns = 5000000000u;

static void add_children(gwi_family *family, pid_t parent)
{
    char path[64], entry[32];
    snprintf(path, sizeof path, "/proc/%d/task", (int)parent);
    DIR *tasks = opendir(path);
    if (tasks == NULL)
        return;
    for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
        char children[128];
        if (task->d_name[0] == '.')
            continue;
        snprintf(entry, sizeof entry, "%.20s", task->d_name);
        snprintf(children, sizeof children, "%s/%s/children", path, entry);
        FILE *list = fopen(children, "re"); /* on kernels without this file, only the command is watched */
        int child;
        while (list != NULL && family->count < GWI_FAMILY_MAX && fscanf(list, "%d", &child) == 1) {
            family->parent[family->count] = parent;
            family->pid[family->count++] = child;
        }
        if (list != NULL)
            fclose(list);
    }
    closedir(tasks);
}

void gwi_family_find(gwi_family *family, pid_t command)
{
    family->pid[0] = command;
    family->parent[0] = 0;
    family->count = 1;
    for (size_t i = 0; i < family->count; i++) /* add_children() increases family->count */
        add_children(family, family->pid[i]);
}

static bool is_interesting(const char *path)
{
    static const char *const beginnings[] = {"libcuda",     "libcudnn",      "libcublas", "libnccl",  "libnvidia",
                                             "libtorch",    "libc10",        "libpython", "python",   "libcupti",
                                             "libjax",      "libtensorflow", "libnvrtc",  "libcufft", "libcusolver",
                                             "libcusparse", "libcurand"};
    const char *base = gw_path_last(path);
    for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++)
        if (gw_begins(base, beginnings[i]))
            return true;
    return strstr(base, "xla") != NULL;
}

static bool is_driver(const char *path)
{
    return gw_begins(gw_path_last(path), "libcuda.so");
}

static bool add_once(uint32_t *list, uint32_t *count, size_t room, uint32_t pid)
{
    for (uint32_t i = 0; i < *count; i++)
        if (list[i] == pid)
            return false;
    if (*count == room)
        return false;
    list[(*count)++] = pid;
    return true;
}

static bool is_other_file(void *user, int fd, const char *target)
{
    bool *found = user;
    (void)fd;
    *found = gw_begins(target, "/dev/nvidia");
    return !*found;
}

/* Return true if the process has a device file of the driver open. The driver is then initialised, not only loaded. */
static bool holds_device(pid_t pid)
{
    bool found = false;
    (void)gw_process_files((int)pid, is_other_file, &found);
    return found;
}

static void name_of(pid_t pid, char *name, size_t name_bytes)
{
    if (gw_read_small(name, name_bytes, NULL, "/proc/%d/comm", (int)pid) <= 0)
        snprintf(name, name_bytes, "?");
    name[strcspn(name, "\n")] = '\0';
}

static void keep_seen(gwi_watch *watch, pid_t pid, bool is_hooked, bool has_driver)
{
    uint32_t at = 0;
    while (at < watch->seen_count && watch->seen[at].pid != (uint32_t)pid)
        at++;
    if (at == sizeof watch->seen / sizeof watch->seen[0])
        return;
    if (at == watch->seen_count) {
        watch->seen[at].pid = (uint32_t)pid;
        watch->seen_count++;
    }
    name_of(pid, watch->seen[at].name, sizeof watch->seen[at].name); /* exec() may have changed the name */
    watch->seen[at].is_hooked = is_hooked;
    watch->seen[at].has_driver = has_driver;
}

static void put_map(gwi_record *record, uint32_t pid, const char *path)
{
    gw_item item = {.kind = GW_ITEM_MAPS, .t_ns = gwi_record_now_ns(record), .pid = pid};
    item.pair.key = path;
    item.pair.value = "";
    gwi_record_put(record, &item);
}

/* True if a library or a package, by the beginning of its path, was recorded for the process, or if the list is full.
 */
static bool is_put(const gwi_watch *watch, uint64_t hash)
{
    for (uint32_t i = 0; i < watch->library_count; i++)
        if (watch->library[i] == hash)
            return true;
    return watch->library_count == sizeof watch->library / sizeof watch->library[0];
}

static void put_once(gwi_watch *watch, gwi_record *record, uint32_t pid, uint64_t hash, gw_fact_key what,
                     const gw_text *line)
{
    gw_item item = {.kind = GW_ITEM_SUPERVISOR, .t_ns = gwi_record_now_ns(record), .pid = pid};
    watch->library[watch->library_count++] = hash;
    item.pair.key = gw_fact_key_text(what);
    item.pair.value = gw_text_str(line);
    if (item.pair.value[0] != '\0')
        gwi_record_put(record, &item);
}

/* Record the version of a library, once per process. Libraries may be loaded late, so each look may find new ones. */
static void put_library(gwi_watch *watch, gwi_record *record, uint32_t pid, const char *path)
{
    gw_library library;
    gw_text line = {0};
    uint64_t hash = gw_hash_bytes(GW_HASH_START ^ pid, path, strlen(path));
    if (is_put(watch, hash) || !gw_library_of_path(path, &library))
        return;
    gw_library_ask_package("", &library);
    if (library.path != NULL)
        gw_library_to_line(&library, &line);
    put_once(watch, record, pid, hash, GW_FACT_LIBRARY, &line);
    gw_text_free(&line);
    gw_library_free(&library);
}

/* Record the Python package that has this native code, once per process. Only the first file of a package makes us read
 * the folder of packages. */
static void put_package(gwi_watch *watch, gwi_record *record, uint32_t pid, const char *path)
{
    gw_text line = {0};
    size_t bytes = gw_package_bytes(path);
    uint64_t hash = gw_hash_bytes(GW_HASH_START ^ ~pid, path, bytes);
    if (bytes == 0 || is_put(watch, hash))
        return;
    gw_package_of_path("", path, &line);
    put_once(watch, record, pid, hash, GW_FACT_PACKAGE, &line);
    gw_text_free(&line);
}

/* True if a process with the hook and a driver may still be recorded later, when its first call is drained. So wait a
 * while before reporting missing calls. A forked child of a recorded process may never make a call, so it is never
 * reported. */
static bool may_be_seen_yet(gwi_watch *watch, const gwi_record *record, pid_t pid, pid_t parent)
{
    const uint64_t patience_ns = 2000000000u;
    uint64_t now = gw_monotonic_ns();
    if (gwi_record_has_process(record, (uint32_t)parent))
        return true;
    for (uint32_t i = 0; i < watch->suspect_count; i++)
        if (watch->suspect[i].pid == (uint32_t)pid)
            return now - watch->suspect[i].since_ns < patience_ns;
    if (watch->suspect_count == sizeof watch->suspect / sizeof watch->suspect[0])
        return false;
    watch->suspect[watch->suspect_count].pid = (uint32_t)pid;
    watch->suspect[watch->suspect_count].parent = (uint32_t)parent;
    watch->suspect[watch->suspect_count++].since_ns = now;
    return true;
}

/* Return true if another gpuwhy run started the process, which then records it. Returns true, too, if the environment
 * cannot be read: the process is just ending or calling exec(), and the next look decides. */
static bool may_be_of_another_run(const gwi_watch *watch, pid_t pid)
{
    static const char name[] = "GPUWHY_RUN_DIR=";
    char buffer[64 << 10];
    ssize_t used = gw_read_small(buffer, sizeof buffer, NULL, "/proc/%d/environ", (int)pid);
    if (used <= 0)
        return true;
    for (const char *at = buffer; at < buffer + used; at += strlen(at) + 1)
        if (gw_begins(at, name))
            return strcmp(at + strlen(name), watch->run_folder) != 0;
    return false;
}

/* True if the program of the process is of another kind than ours, so that the loader cannot load our libraries. */
static bool is_32_bit(pid_t pid)
{
    char head[EI_CLASS + 2] = "";
    return gw_read_small(head, sizeof head, NULL, "/proc/%d/exe", (int)pid) > EI_CLASS && head[EI_CLASS] == ELFCLASS32;
}

/* True if the facade does not exist for the process: it is in a container, or in another root folder. */
static bool has_other_root(const gwi_doors *doors, pid_t pid)
{
    gw_path path;
    return gw_path_format(path, NULL, "/proc/%d/root%s/libcuda.so.1", (int)pid, doors->folder) == GW_OK &&
           access(path, F_OK) != 0 && errno == ENOENT && kill(pid, 0) == 0;
}

/* Return true if neither the process nor its children load the hook: a launcher replaced the environment, which then
 * lacks the facade's folder, or that folder is not there. Returns true, too, if we have no permission to read the
 * environment. *ret_why receives the reason. */
static bool is_without_hook(const gwi_doors *doors, pid_t pid, const char **ret_why)
{
    char buffer[64 << 10];
    ssize_t used = gw_read_small(buffer, sizeof buffer, NULL, "/proc/%d/environ", (int)pid);
    *ret_why = "has other privileges than yours";
    if (used < 0)
        return errno == EACCES || errno == EPERM;
    *ret_why = "was started with a different environment";
    bool is_whole = (size_t)used + 1 < sizeof buffer;
    if (has_other_root(doors, pid) || is_32_bit(pid)) {
        *ret_why = is_32_bit(pid) ? "is a 32-bit program" : "sees other files than gpuwhy, as in a container";
        return true;
    }
    return is_whole && memmem(buffer, (size_t)used, doors->folder, strlen(doors->folder)) == NULL;
}

/* Report a process if neither it nor its children will load the hook. A second look, exec_ns later, must confirm this:
 * during exec() the environment is empty for a moment. */
static void look_for_strangers(gwi_watch *watch, gwi_record *record, const gwi_doors *doors, pid_t pid)
{
    static const uint64_t exec_ns = 20000000u;
    char name[64];
    const char *why;
    uint32_t at = 0;
    if (!is_without_hook(doors, pid, &why) || gw_process_is_gpuwhy(pid)) /* the relay of a run inside this one */
        return;
    while (at < watch->strange_count && watch->strange[at].pid != (uint32_t)pid)
        at++;
    if (at == sizeof watch->strange / sizeof watch->strange[0])
        return;
    if (at == watch->strange_count) {
        watch->strange[at].pid = (uint32_t)pid;
        watch->strange[at].since_ns = gw_monotonic_ns();
        watch->strange_count++;
    } else if (!watch->strange[at].said && gw_monotonic_ns() - watch->strange[at].since_ns >= exec_ns) {
        watch->strange[at].said = true;
        name_of(pid, name, sizeof name);
        gwi_record_fact(record, gw_fact_key_text(GW_FACT_UNOBSERVED_CHILD),
                        "pid %d (%s) %s: its driver calls would not be recorded", (int)pid, name, why);
    }
}

static void look_at_process(gwi_watch *watch, gwi_record *record, const gwi_doors *doors, pid_t pid, pid_t parent)
{
    char name[64], line[PATH_MAX + 128];
    gw_path last = "", driver = "";
    bool is_hooked = false, has_hook = false, has_maps = false;
    bool recorded = gwi_record_has_process(record, (uint32_t)pid);
    bool write_maps = recorded && add_once(watch->mapped, &watch->mapped_count,
                                           sizeof watch->mapped / sizeof watch->mapped[0], (uint32_t)pid);
    snprintf(name, sizeof name, "/proc/%d/maps", (int)pid);
    FILE *maps = fopen(name, "re");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        char *path = strchr(line, '/');
        if (path == NULL)
            continue;
        path[strcspn(path, "\n")] = '\0';
        has_maps = true;
        if (strcmp(path, last) == 0)
            continue;
        snprintf(last, sizeof last, "%s", path);
        if (write_maps && is_interesting(path))
            put_map(record, (uint32_t)pid, path);
        bool ours = doors->folder[0] != '\0' && gw_begins(path, doors->folder);
        bool virtual = doors->is_virtual && strcmp(path, doors->driver) == 0;
        is_hooked = is_hooked || ours;
        has_hook = has_hook || strcmp(gw_path_last(path), "libgpuwhy-hook.so") == 0;
        if (recorded && !ours && !virtual) {
            put_library(watch, record, (uint32_t)pid, path);
            put_package(watch, record, (uint32_t)pid, path);
        }
        if (is_driver(path) && !ours)
            snprintf(driver, sizeof driver, "%s", path);
    }
    bool is_foreign = maps == NULL && (errno == EACCES || errno == EPERM);
    if (maps != NULL)
        fclose(maps);
    /* a program that has changed its root folder before its first call no longer finds the hook */
    if (doors->open && !recorded && !has_hook && (has_maps || is_foreign) && (!is_hooked || has_other_root(doors, pid)))
        look_for_strangers(watch, record, doors, pid);
    /* A program that is linked to the driver loads it at its start. The facade loads the hook at the first call, so a
     * process with the hook has made a call. If the hook could not be loaded, an open device file shows it. */
    bool has_called = driver[0] != '\0' && (has_hook || (is_hooked && holds_device(pid)));
    keep_seen(watch, pid, is_hooked, has_called || (!is_hooked && driver[0] != '\0'));
    if (driver[0] != '\0' && !recorded && !(is_hooked && may_be_of_another_run(watch, pid)) &&
        (is_hooked ? has_called && !may_be_seen_yet(watch, record, pid, parent) : holds_device(pid)) &&
        add_once(watch->unobserved, &watch->unobserved_count, sizeof watch->unobserved / sizeof watch->unobserved[0],
                 (uint32_t)pid))
        gwi_record_fact(record, gw_fact_key_text(GW_FACT_UNOBSERVED_DRIVER),
                        "pid %d uses %s, and its calls were not recorded", (int)pid, driver);
}

/* Check the parent again at the end. On a busy machine, a forked child may become a suspect before its parent's first
 * call is drained. */
static bool is_child_of_recorded(const gwi_record *record, uint32_t parent)
{
    return parent != 0 && gwi_record_has_process(record, parent);
}

void gwi_watch_last(gwi_watch *watch, gwi_record *record)
{
    gw_text text = {0};
    for (uint32_t i = 0; i < watch->suspect_count; i++)
        if (!gwi_record_has_process(record, watch->suspect[i].pid) &&
            !is_child_of_recorded(record, watch->suspect[i].parent) &&
            add_once(watch->unobserved, &watch->unobserved_count,
                     sizeof watch->unobserved / sizeof watch->unobserved[0], watch->suspect[i].pid))
            gwi_record_fact(record, gw_fact_key_text(GW_FACT_UNOBSERVED_DRIVER),
                            "pid %u called the driver, and its calls were not recorded", watch->suspect[i].pid);
    for (uint32_t i = 0; i < watch->seen_count; i++) {
        gw_fact_coverage fact = {GW_FACT_SET(hooked, watch->seen[i].is_hooked),
                                 GW_FACT_SET(buffer, gwi_record_has_process(record, watch->seen[i].pid)),
                                 GW_FACT_SET(driver, watch->seen[i].has_driver),
                                 GW_FACT_SET(name, gw_fact_text_of(watch->seen[i].name))};
        gw_item item = {.kind = GW_ITEM_SUPERVISOR, .t_ns = gwi_record_now_ns(record), .pid = watch->seen[i].pid};
        gw_text_clear(&text);
        gw_fact_coverage_write(&fact, &text);
        item.pair.key = gw_fact_key_text(GW_FACT_PROCESS_COVERAGE);
        item.pair.value = gw_text_str(&text);
        gwi_record_put(record, &item);
    }
    gw_text_free(&text);
}

/* Return the newest pid of the system, 0 if unknown. If it is unchanged since the last look, no process was started
 * meanwhile. */
static uint32_t newest_pid(void)
{
    char load[128];
    unsigned pid = 0;
    gw_read_small(load, sizeof load, NULL, "/proc/loadavg");
    return sscanf(load, "%*s %*s %*s %*s %u", &pid) == 1 ? pid : 0;
}

static void forget_gone(gwi_watch *watch)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < watch->young_count; i++)
        if (kill((pid_t)watch->young[i].pid, 0) == 0 || errno != ESRCH)
            watch->young[kept++] = watch->young[i];
    watch->young_count = kept;
}

/* Examine new children between two looks at all processes: a child without the hook may start and end in that time.
 * To save CPU time, each child is examined at most LOOKS times. */
static void look_at_young(gwi_watch *watch, gwi_record *record, const gwi_doors *doors, pid_t command)
{
    enum { LOOKS = 5, REST_FACTOR = 500 };
    static const uint64_t pause_ns = 100000000u;
    static gwi_family family;
    uint64_t began_ns = gw_processor_ns();
    uint32_t newest = newest_pid();
    bool pending = false;
    for (uint32_t i = 0; i < watch->young_count; i++)
        pending = pending || watch->young[i].looks < LOOKS;
    if (newest != watch->last_pid || newest == 0 || pending) {
        watch->last_pid = newest;
        gwi_family_find(&family, command);
        forget_gone(watch);
        for (size_t i = 0; i < family.count; i++) {
            uint32_t at = 0;
            while (at < watch->young_count && watch->young[at].pid != (uint32_t)family.pid[i])
                at++;
            if (at == watch->young_count) {
                if (at == sizeof watch->young / sizeof watch->young[0])
                    continue;
                watch->young[watch->young_count++].pid = (uint32_t)family.pid[i];
                watch->young[at].looks = 0;
            }
            if (watch->young[at].looks++ < LOOKS && !gwi_record_has_process(record, (uint32_t)family.pid[i]))
                look_at_process(watch, record, doors, family.pid[i], family.parent[i]);
        }
    }
    uint64_t rest_ns = (gw_processor_ns() - began_ns) * REST_FACTOR;
    watch->young_at_ns = gw_monotonic_ns() + (rest_ns > pause_ns ? rest_ns : pause_ns);
}

void gwi_watch_look(gwi_watch *watch, gwi_record *record, const gwi_doors *doors, pid_t command, bool now)
{
    uint64_t time = gw_monotonic_ns();
    if (!now && time < watch->next_at_ns) {
        if (doors->open && time >= watch->young_at_ns)
            look_at_young(watch, record, doors, command);
        return;
    }
    watch->interval_ns = watch->interval_ns == 0 ? first_interval_ns : watch->interval_ns * 2;
    if (watch->interval_ns > last_interval_ns)
        watch->interval_ns = last_interval_ns;
    watch->next_at_ns = time + watch->interval_ns;
    static gwi_family family;
    gwi_family_find(&family, command);
    for (size_t i = 0; i < family.count; i++)
        look_at_process(watch, record, doors, family.pid[i], family.parent[i]);
}
