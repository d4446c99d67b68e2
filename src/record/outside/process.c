/* Finds out what a process is, whether it may be read, and its descendants. */
#define _GNU_SOURCE
#include "gwi_outside.h"

#include "gw_array.h"
#include "gw_clock.h"
#include "gw_fact.h"
#include "gw_filter.h"
#include "gw_process.h"
#include "gw_rank.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STATUS_MAX = 32768, KERNEL_THREAD = 0x00200000 /* PF_KTHREAD of the kernel's linux/sched.h */ };

/* ---- identity ---- */

/* Return the text after a line's name in a file such as /proc/PID/status; "" if there is no such line. */
static const char *line_of(const char *text, const char *name)
{
    const char *line = strstr(text, name);
    return line == NULL ? "" : line + strlen(name);
}

static uint64_t boot_realtime_s(void)
{
    char text[65536];
    static uint64_t known;
    if (known == 0 && gw_read_small(text, sizeof text, NULL, "/proc/stat") > 0)
        known = strtoull(line_of(text, "\nbtime "), NULL, 10);
    return known;
}

static void read_stat(const char *stat, gwi_identity *ret)
{
    unsigned flags;
    unsigned long user, system;
    unsigned long long start;
    if (sscanf(stat, ") %c %u %*d %*d %*d %*d %u %*u %*u %*u %*u %lu %lu %*d %*d %*d %*d %*d %*d %llu", &ret->state,
               &ret->parent, &flags, &user, &system, &start) != 6)
        return;
    uint64_t ticks = (uint64_t)sysconf(_SC_CLK_TCK), boot_s = boot_realtime_s();
    ret->is_kernel = (flags & KERNEL_THREAD) != 0;
    ret->cpu_ms = (user + system) * 1000u / ticks;
    ret->start_realtime_ns = boot_s == 0 ? 0 : boot_s * 1000000000u + start * (1000000000u / ticks);
}

bool gwi_identity_read(uint32_t pid, gwi_identity *ret)
{
    char status[STATUS_MAX], stat[GW_PROCESS_STAT_MAX];
    *ret = (gwi_identity){.pid = pid, .group_pid = pid, .state = '?'};
    if (gw_read_small(status, sizeof status, NULL, "/proc/%u/status", pid) <= 0 || !gw_process_stat((int)pid, stat))
        return false;
    read_stat(stat, ret);
    snprintf(ret->name, sizeof ret->name, "%.*s", (int)strcspn(line_of(status, "Name:\t"), "\n"),
             line_of(status, "Name:\t"));
    sscanf(line_of(status, "\nTgid:"), "%u", &ret->group_pid);
    sscanf(line_of(status, "\nTracerPid:"), "%u", &ret->tracer);
    sscanf(line_of(status, "\nUid:"), "%u %u %u %u", &ret->uid[0], &ret->uid[1], &ret->uid[2], &ret->uid[3]);
    sscanf(line_of(status, "\nGid:"), "%u %u %u %u", &ret->gid[0], &ret->gid[1], &ret->gid[2], &ret->gid[3]);
    return true;
}

/* ---- all processes of the machine ---- */

typedef struct entry {
    uint32_t pid, parent;
} entry;

/* Call `see` for each process until it returns false. */
static void each_process(bool (*see)(void *user, uint32_t pid), void *user)
{
    DIR *folder = opendir("/proc");
    for (struct dirent *one; folder != NULL && (one = readdir(folder)) != NULL;) {
        char *end;
        unsigned long pid = strtoul(one->d_name, &end, 10);
        if (pid != 0 && *end == '\0' && !see(user, (uint32_t)pid))
            break;
    }
    if (folder != NULL)
        closedir(folder);
}

typedef struct all_processes {
    entry *entry; /* owned */
    size_t count, capacity;
} all_processes;

static bool take_entry(void *user, uint32_t pid)
{
    all_processes *all = user;
    char stat[GW_PROCESS_STAT_MAX], state;
    entry one = {.pid = pid};
    if (!gw_process_stat((int)pid, stat) || sscanf(stat, ") %c %u", &state, &one.parent) != 2)
        return true; /* it has ended */
    if (!gw_array_room(&all->entry, all->count, &all->capacity, sizeof *all->entry))
        return false;
    all->entry[all->count++] = one;
    return true;
}

size_t gw_outside_tree(uint32_t pid, uint32_t *ret_pid, size_t room)
{
    all_processes all = {0};
    size_t count = 0;
    each_process(take_entry, &all);
    if (room > 0)
        ret_pid[count++] = pid;
    for (size_t at = 0; at < count; at++) { /* the children of each process in the list */
        for (size_t i = 0; i < all.count && count < room; i++) {
            bool is_new = all.entry[i].parent == ret_pid[at];
            for (size_t k = 0; is_new && k < count; k++) /* a pid may be reused while the list is read */
                is_new = ret_pid[k] != all.entry[i].pid;
            if (is_new)
                ret_pid[count++] = all.entry[i].pid;
        }
    }
    free(all.entry);
    return count;
}

