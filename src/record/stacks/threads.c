/* Reads a process's threads from /proc, with their waits, stacks and Python frames. */
#define _GNU_SOURCE
#include "gw_process.h"
#include "gwi_stacks.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS_MAX = 256 };

/* Return the sum of user and system time in ms (fields 14 and 15 of /proc/PID/stat), and the state. */
static bool cpu_ms_of(const char *stat, uint64_t *ret_ms, char *ret_state)
{
    const char *at = strrchr(stat, ')');
    unsigned long user, system;
    char state;
    if (at == NULL || sscanf(at, ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &state, &user, &system) != 3)
        return false;
    long ticks = sysconf(_SC_CLK_TCK);
    *ret_ms = (uint64_t)(user + system) * 1000u / (uint64_t)(ticks > 0 ? ticks : 100);
    *ret_state = state;
    return true;
}

bool gw_stacks_cpu_ms(uint32_t pid, uint64_t *ret_ms)
{
    char stat[1024], state;
    return gw_read_small(stat, sizeof stat, NULL, "/proc/%u/stat", pid) > 0 && cpu_ms_of(stat, ret_ms, &state);
}

/* ---- Python ---- */

static bool read_theirs(void *user, uint64_t at, void *out, size_t bytes)
{
    return gwi_read_memory(*(const uint32_t *)user, at, out, bytes);
}

/* State of reading /proc/PID/maps ("start-end rights offset device inode path"). `path` and `base` are from the last
 * line with offset 0, a file's first mapping.
 * A file is examined once (`tried`), and only if it has code: reading a data file could wait for a disk. */
typedef struct scan {
    uint64_t base;
    char path[4096];
    bool tried;
} scan;

static void see_mapping(scan *it, const char *line, gwi_python *python)
{
    uint64_t start, end, offset;
    char rights[8];
    int at = 0;
    if (sscanf(line, "%lx-%lx %7s %lx %*s %*s %n", &start, &end, rights, &offset, &at) < 4 || at == 0 ||
        line[at] != '/')
        return;
    if (offset == 0) {
        it->base = start;
        it->tried = false;
        snprintf(it->path, sizeof it->path, "%s", line + at);
    }
    if (rights[2] == 'x' && !it->tried && strcmp(it->path, line + at) == 0) {
        it->tried = true;
        gwi_python_try(python, it->base);
    }
}

static bool may_be_read(uint32_t pid, const char *first_line)
{
    uint32_t word;
    return gwi_read_memory(pid, strtoull(first_line, NULL, 16), &word, sizeof word) || errno == EFAULT;
}

/* Find the process's Python interpreters and their threads. */
static void find_python(uint32_t pid, gwi_python *python, gw_stack_process *process)
{
    scan it = {.tried = true};
    char path[48], *line = NULL;
    size_t room = 0, lines = 0;
    snprintf(path, sizeof path, "/proc/%u/maps", pid);
    FILE *maps = fopen(path, "re");
    if (maps == NULL)
        snprintf(process->no_python, sizeof process->no_python, "%s: %s", path, strerror(errno));
    for (; maps != NULL && getline(&line, &room, maps) > 0; lines++) {
        if (lines == 0 && !may_be_read(pid, line)) {
            snprintf(process->no_python, sizeof process->no_python, "cannot read the memory of pid %u: %s", pid,
                     strerror(errno));
            break;
        }
        see_mapping(&it, line, python);
    }
    free(line);
    if (maps != NULL)
        fclose(maps);
    gwi_python_list(python);
    if (python->why[0] != '\0')
        snprintf(process->no_python, sizeof process->no_python, "%s", python->why);
}

/* ---- the whole process ---- */

