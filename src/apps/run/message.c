/* Writes the message of --message.
 *
 * Kubernetes reads the file when a container has ended, keeps its last 4096 bytes and shows them in the state of the
 * pod. It mounts the file into the container, so it cannot be replaced by another one: it is written in place. */
#include "gwi_blame.h"

#include "gw_render.h"
#include "gw_say.h"

#include <fcntl.h>
#include <unistd.h>

enum { MESSAGE_BYTES_MAX = 4096 };

/* Return the size of the file if somebody, usually the program, has written to it since the run began, or 0. */
static off_t written_bytes(const gwi_output *output)
{
    const struct stat *before = &output->before;
    struct stat now;
    if (stat(output->path, &now) != 0 || !S_ISREG(now.st_mode))
        return 0;
    bool is_same = output->existed && before->st_ino == now.st_ino && before->st_dev == now.st_dev &&
                   before->st_size == now.st_size && before->st_mtim.tv_sec == now.st_mtim.tv_sec &&
                   before->st_mtim.tv_nsec == now.st_mtim.tv_nsec;
    return is_same ? 0 : now.st_size;
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

void gwi_message_write(const gwi_output *output, const gw_verdict *verdict, int status)
{
    gw_error err;
    gw_text text = {0};
    if (output->path == NULL || (status == 0 && verdict->status != GW_VERDICT_FAULT))
        return;
    off_t kept = written_bytes(output);
    if (kept > 0 && last_byte(output->path, kept) != '\n')
        gw_text_add_str(&text, "\n");
    size_t used = (size_t)kept + text.bytes, before = text.bytes;
    gw_render_message(verdict, used < MESSAGE_BYTES_MAX ? MESSAGE_BYTES_MAX - used : 0, &text);
    if (!text.failed && text.bytes == before)
        gw_say("--message %s: no room for the verdict, because the program has written %lld bytes to it", output->path,
               (long long)kept);
    else if (gwi_output_write(output, &text, (size_t)kept, &err) != GW_OK)
        gw_say("%s", err.text);
    gw_text_free(&text);
}