/* A search for the process that has the number `wanted` in the pid namespace of a container. */
typedef struct inner_search {
    uint32_t wanted, found;
} inner_search;

static bool is_inner(void *user, uint32_t pid)
{
    inner_search *it = user;
    char status[STATUS_MAX], *end;
    gw_read_small(status, sizeof status, NULL, "/proc/%u/status", pid);
    const char *at = line_of(status, "\nNSpid:");
    unsigned long number = 0;
    unsigned levels = 0;
    for (; *at != '\0' && *at != '\n'; at = end, levels++) {
        number = strtoul(at, &end, 10);
        if (end == at)
            break;
    }
    it->found = levels > 1 && number == it->wanted ? pid : 0;
    return it->found == 0;
}

/* ---- can it be inspected? ---- */

static gw_status say_missing(uint32_t pid, gw_error *err)
{
    if (kill((pid_t)pid, 0) != 0 && errno == EPERM)
        return gw_fail(err, GW_UNSUPPORTED,
                       "process %u belongs to another user, and /proc does not show it to this one", pid);
    inner_search search = {.wanted = pid};
    each_process(is_inner, &search);
    if (search.found != 0)
        return gw_fail(err, GW_MISSING,
                       "process %u does not exist; process %u has this number inside of a container: gpuwhy poke %u",
                       pid, search.found, search.found);
    return gw_fail(err, GW_MISSING, "process %u does not exist", pid);
}

static gw_status say_gpuwhy(uint32_t pid, gw_error *err)
{
    enum { CHILDREN_MAX = 16 };
    uint32_t child[CHILDREN_MAX];
    size_t count = gw_outside_tree(pid, child, CHILDREN_MAX);
    for (size_t i = 1; i < count; i++)
        if (!gw_process_is_gpuwhy((int)child[i]))
            return gw_fail(err, GW_UNSUPPORTED,
                           "process %u is gpuwhy itself; the program that it runs is process %u: "
                           "gpuwhy poke %u",
                           pid, child[i], child[i]);
    return gw_fail(err, GW_UNSUPPORTED, "process %u is gpuwhy itself", pid);
}

static gw_status check(uint32_t pid, gwi_identity *is, gw_error *err)
{
    gwi_identity parent;
    if (!gwi_identity_read(pid, is))
        return say_missing(pid, err);
    if (is->group_pid != pid)
        return gw_fail(err, GW_UNSUPPORTED, "%u is a thread of process %u: gpuwhy poke %u", pid, is->group_pid,
                       is->group_pid);
    if (is->is_kernel)
        return gw_fail(err, GW_UNSUPPORTED, "process %u (%s) is a thread of the Linux kernel", pid, is->name);
    if (is->state == 'Z' || is->state == 'X') {
        bool known = gwi_identity_read(is->parent, &parent);
        return gw_fail(err, GW_UNSUPPORTED,
                       "process %u (%s) has ended; its parent, process %u (%s), has not read its exit status yet", pid,
                       is->name, is->parent, known ? parent.name : "?");
    }
    return gw_process_is_gpuwhy((int)pid) ? say_gpuwhy(pid, err) : GW_OK;
}

gw_status gw_outside_check(uint32_t pid, gw_error *err)
{
    gwi_identity is;
    return check(pid, &is, err);
}

/* ---- permission ---- */

void gw_outside_refusal(const gw_outside_rights *rights, char refused[256], char allow[256])
{
    const char *why = "the kernel does not permit it", *what = "run gpuwhy as root";
    if (rights->calls_are_filtered) {
        why = "a system call filter of this container forbids reading other processes";
        what = "start the container with --cap-add=SYS_PTRACE, or run gpuwhy outside of it";
    } else if (rights->may_trace) {
        why = "the kernel does not permit it, although gpuwhy may trace processes; the process may belong to another "
              "user namespace, or a security module protects it";
        what = "run gpuwhy as root outside of the container";
    } else if (!rights->same_user) {
        snprintf(refused, 256, "the process belongs to user %.100s", rights->user);
        snprintf(allow, 256, "run gpuwhy as user %.100s or as root", rights->user);
        return;
    } else if (!rights->is_dumpable) {
        why = "the process is protected from inspection, because it is a setuid program, has capabilities, or has "
              "asked for it with prctl";
    } else if (rights->yama_scope == 1) {
        why = "this machine lets a process inspect only its own children (kernel.yama.ptrace_scope is 1)";
        what = "run sysctl kernel.yama.ptrace_scope=0, or run gpuwhy as root; a program that was started with gpuwhy "
               "run needs neither";
    } else if (rights->yama_scope >= 2) {
        why = rights->yama_scope == 2 ? "this machine lets only root inspect processes (kernel.yama.ptrace_scope is 2)"
                                      : "this machine forbids inspecting processes (kernel.yama.ptrace_scope is 3)";
        what =
            rights->yama_scope == 2 ? "run gpuwhy as root" : "change kernel.yama.ptrace_scope, and restart the machine";
    }
    snprintf(refused, 256, "%s", why);
    snprintf(allow, 256, "%s", what);
}

