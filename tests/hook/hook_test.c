/* Test the hook and the facade with fake drivers. Each run tests one part: hook_test PART. */
#include "gw_api.h"
#include "gw_facade.h"
#include "gwi_elf.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "check.h"
#include "walk.h"

/* for the programs under test: some run under ptrace, where leak detection fails */
static const char no_leaks[] = "ASAN_OPTIONS=detect_leaks=0";
static bool skipped_part;
static char base_dir[200];
static walk seen;

/* ---- running programs ---- */

/* Return the path of the program under test. GPUWHY_TEST_PROBE may name another build of it, such as one for another C
 * library. */
static const char *probe_program(void)
{
    const char *other = getenv("GPUWHY_TEST_PROBE");
    return other != NULL ? other : PROBE;
}

static const char *probe_linked_program(void)
{
    const char *other = getenv("GPUWHY_TEST_PROBE_LINKED");
    return other != NULL ? other : PROBE_LINKED;
}

typedef struct run_result {
    int status;
    char out[1 << 16];
    char run_dir[256];
    int buffers;
} run_result;

static void fake_path(const char *fake, char *out, size_t bytes)
{
    snprintf(out, bytes, FAKES "/%s/libcuda.so.1", fake);
}

static void make_facade(const char *fake, char *out, size_t bytes)
{
    gw_error err;
    char driver[512];
    fake_path(fake, driver, sizeof driver);
    snprintf(out, bytes, "%s/facade-%s", base_dir, fake);
    if (gw_facade_write(driver, HOOK, out, &err) != GW_OK) {
        printf("FAILED facade: %s\n", err.text);
        exit(1);
    }
}

static void set_preload(char *out, size_t bytes, const char *facade)
{
    snprintf(out, bytes, "LD_PRELOAD=" SANITIZER_RUNTIME "%s%s/libcuda.so.1", SANITIZER_RUNTIME[0] != '\0' ? " " : "",
             facade);
}

static int count_buffers(const char *dir)
{
    char path[512];
    int n = 0;
    while (walk_find(dir, n, path, sizeof path))
        n++;
    return n;
}

static void new_run_dir(char *out, size_t bytes)
{
    static int count;
    snprintf(out, bytes, "%s/run-%ld-%d", base_dir, (long)getpid(), count++);
    mkdir(out, 0700);
}

enum { DOOR_NONE = 0, DOOR_PRELOAD = 1, DOOR_PATH = 2 };

/* Run argv and store its output.
 * - `doors`: how the facade and the hook are loaded (DOOR_NONE: not at all)
 * - `extra`: one more NAME=value for the environment, or NULL */
static void run(run_result *r, const char *fake, int doors, const char *const *argv, const char *extra)
{
    char facade[512], preload[900], library_path[1200], run_dir[300], hint[64];
    const char *env[10];
    int ends[2], n = 0;
    make_facade(fake, facade, sizeof facade);
    new_run_dir(r->run_dir, sizeof r->run_dir);
    set_preload(preload, sizeof preload, facade);
    snprintf(library_path, sizeof library_path, "LD_LIBRARY_PATH=%s%s" FAKES "/%s", doors & DOOR_PATH ? facade : "",
             doors & DOOR_PATH ? ":" : "", fake);
    snprintf(run_dir, sizeof run_dir, "GPUWHY_RUN_DIR=%s", r->run_dir);
    snprintf(hint, sizeof hint, "GPUWHY_ATTACH=0");
    if (doors & DOOR_PRELOAD)
        env[n++] = preload;
    else if (SANITIZER_RUNTIME[0] != '\0')
        env[n++] = "LD_PRELOAD=" SANITIZER_RUNTIME;
    env[n++] = library_path;
    env[n++] = hint;
    env[n++] = no_leaks;
    if (doors != DOOR_NONE)
        env[n++] = run_dir;
    if (extra != NULL)
        env[n++] = extra;
    env[n] = NULL;
    if (pipe(ends) != 0)
        exit(1);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 1);
        close(ends[0]);
        close(ends[1]);
        execve(argv[0], (char *const *)(uintptr_t)argv, (char *const *)(uintptr_t)env);
        _exit(127);
    }
    close(ends[1]);
    size_t used = 0;
    for (ssize_t got; used < sizeof r->out - 1 && (got = read(ends[0], r->out + used, sizeof r->out - 1 - used)) > 0;)
        used += (size_t)got;
    r->out[used] = '\0';
    close(ends[0]);
    waitpid(child, &r->status, 0);
    r->buffers = count_buffers(r->run_dir);
}

static void probe(run_result *r, const char *fake, int doors, const char *route, const char *action, const char *extra)
{
    char driver[512];
    fake_path(fake, driver, sizeof driver);
    const char *const argv[] = {strcmp(route, "link") == 0 ? probe_linked_program() : probe_program(), route, action,
                                driver, NULL};
    run(r, fake, doors, argv, extra);
}

/* Read the n-th buffer of a run into `seen`, and check it. Returns false if there is none. */
static bool walk_run(const run_result *r, int n)
{
    char path[512];
    if (!walk_find(r->run_dir, n, path, sizeof path))
        return false;
    const void *map = walk_open(path);
    if (map == NULL)
        return false;
    CHECK(walk_map(&seen, map), "%s: %s", path, seen.fault);
    return true; /* the buffer stays mapped, because the caller checks its header */
}

/* ---- parts ---- */

static run_result plain, with;

static void same_behaviour(const char *what)
{
    CHECK(plain.status == with.status, "%s: status %x, with us %x", what, plain.status, with.status);
    CHECK(strcmp(plain.out, with.out) == 0, "%s: without us\n%s\nwith us\n%s", what, plain.out, with.out);
}

/* Run an action of the probe with the hook. `extra`: one more NAME=value for the environment, or NULL. */
static void probe_with(const char *action, const char *extra)
{
    probe(&with, "fake_same", DOOR_PRELOAD, "soname", action, extra);
}

/* Run an action without and with the hook and `extra`. The program must behave in the same way. */
static void probe_both(int doors, const char *action, const char *extra)
{
    probe(&plain, "fake_same", DOOR_NONE, "soname", action, NULL);
    probe(&with, "fake_same", doors, "soname", action, extra);
    same_behaviour(extra != NULL ? extra : action);
}

/* Read the first buffer of the latest run into `seen`. Without one, the test fails. */
static bool walk_first(void)
{
    bool is_there = walk_run(&with, 0);
    CHECK(is_there, "no buffer");
    return is_there;
}

/* Run the probe's action "basic" with this facade and GPUWHY_RUN_DIR. The variable is set by env(1), because it must
 * not be set twice: C libraries differ in which value getenv() returns. */
static void run_basic(const char *facade, const char *run_dir)
{
    char preload[900], setting[400];
    set_preload(preload, sizeof preload, facade);
    snprintf(setting, sizeof setting, "GPUWHY_RUN_DIR=%s", run_dir);
    const char *const argv[] = {"/usr/bin/env", setting, preload, probe_program(), "soname", "basic", NULL};
    run(&with, "fake_same", DOOR_NONE, argv, NULL);
}

