/* Reads a file through a small window; see gwi_window.h. */
#include "gwi_window.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

gw_status gwi_window_open(gwi_window *window, const char *path, gw_error *err)
{
    struct stat about;
    window->at = window->filled = 0;
    window->passed = 0;
    window->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (window->fd < 0)
        return gw_fail(err, GW_IO, "%s", strerror(errno));
    if (fstat(window->fd, &about) == 0 && !S_ISREG(about.st_mode)) {
        gwi_window_close(window);
        return gw_fail(err, GW_IO, "not a regular file");
    }
    return GW_OK;
}

void gwi_window_close(gwi_window *window)
{
    if (window->fd >= 0)
        close(window->fd);
    window->fd = -1;
}

static gw_status refill(gwi_window *window, gw_error *err)
{
    window->passed += window->filled;
    window->at = window->filled = 0;
    ssize_t count;
    do
        count = read(window->fd, window->data, sizeof window->data);
    while (count < 0 && errno == EINTR);
    if (count < 0)
        return gw_fail(err, GW_IO, "%s", strerror(errno));
    if (count == 0)
        return gw_fail(err, GW_CORRUPT, "the file ends in the middle");
    window->filled = (size_t)count;
    return GW_OK;
}

gw_status gwi_window_take(gwi_window *window, void *to, size_t count, gw_error *err)
{
    unsigned char *out = to;
    while (count > 0) {
        if (window->at == window->filled) {
            gw_status st = refill(window, err);
            if (st != GW_OK)
                return st;
        }
        size_t part = window->filled - window->at < count ? window->filled - window->at : count;
        memcpy(out, window->data + window->at, part);
        window->at += part;
        out += part;
        count -= part;
    }
    return GW_OK;
}
