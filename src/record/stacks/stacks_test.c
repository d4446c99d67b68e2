/* Tests the reading of stacks from outside a process. The process is a child whose threads wait for different
 * things. */
#define _GNU_SOURCE
#include "gw_stacks.h"
#include "gw_text.h"
#include "gw_unit_test.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Shared memory of the test and its child. */
typedef struct board {
    _Atomic int ready, surprises, stop, hurry;
    _Atomic uint32_t tid[8];
} board;
static board *shared;
enum { PATIENCE_MS = 200000 };
enum { LEFT, RIGHT, JOINER, READER, SLEEPER, SPINNER, POLLER, IDLER, ROLES };

static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;
static int pipe_fds[2];
static pthread_t left_thread;
static _Atomic int holding;

static void arrive(int role, const char *name)
{
    prctl(PR_SET_NAME, name);
    shared->tid[role] = (uint32_t)gettid();
    shared->ready++;
}

static void wait_for_second(void)
{
    pthread_mutex_lock(&second);
    shared->surprises++; /* never reached: left and right are in a deadlock */
}

static void *left(void *nothing)
{
    pthread_mutex_lock(&first);
    holding++;
    while (holding < 2)
        usleep(1000);
    arrive(LEFT, "left");
    wait_for_second();
    return nothing;
}

static void *right(void *nothing)
{
    pthread_mutex_lock(&second);
    holding++;
    while (holding < 2)
        usleep(1000);
    arrive(RIGHT, "right");
    pthread_mutex_lock(&first);
    return nothing;
}

static void *joiner(void *nothing)
{
    arrive(JOINER, "joiner");
    pthread_join(left_thread, NULL);
    return nothing;
}

static void *reader(void *nothing)
{
    char byte;
    arrive(READER, "reader");
    shared->surprises += read(pipe_fds[0], &byte, 1) < 0;
    return nothing;
}

static void *sleeper(void *nothing)
{
    struct timespec tenth = {.tv_nsec = 100000000};
    arrive(SLEEPER, "sleeper");
    while (!shared->stop)
        shared->surprises += clock_nanosleep(CLOCK_MONOTONIC, 0, &tenth, NULL) != 0;
    return nothing;
}

static void *spinner(void *nothing)
{
    arrive(SPINNER, "spinner");
    while (!shared->stop)
        continue;
    return nothing;
}

static void *poller(void *nothing)
{
    struct epoll_event event;
    int fd = epoll_create1(0);
    arrive(POLLER, "poller");
    while (!shared->stop)
        shared->surprises += epoll_wait(fd, &event, 1, shared->hurry ? 1 : 100) < 0;
    return nothing;
}

/* After a stop, this call continues as restart_syscall. */
static void *idler(void *nothing)
{
    arrive(IDLER, "idler");
    shared->surprises += poll(NULL, 0, -1) != 0;
    return nothing;
}

static void *(*const roles[ROLES])(void *) = {left, right, joiner, reader, sleeper, spinner, poller, idler};

static _Noreturn void be_child(void)
{
    pthread_t thread[ROLES];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int i = 0; i < ROLES; i++) {
        pthread_create(&thread[i], NULL, roles[i], NULL);
        if (i == LEFT)
            left_thread = thread[i];
    }
    for (;;)
        pause();
}

/* Wait until the thread sleeps. Use this only for a thread that enters one system call, sleeps, and stays there. */
static void wait_for_sleep(pid_t pid, uint32_t tid)
{
    enum { LOOKS = 10 };
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%d/task/%u/stat", (int)pid, tid);
    for (int ms = 0, asleep = 0; ms < PATIENCE_MS; ms++) {
        FILE *stat = fopen(path, "re");
        assert_non_null(stat);
        const char *got = fgets(line, sizeof line, stat), *name_end = got == NULL ? NULL : strrchr(got, ')');
        fclose(stat);
        asleep = name_end != NULL && gw_begins(name_end, ") S") ? asleep + 1 : 0;
        if (asleep == LOOKS)
            return;
        usleep(1000);
    }
    fail_msg("thread %u does not come to rest", tid);
}

static pid_t start_child(void)
{
    memset(shared, 0, sizeof *shared);
    assert_int_equal(pipe(pipe_fds), 0);
    pid_t pid = fork();
    if (pid == 0)
        be_child();
    for (int ms = 0; shared->ready < ROLES && ms < PATIENCE_MS; ms++)
        usleep(1000);
    assert_int_equal(shared->ready, ROLES);
    /* these threads call arrive() shortly before they sleep, so they may not sleep yet */
    for (int role = LEFT; role <= READER; role++)
        wait_for_sleep(pid, shared->tid[role]);
    wait_for_sleep(pid, shared->tid[IDLER]);
    return pid;
}

static void end_child(pid_t pid)
{
    kill(pid, SIGKILL);
    close(pipe_fds[0]);
    close(pipe_fds[1]);
    /* the child cannot end while one of its threads is still stopped: release it */
    while (waitpid(pid, NULL, WNOHANG) == 0) {
        gw_stacks_let_go();
        usleep(1000);
    }
}

static const gw_stack_thread *thread_of(const gw_stack_process *process, int role)
{
    for (size_t i = 0; i < process->thread_count; i++) {
        if (process->thread[i].tid == shared->tid[role])
            return &process->thread[i];
    }
    fail();
    return NULL;
}

/* Return true if a frame of the thread is in `function`, which is smaller than 512 bytes. The child was forked from
 * this process, so `function` has the same address there. */
