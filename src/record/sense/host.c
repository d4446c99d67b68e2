/* Reads values of the machine and of single processes from /proc, and finds the processes that use a card. */
#define _GNU_SOURCE
#include "gwi_host.h"

#include "gw_process.h"
#include "gw_text.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* ---- small files ---- */

bool gwi_text_number(const char *text, const char *key, uint64_t *ret_number)
{
    size_t bytes = strlen(key);
    for (const char *line = text; *line != '\0';) {
        if (strncmp(line, key, bytes) == 0 && (line[bytes] == ' ' || line[bytes] == '\t')) {
            const char *at = line + bytes + strspn(line + bytes, " \t");
            errno = 0;
            unsigned long long number = isdigit((unsigned char)*at) ? strtoull(at, NULL, 10) : 0;
            if (!isdigit((unsigned char)*at) || errno != 0)
                return false;
            *ret_number = number;
            return true;
        }
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
    return false;
}

/* ---- the machine ---- */

static void read_meminfo(const char *root, gwi_values *values)
{
    static const struct {
        const char *key;
        gw_metric metric;
    } rows[] = {{"MemTotal:", GW_METRIC_HOST_MEMORY_TOTAL},
                {"MemAvailable:", GW_METRIC_HOST_MEMORY_AVAILABLE},
                {"SwapFree:", GW_METRIC_HOST_SWAP_FREE}};
    char text[8192];
    int why = 0;
    bool read = gw_read_small(text, sizeof text, &why, "%s/proc/meminfo", root) >= 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t kib = 0;
        bool known = read && gwi_text_number(text, rows[i].key, &kib);
        gwi_values_number(values, rows[i].metric, known, kib * 1024, read ? ENOENT : why);
    }
}

static void read_oom_kills(const char *root, gwi_values *values)
{
    char text[32768];
    uint64_t count = 0;
    int why = 0;
    bool read = gw_read_small(text, sizeof text, &why, "%s/proc/vmstat", root) >= 0;
    bool known = read && gwi_text_number(text, "oom_kill", &count);
    gwi_values_number(values, GW_METRIC_HOST_OOM_KILLS, known, count, read ? ENOENT : why);
}

static void read_load(const char *root, gwi_values *values)
{
    char text[128];
    int why = EINVAL;
    double load = -1;
    if (gw_read_small(text, sizeof text, &why, "%s/proc/loadavg", root) >= 0)
        load = strtod(text, NULL);
    bool known = load >= 0 && load < 1e9;
    gwi_values_number(values, GW_METRIC_HOST_LOAD, known, known ? (uint64_t)(load * 1000) : 0, why);
}

static void read_cpus(gwi_values *values)
{
    cpu_set_t set;
    bool known = sched_getaffinity(0, sizeof set, &set) == 0;
    gwi_values_number(values, GW_METRIC_HOST_CPUS, known, known ? (uint64_t)CPU_COUNT(&set) : 0, errno);
}

static void read_shm(const char *root, gwi_values *values)
{
    char path[PATH_MAX];
    struct statvfs info = {0};
    snprintf(path, sizeof path, "%s/dev/shm", root);
    bool known = statvfs(path, &info) == 0;
    gwi_values_number(values, GW_METRIC_SHM_TOTAL, known, (uint64_t)info.f_blocks * info.f_frsize, errno);
    gwi_values_number(values, GW_METRIC_SHM_FREE, known, (uint64_t)info.f_bavail * info.f_frsize, errno);
}

void gwi_host_read(const char *root, gwi_values *values)
{
    read_meminfo(root, values);
    read_oom_kills(root, values);
    read_load(root, values);
    read_cpus(values);
    read_shm(root, values);
}

bool gwi_host_counts_pids(const char *root)
{
    char path[PATH_MAX], target[64] = "";
    snprintf(path, sizeof path, "%s/proc/self/ns/pid", root);
    ssize_t bytes = readlink(path, target, sizeof target - 1);
    return bytes > 0 && strcmp(target, "pid:[4026531836]") == 0; /* inode of the kernel's initial pid namespace */
}

/* ---- a process ---- */

/* Since Linux 6.2, the size of /proc/PID/fd is the number of open descriptors. On older kernels, count the entries. */
static bool count_descriptors(const char *root, pid_t pid, uint64_t *ret_count, int *ret_why)
{
    char path[PATH_MAX];
    struct stat info;
    snprintf(path, sizeof path, "%s/proc/%d/fd", root, (int)pid);
    if (root[0] == '\0' && stat(path, &info) == 0 && info.st_size > 0) {
        *ret_count = (uint64_t)info.st_size;
        return true;
    }
    DIR *folder = opendir(path);
    *ret_why = errno;
    if (folder == NULL)
        return false;
    *ret_count = 0;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
        *ret_count += entry->d_name[0] != '.';
    closedir(folder);
    return true;
}

