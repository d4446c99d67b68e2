/* Finds the control group of a process (cgroup version 1 or 2), and reads the group's limits, usage and memory
 * pressure. */
#include "gwi_host.h"

#include "gw_process.h"
#include "gw_text.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

/* A limit of this size or more means "no limit". Version 1 has no word such as "max" for it, and reports a number
 * larger than any machine's memory. */
static const uint64_t no_limit_bytes = UINT64_C(1) << 62;

/* ---- paths ---- */

/* True if `word` is an element of a list such as "a,b,c", which is `bytes` bytes long. */
static bool is_listed(const char *list, size_t bytes, const char *word)
{
    size_t word_bytes = strlen(word);
    for (size_t at = 0; at < bytes;) {
        size_t one = 0;
        while (at + one < bytes && list[at + one] != ',')
            one++;
        if (one == word_bytes && memcmp(list + at, word, one) == 0)
            return true;
        at += one + 1;
    }
    return false;
}

/* Find the group's path in the tree of `controller`. `groups` is the text of /proc/PID/cgroup. A path for version 1
 * takes precedence over one for version 2. */
static bool find_path(const char *groups, const char *controller, char *out, size_t room, bool *ret_v2)
{
    bool found = false;
    for (const char *line = groups; *line != '\0';) {
        size_t bytes = strcspn(line, "\n");
        const char *end = line + bytes;
        const char *first = memchr(line, ':', bytes);
        const char *second = first == NULL ? NULL : memchr(first + 1, ':', (size_t)(end - first - 1));
        if (second != NULL) {
            size_t list_bytes = (size_t)(second - first - 1);
            bool is_v2 = list_bytes == 0 && line[0] == '0';
            if (is_listed(first + 1, list_bytes, controller) || (is_v2 && !found)) {
                snprintf(out, room, "%.*s", (int)(end - second - 1), second + 1);
                *ret_v2 = is_v2;
                found = true;
                if (!is_v2)
                    return true;
            }
        }
        line = *end == '\n' ? end + 1 : end;
    }
    return found;
}

typedef struct mount {
    char root[PATH_MAX], point[PATH_MAX];
} mount;

/* Parse a line of /proc/PID/mountinfo: "36 35 98:0 /root /point options - type source super". Returns false if it is
 * not the mount of the controller's tree. */
static bool parse_mount(const char *line, const char *controller, bool is_v2, mount *ret_mount)
{
    char type[32], super[1024], options[1024];
    const char *dash = strstr(line, " - ");
    if (dash == NULL ||
        sscanf(line, "%*d %*d %*s %4095s %4095s %1023s", ret_mount->root, ret_mount->point, options) != 3 ||
        sscanf(dash, " - %31s %*s %1023s", type, super) != 2)
        return false;
    if (is_v2)
        return strcmp(type, "cgroup2") == 0;
    return strcmp(type, "cgroup") == 0 && is_listed(super, strlen(super), controller);
}

static bool find_mount(const char *mounts, const char *controller, bool is_v2, mount *ret_mount)
{
    char line[4 * PATH_MAX];
    for (const char *at = mounts; *at != '\0';) {
        size_t bytes = strcspn(at, "\n");
        if (bytes < sizeof line) {
            memcpy(line, at, bytes);
            line[bytes] = '\0';
            if (parse_mount(line, controller, is_v2, ret_mount))
                return true;
        }
        at += bytes + (at[bytes] == '\n');
    }
    return false;
}

static void find_part(gwi_cgroup_part *part, const char *root, const char *groups, const char *mounts,
                      const char *controller)
{
    static mount place; /* static, because it is large */
    char path[PATH_MAX];
    if (!find_path(groups, controller, path, sizeof path, &part->is_v2) ||
        !find_mount(mounts, controller, part->is_v2, &place))
        return;
    /* A container sees its own group as the top of the tree. The path in /proc begins at the top of the machine's tree,
     * so skip the part above the container. */
    size_t above = strlen(place.root);
    const char *rest = path;
    if (strcmp(place.root, "/") != 0 && strncmp(path, place.root, above) == 0 &&
        (path[above] == '/' || path[above] == '\0'))
        rest = path + above;
    int top = snprintf(part->path, sizeof part->path, "%s%s", root, place.point);
    if (top <= 0 || (size_t)top >= sizeof part->path) {
        part->path[0] = '\0';
        return;
    }
    part->top_bytes = (size_t)top;
    size_t room = sizeof part->path - (size_t)top;
    if (strcmp(rest, "/") != 0 && strlen(rest) < room)
        memcpy(part->path + top, rest, strlen(rest) + 1);
    if (access(part->path, F_OK) != 0)
        /* the path does not exist here, because the process is in another namespace: use the top of the visible tree */
        part->path[top] = '\0';
}

