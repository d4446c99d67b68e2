/* Programs for test_poke.py: each stands in one way until a file appears. It then prints "done", or "harmed" if one of
 * its system calls returned early.
 *
 *     poke_shapes SHAPE FILE */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *go;
static _Atomic int harmed;
static _Atomic unsigned long turns;
static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t both;

static void *end_on_go(void *nothing)
{
    prctl(PR_SET_NAME, "watcher");
    while (access(go, F_OK) != 0)
        usleep(10000);
    puts(harmed != 0 ? "harmed" : "done");
    fflush(stdout);
    _exit(harmed != 0);
    return nothing;
}

/* A call that must not return ended. */
static void must_not_return(long result)
{
    printf("%ld: %s\n", result, strerror(errno));
    harmed = 1;
    for (;;)
        pause();
}

static void *hold(void *nothing)
{
    prctl(PR_SET_NAME, "holder");
    pthread_mutex_lock(&first);
    pthread_barrier_wait(&both);
    for (;;)
        sleep(1000);
    return nothing;
}

static void wait_for_holder(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, hold, NULL);
    pthread_barrier_wait(&both);
    must_not_return(pthread_mutex_lock(&first));
}

static void *take_second(void *nothing)
{
    pthread_mutex_lock(&second);
    pthread_barrier_wait(&both);
    must_not_return(pthread_mutex_lock(&first));
    return nothing;
}

static void deadlock(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, take_second, NULL);
    pthread_mutex_lock(&first);
    pthread_barrier_wait(&both);
    must_not_return(pthread_mutex_lock(&second));
}

static void spin(void)
{
    for (;;)
        turns++;
}

static void read_fifo(void)
{
    char byte;
    char path[4096];
    snprintf(path, sizeof path, "%s.fifo", go);
    must_not_return(read(open(path, O_RDWR), &byte, 1));
}

/* With a time limit, a stop would end the call with EINTR. */
static void receive(void)
{
    int ends[2];
    char byte;
    const struct timeval limit = {.tv_sec = 1000};
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0 ||
        setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0)
        exit(2);
    must_not_return(recv(ends[0], &byte, 1, 0));
}

static void wait_for_events(void)
{
    struct epoll_event event;
    must_not_return(epoll_wait(epoll_create1(0), &event, 1, 1000000));
}

static void wait_for_files(void)
{
    struct timeval limit = {.tv_sec = 1000};
    must_not_return(select(0, NULL, NULL, NULL, &limit));
}