static void part_routes(void)
{
    static const struct {
        const char *route;
        bool preload_sees, path_sees;
    } routes[] = {{"link", true, true},       {"soname", true, true},     {"name", false, true},
                  {"absolute", false, false}, {"namespace", false, true}, {"resolver", true, true}};
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        if (SANITIZER_RUNTIME[0] != '\0' && strcmp(routes[i].route, "namespace") == 0) {
            printf("SKIPPED dlmopen: sanitizers do not bear a second C library\n");
            continue;
        }
        probe(&plain, "fake_same", DOOR_NONE, routes[i].route, "basic", NULL);
        CHECK(plain.status == 0 && strstr(plain.out, "cuMemFree_v2 1") != NULL, "%s: %s", routes[i].route, plain.out);
        for (int doors = DOOR_PRELOAD; doors <= (DOOR_PRELOAD | DOOR_PATH); doors++) {
            bool expected =
                ((doors & DOOR_PRELOAD) && routes[i].preload_sees) || ((doors & DOOR_PATH) && routes[i].path_sees);
            probe(&with, "fake_same", doors, routes[i].route, "basic", NULL);
            same_behaviour(routes[i].route);
            CHECK((with.buffers == 1) == expected, "%s, doors %d: %d buffers", routes[i].route, doors, with.buffers);
            if (with.buffers == 1 && walk_run(&with, 0)) {
                CHECK(walk_event_find(&seen, GW_EV_ALLOC, 2) != NULL, "%s", routes[i].route);
                CHECK(seen.counter[GW_COUNT_LAUNCH] == 5, "%s: %llu launches", routes[i].route,
                      (unsigned long long)seen.counter[GW_COUNT_LAUNCH]);
            }
        }
    }
}

/* Check the content of the buffer after the calls of the probe's action "basic". */
static void part_buffer(void)
{
    probe_with("basic", NULL);
    if (!walk_first())
        return;
    char driver[512];
    fake_path("fake_same", driver, sizeof driver);
    CHECK(strcmp(seen.head->driver_path, driver) == 0, "%s", seen.head->driver_path);
    CHECK(atomic_load(&seen.head->initialised) == 1, "initialised");
    CHECK(atomic_load(&seen.head->captures_open) == 0, "captures");
    CHECK(atomic_load(&seen.head->failures) == 2, "%u failures", atomic_load(&seen.head->failures));
    CHECK(atomic_load(&seen.head->sticky) == 0, "sticky");
    const walk_event *e = walk_event_find(&seen, GW_EV_ALLOC, 0);
    CHECK(e != NULL && e->raw.arg[0] != 0 && e->raw.arg[1] == 1 << 20 && e->raw.context != 0, "ALLOC");
    e = walk_event_find(&seen, GW_EV_ALLOC, 2);
    CHECK(e != NULL && e->raw.arg[0] == 0 && e->raw.arg[1] == (uint64_t)4 << 30, "failed ALLOC");
    e = walk_event_find(&seen, GW_EV_MEMORY_INFO, 0);
    CHECK(e != NULL && e->raw.arg[1] == 1 << 30 && e->raw.arg[3] == 2, "MEMORY_INFO");
    e = walk_event_find(&seen, GW_EV_DRIVER, 0);
    CHECK(e != NULL && e->raw.arg[0] == 13000, "DRIVER");
    e = walk_event_find(&seen, GW_EV_DEVICE, 0);
    CHECK(e != NULL && e->raw.arg[1] == 1 << 30 && strcmp(e->text, "Fake card") == 0, "DEVICE");
    CHECK(walk_event_count(&seen, GW_EV_DEVICE_ATTRIBUTE) >= 15, "%d attributes",
          walk_event_count(&seen, GW_EV_DEVICE_ATTRIBUTE));
    e = walk_event_find(&seen, GW_EV_DRIVER_LOG, 0);
    CHECK(e != NULL && strstr(e->text, "OUT_OF_MEMORY") != NULL && walk_event_count(&seen, GW_EV_DRIVER_LOG) == 2,
          "DRIVER_LOG");
    e = walk_event_find(&seen, GW_EV_FUNCTION, 0);
    CHECK(e != NULL && strcmp(e->text, "a_kernel_with_a_name_longer_than_one_record_holds") == 0, "FUNCTION %s",
          e != NULL ? e->text : "");
    e = walk_event_find(&seen, GW_EV_FUNCTION, 500);
    CHECK(e != NULL && strcmp(e->text, "missing") == 0 && seen.counter[GW_COUNT_NOT_FOUND] == 1, "result 500");
    CHECK(walk_event_find(&seen, GW_EV_FREE, 1) != NULL && walk_event_find(&seen, GW_EV_FREE, 0) != NULL, "FREE");
    CHECK(walk_event_find(&seen, GW_EV_CAPTURE_BEGIN, 0) != NULL &&
              walk_event_find(&seen, GW_EV_CAPTURE_END, 0) != NULL,
          "captures");
    CHECK(seen.counter[GW_COUNT_NOT_READY] == 3 && walk_event_count(&seen, GW_EV_QUERY) == 0, "result 600");
    CHECK(seen.counter[GW_COUNT_LAUNCH] == 5 && seen.ring_entries == 5, "launches");
    const gw_slot *slot = (const gw_slot *)((const char *)seen.head + seen.head->slot_offset);
    const gw_ring *ring = (const gw_ring *)((const char *)seen.head + seen.head->ring_offset);
    CHECK(ring->entry[0].what == 0x1234 && ring->entry[0].stream_fn == (2 << 16 | GW_FN_cuLaunchKernel), "ring");
    CHECK(slot->tid == seen.head->pid && strcmp(slot->name, "hook_probe") == 0, "slot of %s", slot->name);
}

/* Recording is switched off and on again. The calls made while it was off must be missing, and all others present. */
static void part_switch(void)
{
    probe_both(DOOR_PRELOAD, "switched", NULL);
    CHECK(strstr(with.out, "switched 1 1") != NULL, "%s", with.out);
    if (!walk_first())
        return;
    CHECK(seen.counter[GW_COUNT_LAUNCH] == 3 + 4 + 1, "%llu launches",
          (unsigned long long)seen.counter[GW_COUNT_LAUNCH]);
    CHECK(walk_event_count(&seen, GW_EV_ALLOC) == 1 && walk_event_count(&seen, GW_EV_FREE) == 0,
          "%d allocations, %d frees", walk_event_count(&seen, GW_EV_ALLOC), walk_event_count(&seen, GW_EV_FREE));
    CHECK(atomic_load(&seen.head->failures) == 0, "%u failures", atomic_load(&seen.head->failures));
    const gw_slot *slot = (const gw_slot *)((const char *)seen.head + seen.head->slot_offset);
    /* `calls` does not include cuCtxSetCurrent. */
    CHECK(slot->calls == 2 + 3 + 4 + 1 + 1, "%llu calls", (unsigned long long)slot->calls);
    /* With a memory limit, the guard must keep counting memory. So recording cannot be switched off, and every launch
     * is recorded. */
    probe_with("switched", "GPUWHY_MEMORY=536870912");
    CHECK(strstr(with.out, "switched 0 0") != NULL, "%s", with.out);
    CHECK(walk_run(&with, 0) && seen.counter[GW_COUNT_LAUNCH] == 108, "under the guard");
    probe_both(DOOR_PRELOAD, "switched-load", NULL);
    CHECK(walk_run(&with, 0) && seen.counter[GW_COUNT_LAUNCH] > 0, "nothing recorded under load");
}

