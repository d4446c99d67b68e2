/* Ends the process before what it stores on the virtual cards takes the last memory of the host.
 *
 * Device memory takes host memory only when it is written. Without this check, a program that fills a large card would
 * let the kernel kill processes of its choice. A refused allocation would look like the program's fault, so the whole
 * process ends, with a message and a status of gpuwhy's own. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gwi_virt.h"

enum { PAGE = 4096, TEXT_BYTES = 4096 };
static const uint64_t mib = (uint64_t)1 << 20;

static bool read_text(const char *path, char text[TEXT_BYTES])
{
    FILE *file = fopen(path, "re");
    size_t bytes = file != NULL ? fread(text, 1, TEXT_BYTES - 1, file) : 0;
    if (file != NULL)
        fclose(file);
    text[bytes] = '\0';
    return bytes > 0;
}

/* Return the number after `name` at the beginning of a line; UINT64_MAX if there is none. */
static uint64_t number_after(const char *text, const char *name)
{
    const char *at = text;
    while (at != NULL && strncmp(at, name, strlen(name)) != 0)
        at = (at = strchr(at, '\n')) == NULL ? NULL : at + 1;
    char *end = NULL;
    unsigned long long number = at == NULL ? 0 : strtoull(at + strlen(name), &end, 10);
    return at == NULL || end == at + strlen(name) ? UINT64_MAX : number;
}

static uint64_t number_of_file(const char *folder, const char *name)
{
    char path[TEXT_BYTES], text[TEXT_BYTES];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return read_text(path, text) ? number_after(text, "") : UINT64_MAX;
}

static uint64_t less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* Keep a 64th of the memory free, but at least 64 MiB and at most 1 GiB. */
static uint64_t margin_of(uint64_t total)
{
    uint64_t share = total / 64;
    return share < 64 * mib ? 64 * mib : share > 1024 * mib ? 1024 * mib : share;
}

/* The memory controller of one version of control groups: its folder and files. */
typedef struct controller {
    const char *root, *limit, *used, *file_bytes[2], *not_yet[2];
} controller;

static const controller v1 = {.root = "/sys/fs/cgroup/memory",
                              .limit = "memory.limit_in_bytes",
                              .used = "memory.usage_in_bytes",
                              .file_bytes = {"total_active_file ", "total_inactive_file "},
                              .not_yet = {"total_dirty ", "total_writeback "}};
static const controller v2 = {.root = "/sys/fs/cgroup",
                              .limit = "memory.max",
                              .used = "memory.current",
                              .file_bytes = {"active_file ", "inactive_file "},
                              .not_yet = {"file_dirty ", "file_writeback "}};

/* Return what one group leaves. The kernel takes cached files back, once they are written, before it kills. */
static uint64_t group_leaves(const controller *its, const char *folder)
{
    char path[2 * TEXT_BYTES], stat[TEXT_BYTES];
    uint64_t limit = number_of_file(folder, its->limit), used = number_of_file(folder, its->used), kept = 0;
    if (limit == UINT64_MAX || limit >= UINT64_MAX / 4 || used == UINT64_MAX)
        return UINT64_MAX;
    snprintf(path, sizeof path, "%s/memory.stat", folder);
    for (int i = 0; i < 2 && read_text(path, stat); i++) {
        uint64_t cached = number_after(stat, its->file_bytes[i]), dirty = number_after(stat, its->not_yet[i]);
        used = less(used, cached == UINT64_MAX ? 0 : cached);
        kept += dirty == UINT64_MAX ? 0 : dirty;
    }
    return less(limit, used + kept + margin_of(limit));
}

/* Return what the groups from the root to `group` leave. A container may see its own group at the root. */
static uint64_t groups_leave(const controller *its, const char *group)
{
    char folder[TEXT_BYTES + 32];
    size_t root = strlen(its->root);
    snprintf(folder, sizeof folder, "%s%.*s", its->root, (int)strcspn(group, "\n"), group);
    uint64_t least = group_leaves(its, its->root);
    for (char *end = folder + strlen(folder); end != NULL && end > folder + root; end = strrchr(folder, '/')) {
        *end = '\0';
        uint64_t left = group_leaves(its, folder);
        least = left < least ? left : least;
    }
    return least;
}

