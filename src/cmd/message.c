/* Writes the message of --message.
 *
 * Kubernetes reads the file when a container has ended, keeps its last 4096 bytes and shows them in the state of the
 * pod. It mounts the file into the container, so it cannot be replaced by another one: it is written in place. */
#include "gwi_message.h"

#include "gw_render.h"
#include "gw_say.h"
#include "gw_status.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { MESSAGE_BYTES_MAX = 4096 };

void gwi_message_begin(gwi_message *message, const char *path)
{
    *message = (gwi_message){.path = path};
    message->existed = path != NULL && stat(path, &message->before) == 0;
}

/* Return true if somebody, usually the program, has written to the file since the run began. */
static bool is_written(const gwi_message *message, const struct stat *now)
{
    const struct stat *before = &message->before;
    if (now->st_size == 0 || !S_ISREG(now->st_mode))
        return false;
    return !message->existed || before->st_ino != now->st_ino || before->st_dev != now->st_dev ||
           before->st_size != now->st_size || before->st_mtim.tv_sec != now->st_mtim.tv_sec ||
           before->st_mtim.tv_nsec != now->st_mtim.tv_nsec;
}

/* Return the last byte of a file, or a newline if it cannot be read. */
static char last_byte(const char *path, off_t bytes)
{
    char last = '\n';
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && pread(fd, &last, 1, bytes - 1) != 1)
        last = '\n';
    if (fd >= 0)
        close(fd);
    return last;
}

static gw_status write_text(int fd, const gw_text *text, const char *path, gw_error *err)
{
    for (size_t at = 0; at < text->bytes;) {
        ssize_t written = write(fd, text->data + at, text->bytes - at);
        if (written < 0 && errno != EINTR)
            return gw_fail(err, GW_IO, "write %s: %s", path, strerror(errno));
        at += written > 0 ? (size_t)written : 0;
    }
    return GW_OK;
}

/* Write the message to the open file, after the `kept` bytes that are already in it. */
static gw_status write_message(int fd, const char *path, off_t kept, const gw_verdict *verdict, gw_error *err)
{
    gw_text text = {0};
    gw_status st = GW_OK;
    if (kept > 0 && last_byte(path, kept) != '\n')
        gw_text_add_str(&text, "\n");
    size_t used = (size_t)kept + text.bytes, before = text.bytes;
    gw_render_message(verdict, used < MESSAGE_BYTES_MAX ? MESSAGE_BYTES_MAX - used : 0, &text);
    if (text.failed)
        st = gw_fail(err, GW_NOMEM, "write %s", path);
    else if (text.bytes == before)
        st = gw_fail(err, GW_UNSUPPORTED,
                     "%s: no room for the verdict, because the program has written %lld bytes to it", path,
                     (long long)kept);
    else if (kept == 0 && ftruncate(fd, 0) != 0 && errno != EINVAL) /* EINVAL: a pipe or a device */
        st = gw_fail(err, GW_IO, "write %s: %s", path, strerror(errno));
    else
        st = write_text(fd, &text, path, err);
    gw_text_free(&text);
    return st;
}

static gw_status write_file(const gwi_message *message, const gw_verdict *verdict, gw_error *err)
{
    struct stat now;
    /* O_NONBLOCK: a pipe without a reader must not stop gpuwhy */
    int fd = open(message->path, O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600);
    if (fd < 0)
        return gw_fail(err, GW_IO, "open %s: %s", message->path, strerror(errno));
    gw_status st = GW_OK;
    if (fstat(fd, &now) != 0)
        st = gw_fail(err, GW_IO, "%s: %s", message->path, strerror(errno));
    else
        st = write_message(fd, message->path, is_written(message, &now) ? now.st_size : 0, verdict, err);
    if (close(fd) < 0 && st == GW_OK)
        st = gw_fail(err, GW_IO, "close %s: %s", message->path, strerror(errno));
    return st;
}

void gwi_message_end(const gwi_message *message, const gw_verdict *verdict, int status)
{
    gw_error err;
    if (message->path == NULL || (status == 0 && verdict->status != GW_VERDICT_FAULT))
        return;
    if (write_file(message, verdict, &err) != GW_OK)
        gw_say("--message: %s", err.text);
}
