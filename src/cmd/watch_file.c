/* Writes the metrics of `gpuwhy watch` to a file, for collectors that read files (gwi_watch_cmd.h). A reader never sees
 * a part of an answer: each one goes to a new file beside it, which is then renamed. */
#include "gwi_watch_cmd.h"

#include "gw_place.h"
#include "gw_say.h"
#include "gw_watch_out.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static gw_status write_all(int fd, const gw_text *text, const char *path, gw_error *err)
{
    const char *from = gw_text_str(text);
    for (size_t at = 0; at < text->bytes;) {
        ssize_t bytes = write(fd, from + at, text->bytes - at);
        if (bytes < 0 && errno != EINTR)
            return gw_fail(err, GW_IO, "%s: %s", path, strerror(errno));
        at += bytes > 0 ? (size_t)bytes : 0;
    }
    return GW_OK;
}

/* O_EXCL: in a folder that several users share, another user may have put a file or a link there first. */
static gw_status replace(const char *path, const gw_text *text, gw_error *err)
{
    gw_path fresh;
    gw_status st = gw_path_format(fresh, err, "%s.new", path);
    if (st != GW_OK)
        return st;
    (void)unlink(fresh); /* of a gpuwhy that was killed */
    int fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0)
        return gw_fail(err, GW_IO, "%s: %s", fresh, strerror(errno));
    st = write_all(fd, text, fresh, err);
    if (close(fd) != 0 && st == GW_OK)
        st = gw_fail(err, GW_IO, "%s: %s", fresh, strerror(errno));
    if (st == GW_OK && rename(fresh, path) != 0)
        st = gw_fail(err, GW_IO, "%s: %s", path, strerror(errno));
    if (st != GW_OK)
        (void)unlink(fresh);
    return st;
}

static gw_status write_once(gw_watch *watch, const char *path, gw_error *err)
{
    const gw_watch_snapshot *snapshot;
    gw_text text = {0};
    gw_status st = gw_watch_look(watch, &snapshot, err);
    if (st == GW_OK)
        gw_watch_metrics(snapshot, GW_METRICS_PROMETHEUS, &text);
    if (st == GW_OK && text.failed)
        st = gw_fail(err, GW_NOMEM, "the metrics");
    if (st == GW_OK)
        st = replace(path, &text, err);
    gw_text_free(&text);
    return st;
}

/* A device or a pipe would be replaced by a file. */
static gw_status check(const char *path, gw_error *err)
{
    struct stat info;
    if (path[0] == '\0')
        return gw_fail(err, GW_USAGE, "the name is empty");
    if (lstat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return gw_fail(err, GW_USAGE, "%s: not a regular file", path);
    return GW_OK;
}

gw_status gwi_watch_write(gw_watch *watch, const char *path, unsigned interval_s, bool once, gw_error *err)
{
    bool is_failing = false;
    gw_status st = check(path, err);
    if (st == GW_OK)
        st = write_once(watch, path, err);
    if (st != GW_OK)
        gw_wrap(err, "--metrics-file");
    if (st != GW_OK || once)
        return st;
    while (!gwi_watch_wait(interval_s)) {
        gw_error why;
        st = write_once(watch, path, &why);
        if (st != GW_OK && !is_failing) /* such as a full disk: it may pass */
            gw_say("watch: --metrics-file: %s; trying again", why.text);
        is_failing = st != GW_OK;
    }
    (void)unlink(path); /* old values must not look like new ones */
    return GW_OK;
}