static uint64_t all_groups_leave(void)
{
    static const char named[] = ":memory:";
    char text[TEXT_BYTES];
    bool is_read = read_text("/proc/self/cgroup", text);
    const char *first = is_read ? strstr(text, named) : NULL, *second = is_read ? strstr(text, "0::/") : NULL;
    uint64_t one = groups_leave(&v1, first == NULL ? "" : first + strlen(named));
    uint64_t two = second == NULL ? UINT64_MAX : groups_leave(&v2, second + strlen("0::"));
    return one < two ? one : two;
}

static uint64_t resident_bytes(void)
{
    char text[TEXT_BYTES];
    const char *second = read_text("/proc/self/statm", text) ? strchr(text, ' ') : NULL;
    return second == NULL ? 0 : strtoull(second, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Return how many bytes the process may still take. */
static uint64_t room_bytes(void)
{
    static uint64_t resident_before;
    char text[TEXT_BYTES];
    uint64_t least = all_groups_leave();
    if (read_text("/proc/meminfo", text) && number_after(text, "MemAvailable:") != UINT64_MAX) {
        uint64_t left =
            less(number_after(text, "MemAvailable:") * 1024, margin_of(number_after(text, "MemTotal:") * 1024));
        least = left < least ? left : least;
    }
    if (gwi.spec.host_bytes != UINT64_MAX) {
        uint64_t now = resident_bytes();
        resident_before = resident_before == 0 ? now : resident_before;
        uint64_t left = less(gwi.spec.host_bytes, less(now, resident_before));
        least = left < least ? left : least;
    }
    return least;
}

/* Return how much of a range takes no memory yet. */
static uint64_t untouched_bytes(const char *at, uint64_t bytes)
{
    enum { PART_PAGES = 65536 };
    static unsigned char is_there[PART_PAGES]; /* under the lock */
    uintptr_t begin = (uintptr_t)at / PAGE * PAGE, end = ((uintptr_t)at + bytes + PAGE - 1) / PAGE * PAGE;
    uint64_t count = 0;
    while (begin < end) {
        size_t pages = (end - begin) / PAGE < PART_PAGES ? (end - begin) / PAGE : PART_PAGES;
        bool known = mincore((void *)begin, pages * PAGE, is_there) == 0;
        for (size_t i = 0; i < pages; i++)
            count += !known || (is_there[i] & 1) == 0;
        begin += pages * PAGE;
    }
    return count * PAGE;
}

static _Noreturn void end_process(uint64_t wanted, uint64_t room)
{
    char line[512];
    int bytes =
        snprintf(line, sizeof line,
                 "gpuwhy: virtual card: this machine has no memory left for what the program stores on the card "
                 "(%llu MiB more, %llu MiB are left); gpuwhy ended it, which says nothing about the program\n",
                 (unsigned long long)(wanted / mib), (unsigned long long)(room / mib));
    const char *run = getenv("GPUWHY_RUN_DIR");
    gwi_note(GW_VIRT_NOTE_HOST " %s: %llu MiB more, %llu MiB were left", run == NULL ? "" : run,
             (unsigned long long)(wanted / mib), (unsigned long long)(room / mib));
    ssize_t ignored = write(STDERR_FILENO, line, (size_t)bytes);
    (void)ignored;
    _exit(GW_VIRT_EXIT_HOST);
}

void gwi_host_need(const char *at, uint64_t bytes)
{
    static uint64_t unlooked; /* under the lock */
    uint64_t look_bytes = gwi.spec.host_bytes / 16 < 64 * mib ? gwi.spec.host_bytes / 16 : 64 * mib;
    unlooked += bytes + PAGE; /* a write of one byte takes a page */
    if (unlooked < look_bytes)
        return;
    unlooked = 0;
    uint64_t room = room_bytes();
    if (bytes + look_bytes <= room)
        return;
    uint64_t wanted = at == NULL ? bytes : untouched_bytes(at, bytes);
    if (wanted > 0 && wanted + look_bytes > room)
        end_process(wanted, room);
}
