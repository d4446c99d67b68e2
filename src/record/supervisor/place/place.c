/* Finds our libraries, creates the run folder, and chooses the names of recordings.
 *
 * The run folder, `$XDG_RUNTIME_DIR` or `/dev/shm` with /gpuwhy-UID-PID-RANDOM, has the buffers (*.buf), `live`
 * (gw_live.h), `run.meta` (what the supervisor needs to find the run: recording, argv, start), `shared`
 * (gw_run_shared.h; only with --inject or --memory-shared) and `virtual/` (the state of virtual cards). It is removed
 * at the end of the run, and stays if the supervisor is killed. The state folder,
 * `${XDG_STATE_HOME:-~/.local/state}/gpuwhy` or the configured folder, has the recordings, `last` (a link to the newest
 * one) and runs.db (src/apps/past). */
#include "gwi_place.h"

#include "gw_config.h"
#include "gw_own.h"
#include "gw_recording.h"
#include "gw_text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

enum { TMPFS_MAGIC_NUMBER = 0x01021994 };
static const uint64_t run_folder_bytes_min = 16u << 20;

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

gw_status gwi_folder_make(const char *path, unsigned mode, gw_error *err)
{
    gw_path part;
    gw_status st = gw_path_format(part, err, "%s", path);
    if (st != GW_OK)
        return st;
    for (char *slash = strchr(part + 1, '/');; slash = strchr(slash + 1, '/')) {
        bool is_last = slash == NULL;
        if (!is_last)
            *slash = '\0';
        if (mkdir(part, is_last ? mode : 0700) < 0) {
            if (errno != EEXIST)
                return gw_fail(err, GW_IO, "make folder %s: %s", part, strerror(errno));
        } else if (is_last) {
            (void)chmod(part, mode); /* the umask may have removed permissions */
        }
        if (is_last)
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
    if (bytes >= 0) {
        self[bytes] = '\0';
    } else { /* there is no /proc: use the path that was executed */
        const char *started = (const char *)(uintptr_t)getauxval(AT_EXECFN);
        if (started == NULL || realpath(started, self) == NULL)
            return gw_fail(err, GW_IO, "read /proc/self/exe: %s", strerror(errno));
    }
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

/* Return true for a tmpfs. It is fast, and its pages can be reserved, so that writing to them never kills the
 * program. */
static bool is_memory(uint64_t type)
{
    return type == TMPFS_MAGIC_NUMBER;
}

bool gwi_is_in_memory(const char *path)
{
    struct statfs fs;
    return statfs(path, &fs) == 0 && is_memory((uint32_t)fs.f_type);
}

/* Return true for a local file system that can reserve blocks, as tmpfs does. On others, a write to a mapped page
 * may fail and kill the program. */
static bool is_local_disk(uint64_t type)
{
    static const uint64_t types[] = {0xef53 /* ext4 */, 0x58465342 /* xfs */, 0x9123683e /* btrfs */,
                                     0xf2f52010 /* f2fs */, 0x794c7630 /* overlayfs */};
    bool found = false;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        found = found || type == types[i];
    return found;
}

/* Candidates for the folder of the run folders, best first. The first one is an environment variable, and the last
 * one is the state folder. A folder is skipped if it does not exist, or if other users could rename our files in
 * it. */
static const char *const run_roots[] = {"XDG_RUNTIME_DIR", "/dev/shm", "/tmp", "/var/tmp", "state"};
enum { RUN_ROOT_COUNT = sizeof run_roots / sizeof run_roots[0] };

static const char *run_root(size_t index, gw_path out)
{
    gw_path state;
    const char *named = run_roots[index];
    if (index == 0)
        named = getenv(named);
    else if (index == RUN_ROOT_COUNT - 1)
        named = gw_state_folder(state, NULL) == GW_OK ? state : NULL;
    return named != NULL && gw_own_path(named, out) ? out : NULL;
}

/* Return true if the file system has the wanted type, and enough room for our buffers and the shared state of virtual
 * cards. Some file systems do not count files. */
static bool is_usable(const char *path, bool (*has_type)(uint64_t type))
{
    enum { FILES_MIN = 64 };
    struct statfs fs;
    return statfs(path, &fs) == 0 && has_type((uint32_t)fs.f_type) &&
           (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize >= run_folder_bytes_min &&
           (fs.f_files == 0 || fs.f_ffree >= FILES_MIN);
}

static gw_status make_on(bool (*has_type)(uint64_t type), gw_path out, gw_error *err)
{
    gw_path root, wanted;
    for (size_t i = 0; i < RUN_ROOT_COUNT; i++) {
        if (run_root(i, root) == NULL || !is_usable(root, has_type))
            continue;
        gw_status st = gw_path_format(wanted, err, "%s/gpuwhy-%u-%d-XXXXXX", root, (unsigned)getuid(), (int)getpid());
        if (st != GW_OK)
            return st;
        if (mkdtemp(wanted) != NULL) {
            memcpy(out, wanted, sizeof wanted);
            return GW_OK;
        }
    }
    return gw_fail(err, GW_UNSUPPORTED,
                   "no folder with 16 MiB of room for the buffers (tried XDG_RUNTIME_DIR, /dev/shm, /tmp, /var/tmp and "
                   "the state folder)");
}

gw_status gwi_run_folder_make(gw_path out, bool *ret_is_on_disk, gw_error *err)
{
    *ret_is_on_disk = make_on(is_memory, out, err) != GW_OK;
    return *ret_is_on_disk ? make_on(is_local_disk, out, err) : GW_OK;
}

/* Remove the files in a folder, and its subfolders down to `depth` levels. Takes ownership of `fd`. Never follows
 * links to other folders. */
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
        int inner = openat(fd, entry->d_name, GWI_FOLDER_FLAGS);
        if (inner >= 0)
            remove_entries(inner, depth - 1);
        unlinkat(fd, entry->d_name, AT_REMOVEDIR);
    }
    closedir(folder);
}

void gwi_folder_remove(const char *path)
{
    int fd = open(path, GWI_FOLDER_FLAGS);
    if (fd >= 0)
        remove_entries(fd, 1);
    rmdir(path);
}

/* Return true if `name` is a real folder that only our user can access. In /dev/shm, other users may have created
 * folders with our names. */
static bool is_private(int root, const char *name)
{
    struct stat folder;
    return fstatat(root, name, &folder, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(folder.st_mode) &&
           folder.st_uid == geteuid() && (folder.st_mode & 077) == 0;
}

void gw_run_folders_visit(void (*visit)(void *user, const char *folder), void *user)
{
    char prefix[32];
    gw_path root;
    snprintf(prefix, sizeof prefix, "gpuwhy-%u-", (unsigned)getuid());
    for (size_t i = 0; i < RUN_ROOT_COUNT; i++) {
        DIR *folder = run_root(i, root) == NULL ? NULL : opendir(root);
        if (folder == NULL)
            continue;
        for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
            gw_path inner;
            if (gw_begins(entry->d_name, prefix) && is_private(dirfd(folder), entry->d_name) &&
                gw_path_format(inner, NULL, "%s/%s", root, entry->d_name) == GW_OK)
                visit(user, inner);
        }
        closedir(folder);
    }
}

/* Call `visit` for each run folder in `root`, whoever owns it. */
static void visit_root(const char *root, gw_run_folder_visit *visit, void *user)
{
    DIR *folder = opendir(root);
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        unsigned uid = 0;
        int pid = 0;
        struct stat info;
        gw_path inner;
        if (sscanf(entry->d_name, "gpuwhy-%u-%d-", &uid, &pid) != 2 || pid <= 0 ||
            fstatat(dirfd(folder), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(info.st_mode) ||
            info.st_uid != uid || (info.st_mode & 077) != 0 ||
            gw_path_format(inner, NULL, "%s/%s", root, entry->d_name) != GW_OK)
            continue;
        visit(user, inner, info.st_uid, pid);
    }
    if (folder != NULL)
        closedir(folder);
}

void gw_run_folders_visit_all(gw_run_folder_visit *visit, void *user)
{
    static const char users[] = "/run/user"; /* the usual XDG_RUNTIME_DIR of each user is a folder in it */
    gw_path root, seen[RUN_ROOT_COUNT];
    size_t count = 0;
    for (size_t i = 0; i < RUN_ROOT_COUNT; i++) {
        bool is_new = run_root(i, root) != NULL;
        for (size_t k = 0; is_new && k < count; k++)
            is_new = strcmp(seen[k], root) != 0;
        if (!is_new)
            continue;
        memcpy(seen[count++], root, sizeof root);
        visit_root(root, visit, user);
    }
    DIR *folder = opendir(users);
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        bool is_new = entry->d_name[0] != '.' && gw_path_format(root, NULL, "%s/%s", users, entry->d_name) == GW_OK;
        for (size_t k = 0; is_new && k < count; k++)
            is_new = strcmp(seen[k], root) != 0;
        if (is_new)
            visit_root(root, visit, user);
    }
    if (folder != NULL)
        closedir(folder);
}

