/* Finds our libraries, creates the run folder on a tmpfs, names recordings, and removes what killed runs left behind.
 */
#include "gwi_place.h"

#include "gw_buffer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

enum { TMPFS_MAGIC_NUMBER = 0x01021994 };
static const uint64_t run_folder_bytes_min = 16u << 20;
static const time_t old_seconds = 24 * 3600;
enum { FOLDER_FLAGS = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };

gw_status gw_path_format(gw_path out, gw_error *err, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int wanted = vsnprintf(out, PATH_MAX, format, args);
    va_end(args);
    if (wanted < 0 || wanted >= PATH_MAX)
        return gw_fail(err, GW_USAGE, "path too long: %.200s...", out);
    return GW_OK;
}

gw_status gwi_folder_make(const char *path, gw_error *err)
{
    gw_path part;
    gw_status st = gw_path_format(part, err, "%s", path);
    if (st != GW_OK)
        return st;
    for (char *slash = strchr(part + 1, '/');; slash = strchr(slash + 1, '/')) {
        if (slash != NULL)
            *slash = '\0';
        if (mkdir(part, 0700) < 0 && errno != EEXIST)
            return gw_fail(err, GW_IO, "make folder %s: %s", part, strerror(errno));
        if (slash == NULL)
            return GW_OK;
        *slash = '/';
    }
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

gw_status gw_library_find(const char *file, gw_path out, gw_error *err)
{
    gw_path self;
    ssize_t bytes = readlink("/proc/self/exe", self, sizeof self - 1);
    if (bytes < 0)
        return gw_fail(err, GW_IO, "read /proc/self/exe: %s", strerror(errno));
    self[bytes] = '\0';
    char *slash = strrchr(self, '/');
    if (slash != NULL)
        *slash = '\0';
    static const char *const places[] = {"lib/gpuwhy", "../lib/gpuwhy"};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        gw_path wanted;
        gw_status st = gw_path_format(wanted, err, "%s/%s/%s", self, places[i], file);
        if (st != GW_OK)
            return st;
        if (exists(wanted) && realpath(wanted, out) != NULL)
            return GW_OK;
    }
    return gw_fail(err, GW_MISSING,
                   "%s is neither in %s/lib/gpuwhy nor in %s/../lib/gpuwhy: a part of the installation"
                   " is missing",
                   file, self, self);
}

/* True for a tmpfs with free space. A full one would refuse our buffers, and also the state that virtual cards share.
 */
static bool is_tmpfs_with_room(const char *path)
{
    struct statfs fs;
    return statfs(path, &fs) == 0 && (unsigned long)fs.f_type == TMPFS_MAGIC_NUMBER &&
           (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize >= run_folder_bytes_min;
}

/* Candidates, best first; NULL: the environment does not name this one. */
static const char *run_root(size_t index)
{
    switch (index) {
    case 0:
        return getenv("XDG_RUNTIME_DIR");
    case 1:
        return "/dev/shm";
    default:
        return "/tmp";
    }
}
enum { RUN_ROOT_COUNT = 3 };

gw_status gwi_run_folder_make(gw_path out, gw_error *err)
{
    for (size_t i = 0; i < RUN_ROOT_COUNT; i++) {
        const char *root = run_root(i);
        if (root == NULL || root[0] != '/' || !is_tmpfs_with_room(root))
            continue;
        gw_path wanted;
        gw_status st = gw_path_format(wanted, err, "%s/gpuwhy-%u-%d-XXXXXX", root, (unsigned)getuid(), (int)getpid());
        if (st != GW_OK)
            return st;
        if (mkdtemp(wanted) != NULL) {
            memcpy(out, wanted, sizeof wanted);
            return GW_OK;
        }
    }
    return gw_fail(err, GW_UNSUPPORTED,
                   "no tmpfs with 16 MiB of room to write to (tried XDG_RUNTIME_DIR, /dev/shm, /tmp)");
}

/* Works on descriptors and never follows a link, so that only the examined folder is emptied. Takes ownership of `fd`.
 */
static void remove_entries(int fd, int depth)
{
    DIR *folder = fdopendir(fd);
    if (folder == NULL) {
        close(fd);
        return;
    }
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            unlinkat(fd, entry->d_name, 0) == 0 || errno != EISDIR || depth == 0)
            continue;
        int inner = openat(fd, entry->d_name, FOLDER_FLAGS);
        if (inner >= 0)
            remove_entries(inner, depth - 1);
        unlinkat(fd, entry->d_name, AT_REMOVEDIR);
    }
    closedir(folder);
}

