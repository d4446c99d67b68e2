/* Read whole files into memory. */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
