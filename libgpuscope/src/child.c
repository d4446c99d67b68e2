/* Run a function in a new process: start the program again, and let gs_child_main() call the function there.
 *
 * Input and output pass through two anonymous files. So neither process waits for the other, and the output survives if
 * the child dies. The child writes the header of the output last. When the child ends, an unused pipe is closed, which
 * wakes the parent. */
#include "gwi_scope.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define VARIABLE "GPUSCOPE_CHILD" /* "INPUT:OUTPUT:LIFE:NAME": three descriptor numbers, and the function's name */

typedef struct header {
    uint64_t magic; /* 0 while the function runs; header_magic once it has returned */
    int32_t status;
    int32_t has_failure;
    gs_failure failure;
} header;
static const uint64_t header_magic = 0x3130444C49485347u; /* the bytes "GSHILD01" in memory order */

struct gs_reply {
    int output;
};

extern char **environ;

/* the functions that may be run; set by gs_child_main(); borrowed from the program */
static const gs_child_entry *known_entries;
static const char *known_program;

static gs_status write_all(int fd, const void *data, size_t bytes)
{
    while (bytes > 0) {
        ssize_t written = write(fd, data, bytes);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return GS_NO_HOST_MEMORY;
        data = (const char *)data + written;
        bytes -= (size_t)written;
    }
    return GS_OK;
}

/* ---- in the child ---- */

gs_status gs_reply_write(gs_reply *reply, const void *data, size_t bytes)
{
    return reply == NULL ? GS_MISUSE : write_all(reply->output, data, bytes);
}

static void set_close_on_exec(int fd)
{
    int flags = fcntl(fd, F_GETFD);
    if (flags >= 0)
        fcntl(fd, F_SETFD, flags | FD_CLOEXEC);
}

static gs_status run(const gs_child_entry *entry, int input, int output)
{
    struct stat size;
    const void *data = NULL;
    gs_reply reply = {.output = output};
    if (fstat(input, &size) != 0)
        return GS_MISUSE;
    if (size.st_size > 0) {
        data = mmap(NULL, (size_t)size.st_size, PROT_READ, MAP_PRIVATE, input, 0);
        if (data == MAP_FAILED)
            return GS_NO_HOST_MEMORY;
    }
    return entry->function(data, (size_t)size.st_size, &reply);
}

void gs_child_main(int argc, char **argv, const gs_child_entry *entries)
{
    int input, output, life, used = 0;
    known_program = argc > 0 ? argv[0] : "";
    known_entries = entries;
    const char *asked = getenv(VARIABLE);
    if (asked == NULL)
        return;
    header end = {.status = GS_MISUSE};
    if (sscanf(asked, "%d:%d:%d:%n", &input, &output, &life, &used) != 3 || used == 0)
        _exit(127);
    const char *name = asked + used;
    while (entries->name != NULL && strcmp(entries->name, name) != 0)
        entries++;
    set_close_on_exec(input);
    set_close_on_exec(output);
    set_close_on_exec(life);
    unsetenv(VARIABLE); /* this invalidates `name`, which is not used below */
    if (entries->name != NULL)
        end.status = run(entries, input, output);
    end.has_failure = gwi_process_failure(&end.failure);
    end.magic = header_magic;
    fflush(NULL);
    if (pwrite(output, &end, sizeof end, 0) != (ssize_t)sizeof end)
        exit(127);
    exit(end.status == GS_OK ? 0 : 1);
}

/* ---- in the parent ---- */

typedef struct child {
    int input, output, life_read, life_write; /* -1: closed */
    pid_t pid;
} child;