bool gw_run_meta_read(const char *folder, gw_path ret_recording, pid_t *ret_supervisor)
{
    gw_path path;
    gw_reader *reader = NULL;
    const gw_item *item;
    ret_recording[0] = '\0';
    *ret_supervisor = 0;
    if (gw_path_format(path, NULL, "%s/run.meta", folder) != GW_OK ||
        gw_reader_open_pairs(path, &reader, NULL) != GW_OK)
        return false;
    while ((ret_recording[0] == '\0' || *ret_supervisor == 0) && gw_reader_next(reader, &item, NULL) == GW_OK) {
        if (item->kind != GW_ITEM_META)
            continue;
        if (strcmp(item->pair.key, "run.recording") == 0)
            snprintf(ret_recording, PATH_MAX, "%s", item->pair.value);
        if (strcmp(item->pair.key, "run.supervisor_pid") == 0)
            *ret_supervisor = (pid_t)strtol(item->pair.value, NULL, 10);
    }
    gw_reader_close(reader);
    return true;
}

/* Return false if we are root and another user owns the folder, or its nearest existing parent. That user could not
 * change root's folders. */
static bool is_ours_to_use(const char *path)
{
    gw_path part;
    struct stat folder;
    if (geteuid() != 0 || gw_path_format(part, NULL, "%s", path) != GW_OK)
        return true;
    while (stat(part, &folder) != 0) {
        char *slash = strrchr(part, '/');
        if (slash == NULL || slash == part)
            return true;
        *slash = '\0';
    }
    return folder.st_uid == 0;
}

