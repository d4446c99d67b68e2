/* Writes and reads the state of a run in progress (gw_live.h). */
#define _GNU_SOURCE
#include "gw_live.h"

#include "gw_own.h"
#include "gwi_layout.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char magic[8] = "GWLIVE\r\n";

static bool make_path(char out[PATH_MAX], const char *folder, const char *name)
{
    int bytes = snprintf(out, PATH_MAX, "%s/%s", folder, name);
    return bytes > 0 && bytes < PATH_MAX;
}

static uint32_t checksum_of(const gw_live *live)
{
    return gwi_crc32c(0, live, offsetof(gw_live, checksum));
}

gw_status gw_live_write(const char *folder, gw_live *live, gw_error *err)
{
    char path[PATH_MAX], fresh[PATH_MAX];
    if (!make_path(path, folder, GW_LIVE_NAME) || !make_path(fresh, folder, GW_LIVE_NAME ".new"))
        return gw_fail(err, GW_IO, "%.200s...: the path is too long", folder);
    memcpy(live->magic, magic, sizeof magic);
    live->version = GW_LIVE_VERSION;
    live->bytes = sizeof *live;
    live->checksum = checksum_of(live);
    int fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return gw_fail(err, GW_IO, "%s: %s", fresh, strerror(errno));
    ssize_t wrote = write(fd, live, sizeof *live);
    int why = wrote < 0 ? errno : ENOSPC;
    close(fd);
    if (wrote != (ssize_t)sizeof *live) {
        unlink(fresh);
        return gw_fail(err, GW_IO, "%s: %s", fresh, strerror(why));
    }
    return rename(fresh, path) == 0 ? GW_OK : gw_fail(err, GW_IO, "%s: %s", path, strerror(errno));
}

static gw_status check(const gw_live *live, size_t bytes, const char *path, gw_error *err)
{
    if (bytes < offsetof(gw_live, started_ns) || memcmp(live->magic, magic, sizeof magic) != 0)
        return gw_fail(err, GW_CORRUPT, "%s: not the state of a run", path);
    if (live->version != GW_LIVE_VERSION)
        return gw_fail(err, GW_VERSION, "%s: written by another version of gpuwhy", path);
    if (bytes != sizeof *live || live->bytes != sizeof *live || live->checksum != checksum_of(live))
        return gw_fail(err, GW_CORRUPT, "%s: the checksum is wrong", path);
    return GW_OK;
}

/* Make counts and texts safe to use, even if the file was made to deceive us. */
static void confine(gw_live *live)
{
    live->failed_call[sizeof live->failed_call - 1] = '\0';
    live->virtual_cards[sizeof live->virtual_cards - 1] = '\0';
    live->virtual_folder[sizeof live->virtual_folder - 1] = '\0';
    live->recording[sizeof live->recording - 1] = '\0';
    live->command[sizeof live->command - 1] = '\0';
    if (live->pid_count > GW_LIVE_PIDS_MAX)
        live->pid_count = GW_LIVE_PIDS_MAX;
}

gw_status gw_live_read(const char *folder, uid_t owner, gw_live *ret_live, gw_error *err)
{
    char path[PATH_MAX];
    int fd;
    if (!make_path(path, folder, GW_LIVE_NAME))
        return gw_fail(err, GW_IO, "%.200s...: the path is too long", folder);
    if (access(path, F_OK) != 0 && errno == ENOENT)
        return gw_fail(err, GW_MISSING, "%s: there is none", path);
    gw_status st = gw_plain_open(path, false, &fd, err);
    if (st != GW_OK && access(path, F_OK) != 0 && errno == ENOENT)
        return gw_fail(err, GW_MISSING, "%s: there is none any more", path);
    if (st != GW_OK) {
        gw_wrap(err, "%s", path);
        return st;
    }
    st = gw_own_file_check(fd, owner, path, err);
    ssize_t bytes = st == GW_OK ? read(fd, ret_live, sizeof *ret_live) : 0;
    if (st == GW_OK && bytes < 0)
        st = gw_fail(err, GW_IO, "%s: %s", path, strerror(errno));
    close(fd);
    if (st == GW_OK)
        st = check(ret_live, (size_t)bytes, path, err);
    if (st == GW_OK)
        confine(ret_live);
    return st;
}