static bool stands_in(const gw_stack_thread *thread, void (*function)(void))
{
    enum { FUNCTION_BYTES_MAX = 512 };
    for (size_t i = 0; i < thread->frame_count; i++) {
        if (thread->frame[i] - (uintptr_t)function <= FUNCTION_BYTES_MAX)
            return true;
    }
    return false;
}

/* Return true if the frame at `address` is in a listed mapping of this program's file. */
static bool is_mapped(const gw_stack_process *process, uint64_t address)
{
    for (size_t i = 0; i < process->mapping_count; i++) {
        const gw_stack_mapping *mapping = &process->mapping[i];
        if (address - mapping->start < mapping->bytes)
            return strstr(mapping->path, "stacks_test") != NULL && mapping->bias <= mapping->start;
    }
    return false;
}

GW_TEST(what_threads_wait_for_is_seen)
{
    pid_t pid = start_child();
    gw_stack_process *process = NULL;
    gw_error err;
    assert_int_equal(gw_stacks_look((uint32_t)pid, false, &process, &err), GW_OK);
    assert_true(process->thread_count >= ROLES + 1); /* not ==, because a sanitizer may add a thread */
    if (process->no_waits[0] != '\0') {
        print_message("skipped: %s\n", process->no_waits);
    } else {
        assert_int_equal(thread_of(process, LEFT)->wait, GW_WAIT_LOCK);
        assert_int_equal(thread_of(process, LEFT)->owner_tid, shared->tid[RIGHT]);
        assert_int_equal(thread_of(process, RIGHT)->wait, GW_WAIT_LOCK);
        assert_int_equal(thread_of(process, RIGHT)->owner_tid, shared->tid[LEFT]);
        assert_int_equal(thread_of(process, JOINER)->wait, GW_WAIT_JOIN);
        assert_int_equal(thread_of(process, JOINER)->owner_tid, shared->tid[LEFT]);
        assert_int_equal(thread_of(process, READER)->wait, GW_WAIT_INPUT);
        assert_int_equal(thread_of(process, SPINNER)->wait, GW_WAIT_RUNNING);
        assert_string_equal(thread_of(process, SLEEPER)->name, "sleeper");
    }
    gw_stack_process_free(process);
    end_child(pid);
}

GW_TEST(stacks_are_read_and_nobody_notices)
{
    pid_t pid = start_child();
    gw_error err;
    for (int i = 0; i < 20; i++) {
        gw_stack_process *process = NULL;
        assert_int_equal(gw_stacks_look((uint32_t)pid, true, &process, &err), GW_OK);
        const gw_stack_thread *thread = thread_of(process, LEFT);
        if (strstr(process->no_stacks, "permission") != NULL) {
            print_message("skipped: %s\n", process->no_stacks);
        } else {
            assert_true(stands_in(thread, wait_for_second));
            assert_true(is_mapped(process, (uintptr_t)wait_for_second));
            assert_true(stands_in(thread, (void (*)(void))left));
            assert_true(stands_in(thread_of(process, SPINNER), (void (*)(void))spinner));
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* their read() uses a frame pointer */
            /* not stopped, because a stop may interrupt a read */
            assert_true(stands_in(thread_of(process, READER), (void (*)(void))reader));
#endif
            assert_int_equal(thread_of(process, READER)->fd, pipe_fds[0]);
            if (thread_of(process, IDLER)->where[0] != '\0') /* else the kernel does not say where threads sleep */
                assert_int_equal(thread_of(process, IDLER)->wait, GW_WAIT_INPUT);
            assert_true(process->stops > 0 && process->stop_ns_max > 0);
        }
        gw_stack_process_free(process);
        gw_stacks_let_go();
    }
    assert_int_equal(shared->surprises, 0);
    /* the poller's calls now take 1 ms, so it may be stopped in a call or between two calls */
    shared->hurry = 1;
    for (int i = 0; i < 100; i++) {
        gw_stack_process *process = NULL;
        assert_int_equal(gw_stacks_look((uint32_t)pid, true, &process, &err), GW_OK);
        gw_stack_process_free(process);
    }
    assert_int_equal(shared->surprises, 0);
    shared->stop = 1;
    usleep(300000);
    assert_int_equal(shared->surprises, 0);
    end_child(pid);
}

static pid_t start_child_that_ends(void)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    return pid;
}

GW_TEST(who_is_gone_is_missing)
{
    gw_stack_process *process = NULL;
    gw_error err;
    pid_t pid = start_child_that_ends();
    waitpid(pid, NULL, 0);
    assert_int_equal(gw_stacks_look((uint32_t)pid, true, &process, &err), GW_MISSING);
    assert_null(process);
    uint64_t ms;
    assert_false(gw_stacks_cpu_ms((uint32_t)pid, &ms));
    assert_true(gw_stacks_cpu_ms((uint32_t)getpid(), &ms));
}

/* The child has ended, but the test has not waited for it yet. Its thread is still listed, but has no frames. */
GW_TEST(a_zombie_does_no_harm)
{
    gw_stack_process *process = NULL;
    gw_error err;
    pid_t pid = start_child_that_ends();
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(gw_stacks_look((uint32_t)pid, true, &process, &err), GW_OK);
    assert_int_equal(process->thread[0].frame_count, 0);
    gw_stack_process_free(process);
    waitpid(pid, NULL, 0);
}

static int share_board(void **state)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared == MAP_FAILED;
}

GW_TEST_MAIN(share_board, NULL)