/* The hook records the function of each CUkernel once, and again after a library was loaded. */
static void part_kernels(void)
{
    probe_with("kernels", NULL);
    if (!walk_first())
        return;
    CHECK(walk_event_count(&seen, GW_EV_FUNCTION) == 4, "%d of 6 said", walk_event_count(&seen, GW_EV_FUNCTION));
    const walk_event *e = walk_event_find(&seen, GW_EV_FUNCTION, 0);
    CHECK(e != NULL && e->raw.arg[0] == 0x500 && e->raw.arg[1] == 0x100 && e->raw.arg[2] == GW_OWNER_KERNEL,
          "FUNCTION");
}

/* The hook samples the 1st, 2nd, 4th, 8th and 16th launch of a function and records each new call site.
 * - Launches from one place give one site.
 * - Launches from six places in turn give three sites: the 8th and 16th repeat the places of the 2nd and 4th.
 * - After a module was unloaded, and in a child, the sites are recorded again. */
static void part_launch_places(void)
{
    probe_both(DOOR_PRELOAD, "launch-places", NULL);
    int of_parent = 0, of_child = 0, others = 0;
    for (int n = 0; walk_run(&with, n); n++) {
        int count = walk_event_count(&seen, GW_EV_LAUNCH_SITE), sites = 0;
        for (int e = 0; e < seen.event_count; e++)
            sites += seen.event[e].raw.kind == GW_EV_LAUNCH_SITE && seen.event[e].raw.site != 0;
        CHECK(sites == count, "%d of %d have a site", sites, count);
        of_parent += seen.counter[GW_COUNT_LAUNCH] == 218 ? count : 0;
        of_child += seen.counter[GW_COUNT_LAUNCH] == 100 ? count : 0;
        others += seen.counter[GW_COUNT_LAUNCH] != 218 && seen.counter[GW_COUNT_LAUNCH] != 100;
    }
    CHECK(of_parent == 1 + 3 + 1 && of_child == 1 && others == 0, "%d in the parent, %d in the child", of_parent,
          of_child);
    probe_with("launch-places", "GPUWHY_SITES=0");
    CHECK(walk_run(&with, 0) && walk_event_count(&seen, GW_EV_LAUNCH_SITE) == 0, "sites that nobody wants");
}

/* A full buffer, a full or missing file system, or a file size limit must not affect the program. */
static void part_room(void)
{
    probe_both(DOOR_PRELOAD, "stress", NULL);
    if (walk_run(&with, 0)) {
        CHECK(atomic_load(&seen.head->lost_events) > 0, "nothing was lost");
        CHECK(seen.counter[GW_COUNT_LOST] == atomic_load(&seen.head->lost_events), "lost counts");
        CHECK(atomic_load(&seen.head->lost_failures) < 600, "%llu failures lost",
              (unsigned long long)atomic_load(&seen.head->lost_failures));
    }
    probe_both(DOOR_PRELOAD, "basic", "GPUWHY_OFF=1");
    CHECK(with.buffers == 0, "%d buffers", with.buffers);
    char facade[512];
    make_facade("fake_same", facade, sizeof facade);
    static const char *const no_folders[] = {"/nonexistent/folder", "relative", ""};
    for (size_t i = 0; i < sizeof no_folders / sizeof no_folders[0]; i++) {
        run_basic(facade, no_folders[i]);
        same_behaviour(no_folders[i]);
    }
    struct rlimit limit, small;
    getrlimit(RLIMIT_FSIZE, &limit);
    small = limit;
    small.rlim_cur = 1 << 20;
    setrlimit(RLIMIT_FSIZE, &small);
    probe_with("basic", NULL);
    setrlimit(RLIMIT_FSIZE, &limit);
    same_behaviour("file size limit");
    CHECK(with.buffers == 0, "%d buffers", with.buffers);
    char full[300];
    snprintf(full, sizeof full, "%s/full", base_dir);
    mkdir(full, 0700);
    if (mount("none", full, "tmpfs", 0, "size=1m") != 0) {
        printf("SKIPPED full tmpfs: mount: %s\n", strerror(errno));
        return;
    }
    run_basic(facade, full);
    same_behaviour("full tmpfs");
    CHECK(count_buffers(full) == 0, "a buffer on a full tmpfs");
    umount(full);
}

/* Return the number of the site where the process of buffer `n` was forked. The number is the parent's. 0: unknown; -1:
 * the process was not forked. *ret_parent is the pid of the parent. */
static int64_t fork_site(int n, uint64_t *ret_parent)
{
    const walk_event *fork_event = walk_run(&with, n) ? walk_event_find(&seen, GW_EV_FORK, 0) : NULL;
    if (fork_event == NULL)
        return -1;
    *ret_parent = fork_event->raw.arg[0];
    return (int64_t)fork_event->raw.arg[2];
}

/* True if process `pid` recorded the call site with this number. */
static bool site_is_known(uint64_t pid, uint64_t site)
{
    bool known = false;
    for (int n = 0; walk_run(&with, n); n++) {
        for (int e = 0; e < seen.event_count && seen.head->pid == pid; e++)
            known = known || (seen.event[e].raw.kind == GW_EV_SITE && seen.event[e].raw.arg[0] == site);
    }
    return known;
}

/* A child process records where it was forked. The cases:
 * - a child and a grandchild
 * - the child of a raw clone(): its site is unknown
 * - children of threads that fork at the same time */