/* Read a text file of up to 4 MiB. The caller frees the result. Returns NULL with the errno in *ret_why on failure. */
static char *load(const char *root, const char *format, pid_t pid, int *ret_why)
{
    enum { STEP = 64 << 10, MOST = 4 << 20 };
    for (size_t room = STEP; room <= MOST; room *= 4) {
        char *text = malloc(room), name[64];
        snprintf(name, sizeof name, format, (int)pid);
        ssize_t got = text == NULL ? -1 : gw_read_small(text, room, ret_why, "%s%s", root, name);
        if (got >= 0 && (size_t)got + 1 < room)
            return text;
        free(text);
        if (got < 0)
            return NULL;
    }
    *ret_why = EFBIG;
    return NULL;
}

void gwi_cgroup_find(gwi_cgroup *group, const char *root, pid_t pid)
{
    *group = (gwi_cgroup){.why = ENOENT};
    char *groups = load(root, "/proc/%d/cgroup", pid, &group->why);
    char *mounts = groups == NULL ? NULL : load(root, "/proc/%d/mountinfo", pid, &group->why);
    if (mounts != NULL) {
        group->why = ENOENT;
        find_part(&group->memory, root, groups, mounts, "memory");
        find_part(&group->cpu, root, groups, mounts, "cpu");
        find_part(&group->pids, root, groups, mounts, "pids");
    }
    free(groups);
    free(mounts);
}

/* ---- values ---- */

/* Read a file that contains one number or "max" (UINT64_MAX). Its folder is the first `path_bytes` bytes of part->path:
 * the folder of the group, or of one of its parents. */
static bool read_number(const gwi_cgroup_part *part, size_t path_bytes, const char *name, uint64_t *ret_number,
                        int *ret_why)
{
    char text[64], *end;
    *ret_why = ENOENT;
    if (part->path[0] == '\0' ||
        gw_read_small(text, sizeof text, ret_why, "%.*s/%s", (int)path_bytes, part->path, name) < 0)
        return false;
    if (gw_begins(text, "max")) {
        *ret_number = UINT64_MAX;
        return true;
    }
    *ret_why = EINVAL;
    errno = 0;
    unsigned long long number = isdigit((unsigned char)text[0]) ? strtoull(text, &end, 10) : 0;
    if (!isdigit((unsigned char)text[0]) || errno != 0)
        return false;
    *ret_number = number;
    return true;
}

static void put_number(const gwi_cgroup_part *part, const char *name, gw_metric metric, gwi_values *values)
{
    uint64_t number = 0;
    int why;
    bool known = read_number(part, strlen(part->path), name, &number, &why);
    gwi_values_number(values, metric, known, number, why);
}

/* Store the smallest limit of the group and of its visible parents, because all these limits apply. */
static void put_limit(const gwi_cgroup_part *part, const char *name, gw_metric metric, gwi_values *values)
{
    uint64_t least = UINT64_MAX, number;
    bool known = false;
    int why = ENOENT, last_why;
    for (size_t bytes = strlen(part->path); bytes >= part->top_bytes && bytes > 0;) {
        if (read_number(part, bytes, name, &number, &last_why)) {
            known = true;
            number = number >= no_limit_bytes ? UINT64_MAX : number;
            least = number < least ? number : least;
        } else if (!known) {
            why = last_why;
        }
        size_t above = bytes;
        while (above > 0 && part->path[above - 1] != '/')
            above--;
        if (above <= part->top_bytes)
            bytes = bytes > part->top_bytes ? part->top_bytes : 0;
        else
            bytes = above - 1;
    }
    /* the top group of version 2 has no file for the limit, which means that there is no limit */
    gwi_values_number(values, metric, known || (part->is_v2 && part->path[0] != '\0' && why == ENOENT), least, why);
}

/* Store the number after `key` in a file of the group, multiplied by `factor`. */
static void put_key(const gwi_cgroup_part *part, const char *name, const char *key, uint64_t factor, gw_metric metric,
                    gwi_values *values)
{
    char text[4096];
    uint64_t number = 0;
    int why = ENOENT;
    bool known = part->path[0] != '\0' && gw_read_small(text, sizeof text, &why, "%s/%s", part->path, name) >= 0;
    if (known && !gwi_text_number(text, key, &number)) {
        known = false;
        why = ENOENT;
    }
    gwi_values_number(values, metric, known, number * factor, why);
}

/* Store how long processes of the group have waited for memory, in us. It is `total` in "some avg10=0.00 avg60=0.00
 * avg300=0.00 total=123". */
static void put_pressure(const gwi_cgroup_part *part, gwi_values *values)
{
    char text[512];
    int why = ENOENT;
    const char *total = NULL;
    if (part->is_v2 && part->path[0] != '\0' &&
        gw_read_small(text, sizeof text, &why, "%s/memory.pressure", part->path) >= 0 && gw_begins(text, "some "))
        total = strstr(text, "total=");
    gwi_values_number(values, GW_METRIC_CGROUP_MEMORY_STALLED, total != NULL,
                      total == NULL ? 0 : strtoull(total + 6, NULL, 10), why);
}

