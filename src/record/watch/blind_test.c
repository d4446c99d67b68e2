/* Tests which processes a run may claim, and which frameworks hide memory. This process plays the program of a run. */
#include "watch_testlib.h"

#include "gw_frameworks.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static gwi_history history;

static void only_processes_of_the_owner_count(void **state)
{
    uint32_t self = (uint32_t)getpid();
    gw_live live = {.pid_count = 3, .pid = {1, self, 0x7ffffff0}, .has_cache = {0, 1, 0}};
    (void)state;
    gwi_run_confine(&live, getuid());
    assert_true(live.pid_count >= 1 && live.pid_count <= 2); /* root may claim process 1 */
    assert_true(live.pid[live.pid_count - 1] == self && live.has_cache[live.pid_count - 1] == 1);
    gwi_run_confine(&live, getuid() + 1);
    assert_int_equal(live.pid_count, 0);
}

/* Map an empty library of this name. */
static void *map(const char *name)
{
    char folder[] = "/tmp/gpuwhy-blind-XXXXXX", path[100];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0 && ftruncate(fd, 4096) == 0);
    void *at = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(at != MAP_FAILED);
    close(fd);
    unlink(path);
    rmdir(folder);
    return at;
}

static uint32_t blind_pid(uint8_t has_cache, uint64_t now_ns)
{
    gw_watch_run run = {.is = {.pid_count = 1, .pid = {(uint32_t)getpid()}, .has_cache = {has_cache}}};
    gwi_run_look_blind(&run, &history, now_ns);
    assert_false(run.is_unseen);
    return run.blind_pid;
}

static void frameworks_hide_what_is_not_followed(void **state)
{
    const uint64_t s = 1000000000u;
    (void)state;
    assert_int_equal(blind_pid(0, s), 0);
    void *torch = map("libc10_cuda.so");
    assert_int_equal(blind_pid(0, 2 * s), 0); /* not looked at again so soon */
    assert_int_equal(blind_pid(0, 12 * s), getpid());
    assert_int_equal(blind_pid(1, 12 * s), 0); /* its allocator is followed */
    void *jax = map("xla_extension.so");
    assert_int_equal(blind_pid(1, 23 * s), getpid());
    munmap(torch, 4096);
    munmap(jax, 4096);
    assert_int_equal(blind_pid(0, 34 * s), 0);
}

static void without_maps_it_is_not_certain(void **state)
{
    gw_watch_run run = {.is = {.pid_count = 1}};
    (void)state;
    pid_t child = fork(); /* a process that has ended and was not waited for has no maps */
    if (child == 0)
        _exit(0);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    run.is.pid[0] = (uint32_t)child;
    gwi_run_look_blind(&run, &history, 1);
    assert_true(run.blind_pid == 0 && run.is_unseen);
    waitpid(child, NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_processes_of_the_owner_count),
        cmocka_unit_test(frameworks_hide_what_is_not_followed),
        cmocka_unit_test(without_maps_it_is_not_certain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