bool gwi_process_read(const char *root, pid_t pid, gwi_values *values)
{
    char text[4096];
    uint64_t size = 0, resident = 0, count = 0, limit = 0;
    int why = 0;
    if (gw_read_small(text, sizeof text, &why, "%s/proc/%d/statm", root, (int)pid) <= 0)
        return false;
    bool known = sscanf(text, "%" SCNu64 " %" SCNu64, &size, &resident) == 2;
    if (known && size == 0)
        return false; /* a zombie: it has ended, but its parent has not waited for it yet */
    gwi_values_number(values, GW_METRIC_PROCESS_MEMORY, known, resident * (uint64_t)sysconf(_SC_PAGESIZE), EINVAL);
    known = count_descriptors(root, pid, &count, &why);
    gwi_values_number(values, GW_METRIC_PROCESS_DESCRIPTORS, known, count, why);
    known = gw_read_small(text, sizeof text, &why, "%s/proc/%d/limits", root, (int)pid) >= 0 &&
            gwi_text_number(text, "Max open files", &limit);
    gwi_values_number(values, GW_METRIC_PROCESS_DESCRIPTORS_LIMIT, known, limit, why);
    /* schedstat has three numbers for the first thread: time running, time waiting for a processor, time slices */
    uint64_t ran_ns = 0, waited_ns = 0;
    known = gw_read_small(text, sizeof text, &why, "%s/proc/%d/schedstat", root, (int)pid) > 0 &&
            sscanf(text, "%" SCNu64 " %" SCNu64, &ran_ns, &waited_ns) == 2;
    gwi_values_number(values, GW_METRIC_PROCESS_CPU_WAIT, known, waited_ns, why);
    return true;
}

/* ---- who uses a card ---- */

static bool has_card_open(const char *root, const char *pid)
{
    enum { DESCRIPTORS_MAX = 4096 };
    static const char card[] = "/dev/nvidia";
    char path[PATH_MAX], target[64];
    snprintf(path, sizeof path, "%s/proc/%s/fd", root, pid);
    DIR *folder = opendir(path);
    bool found = false;
    struct dirent *entry;
    for (int i = 0; folder != NULL && !found && i < DESCRIPTORS_MAX && (entry = readdir(folder)) != NULL; i++) {
        ssize_t bytes = readlinkat(dirfd(folder), entry->d_name, target, sizeof target - 1);
        target[bytes > 0 ? bytes : 0] = '\0';
        found = gw_begins(target, card) && isdigit((unsigned char)target[sizeof card - 1]);
    }
    if (folder != NULL)
        closedir(folder);
    return found;
}

void gwi_host_device_users(const char *root, void (*each)(void *user, uint32_t pid), void *user)
{
    enum { PROCESSES_MAX = 32768 };
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/proc", root);
    DIR *folder = opendir(path);
    struct dirent *entry;
    for (int i = 0; folder != NULL && i < PROCESSES_MAX && (entry = readdir(folder)) != NULL; i++)
        if (isdigit((unsigned char)entry->d_name[0]) && has_card_open(root, entry->d_name))
            each(user, (uint32_t)strtoul(entry->d_name, NULL, 10));
    if (folder != NULL)
        closedir(folder);
}

/* Stores the last values of an object and decides which values to record again. */

/* At this interval, all values are recorded, even unchanged ones. Near its size limit, a recording drops its old
 * samples, but keeps some of these complete ones. */
static const uint64_t whole_every_ns = 60000000000u;

void gwi_values_keep(gwi_values *values, gw_metric metric, gw_sample_state state, uint64_t value)
{
    gw_sample_value *mine = &values->value[metric];
    bool same = values->has[metric] && mine->state == state && mine->value == value;
    values->has[metric] = true;
    values->changed[metric] |= !same;
    *mine = (gw_sample_value){(uint16_t)metric, (uint8_t)state, value};
}

void gwi_values_number(gwi_values *values, gw_metric metric, bool is_known, uint64_t number, int why)
{
    if (is_known)
        gwi_values_keep(values, metric, GW_SAMPLE_KNOWN, number);
    else if (why == EACCES || why == EPERM)
        gwi_values_keep(values, metric, GW_SAMPLE_NO_PERMISSION, 0);
    else if (why == ENOENT || why == ENOTDIR || why == EOPNOTSUPP)
        gwi_values_keep(values, metric, GW_SAMPLE_NOT_SUPPORTED, 0);
    else
        gwi_values_keep(values, metric, GW_SAMPLE_FAILED, (uint64_t)(why > 0 ? why : 0));
}

uint32_t gwi_values_take(gwi_values *values, uint64_t now_ns, bool whole, gw_sample_value ret_value[GW_METRIC_COUNT],
                         bool *ret_whole)
{
    uint32_t count = 0;
    *ret_whole = whole || !values->told || now_ns - values->whole_at_ns >= whole_every_ns;
    for (size_t i = 0; i < GW_METRIC_COUNT; i++) {
        if (values->has[i] && (*ret_whole || values->changed[i]))
            ret_value[count++] = values->value[i];
        values->changed[i] = false;
    }
    if (*ret_whole)
        values->whole_at_ns = now_ns;
    values->told = true;
    return count;
}