void gwi_refusal_find(const gwi_identity *is, gw_outside *process)
{
    enum { SYS_PTRACE = 19 /* CAP_SYS_PTRACE of linux/capability.h */ };
    char text[256], path[32];
    struct stat owner;
    int why = 0;
    bool calls_are_safe = gw_rare_calls_are_safe();
    bool reads = gw_read_small(text, sizeof text, &why, "/proc/%u/syscall", is->pid) > 0;
    if ((reads || (why != EPERM && why != EACCES)) && calls_are_safe)
        return;
    gw_outside_rights rights = {
        .same_user = true, .may_trace = gw_process_has_capability(SYS_PTRACE), .is_dumpable = true};
    for (size_t i = 0; i < 3; i++)
        rights.same_user = rights.same_user && is->uid[i] == geteuid() && is->gid[i] == getegid();
    snprintf(path, sizeof path, "/proc/%u/stat", is->pid);
    if (stat(path, &owner) == 0)
        rights.is_dumpable = owner.st_uid == is->uid[1]; /* the files of others belong to root */
    rights.calls_are_filtered = !calls_are_safe;
    rights.user = gw_text_str(&process->user);
    rights.yama_scope =
        gw_read_small(text, sizeof text, NULL, "/proc/sys/kernel/yama/ptrace_scope") > 0 ? atoi(text) : -1;
    gw_outside_refusal(&rights, process->refused, process->allow);
}

/* ---- the process ---- */

static void find_rank(gw_outside *process)
{
    gw_text text = {0};
    gw_fact_rank rank = {0};
    if (gw_rank_of_process(process->pid, &text))
        gw_fact_rank_read(gw_fact_text_of(gw_text_str(&text)), &rank);
    process->rank = rank.has_rank ? (int)rank.rank : -1;
    process->rank_count = rank.has_rank && rank.has_of ? (int)rank.of : -1;
    gw_text_free(&text);
}

/* True if this is the first process of the machine, and not of a container. */
static bool is_init(uint32_t pid)
{
    char link[64] = "";
    return pid == 1 && readlink("/proc/self/ns/pid", link, sizeof link - 1) > 0 &&
           strcmp(link, "pid:[4026531836]") == 0; /* PROC_PID_INIT_INO of the kernel */
}

gw_status gw_outside_begin(uint32_t pid, gw_outside **ret_process, gw_error *err)
{
    gwi_identity is, tracer;
    gw_status st = check(pid, &is, err);
    if (st != GW_OK)
        return st;
    gw_outside *process = calloc(1, sizeof *process);
    if (process == NULL)
        return gw_fail(err, GW_NOMEM, "inspect process %u", pid);
    process->pid = pid;
    process->parent = is.parent;
    process->state = is.state;
    process->start_realtime_ns = is.start_realtime_ns;
    process->tracer = is.tracer;
    process->is_init = is_init(pid);
    snprintf(process->name, sizeof process->name, "%s", is.name);
    if (is.tracer != 0 && gwi_identity_read(is.tracer, &tracer))
        snprintf(process->tracer_name, sizeof process->tracer_name, "%s", tracer.name);
    gw_process_command_add(&process->command, (int)pid);
    gw_user_name_add(&process->user, is.uid[1]);
    find_rank(process);
    gwi_refusal_find(&is, process);
    gwi_outputs_find(process);
    st = gw_stacks_look(pid, false, &process->earlier, err);
    if (st != GW_OK) {
        gw_outside_free(process);
        return st;
    }
    gwi_sample_take(pid, &process->before);
    *ret_process = process;
    return GW_OK;
}

void gw_outside_free(gw_outside *process)
{
    if (process == NULL)
        return;
    gw_text_free(&process->command);
    gw_text_free(&process->user);
    gw_text_free(&process->signature);
    gw_stack_process_free(process->earlier);
    gw_stack_process_free(process->threads);
    free(process->thread);
    free(process);
}
