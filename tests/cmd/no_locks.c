/* Preloaded: a file system without locks. fcntl() refuses every lock with the error of NO_LOCKS_ERRNO, and counts the
 * refusals as bytes in the file NO_LOCKS_COUNT. Everything else goes to the C library. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static int refuse(void)
{
    const char *path = getenv("NO_LOCKS_COUNT"), *error = getenv("NO_LOCKS_ERRNO");
    int fd = path == NULL ? -1 : open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd >= 0) {
        (void)!write(fd, "x", 1);
        close(fd);
    }
    errno = error == NULL ? ENOLCK : atoi(error);
    return -1;
}

static int call(int fd, int command, void *argument)
{
    if (command == F_SETLK || command == F_SETLKW || command == F_GETLK)
        return refuse();
    return (int)syscall(SYS_fcntl, fd, command, argument);
}

int fcntl(int fd, int command, ...)
{
    va_list list;
    va_start(list, command);
    void *argument = va_arg(list, void *);
    va_end(list);
    return call(fd, command, argument);
}

int fcntl64(int fd, int command, ...);
int fcntl64(int fd, int command, ...)
{
    va_list list;
    va_start(list, command);
    void *argument = va_arg(list, void *);
    va_end(list);
    return call(fd, command, argument);
}