static void close_one(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void close_all(child *c)
{
    close_one(&c->input);
    close_one(&c->output);
    close_one(&c->life_read);
    close_one(&c->life_write);
}

static gs_status make_files(child *c, const void *input, size_t input_bytes)
{
    header none = {0};
    int life[2];
    c->input = memfd_create("gpuscope-input", MFD_CLOEXEC);
    c->output = memfd_create("gpuscope-output", MFD_CLOEXEC);
    if (c->input < 0 || c->output < 0 || pipe2(life, O_CLOEXEC) != 0)
        return GS_FAILED;
    c->life_read = life[0];
    c->life_write = life[1];
    gs_status status = write_all(c->input, input, input_bytes);
    return status == GS_OK ? write_all(c->output, &none, sizeof none) : status;
}

/* Build the child's environment. The caller owns the returned array and its first string. Returns NULL if there is no
 * memory. */
static char **make_environment(const char *name, const int numbers[3])
{
    size_t count = 0;
    while (environ[count] != NULL)
        count++;
    char **copy = calloc(count + 2, sizeof *copy);
    char *line = NULL;
    if (copy == NULL || asprintf(&line, VARIABLE "=%d:%d:%d:%s", numbers[0], numbers[1], numbers[2], name) < 0) {
        free(copy);
        return NULL;
    }
    copy[0] = line;
    memcpy(copy + 1, environ, count * sizeof *copy);
    return copy;
}

/* Start the child with three descriptors, whose numbers are in its environment (GPUSCOPE_CHILD). Other children of this
 * process do not inherit them. */
static gs_status start(child *c, const char *name)
{
    gs_status status = GS_FAILED;
    int numbers[3] = {-1, -1, -1};
    char *argv[] = {(char *)(uintptr_t)known_program, NULL};
    char **environment = NULL;
    posix_spawn_file_actions_t actions;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return GS_NO_HOST_MEMORY;
    numbers[0] = fcntl(c->input, F_DUPFD_CLOEXEC, 100);
    numbers[1] = fcntl(c->output, F_DUPFD_CLOEXEC, 100);
    numbers[2] = fcntl(c->life_write, F_DUPFD_CLOEXEC, 100);
    if (numbers[0] < 0 || numbers[1] < 0 || numbers[2] < 0)
        goto out;
    environment = make_environment(name, numbers);
    if (environment == NULL) {
        status = GS_NO_HOST_MEMORY;
        goto out;
    }
    /* Duplicate each descriptor onto itself: this clears close-on-exec, but only in the child. */
    for (int i = 0; i < 3; i++) {
        if (posix_spawn_file_actions_adddup2(&actions, numbers[i], numbers[i]) != 0)
            goto out;
    }
    errno = posix_spawn(&c->pid, "/proc/self/exe", &actions, NULL, argv, environment);
    status = errno == 0 ? GS_OK : GS_FAILED;
out:
    for (int i = 0; i < 3; i++)
        close_one(&numbers[i]);
    if (environment != NULL)
        free(environment[0]);
    free(environment);
    posix_spawn_file_actions_destroy(&actions);
    return status;
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Wait until the child ends. After the timeout, kill the child and return false. If `timeout_ms` is 0, return true at
 * once: the caller then waits without a limit. */
static bool wait_for_end(const child *c, unsigned timeout_ms)
{
    int64_t until = now_ms() + timeout_ms;
    while (timeout_ms != 0) {
        struct pollfd life = {.fd = c->life_read, .events = POLLIN};
        int64_t left = until - now_ms();
        int ready = left <= 0 ? 0 : poll(&life, 1, left > 1000000 ? 1000000 : (int)left);
        if (ready > 0)
            return true;
        if (ready == 0 && now_ms() >= until) {
            kill(c->pid, SIGKILL);
            return false;
        }
    }
    return true;
}

static void read_output(int output, gs_child_result *result)
{
    header end;
    struct stat size;
    if (pread(output, &end, sizeof end, 0) != (ssize_t)sizeof end || fstat(output, &size) != 0)
        return;
    if (end.magic == header_magic) {
        result->status = end.status >= 0 && end.status < GS_STATUS_COUNT ? (gs_status)end.status : GS_FAILED;
        result->has_failure = end.has_failure != 0;
        result->failure = end.failure;
    }
    size_t bytes = (size_t)size.st_size - sizeof end;
    result->output = bytes == 0 ? NULL : malloc(bytes);
    if (result->output == NULL)
        return;
    size_t got = 0;
    while (got < bytes) {
        ssize_t part = pread(output, (char *)result->output + got, bytes - got, (off_t)(sizeof end + got));
        if (part <= 0)
            break;
        got += (size_t)part;
    }
    result->output_bytes = got;
}

static const char *entry_name(gs_child_function *function)
{
    for (const gs_child_entry *entry = known_entries; entry != NULL && entry->name != NULL; entry++) {
        if (entry->function == function)
            return entry->name;
    }
    return NULL;
}

gs_status gs_run_in_child(gs_child_function *function, const void *input, size_t input_bytes, unsigned timeout_ms,
                          gs_child_result *ret_result)
{
    child c = {-1, -1, -1, -1, 0};
    const char *name = entry_name(function);
    gs_child_result result = {.status = GS_CHILD_DIED};
    int ended = 0;
    if (name == NULL)
        return GS_MISUSE;
    gs_status status = make_files(&c, input, input_bytes);
    if (status == GS_OK)
        status = start(&c, name);
    if (status != GS_OK)
        goto out;
    close_one(&c.life_write);
    bool in_time = wait_for_end(&c, timeout_ms);
    while (waitpid(c.pid, &ended, 0) < 0 && errno == EINTR)
        ;
    result.exit_status = WIFEXITED(ended) ? WEXITSTATUS(ended) : -1;
    result.signal = WIFSIGNALED(ended) ? WTERMSIG(ended) : 0;
    read_output(c.output, &result);
    if (!in_time && result.signal == SIGKILL)
        result.status = GS_TIMEOUT;
    *ret_result = result;
out:
    close_all(&c);
    return status;
}