void gwi_folder_remove(const char *path)
{
    int fd = open(path, FOLDER_FLAGS);
    if (fd >= 0)
        remove_entries(fd, 1);
    rmdir(path);
}

void gw_run_folders_visit(void (*visit)(void *user, const char *folder), void *user)
{
    char prefix[32];
    snprintf(prefix, sizeof prefix, "gpuwhy-%u-", (unsigned)getuid());
    for (size_t i = 0; i < RUN_ROOT_COUNT; i++) {
        const char *root = run_root(i);
        DIR *folder = root == NULL ? NULL : opendir(root);
        if (folder == NULL)
            continue;
        for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
            gw_path inner;
            if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0 &&
                gw_path_format(inner, NULL, "%s/%s", root, entry->d_name) == GW_OK)
                visit(user, inner);
        }
        closedir(folder);
    }
}

static uint64_t own_pid_namespace(void)
{
    char text[40] = "";
    ssize_t bytes = readlink("/proc/self/ns/pid", text, sizeof text - 1);
    const char *digits = bytes > 0 ? strpbrk(text, "0123456789") : NULL;
    return digits == NULL ? 0 : strtoull(digits, NULL, 10);
}

/* True if the process that writes this buffer may be alive. Processes of other pid namespaces cannot be seen, so they
 * count as alive. */
static bool may_have_writer(int folder, const char *name)
{
    gw_buffer_head head;
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    ssize_t bytes = fd < 0 ? -1 : pread(fd, &head, sizeof head, 0);
    if (fd >= 0)
        close(fd);
    if (bytes == (ssize_t)sizeof head && head.pid_namespace != 0 && head.pid_namespace != own_pid_namespace())
        return true;
    pid_t pid = (pid_t)strtoul(name, NULL, 10);
    return pid > 0 && (kill(pid, 0) == 0 || errno != ESRCH);
}

/* True if a process may still write into the folder's buffers. */
static bool has_writers(const char *path)
{
    int fd = open(path, FOLDER_FLAGS);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    bool found = folder == NULL;
    for (struct dirent *entry; !found && (entry = readdir(folder)) != NULL;) {
        size_t bytes = strlen(entry->d_name);
        found = bytes > 4 && strcmp(entry->d_name + bytes - 4, ".buf") == 0 && may_have_writer(fd, entry->d_name);
    }
    if (folder != NULL)
        closedir(folder);
    else if (fd >= 0)
        close(fd);
    return found;
}

static void remove_when_old(void *user, const char *folder)
{
    (void)user;
    int pid = 0;
    struct stat stat_;
    const char *name = strrchr(folder, '/');
    if (sscanf(name, "/gpuwhy-%*u-%d-", &pid) != 1 || pid <= 0 || kill(pid, 0) == 0 || errno != ESRCH)
        return;
    if (lstat(folder, &stat_) < 0 || !S_ISDIR(stat_.st_mode) || stat_.st_uid != getuid() ||
        stat_.st_mtime + old_seconds > time(NULL) || has_writers(folder))
        return;
    gwi_folder_remove(folder);
}

void gwi_run_folders_tidy(void)
{
    gw_run_folders_visit(remove_when_old, NULL);
}

static const char *home(void)
{
    const char *home = getenv("HOME");
    if (home != NULL && home[0] == '/')
        return home;
    struct passwd *entry = getpwuid(getuid());
    return entry == NULL || entry->pw_dir[0] != '/' ? NULL : entry->pw_dir;
}