static void part_fork_sites(void)
{
    static const char *const single[] = {"fork", "fork-nested", "clone"};
    bool tsan = strstr(SANITIZER_RUNTIME, "tsan") != NULL;
    uint64_t parent = 0;
    for (int i = 0; i < (tsan ? 2 : 3); i++) {
        bool no_handler = strcmp(single[i], "clone") == 0;
        probe(&with, "fake_same", DOOR_PRELOAD | DOOR_PATH, "soname", single[i], NULL);
        int64_t site = -1;
        for (int n = 0; n < with.buffers && site < 0; n++)
            site = fork_site(n, &parent);
        CHECK(no_handler ? site == 0 : site > 0 && site_is_known(parent, (uint64_t)site), "%s: site %lld", single[i],
              (long long)site);
    }
    probe_both(DOOR_PRELOAD | DOOR_PATH, "fork-threads", NULL);
    /* One place can have more than one site, because the C library takes another path when only one thread is left. */
    enum { SITES_MAX = 64 };
    uint64_t owner[SITES_MAX] = {0}, seen_of[2] = {0, 0};
    CHECK(with.buffers == 11, "%d buffers", with.buffers);
    for (int n = 0; n < with.buffers; n++) {
        int64_t site = fork_site(n, &parent);
        const walk_event *alloc = walk_event_find(&seen, GW_EV_ALLOC, 0);
        if (site < 0)
            continue;
        uint64_t bytes = alloc == NULL ? 0 : alloc->raw.arg[1];
        CHECK(bytes > 1000 && bytes < 1003 && site > 0 && site < SITES_MAX, "site %lld", (long long)site);
        CHECK(owner[site % SITES_MAX] == 0 || owner[site % SITES_MAX] == bytes, "two threads forked at one place");
        CHECK(site_is_known(parent, (uint64_t)site), "site %lld is unknown", (long long)site);
        owner[site % SITES_MAX] = bytes;
        seen_of[bytes % 2]++;
    }
    CHECK(seen_of[0] == 5 && seen_of[1] == 5, "%d and %d children", (int)seen_of[0], (int)seen_of[1]);
}

static void part_processes(void)
{
    static const struct {
        const char *action;
        int buffers;
    } actions[] = {{"threads", 1}, {"fork", 2},     {"fork-before", 2}, {"vfork", 1},
                   {"clone", 2},   {"clone-vm", 1}, {"close", 1},       {"exit", 1}};
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++) {
        const char *action = actions[i].action;
        if (strstr(SANITIZER_RUNTIME, "tsan") != NULL && strncmp(action, "clone", 5) == 0) {
            printf("SKIPPED %s: the thread sanitizer does not bear a raw clone\n", action);
            continue;
        }
        probe_both(DOOR_PRELOAD | DOOR_PATH, action, NULL);
        CHECK(with.buffers == actions[i].buffers, "%s: %d buffers", action, with.buffers);
        int forks = 0, allocs = 0, parents = 0;
        for (int n = 0; walk_run(&with, n); n++) {
            for (int e = 0; e < seen.event_count; e++)
                CHECK(seen.event[e].tid != 0, "%s", action);
            const walk_event *fork_event = walk_event_find(&seen, GW_EV_FORK, 0);
            if (fork_event != NULL) {
                forks++;
                CHECK(fork_event->raw.arg[0] == seen.head->parent_pid && fork_event->raw.arg[1] == 1, "%s", action);
                CHECK(walk_event_count(&seen, GW_EV_ALLOC) == (strcmp(action, "fork") == 0 ? 2 : 1), "%s: %d", action,
                      walk_event_count(&seen, GW_EV_ALLOC));
            } else {
                parents++;
            }
            allocs += walk_event_count(&seen, GW_EV_ALLOC);
            if (strcmp(action, "threads") == 0) {
                CHECK(seen.slots_ended == 3 && seen.slots_live == 1, "%d ended, %d live", seen.slots_ended,
                      seen.slots_live);
                CHECK(seen.counter[GW_COUNT_LAUNCH] == 6, "launches");
            }
            if (strcmp(action, "clone-vm") == 0)
                for (int e = 0; e < seen.event_count; e++)
                    CHECK(seen.event[e].raw.arg[1] != 12345, "a process that shares our memory was recorded");
        }
        CHECK(forks == (strcmp(action, "fork") == 0 || strcmp(action, "clone") == 0), "%s: %d FORK", action, forks);
        CHECK(strcmp(action, "fork") != 0 || allocs == 4, "%s: %d ALLOC", action, allocs);
        CHECK(parents >= 1, "%s", action);
    }
    /* With a sanitizer, the signal handler may also fork inside the sanitizer's own code, which does not support
     * this. */
    if (SANITIZER_RUNTIME[0] != '\0') {
        printf("SKIPPED forks within calls: sanitizers do not bear them\n");
        return;
    }
    probe_both(DOOR_PRELOAD, "fork-in-calls", NULL);
    CHECK(strstr(with.out, " 0 bad") != NULL, "%s", with.out);
}

/* After cuInit has succeeded, read-only queries go directly to the driver and are not recorded, except in a forked
 * child. */
static void part_reads(void)
{
    probe_both(DOOR_PRELOAD | DOOR_PATH, "reads", NULL);
    CHECK(with.buffers == 2, "%d buffers", with.buffers);
    for (int n = 0; walk_run(&with, n); n++) {
        bool is_child = walk_event_find(&seen, GW_EV_FORK, 0) != NULL;
        const walk_event *failure = walk_event_find(&seen, GW_EV_CALL, 1);
        CHECK(walk_event_count(&seen, GW_EV_CALL) == 1, "%d failed reads", walk_event_count(&seen, GW_EV_CALL));
        CHECK(failure != NULL && failure->raw.arg[1] == (is_child ? 3 : 1), "a read");
    }
}

static void copy_file(const char *from, const char *to)
{
    char command[1200];
    snprintf(command, sizeof command, "cp '%s' '%s'", from, to);
    CHECK(system(command) == 0, "%s", command);
}

/* A facade without a hook passes calls to the driver. Without a driver, every call returns CUDA_ERROR_STUB_LIBRARY
 * (34). */
static void part_fallback(void)
{
    char driver[512], copy[300], facade[300], run_dir[300];
    gw_error err;
    probe(&plain, "fake_same", DOOR_NONE, "soname", "basic", NULL);
    fake_path("fake_same", driver, sizeof driver);
    snprintf(copy, sizeof copy, "%s/copy", base_dir);
    snprintf(facade, sizeof facade, "%s/facade-alone", base_dir);
    new_run_dir(run_dir, sizeof run_dir);
    copy_file(HOOK, copy);
    CHECK(gw_facade_write(driver, copy, facade, &err) == GW_OK, "%s", err.text);
    unlink(copy);
    run_basic(facade, run_dir);
    same_behaviour("no hook");
    CHECK(count_buffers(run_dir) == 0, "a buffer without a hook");
    copy_file(driver, copy);
    CHECK(gw_facade_write(copy, HOOK, facade, &err) == GW_OK, "%s", err.text);
    unlink(copy);
    run_basic(facade, run_dir);
    CHECK(with.status == 0 && strstr(with.out, "cuInit 34 ") != NULL, "%x %s", with.status, with.out);
    snprintf(with.run_dir, sizeof with.run_dir, "%.255s", run_dir);
    if (walk_first()) {
        const walk_event *e = walk_event_find(&seen, GW_EV_NOTE, 0);
        CHECK(e != NULL && e->raw.arg[0] == GW_NOTE_DRIVER_MISSING && strcmp(e->text, copy) == 0, "NOTE");
    }
}

/* If there are more threads than slots, the threads without a slot are only counted. Their calls work like all
 * others. */
