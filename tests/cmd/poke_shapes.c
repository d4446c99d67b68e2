/* Programs for test_poke.py: each stands in one way until a file appears. It then prints "done", or "harmed" if one of
 * its system calls returned early.
 *
 *     poke_shapes SHAPE FILE */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
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

static void hide(void)
{
    prctl(PR_SET_DUMPABLE, 0);
    for (;;)
        sleep(1000);
}

static const struct {
    const char *name;
    void (*run)(void);
} shapes[] = {{"mutex", wait_for_holder},
              {"deadlock", deadlock},
              {"spin", spin},
              {"fifo", read_fifo},
              {"receive", receive},
              {"epoll", wait_for_events},
              {"select", wait_for_files},
              {"vfork", fork_and_wait},
              {"names", name_threads},
              {"hidden", hide}};

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