static const char *home(void)
{
    const char *home = getenv("HOME");
    if (home != NULL && home[0] == '/' && is_ours_to_use(home))
        return home;
    struct passwd *entry = getpwuid(geteuid());
    return entry == NULL || entry->pw_dir[0] != '/' ? NULL : entry->pw_dir;
}

/* Store $variable/gpuwhy in `out`, or home/standard/gpuwhy if the variable is unset or its folder is not ours.
 * Creates no folder. */
static gw_status user_folder(const char *variable, const char *standard, gw_path out, gw_error *err)
{
    const char *base = getenv(variable);
    if (base != NULL && base[0] == '/' && is_ours_to_use(base))
        return gw_path_format(out, err, "%s/gpuwhy", base);
    if (home() != NULL)
        return gw_path_format(out, err, "%s/%s/gpuwhy", home(), standard);
    return gw_fail(err, GW_MISSING, "neither %s nor HOME names a folder", variable);
}

/* Append the name of the user, or the number if there is no name. */
static void add_user(gw_text *text)
{
    const struct passwd *user = getpwuid(geteuid());
    if (user != NULL)
        gw_text_add_str(text, user->pw_name);
    else
        gw_text_addf(text, "%u", (unsigned)geteuid());
}

/* Expand ~/ at the beginning and %u, which lets one site file name a folder for each user. */
static gw_status expand_folder(const char *folder, gw_path out, gw_error *err)
{
    gw_text text = {0};
    if (gw_begins(folder, "~/") && home() == NULL)
        return gw_fail(err, GW_MISSING, "%s: HOME names no folder", folder);
    if (gw_begins(folder, "~/"))
        gw_text_add_str(&text, home());
    for (const char *at = folder + (folder[0] == '~'); *at != '\0'; at++) {
        bool is_user = at[0] == '%' && at[1] == 'u';
        if (is_user)
            add_user(&text);
        else
            gw_text_add(&text, at, 1);
        at += is_user;
    }
    gw_status st =
        text.failed ? gw_fail(err, GW_NOMEM, "out of memory") : gw_path_format(out, err, "%s", gw_text_str(&text));
    gw_text_free(&text);
    return st;
}

gw_status gw_state_path(gw_path out, gw_error *err)
{
    const char *folder = gw_config_process()->value[GW_CONFIG_FOLDER].text;
    if (folder[0] == '\0')
        return user_folder("XDG_STATE_HOME", ".local/state", out, err);
    gw_status st = expand_folder(folder, out, err);
    if (st == GW_OK && !is_ours_to_use(out))
        return gw_fail(err, GW_UNSUPPORTED, "%s: it, or the folder around it, belongs to another user", out);
    return st;
}