static void part_threads(void)
{
    probe_both(DOOR_PRELOAD, "many", NULL);
    CHECK(strstr(plain.out, "200 of 200") != NULL, "%s", plain.out);
    if (!walk_first())
        return;
    CHECK(seen.slots_ended == GW_SLOT_COUNT - 1 && seen.slots_live == 1, "%d ended, %d live", seen.slots_ended,
          seen.slots_live);
    CHECK(atomic_load(&seen.head->threads_without_slot) == 200 - (GW_SLOT_COUNT - 1), "%llu",
          (unsigned long long)atomic_load(&seen.head->threads_without_slot));
    probe_with("many", "GPUWHY_MEMORY=268435456");
    same_behaviour("many threads under the guard");
}

static void part_guard(void)
{
    probe_with("guarded", "GPUWHY_MEMORY=268435456");
    /* The context uses 64 MiB of the limit of 256 MiB. */
    CHECK(strstr(with.out, "total 268435456 free 201326592\n") != NULL, "%s", with.out);
    CHECK(strstr(with.out, "total 268435456 free 96468992\n") != NULL, "%s", with.out);
    CHECK(strstr(with.out, "cuMemAlloc_v2 2 ") != NULL, "%s", with.out);
    if (walk_first()) {
        const walk_event *e = walk_event_find(&seen, GW_EV_GUARD_REFUSED, 0);
        CHECK(e != NULL && e->raw.arg[0] == 100u << 20 && e->raw.arg[1] == 256u << 20 && e->raw.arg[2] == 164u << 20,
              "GUARD_REFUSED");
        e = walk_event_find(&seen, GW_EV_ALLOC, 2);
        CHECK(e != NULL && (e->raw.flags & GW_EVF_GUARD), "the flag");
        e = walk_event_find(&seen, GW_EV_ALLOC, 0);
        CHECK(e != NULL && !(e->raw.flags & GW_EVF_GUARD), "the flag");
    }
}

/* The limit is 256 MiB, and each context uses 64 MiB. */
static void part_guard_kinds(void)
{
    static const char *const expected[] = {"free 192 MiB", "free 152 MiB", "free 112 MiB", "free 112 MiB",
                                           "free 152 MiB", "free 88 MiB",  "free 64 MiB"};
    probe_with("guarded-kinds", "GPUWHY_MEMORY=268435456");
    const char *at = with.out;
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        at = strstr(at, "free ");
        CHECK(at != NULL && strncmp(at, expected[i], strlen(expected[i])) == 0, "%zu: %s\n%s", i, expected[i],
              with.out);
        if (at == NULL)
            return;
        at++;
    }
    CHECK(strstr(with.out, "cuMemCreate 2 ") != NULL && strstr(with.out, "cuCtxCreate_v2 2 ") != NULL, "%s", with.out);
}

/* Count the events of a kind with the given result and flags. */
static int count_flagged(unsigned kind, unsigned result, unsigned flags)
{
    int count = 0;
    for (int i = 0; i < seen.event_count; i++)
        count +=
            seen.event[i].raw.kind == kind && seen.event[i].raw.result == result && seen.event[i].raw.flags == flags;
    return count;
}

static const walk_event *injected_fact(void)
{
    return walk_event_find(&seen, GW_EV_INJECTED, 0);
}

static void part_inject(void)
{
    probe(&plain, "fake_same", DOOR_NONE, "soname", "gated", NULL);
    /* The 4th of all allocations and no other call fails, although the hook makes calls of its own after it. */
    probe_with("gated", "GPUWHY_INJECT=oom@alloc:4");
    if (!walk_first())
        return;
    const walk_event *fact = injected_fact();
    CHECK(strstr(with.out, "cuMemAlloc_v2 2 errno") != NULL, "%s", with.out);
    CHECK(fact != NULL && strcmp(fact->text, "oom@alloc:4") == 0 && fact->raw.fn == GW_FN_cuMemAlloc_v2, "the fact");
    CHECK(fact != NULL && fact->raw.arg[0] == 2 && fact->raw.arg[1] == 1 && fact->raw.arg[3] == 0, "its values");
    CHECK(count_flagged(GW_EV_ALLOC, 2, GW_EVF_INJECTED) == 1 && count_flagged(GW_EV_ALLOC, 0, 0) == 4, "allocations");
    /* A GET, a hot call, and a rule for a READ function, which normally goes past its wrapper. */
    probe_with("gated", "GPUWHY_INJECT=1@launch:3;34@query,p=1,seed=3;3@cuDeviceGetAttribute");
    CHECK(walk_run(&with, 0) && count_flagged(GW_EV_LAUNCH, 1, GW_EVF_INJECTED) == 1, "a launch\n%s", with.out);
    CHECK(count_flagged(GW_EV_QUERY, 34, GW_EVF_INJECTED) == 3, "all queries\n%s", with.out);
    CHECK(strstr(with.out, "cuDeviceGetAttribute 3 errno") != NULL, "%s", with.out);
    /* From then on, everything fails, and nothing reaches the driver. */
    probe_with("gated", "GPUWHY_INJECT=700@launch:2");
    CHECK(strstr(with.out, "reached 0\n") != NULL && strstr(with.out, "cuDeviceGetAttribute 0") != NULL, "%s",
          with.out);
    CHECK(walk_run(&with, 0) && count_flagged(GW_EV_ALLOC, 700, GW_EVF_INJECTED) == 3, "allocations after it");
    CHECK(count_flagged(GW_EV_INJECTED, 0, GW_EVF_TEXT_FOLLOWS) == 1, "one fact for a closed driver");
    /* No rule names a call: the output is that of a run without gpuwhy. */
    probe_with("gated", "GPUWHY_INJECT=oom@alloc:99;1@any,rank=3");
    same_behaviour("a plan without effect");
    CHECK(walk_run(&with, 0) && injected_fact() == NULL, "a fact without effect");
    probe_with("gated", "GPUWHY_INJECT=nonsense");
    same_behaviour("a wrong plan");
}

static void part_fence(void)
{
    probe(&plain, "fake_same", DOOR_NONE, "soname", "lost", NULL);
    CHECK(strstr(plain.out, "reached 6\n") != NULL, "%s", plain.out);
    probe_with("lost", "GPUWHY_FENCE=on");
    CHECK(strstr(with.out, "reached 0\n") != NULL, "%s", with.out);
    CHECK(strstr(with.out, "cuMemFree_v2 700 ") != NULL && strstr(with.out, "cuLaunchKernel 700 ") != NULL, "%s",
          with.out);
    if (walk_first()) {
        const walk_event *fact = walk_event_find(&seen, GW_EV_FENCED, 0);
        CHECK(fact != NULL && fact->raw.arg[0] == 700 && fact->raw.arg[1] == 0, "the fact");
        CHECK(count_flagged(GW_EV_LAUNCH, 700, GW_EVF_FENCED) == 3 && count_flagged(GW_EV_ALLOC, 700, 0) == 1,
              "the flags");
        CHECK(count_flagged(GW_EV_FREE, 700, GW_EVF_FENCED) == 1, "a free");
    }
    probe_with("lost", "GPUWHY_FENCE=exit");
    CHECK(WIFEXITED(with.status) && WEXITSTATUS(with.status) == GW_FENCE_EXIT_STATUS, "status %d", with.status);
    CHECK(strstr(with.out, "cuMemAlloc_v2 700 ") != NULL && strstr(with.out, "free ") == NULL, "%s", with.out);
    /* Without an error that is sticky, the fence does nothing. */
    probe_both(DOOR_PRELOAD, "basic", "GPUWHY_FENCE=exit");
}