/* <variable, else home/standard>/gpuwhy */
static gw_status user_folder(const char *variable, const char *standard, gw_path out, gw_error *err)
{
    const char *base = getenv(variable);
    gw_status st = GW_OK;
    if (base != NULL && base[0] == '/')
        st = gw_path_format(out, err, "%s/gpuwhy", base);
    else if (home() != NULL)
        st = gw_path_format(out, err, "%s/%s/gpuwhy", home(), standard);
    else
        st = gw_fail(err, GW_MISSING, "neither %s nor HOME names a folder", variable);
    return st == GW_OK ? gwi_folder_make(out, err) : st;
}

gw_status gw_state_folder(gw_path out, gw_error *err)
{
    return user_folder("XDG_STATE_HOME", ".local/state", out, err);
}

static bool can_hold_code(const char *path)
{
    struct statvfs fs;
    return strpbrk(path, " :") == NULL && statvfs(path, &fs) == 0 && (fs.f_flag & ST_NOEXEC) == 0 &&
           access(path, W_OK | X_OK) == 0;
}

gw_status gwi_code_folder(const char *run_folder, gw_path out, gw_error *err)
{
    if (user_folder("XDG_CACHE_HOME", ".cache", out, NULL) == GW_OK && can_hold_code(out))
        return GW_OK;
    static const char *const roots[] = {"/var/tmp", "/tmp"};
    for (size_t i = 0; i < sizeof roots / sizeof roots[0]; i++) {
        /* only our own: another user's folder of that name must not put code into the program */
        struct stat stat;
        if (can_hold_code(roots[i]) &&
            gw_path_format(out, NULL, "%s/gpuwhy-%u", roots[i], (unsigned)getuid()) == GW_OK &&
            (mkdir(out, 0700) == 0 || errno == EEXIST) && lstat(out, &stat) == 0 && S_ISDIR(stat.st_mode) &&
            stat.st_uid == getuid() && (stat.st_mode & 077) == 0)
            return GW_OK;
    }
    if (run_folder[0] != '\0' && can_hold_code(run_folder))
        return gw_path_format(out, err, "%s", run_folder);
    return gw_fail(err, GW_IO,
                   "no folder without space, colon and noexec to put our library into"
                   " (tried XDG_CACHE_HOME, /var/tmp, /tmp)");
}

gw_status gwi_recording_name(gw_path out, gw_error *err)
{
    gw_path folder;
    gw_status st = gw_state_folder(folder, err);
    if (st != GW_OK)
        return st;
    time_t now = time(NULL);
    struct tm parts;
    char stamp[32];
    strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", localtime_r(&now, &parts));
    return gw_path_format(out, err, "%s/%s-%d.gpuwhy", folder, stamp, (int)getpid());
}

void gwi_last_recording_set(const char *path)
{
    gw_path folder, absolute, link, temporary;
    if (gw_state_folder(folder, NULL) != GW_OK || realpath(path, absolute) == NULL ||
        gw_path_format(link, NULL, "%s/last", folder) != GW_OK ||
        gw_path_format(temporary, NULL, "%s/last.%d", folder, (int)getpid()) != GW_OK)
        return;
    unlink(temporary);
    if (symlink(absolute, temporary) == 0 && rename(temporary, link) < 0)
        unlink(temporary);
}

gw_status gw_last_recording(gw_path out, gw_error *err)
{
    gw_path folder, link;
    gw_status st = gw_state_folder(folder, err);
    if (st == GW_OK)
        st = gw_path_format(link, err, "%s/last", folder);
    if (st != GW_OK)
        return st;
    if (realpath(link, out) != NULL)
        return GW_OK;
    if (readlink(link, out, PATH_MAX) < 0)
        return gw_fail(err, GW_MISSING, "nothing was recorded yet; record with: gpuwhy run -- program");
    return gw_fail(err, GW_MISSING, "the last recording was removed; name another one");
}