static void put_memory(const gwi_cgroup_part *part, gwi_values *values)
{
    bool v2 = part->is_v2;
    put_number(part, v2 ? "memory.current" : "memory.usage_in_bytes", GW_METRIC_CGROUP_MEMORY_USED, values);
    put_limit(part, v2 ? "memory.max" : "memory.limit_in_bytes", GW_METRIC_CGROUP_MEMORY_LIMIT, values);
    put_number(part, v2 ? "memory.peak" : "memory.max_usage_in_bytes", GW_METRIC_CGROUP_MEMORY_PEAK, values);
    put_key(part, v2 ? "memory.events" : "memory.oom_control", "oom_kill", 1, GW_METRIC_CGROUP_OOM_KILLS, values);
    if (v2)
        put_key(part, "memory.events", "max", 1, GW_METRIC_CGROUP_MEMORY_REFUSED, values);
    else
        put_number(part, "memory.failcnt", GW_METRIC_CGROUP_MEMORY_REFUSED, values);
    put_pressure(part, values);
}

/* Store the CPU limit in thousandths of a processor. Version 2 has one file with quota and period in us, "50000
 * 100000"; "max 100000": no limit. Version 1 has one file for each. */
static void put_cpu_limit(const gwi_cgroup_part *part, gwi_values *values)
{
    char text[64] = "";
    uint64_t quota = UINT64_MAX, period = 0;
    int why = ENOENT;
    bool known = false;
    if (part->path[0] != '\0' && part->is_v2) {
        known = gw_read_small(text, sizeof text, &why, "%s/cpu.max", part->path) >= 0;
        if (known && sscanf(text, "%" SCNu64 " %" SCNu64, &quota, &period) != 2)
            quota = UINT64_MAX;
    } else if (part->path[0] != '\0') {
        known = gw_read_small(text, sizeof text, &why, "%s/cpu.cfs_quota_us", part->path) >= 0;
        if (known && (text[0] == '-' || !read_number(part, strlen(part->path), "cpu.cfs_period_us", &period, &why)))
            quota = UINT64_MAX;
        else if (known)
            quota = strtoull(text, NULL, 10);
    }
    uint64_t milli =
        quota == UINT64_MAX || period == 0 || quota > UINT64_MAX / 1000 ? UINT64_MAX : quota * 1000 / period;
    gwi_values_number(values, GW_METRIC_CGROUP_CPU_LIMIT, known, milli, why);
}

void gwi_cgroup_read(const gwi_cgroup *group, gwi_values *values)
{
    put_memory(&group->memory, values);
    put_cpu_limit(&group->cpu, values);
    put_key(&group->cpu, "cpu.stat", "nr_periods", 1, GW_METRIC_CGROUP_CPU_PERIODS, values);
    put_key(&group->cpu, "cpu.stat", "nr_throttled", 1, GW_METRIC_CGROUP_CPU_THROTTLED, values);
    put_key(&group->cpu, "cpu.stat", group->cpu.is_v2 ? "throttled_usec" : "throttled_time",
            group->cpu.is_v2 ? 1000 : 1, GW_METRIC_CGROUP_CPU_THROTTLED_TIME, values);
    put_number(&group->pids, "pids.current", GW_METRIC_CGROUP_PIDS, values);
    put_limit(&group->pids, "pids.max", GW_METRIC_CGROUP_PIDS_LIMIT, values);
}

bool gwi_cgroup_oom_kills(const gwi_cgroup *group, uint64_t *ret_count)
{
    char text[4096];
    int why;
    return group->memory.path[0] != '\0' &&
           gw_read_small(text, sizeof text, &why, "%s/%s", group->memory.path,
                         group->memory.is_v2 ? "memory.events" : "memory.oom_control") >= 0 &&
           gwi_text_number(text, "oom_kill", ret_count);
}

bool gwi_cgroup_oomd_kills(const gwi_cgroup *group, uint64_t *ret_count)
{
    const gwi_cgroup_part *part = &group->memory;
    char path[PATH_MAX], text[32];
    bool known = false;
    *ret_count = 0;
    if (!part->is_v2 || part->path[0] == '\0')
        return false;
    snprintf(path, sizeof path, "%s", part->path);
    for (size_t bytes = strlen(path); bytes >= part->top_bytes && bytes > 0; bytes = strlen(path)) {
        ssize_t got = getxattr(path, "user.oomd_kill", text, sizeof text - 1);
        known = known || got >= 0 || errno == ENODATA;
        text[got > 0 ? got : 0] = '\0';
        uint64_t count = strtoull(text, NULL, 10);
        *ret_count = count > *ret_count ? count : *ret_count;
        char *slash = strrchr(path, '/');
        if (slash == NULL || bytes == part->top_bytes)
            break;
        *slash = '\0';
    }
    return known;
}
