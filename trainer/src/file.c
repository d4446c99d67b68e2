/* Read whole files into memory, and replace files. */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

/* Read bytes->count bytes from the file. Returns false on an error, or if the file has become shorter. */
static bool fill(int fd, const char *path, struct bytes *bytes, struct reason *reason)
{
    for (size_t at = 0; at < bytes->count;) {
        ssize_t got = read(fd, bytes->data + at, bytes->count - at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return because(reason, "%s: %s", path, strerror(errno));
        if (got == 0)
            return because(reason, "%s: ends at byte %zu of %zu", path, at, bytes->count);
        at += (size_t)got;
    }
    return true;
}

static bool read_open(int fd, const char *path, uint64_t most, struct bytes *ret, struct reason *reason)
{
    struct stat about;
    if (fstat(fd, &about) != 0)
        return because(reason, "%s: %s", path, strerror(errno));
    if (!S_ISREG(about.st_mode))
        return because(reason, "%s: not a regular file", path);
    char has[EXACT_TEXT_BYTES], allowed[EXACT_TEXT_BYTES];
    if ((uint64_t)about.st_size > most)
        return because(reason, "%s: %s, but at most %s are allowed", path, exact_text((uint64_t)about.st_size, has),
                       exact_text(most, allowed));
    struct bytes bytes = {.data = malloc((size_t)about.st_size + 1), .count = (size_t)about.st_size};
    if (bytes.data == NULL)
        return because(reason, "%s: no host memory for %s", path, exact_text(bytes.count, has));
    if (!fill(fd, path, &bytes, reason)) {
        bytes_clear(&bytes);
        return false;
    }
    *ret = bytes;
    return true;
}

bool bytes_read(const char *path, uint64_t most, struct bytes *ret, struct reason *reason)
{
    /* do not block if the file is a pipe; read_open() rejects it */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return because(reason, "%s: %s", path, strerror(errno));
    bool is_read = read_open(fd, path, most, ret, reason);
    close(fd);
    return is_read;
}

void bytes_clear(struct bytes *bytes)
{
    free(bytes->data);
    *bytes = (struct bytes){0};
}

/* ---- writing ---- */

bool file_write(int fd, const void *data, size_t bytes)
{
    const char *at = data;
    while (bytes > 0) {
        ssize_t done = write(fd, at, bytes);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return false;
        at += done;
        bytes -= (size_t)done;
    }
    return true;
}

/* Sync the folder of a file. A rename in the folder reaches the disk only after this sync. */
static bool sync_folder(const char *path)
{
    char folder[PATH_BYTES];
    const char *slash = strrchr(path, '/');
    if (slash == NULL)
        snprintf(folder, sizeof folder, ".");
    else
        snprintf(folder, sizeof folder, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool is_synced = fsync(fd) == 0 || errno == EINVAL; /* EINVAL: the file system cannot sync a folder */
    close(fd);
    return is_synced;
}

static bool write_beside(const char *beside, bool (*put)(int, const void *), const void *user)
{
    int fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return false;
    bool is_written = put(fd, user) && fsync(fd) == 0;
    int error = errno;
    is_written = close(fd) == 0 && is_written;
    if (!is_written) {
        unlink(beside);
        errno = error;
    }
    return is_written;
}

/* Return the name of the temporary file. */
static bool name_beside(const char *path, char beside[PATH_BYTES], struct reason *reason)
{
    return snprintf(beside, PATH_BYTES, "%s.new", path) < PATH_BYTES ||
           because(reason, "%.100s...: the path is too long", path);
}

/* Check what has the name now. A rename would replace a device or a pipe, too, for example /dev/null. */
static bool is_replaceable(const char *path, struct reason *reason)
{
    struct stat about;
    if (stat(path, &about) != 0 || S_ISREG(about.st_mode))
        return true;
    if (S_ISDIR(about.st_mode))
        return because(reason, "%s: %s", path, strerror(EISDIR));
    return because(reason, "%s: not a regular file", path);
}

bool file_can_replace(const char *path, struct reason *reason)
{
    char beside[PATH_BYTES];
    if (!name_beside(path, beside, reason) || !is_replaceable(path, reason))
        return false;
    int fd = open(beside, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        return because(reason, "%s: %s", beside, strerror(errno));
    close(fd);
    unlink(beside);
    return true;
}

bool file_replace(const char *path, bool (*put)(int fd, const void *user), const void *user, struct reason *reason)
{
    char beside[PATH_BYTES];
    if (!name_beside(path, beside, reason) || !is_replaceable(path, reason))
        return false;
    if (!write_beside(beside, put, user))
        return because(reason, "%s: %s", beside, strerror(errno));
    if (rename(beside, path) != 0)
        return because(reason, "%s: %s", path, strerror(errno));
    if (!sync_folder(path))
        return because(reason, "the folder of %s: %s", path, strerror(errno));
    return true;
}
