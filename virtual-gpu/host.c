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

/* Return what the control groups leave (cgroup v2, or the memory controller of v1 as containers see it). */
static uint64_t groups_leave(void)
{
    char text[TEXT_BYTES], folder[TEXT_BYTES + 32] = "/sys/fs/cgroup/memory";
    uint64_t limit = number_of_file(folder, "memory.limit_in_bytes"), least = UINT64_MAX;
    if (limit != UINT64_MAX && limit < UINT64_MAX / 4)
        least = less(limit, number_of_file(folder, "memory.usage_in_bytes") + margin_of(limit));
    const char *group = read_text("/proc/self/cgroup", text) ? strstr(text, "0::/") : NULL;
    if (group == NULL)
        return least;
    snprintf(folder, sizeof folder, "/sys/fs/cgroup%.*s", (int)strcspn(group + 3, "\n"), group + 3);
    for (char *slash = folder + strlen(folder); slash > folder + 14; slash = strrchr(folder, '/')) {
        *slash = '\0';
        limit = number_of_file(folder, "memory.max");
        uint64_t used = number_of_file(folder, "memory.current"), file_bytes = 0;
        char path[TEXT_BYTES + 64], stat[TEXT_BYTES];
        snprintf(path, sizeof path, "%s/memory.stat", folder);
        if (limit == UINT64_MAX || used == UINT64_MAX)
            continue;
        if (read_text(path, stat) && number_after(stat, "inactive_file ") != UINT64_MAX)
            file_bytes = number_after(stat, "inactive_file "); /* the kernel takes it back first */
        uint64_t left = less(limit, less(used, file_bytes) + margin_of(limit));
        least = left < least ? left : least;
    }
    return least;
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
    uint64_t least = groups_leave();
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
    gwi_note(GW_VIRT_NOTE_HOST " %llu MiB more, %llu MiB are left", (unsigned long long)(wanted / mib),
             (unsigned long long)(room / mib));
    ssize_t ignored = write(STDERR_FILENO, line, (size_t)bytes);
    (void)ignored;
    _exit(GW_VIRT_EXIT_HOST);
}

void gwi_host_need(const char *at, uint64_t bytes)
{
    static uint64_t unlooked; /* under the lock */
    uint64_t look_bytes = gwi.spec.host_bytes / 16 < 64 * mib ? gwi.spec.host_bytes / 16 : 64 * mib;
    unlooked += bytes;
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