gw_status gw_state_folder(gw_path out, gw_error *err)
{
    int fd;
    gw_status st = gw_state_path(out, err);
    if (st == GW_OK)
        st = gwi_folder_make(out, 0700, err);
    if (st == GW_OK)
        st = gw_own_folder_open(out, &fd, err);
    if (st == GW_OK)
        close(fd);
    /* The user did not choose the site's folder. In /scratch/%u, somebody else may have made the folder of this name.
     */
    if (st == GW_OK && gw_config_process()->value[GW_CONFIG_FOLDER].source == GW_CONFIG_SITE && !gw_own_path(out, NULL))
        st = gw_fail(err, GW_UNSUPPORTED, "%s: another user owns or may replace a folder on the way", out);
    return st;
}

gw_status gw_config_path(gw_path out, gw_error *err)
{
    gw_path folder;
    gw_status st = user_folder("XDG_CONFIG_HOME", ".config", folder, err);
    return st == GW_OK ? gw_path_format(out, err, "%s/config", folder) : st;
}

static bool can_hold_code(const char *path)
{
    struct statvfs fs;
    return strpbrk(path, " :") == NULL && statvfs(path, &fs) == 0 && (fs.f_flag & ST_NOEXEC) == 0 &&
           access(path, W_OK | X_OK) == 0;
}

/* Store the path of folder number `index` in `out`. Our libraries are in the first usable one of these folders. A
 * program that starts as root may continue as another user, who must read them. So root takes folders that all users
 * can read, and its own cache only if there is none: the loader then prints an error in the programs of other
 * users. */
static gw_status code_folder(size_t index, gw_path out)
{
    switch (index) {
    case 0:
    case 4:
        if (geteuid() == 0 && getenv("XDG_CACHE_HOME") == NULL)
            return gw_path_format(out, NULL, "/var/cache/gpuwhy");
        return user_folder("XDG_CACHE_HOME", ".cache", out, NULL);
    case 1:
        if (geteuid() == 0)
            return gw_path_format(out, NULL, "/var/cache/gpuwhy");
        /* fall through */
    case 2:
        return gw_path_format(out, NULL, "/var/tmp/gpuwhy-%u", (unsigned)geteuid());
    default:
        return gw_path_format(out, NULL, "/tmp/gpuwhy-%u", (unsigned)geteuid());
    }
}
enum { CODE_FOLDER_COUNT = 5 };

/* True if a program that starts as root can read the folder after it has become another user. */
static bool is_readable_later(const char *path)
{
    return geteuid() != 0 || gw_own_is_public(path);
}

bool gwi_code_folder(size_t index, const char *run_folder, gw_path out)
{
    gw_path wanted;
    int fd;
    if (index >= CODE_FOLDER_COUNT)
        return run_folder[0] != '\0' && can_hold_code(run_folder) &&
               gw_path_format(out, NULL, "%s", run_folder) == GW_OK;
    if (code_folder(index, wanted) != GW_OK || gwi_folder_make(wanted, 0755, NULL) != GW_OK ||
        gw_own_folder_open(wanted, &fd, NULL) != GW_OK)
        return false;
    close(fd);
    return gw_own_path(wanted, out) && can_hold_code(out) && (index == CODE_FOLDER_COUNT - 1 || is_readable_later(out));
}

gw_status gwi_recording_name(gw_path out, unsigned again, gw_error *err)
{
    gw_path folder;
    gw_status st = gw_state_folder(folder, err);
    if (st != GW_OK)
        return st;
    time_t now = time(NULL);
    struct tm parts;
    char stamp[32];
    strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", localtime_r(&now, &parts));
    char suffix[16] = "";
    if (again > 0)
        snprintf(suffix, sizeof suffix, "-%u", again + 1);
    return gw_path_format(out, err, "%s/%s-%d%s.gpuwhy", folder, stamp, (int)getpid(), suffix);
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
    if (realpath(link, out) != NULL) { /* another user may have replaced the file since the run */
        struct stat file;
        if (stat(out, &file) == 0 && (file.st_uid == geteuid() || gw_own_is_root(file.st_uid)))
            return GW_OK;
        return gw_fail(err, GW_UNSUPPORTED, "the last recording, %s, belongs to another user; to read it, name it",
                       out);
    }
    if (readlink(link, out, PATH_MAX) < 0)
        return gw_fail(err, GW_MISSING, "nothing has been recorded yet; to record: gpuwhy run -- program");
    return gw_fail(err, GW_MISSING, "the last recording was removed; name a recording");
}