/* ---- in this process: names and resolver ---- */

typedef int any_fn(long, long, long, long, long, long, long, long, long, long, long, long);
typedef void set_result_fn(const char *, int);
typedef int resolve_fn(const char *, void **, int, uint64_t);
typedef int resolve2_fn(const char *, void **, int, uint64_t, int *);

static int call_any(void *function)
{
    return ((any_fn *)function)(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
}

static void open_both(const char *fake, void **ret_driver, void **ret_facade)
{
    char path[600], facade[512];
    static char run_dir[256];
    make_facade(fake, facade, sizeof facade);
    new_run_dir(run_dir, sizeof run_dir);
    setenv("GPUWHY_RUN_DIR", run_dir, 1);
    setenv("GPUWHY_ATTACH", "0", 1);
    snprintf(path, sizeof path, "%s/libcuda.so.1", facade);
    *ret_facade = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    fake_path(fake, path, sizeof path);
    *ret_driver = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (*ret_facade == NULL || *ret_driver == NULL) {
        printf("FAILED dlopen: %s\n", dlerror());
        exit(1);
    }
}

static void check_name(void *driver, void *facade, const char *name, int *ret_present)
{
    set_result_fn *set_result = (set_result_fn *)dlsym(driver, "fake_set_result");
    void *real = dlsym(driver, name), *ours = dlsym(facade, name);
    CHECK((real != NULL) == (ours != NULL), "%s: %p without us, %p with us", name, real, ours);
    if (real == NULL || ours == NULL || strncmp(name, "cu", 2) != 0)
        return;
    ++*ret_present;
    /* The fake driver records a function that has two names as cuMemFreeHost. */
    set_result(real == dlsym(driver, "cuMemFreeHost") ? "cuMemFreeHost" : name, 777);
    int result = call_any(ours);
    CHECK(result == 777, "%s: %d", name, result);
}

static const char *const fakes[] = {"fake_older", "fake_same", "fake_newer"};

static void names_of(const char *fake)
{
    void *driver, *facade;
    int present = 0;
    gwi_elf elf;
    open_both(fake, &driver, &facade);
    for (int i = 0; i < GW_FN_COUNT; i++)
        check_name(driver, facade, gw_api_fns[i].symbol, &present);
    for (int f = 0; f < 3; f++) {
        char path[512];
        fake_path(fakes[f], path, sizeof path);
        if (gwi_elf_open(path, &elf, NULL) != GW_OK)
            exit(1);
        for (uint32_t i = 0; i < elf.symbol_count; i++)
            if (gwi_elf_symbol_exported(&elf.symbol[i]))
                check_name(driver, facade, gwi_elf_symbol_name(&elf, &elf.symbol[i]), &present);
        gwi_elf_close(&elf);
    }
    static const char *const absent[] = {"cuMemAlloc_v7", "cu", "", "gw_hook_attach", "dlopen_", "cuInit_v2"};
    for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++)
        CHECK(dlsym(facade, absent[i]) == NULL && dlsym(driver, absent[i]) == NULL, "%s", absent[i]);
    CHECK(present > 500, "%s: only %d names", fake, present);
    printf("%s: %d calls through the facade, all reached the driver\n", fake, present);
}

static void resolver_of(const char *fake)
{
    static const int versions[] = {11030, 11040, 11080, 12000, 12030, 12050, 12080, 12090, 13000, 13020, 14000};
    static const char *const others[] = {"cuFutureThing", "cuNope", "", "cuMemAlloc_v2", "cuTwoInOne"};
    void *driver, *facade, *real, *ours;
    int wrapped = 0, passed = 0, absent = 0;
    open_both(fake, &driver, &facade);
    set_result_fn *set_result = (set_result_fn *)dlsym(driver, "fake_set_result");
    resolve2_fn *ask2 = (resolve2_fn *)dlsym(driver, "cuGetProcAddress_v2");
    resolve2_fn *ours2 = (resolve2_fn *)dlsym(facade, "cuGetProcAddress_v2");
    resolve_fn *ask1 = (resolve_fn *)dlsym(driver, "cuGetProcAddress");
    resolve_fn *ours1 = (resolve_fn *)dlsym(facade, "cuGetProcAddress");
    void *two_in_one = dlsym(driver, "cuMemFreeHost");
    if (two_in_one != dlsym(driver, "cuMemHostUnregister"))
        two_in_one = NULL;
    CHECK((two_in_one != NULL) == (strcmp(fake, "fake_newer") == 0), "%s", fake);
    if (two_in_one != NULL) /* check this first, because later the buffer will be full of failures */
        CHECK(ours2("cuTwoInOne", &ours, 13000, 0, NULL) == 0 && ours == two_in_one, "%p", ours);
    int name_count = GW_API_ROUTE_COUNT + (int)(sizeof others / sizeof others[0]);
    for (int n = 0; n < name_count; n++) {
        const char *name = n < GW_API_ROUTE_COUNT ? gw_api_routes[n].name : others[n - GW_API_ROUTE_COUNT];
        if (n > 0 && n < GW_API_ROUTE_COUNT && strcmp(name, gw_api_routes[n - 1].name) == 0)
            continue;
        for (size_t v = 0; v < sizeof versions / sizeof versions[0] * 3; v++) {
            int version = versions[v / 3], real_status = -7, our_status = -7, result;
            uint64_t flags = v % 3;
            real = ours = (void *)0x1;
            if (ask2 != NULL) {
                result = ask2(name, &real, version, flags, &real_status);
                CHECK(ours2(name, &ours, version, flags, &our_status) == result, "%s %d", name, version);
            } else {
                result = ask1(name, &real, version, flags);
                CHECK(ours1(name, &ours, version, flags) == result, "%s %d", name, version);
            }
            CHECK(real_status == our_status, "%s %d: status %d, %d", name, version, real_status, our_status);
            CHECK((real == NULL) == (ours == NULL), "%s %d: %p, %p", name, version, real, ours);
            if (real == NULL || ours == NULL) {
                absent++;
                continue;
            }
            Dl_info info;
            if (dladdr(real, &info) == 0 || info.dli_sname == NULL) {
                CHECK(false, "%s %d: no name", name, version);
                continue;
            }
            bool undecided = two_in_one != NULL && strcmp(name, "cuTwoInOne") == 0;
            if (real == two_in_one)
                info.dli_sname = "cuMemFreeHost"; /* under this name the fake driver records calls of this function */
            int fn = gw_api_find_symbol(info.dli_sname);
            bool must_wrap = fn >= 0 && (gw_api_fns[fn].flags & GW_API_PUBLIC) && !undecided;
            /* For each name, the driver's dlsym() and its resolver return the same function, so the facade's must do
             * so, too. If two names share an address, the requested name decides which wrapper is returned. */
            bool is_other = real == two_in_one && strcmp(name, "cuMemHostUnregister") == 0;
            void *by_name = dlsym(facade, is_other ? name : info.dli_sname);
            CHECK(ours == by_name || (!must_wrap && ours == real), "%s %d %llu -> %s: %p, by name %p", name, version,
                  (unsigned long long)flags, info.dli_sname, ours, by_name);
            wrapped += ours == by_name;
            passed += ours == real;
            set_result(info.dli_sname, 777);
            CHECK(call_any(ours) == 777, "%s %d %llu -> %s", name, version, (unsigned long long)flags, info.dli_sname);
            set_result(NULL, 0);
        }
    }
    if (two_in_one != NULL) {
        void *other = NULL;
        ours2("cuMemFreeHost", &ours, 12000, 0, NULL);
        ours2("cuMemHostUnregister", &other, 12000, 0, NULL);
        CHECK(ours == dlsym(facade, "cuMemFreeHost") && other == dlsym(facade, "cuMemHostUnregister") && ours != other,
              "two names at one address have one wrapper");
    }
    char path[512];
    if (walk_find(getenv("GPUWHY_RUN_DIR"), 0, path, sizeof path) && walk_map(&seen, walk_open(path))) {
        int unreached = 0, undecided = 0;
        for (int i = 0; i < seen.event_count; i++) {
            unreached += seen.event[i].raw.kind == GW_EV_NOTE && seen.event[i].raw.arg[0] == GW_NOTE_UNREACHED;
            undecided += seen.event[i].raw.kind == GW_EV_NOTE && seen.event[i].raw.arg[0] == GW_NOTE_SIGNATURE_UNKNOWN;
        }
        CHECK(unreached == 0, "%d functions are not reached", unreached);
        CHECK((undecided > 0) == (two_in_one != NULL), "%d undecided", undecided);
    } else {
        CHECK(false, "%s: no buffer: %s", fake, seen.fault);
    }
    CHECK(wrapped > 5000, "%s", fake);
    CHECK(strcmp(fake, "fake_newer") != 0 || passed >= 6, "%s", fake);
    printf("%s: %d answers wrapped, %d passed through, %d absent\n", fake, wrapped, passed, absent);
}

