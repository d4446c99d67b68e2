/* Reads a file through a small window; see gwi_window.h. */
#include "gwi_window.h"

#include "gw_own.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

gw_status gwi_window_open(gwi_window *window, const char *path, gw_error *err)
{
    *window = (gwi_window){.fd = -1};
    return gw_plain_open(path, true, &window->fd, err);
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
        return gw_fail(err, GW_CORRUPT, "the file ends early");
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