/* The parent of a vfork cannot be interrupted until the child has ended. */
static void fork_and_wait(void)
{
    pid_t child = vfork();
    if (child == 0) {
        while (access(go, F_OK) != 0)
            usleep(10000);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    for (;;)
        pause();
}

static void *be_idle(void *name)
{
    prctl(PR_SET_NAME, name);
    for (;;)
        sleep(1000);
    return NULL;
}

static void name_threads(void)
{
    static char names[3][8] = {"loader0", "loader1", "loader2"};
    pthread_t thread;
    for (int i = 0; i < 3; i++)
        pthread_create(&thread, NULL, be_idle, names[i]);
    be_idle(names[0]);
}

/* ---- waits in the kernel ---- */

/* Fill a pipe that nothing reads. */
static void write_pipe(void)
{
    int ends[2];
    static char bytes[1 << 20];
    must_not_return(pipe(ends) == 0 ? write(ends[1], bytes, sizeof bytes) : -1);
}

static void lock_file(void)
{
    char path[4096];
    snprintf(path, sizeof path, "%s.lock", go);
    int held = open(path, O_RDWR | O_CREAT, 0600);
    must_not_return(flock(held, LOCK_EX) == 0 ? flock(open(path, O_RDWR), LOCK_EX) : -1);
}

static void form_crowd(void)
{
    enum { CROWD = 200 };
    static char name[] = "crowd";
    pthread_t thread;
    for (int i = 1; i < CROWD - 1; i++)
        if (pthread_create(&thread, NULL, be_idle, name) != 0)
            exit(2);
    be_idle(name);
}

/* ---- calls that return again and again, and must return the same as without gpuwhy ---- */

static int ends[2];
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;

static void expect(bool holds)
{
    if (!holds)
        must_not_return(0);
}

static void *nap(void *nothing)
{
    const struct timespec wanted = {.tv_nsec = 2000000};
    for (;;) {
        struct timespec before, after;
        clock_gettime(CLOCK_MONOTONIC, &before);
        expect(nanosleep(&wanted, NULL) == 0);
        clock_gettime(CLOCK_MONOTONIC, &after);
        expect((after.tv_sec - before.tv_sec) * 1000000000l + after.tv_nsec - before.tv_nsec >= wanted.tv_nsec);
    }
    return nothing;
}

static void *send_bytes(void *nothing)
{
    for (unsigned char byte = 0;; byte++) {
        expect(write(ends[1], &byte, 1) == 1);
        expect(usleep(1000) == 0);
    }
    return nothing;
}

static void *receive_bytes(void *nothing)
{
    unsigned char byte;
    for (unsigned char wanted = 0;; wanted++)
        expect(read(ends[0], &byte, 1) == 1 && byte == wanted);
    return nothing;
}

/* The two threads take turns: `turns` is even when this thread has the turn. */
static void *take_turns(void *odd)
{
    unsigned long mine = odd != NULL;
    pthread_mutex_lock(&turn);
    for (;; pthread_cond_signal(&turned)) {
        while (turns % 2 != mine)
            expect(pthread_cond_wait(&turned, &turn) == 0);
        turns++;
        expect(usleep(500) == 0);
    }
    return NULL;
}

static void *poll_nothing(void *nothing)
{
    for (;;)
        expect(poll(NULL, 0, 3) == 0);
    return nothing;
}

static void *wait_for_no_event(void *nothing)
{
    struct epoll_event event;
    int fd = epoll_create1(0);
    for (;;)
        expect(epoll_wait(fd, &event, 1, 3) == 0);
    return nothing;
}

static void repeat_calls(void)
{
    static void *(*const calls[])(void *) = {nap,          send_bytes,        receive_bytes, take_turns,
                                             poll_nothing, wait_for_no_event, take_turns};
    pthread_t thread;
    if (pipe(ends) != 0)
        exit(2);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) /* the last one has the odd turns */
        if (pthread_create(&thread, NULL, calls[i], i == sizeof calls / sizeof calls[0] - 1 ? &turn : NULL) != 0)
            exit(2);
    unsigned long sum = 0; /* and this thread computes */
    for (unsigned long i = 1;; i++) {
        sum += i;
        expect(sum == i * (i + 1) / 2);
        if (i == 100000) {
            sum = i = 0;
            expect(usleep(1000) == 0);
        }
    }
}

static void hide(void)
{
    prctl(PR_SET_DUMPABLE, 0);
    for (;;)
        sleep(1000);
}

static const struct {
    const char *name;
    void (*run)(void);
} shapes[] = {{"mutex", wait_for_holder}, {"deadlock", deadlock},   {"spin", spin},
              {"fifo", read_fifo},        {"receive", receive},     {"epoll", wait_for_events},
              {"select", wait_for_files}, {"vfork", fork_and_wait}, {"names", name_threads},
              {"pipe", write_pipe},       {"flock", lock_file},     {"crowd", form_crowd},
              {"calls", repeat_calls},    {"hidden", hide}};

int main(int argc, char **argv)
{
    pthread_t thread;
    if (argc != 3)
        return 2;
    go = argv[2];
    pthread_barrier_init(&both, NULL, 2);
    if (pthread_create(&thread, NULL, end_on_go, NULL) != 0)
        return 2;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        if (strcmp(shapes[i].name, argv[1]) == 0)
            shapes[i].run();
    return 2;
}
