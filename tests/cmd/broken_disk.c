/* Preloaded: a disk that fails or blocks. As soon as the file BROKEN_FROM exists, what gpuwhy writes to files in the
 * folder BROKEN_DISK fails with the error BROKEN_ERRNO; or only the close() of these files, if BROKEN_CLOSE is set.
 * Without BROKEN_ERRNO, it blocks until the file BROKEN_UNTIL exists, and the file BROKEN_WAITS says so. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool exists(const char *variable)
{
    const char *path = getenv(variable);
    return path != NULL && access(path, F_OK) == 0;
}

static bool is_broken(int fd, bool by_close)
{
    char link[64], path[4096] = "";
    const char *folder = getenv("BROKEN_DISK");
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    return folder != NULL && strcmp(program_invocation_short_name, "gpuwhy") == 0 &&
           (getenv("BROKEN_CLOSE") != NULL) == by_close && exists("BROKEN_FROM") &&
           readlink(link, path, sizeof path - 1) > 0 && strncmp(path, folder, strlen(folder)) == 0;
}

/* Returns true if the call fails, with the reason in errno. */
static bool fails(int fd, bool by_close)
{
    const char *error = getenv("BROKEN_ERRNO"), *waits = getenv("BROKEN_WAITS");
    int before = errno;
    if (!is_broken(fd, by_close)) {
        errno = before;
        return false;
    }
    if (error == NULL && waits != NULL) {
        syscall(SYS_close, open(waits, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        while (!exists("BROKEN_UNTIL"))
            poll(NULL, 0, 5);
    }
    errno = error == NULL ? before : atoi(error);
    return error != NULL;
}

ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at)
{
    return fails(fd, false) ? -1 : syscall(SYS_pwrite64, fd, data, bytes, at);
}

int fallocate(int fd, int mode, off_t at, off_t bytes)
{
    return fails(fd, false) ? -1 : (int)syscall(SYS_fallocate, fd, mode, at, bytes);
}

int close(int fd)
{
    bool is_lost = fails(fd, true);
    int why = errno, ret = (int)syscall(SYS_close, fd);
    errno = is_lost ? why : errno;
    return is_lost ? -1 : ret;
}