static void for_each_fake(void (*part)(const char *))
{
    for (int i = 0; i < 3; i++) {
        int status;
        fflush(stdout);
        pid_t child = fork(); /* a process can load only one of the fake drivers */
        if (child == 0) {
            part(fakes[i]);
            fflush(stdout);
            _exit(failed_checks != 0);
        }
        waitpid(child, &status, 0);
        CHECK(status == 0, "%s: status %x", fakes[i], status);
    }
}

static void part_names(void)
{
    for_each_fake(names_of);
}

static void part_resolver(void)
{
    for_each_fake(resolver_of);
}

/* ---- the hook's file ---- */

/* Check that the file needs no C library symbol of a version above 2.17, so that it can be loaded on old systems. */
static void check_ceiling(const gwi_elf *elf)
{
    int versions = 0;
    for (const char *s = elf->strings; s < elf->strings + elf->string_bytes; s += strlen(s) + 1) {
        int major = 0, minor = 0;
        if (strncmp(s, "GLIBC_", 6) != 0)
            continue;
        versions++;
        CHECK(sscanf(s, "GLIBC_%d.%d", &major, &minor) == 2 && (major < 2 || (major == 2 && minor <= 17)), "needs %s",
              s);
    }
    CHECK(versions > 0, "no versions found: nothing was checked");
}

static void part_ceiling(void)
{
    gwi_elf elf;
    gw_error err;
    static const char *const others[] = {C10, STDERR, VIRTUAL};
    /* a virtual driver with sanitizers is never installed on another system, so it is not checked */
    for (int i = 0; i < (SANITIZER_RUNTIME[0] == '\0' ? 3 : 2); i++) {
        if (gwi_elf_open(others[i], &elf, &err) == GW_OK) {
            check_ceiling(&elf);
            gwi_elf_close(&elf);
        } else {
            CHECK(false, "%s", err.text);
        }
    }
    if (gwi_elf_open(HOOK, &elf, &err) != GW_OK) {
        CHECK(false, "%s", err.text);
        return;
    }
    check_ceiling(&elf);
    int exported = 0;
    for (uint32_t i = 0; i < elf.symbol_count; i++)
        exported += gwi_elf_symbol_exported(&elf.symbol[i]) &&
                    strncmp(gwi_elf_symbol_name(&elf, &elf.symbol[i]), "gpuwhy_", strlen("gpuwhy_")) != 0;
    CHECK(exported == 1, "%d names are visible beside gpuwhy_*, not one", exported);
    for (unsigned n = 0; gwi_elf_dyn_string(&elf, DT_NEEDED, n) != NULL; n++) {
        const char *needed = gwi_elf_dyn_string(&elf, DT_NEEDED, n);
        CHECK(strcmp(needed, "libc.so.6") == 0 || strcmp(needed, "libdl.so.2") == 0 ||
                  strcmp(needed, "libpthread.so.0") == 0 || strstr(needed, "san.so") != NULL,
              "needs %s", needed);
    }
    gwi_elf_close(&elf);
}

/* ---- programs that use no GPU ---- */

/* If `unless` is true, print the reason and return true: this part cannot run here, and the whole test counts as
 * skipped (exit status 77). */
static bool skip_part(bool unless, const char *reason)
{
    if (!unless)
        return false;
    printf("SKIPPED %s\n", reason);
    skipped_part = true;
    return true;
}