static void read_status(const char *status, gw_stack_thread *thread)
{
    const char *tracer = strstr(status, "\nTracerPid:"), *numbers = strstr(status, "\nNSpid:");
    if (tracer != NULL)
        sscanf(tracer, "\nTracerPid: %u", &thread->tracer);
    /* one number for each pid namespace, the innermost one last */
    size_t bytes = numbers == NULL ? 0 : strcspn(numbers + 1, "\n");
    const char *last = bytes == 0 ? NULL : memrchr(numbers + 1, '\t', bytes);
    uint32_t inner_tid = last == NULL ? 0 : (uint32_t)strtoul(last, NULL, 10);
    thread->inner_tid = inner_tid == thread->tid ? 0 : inner_tid;
}

static void look_at_thread(uint32_t pid, gw_stack_thread *thread)
{
    char text[1024], status[32768];
    thread->syscall = thread->fd = -1;
    thread->state = '?';
    if (gwi_read_of_thread(text, sizeof text, pid, thread->tid, "comm") > 0)
        snprintf(thread->name, sizeof thread->name, "%.*s", (int)strcspn(text, "\n"), text);
    if (gwi_read_of_thread(text, sizeof text, pid, thread->tid, "stat") > 0)
        cpu_ms_of(text, &thread->cpu_ms, &thread->state);
    if (gwi_read_of_thread(text, sizeof text, pid, thread->tid, "wchan") > 0 && strcmp(text, "0") != 0)
        snprintf(thread->where, sizeof thread->where, "%.39s", text);
    if (gwi_read_of_thread(status, sizeof status, pid, thread->tid, "status") > 0)
        read_status(status, thread);
}

static gw_status list_threads(uint32_t pid, gw_stack_process *process, gw_error *err)
{
    char path[48];
    snprintf(path, sizeof path, "/proc/%u/task", pid);
    DIR *folder = opendir(path);
    if (folder == NULL)
        return errno == ENOENT ? gw_fail(err, GW_MISSING, "process %u does not exist", pid)
                               : gw_fail(err, GW_IO, "%s: %s", path, strerror(errno));
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        uint32_t tid = (uint32_t)strtoul(entry->d_name, NULL, 10);
        if (tid == 0)
            continue;
        if (process->thread_count == THREADS_MAX) {
            process->threads_left_out++;
            continue;
        }
        process->thread[process->thread_count++].tid = tid;
    }
    closedir(folder);
    return GW_OK;
}

gw_status gw_stacks_look(uint32_t pid, bool stacks, gw_stack_process **ret_process, gw_error *err)
{
    gw_stack_process *process = calloc(1, sizeof *process);
    gwi_python *python = NULL;
    gw_status st = GW_NOMEM;
    if (process == NULL || (process->thread = calloc(THREADS_MAX, sizeof *process->thread)) == NULL) {
        st = gw_fail(err, GW_NOMEM, "inspect process %u", pid);
        goto out;
    }
    st = list_threads(pid, process, err);
    if (st != GW_OK)
        goto out;
    for (size_t i = 0; i < process->thread_count; i++)
        look_at_thread(pid, &process->thread[i]);
    /* a second loop, because lock owners are looked up among all threads */
    for (size_t i = 0; i < process->thread_count; i++)
        gwi_look_at_call(pid, process, &process->thread[i]);
    if (stacks && (python = calloc(1, sizeof *python)) == NULL) {
        st = gw_fail(err, GW_NOMEM, "inspect process %u", pid);
        goto out;
    }
    if (stacks) {
        python->read = read_theirs;
        python->user = &pid;
        find_python(pid, python, process);
        gwi_stacks_walk(pid, process, python);
    }
    *ret_process = process;
    process = NULL;
out:
    free(python);
    gw_stack_process_free(process);
    return st;
}

void gw_stack_process_free(gw_stack_process *process)
{
    if (process == NULL)
        return;
    for (size_t i = 0; i < process->code_count; i++) {
        free(process->code[i].text);
        free(process->code[i].table);
    }
    for (size_t i = 0; i < process->mapping_count; i++)
        free(process->mapping[i].path);
    free(process->code);
    free(process->mapping);
    free(process->thread);
    free(process);
}