static double start_us(const char *const *argv, char *const *env)
{
    struct timespec a, b;
    pid_t child;
    int status = -1;
    clock_gettime(CLOCK_MONOTONIC, &a);
    if (posix_spawn(&child, argv[0], NULL, NULL, (char *const *)(uintptr_t)argv, env) != 0)
        return -1;
    waitpid(child, &status, 0);
    clock_gettime(CLOCK_MONOTONIC, &b);
    CHECK(status == 0, "%s: %x", argv[0], status);
    return (double)(b.tv_sec - a.tv_sec) * 1e6 + (double)(b.tv_nsec - a.tv_nsec) / 1e3;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void part_guests(void)
{
    if (skip_part(strstr(SANITIZER_RUNTIME, "tsan") != NULL,
                  "guests: /bin/sh does not bear the thread sanitizer alone"))
        return;
    enum { STARTS = 1000 };
    static double without_us[STARTS], with_us[STARTS];
    static const char *const tools[][4] = {{"/bin/true", NULL},
                                           {"/bin/sh", "-c", "x=1; test $x = 1", NULL},
                                           {"/bin/ls", "/", NULL},
                                           {"/usr/bin/env", "true", NULL}};
    char facade[512], preload[900], library_path[600], run_dir[256], run_setting[300], path[] = "PATH=/usr/bin:/bin";
    make_facade("fake_same", facade, sizeof facade);
    new_run_dir(run_dir, sizeof run_dir);
    set_preload(preload, sizeof preload, facade);
    snprintf(library_path, sizeof library_path, "LD_LIBRARY_PATH=%s", facade);
    snprintf(run_setting, sizeof run_setting, "GPUWHY_RUN_DIR=%s", run_dir);
    char *const bare[] = {path, NULL}, *const dressed[] = {path, preload, library_path, run_setting, NULL};
    int null = open("/dev/null", O_WRONLY), saved = dup(1);
    fflush(stdout);
    dup2(null, 1);
    for (int i = 0; i < STARTS; i++) {
        without_us[i] = start_us(tools[0], bare);
        with_us[i] = start_us(tools[0], dressed);
        if (i % 10 == 0)
            for (size_t t = 1; t < sizeof tools / sizeof tools[0]; t++)
                (void)start_us(tools[t], dressed);
    }
    dup2(saved, 1);
    close(null);
    CHECK(count_buffers(run_dir) == 0, "a tool without a GPU left a buffer");
    qsort(without_us, STARTS, sizeof(double), by_value);
    qsort(with_us, STARTS, sizeof(double), by_value);
    printf("%d starts of %s: median %.0f us without, %.0f us with the preload\n", STARTS, tools[0][0],
           without_us[STARTS / 2], with_us[STARTS / 2]);
}

/* ---- single steps ---- */

static void step_through(bool with_sites)
{
    char facade[512], preload[900], run_dir[256], run_setting[300], path[512], library_path[600];
    make_facade("fake_same", facade, sizeof facade);
    new_run_dir(run_dir, sizeof run_dir);
    set_preload(preload, sizeof preload, facade);
    snprintf(run_setting, sizeof run_setting, "GPUWHY_RUN_DIR=%s", run_dir);
    snprintf(library_path, sizeof library_path, "LD_LIBRARY_PATH=" FAKES "/fake_same");
    const char *sites = with_sites ? "GPUWHY_SITES=1" : "GPUWHY_SITES=0";
    char *const env[] = {preload,
                         run_setting,
                         library_path,
                         (char *)(uintptr_t) "GPUWHY_ATTACH=0",
                         (char *)(uintptr_t)no_leaks,
                         (char *)(uintptr_t)sites,
                         NULL};
    /* With call sites, call only eight functions: recording a new site takes many steps, and all events are read after
     * each step. */
    char *const argv[] = {(char *)(uintptr_t)STEPPER, with_sites ? (char *)(uintptr_t) "8" : NULL, NULL};
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        execve(argv[0], argv, env);
        _exit(127);
    }
    int status, events = 0;
    long steps = 0;
    const void *map = NULL;
    bool inside = false;
    waitpid(child, &status, 0);
    if (skip_part(!WIFSTOPPED(status), "single steps: ptrace is not allowed here"))
        return;
    ptrace(PTRACE_CONT, child, NULL, NULL);
    while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
        int signal_number = WSTOPSIG(status);
        if (signal_number == SIGSTOP) { /* the stepper sends itself this signal before and after the calls to test */
            inside = !inside;
            if (map == NULL && walk_find(run_dir, 0, path, sizeof path))
                map = walk_open(path);
        } else if (signal_number != SIGTRAP) {
            CHECK(false, "the stepper got signal %d", signal_number);
            kill(child, SIGKILL);
            break;
        }
        if (inside && map != NULL) {
            steps++;
            if (!walk_map(&seen, map)) {
                CHECK(false, "after %ld steps: %s", steps, seen.fault);
                kill(child, SIGKILL);
                break;
            }
            if (seen.event_count < events)
                CHECK(false, "after %ld steps events vanished", steps);
            events = seen.event_count;
        }
        ptrace(inside ? PTRACE_SINGLESTEP : PTRACE_CONT, child, NULL, NULL);
    }
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", status);
    CHECK(map != NULL && steps > 1000, "%ld steps", steps);
    bool kinds[GW_EV_COUNT] = {false};
    for (int i = 0; map != NULL && i < seen.event_count; i++)
        kinds[seen.event[i].raw.kind] = true;
    CHECK(kinds[GW_EV_SITE_FRAMES] == with_sites, "call sites where none were asked for, or none where they were");
    int missing = 0;
    for (int fn = 0; fn < GW_FN_COUNT && !with_sites; fn++)
        if ((gw_api_fns[fn].flags & GW_API_PUBLIC) && !(gw_api_fns[fn].flags & GW_API_INSTEAD) &&
            !kinds[gw_api_fns[fn].kind]) {
            missing++;
            printf("no event of the kind of %s\n", gw_api_fns[fn].symbol);
            kinds[gw_api_fns[fn].kind] = true;
        }
    CHECK(missing == 0, "%d kinds without an event", missing);
    printf("%ld instructions, %d events, every state between two instructions was whole\n", steps, events);
}

static void part_steps(void)
{
    if (skip_part(strstr(SANITIZER_RUNTIME, "tsan") != NULL,
                  "single steps: most of them would be the thread sanitizer's own, for a quarter of an hour"))
        return;
    step_through(false);
    if (SANITIZER_RUNTIME[0] == '\0')
        step_through(true);
    else
        printf("call sites were not stepped through: most steps would be the sanitizer's own\n");
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {{"routes", part_routes},     {"names", part_names},         {"resolver", part_resolver},
                 {"buffer", part_buffer},     {"kernels", part_kernels},     {"launch_places", part_launch_places},
                 {"room", part_room},         {"processes", part_processes}, {"fork_sites", part_fork_sites},
                 {"reads", part_reads},       {"guard", part_guard},         {"guard_kinds", part_guard_kinds},
                 {"inject", part_inject},     {"fence", part_fence},         {"threads", part_threads},
                 {"fallback", part_fallback}, {"ceiling", part_ceiling},     {"guests", part_guests},
                 {"steps", part_steps},       {"switch", part_switch}};
    const char *tmp = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(base_dir, sizeof base_dir, "%s/gpuwhy-hook-test-XXXXXX", tmp);
    if (argc != 2 || mkdtemp(base_dir) == NULL)
        return 2;
    bool known = false;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (strcmp(parts[i].name, argv[1]) == 0) {
            known = true;
            parts[i].run();
        }
    }
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", base_dir);
    if (getenv("KEEP") == NULL && system(command) != 0)
        printf("%s was left behind\n", base_dir);
    printf("%s: %d checks, %d failed\n", argv[1], checks, failed_checks);
    if (skipped_part && checks == 0)
        return 77;
    return !known || failed_checks != 0;
}
