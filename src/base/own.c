/* Check who owns files and folders, and open only plain files. */
#define _GNU_SOURCE
#include "gw_own.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

/* True in a user namespace, such as a container without root. Outside users, even root, have no user id in it. Their
 * files seem to belong to user 65534. */
static bool lacks_users(void)
{
    char map[64] = "";
    unsigned first = 0, outside = 0, count = 0;
    int fd = open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC);
    ssize_t bytes = fd < 0 ? -1 : read(fd, map, sizeof map - 1);
    if (fd >= 0)
        close(fd);
    return bytes >= 0 &&
           (sscanf(map, "%u %u %u", &first, &outside, &count) != 3 || first != 0 || outside != 0 || count != UINT_MAX);
}

bool gw_own_is_root(uid_t user)
{
    enum { NO_NUMBER = 65534 };
    return user == 0 || (user == NO_NUMBER && lacks_users());
}

bool gw_own_is_private_group(gid_t group)
{
    char text[2][4096];
    struct passwd user, *is_user = NULL;
    struct group entry, *is_entry = NULL;
    if (getpwuid_r(geteuid(), &user, text[0], sizeof text[0], &is_user) != 0 ||
        getgrgid_r(group, &entry, text[1], sizeof text[1], &is_entry) != 0)
        return false;
    if (is_user == NULL || is_entry == NULL) /* a container without accounts */
        return group == geteuid();
    bool is_private = group == user.pw_gid && strcmp(entry.gr_name, user.pw_name) == 0;
    for (char **member = entry.gr_mem; is_private && *member != NULL; member++)
        is_private = strcmp(*member, user.pw_name) == 0;
    return is_private;
}

/* True if the mode lets users other than the owner write. `acl_bytes`: what getxattr() returned for the access control
 * list. The group's permissions are the list's mask, so they may be those of a user whom the list names. */
static bool may_others_write(const struct stat *it, ssize_t acl_bytes)
{
    bool is_private = (it->st_mode & S_IWGRP) == 0 ||
                      (it->st_uid == geteuid() && acl_bytes <= 0 && gw_own_is_private_group(it->st_gid));
    return (it->st_mode & S_IWOTH) != 0 || !is_private;
}

#define ACL_NAME "system.posix_acl_access"

/* True if only we, our private group and root can rename or remove our files in this folder. */
static bool is_safe(const char *path, const struct stat *folder)
{
    return S_ISDIR(folder->st_mode) && (folder->st_uid == geteuid() || gw_own_is_root(folder->st_uid)) &&
           ((folder->st_mode & S_ISVTX) != 0 || !may_others_write(folder, getxattr(path, ACL_NAME, NULL, 0)));
}

bool gw_own_path(const char *path, char out[PATH_MAX])
{
    char whole[PATH_MAX], part[PATH_MAX];
    struct stat folder;
    if (path[0] != '/' || realpath(path, whole) == NULL)
        return false;
    strcpy(part, whole);
    for (;;) {
        if (stat(part, &folder) != 0 || !is_safe(part, &folder))
            return false;
        char *slash = strrchr(part, '/');
        if (slash == part && part[1] == '\0')
            break;
        slash[slash == part] = '\0'; /* the parent folder of "/name" is "/" */
    }
    if (out != NULL)
        strcpy(out, whole);
    return true;
}

gw_status gw_own_folder_open(const char *path, int *ret_fd, gw_error *err)
{
    struct stat folder;
    gw_status st = GW_OK;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return gw_fail(err, GW_IO, "%s: %s", path, strerror(errno));
    if (fstat(fd, &folder) != 0)
        st = gw_fail(err, GW_IO, "%s: %s", path, strerror(errno));
    else if (folder.st_uid != geteuid())
        st = gw_fail(err, GW_UNSUPPORTED, "%s: belongs to user %u, not to you", path, (unsigned)folder.st_uid);
    else if (may_others_write(&folder, fgetxattr(fd, ACL_NAME, NULL, 0)))
        st = gw_fail(err, GW_UNSUPPORTED, "%s: other users may write to it (mode %03o)", path,
                     (unsigned)folder.st_mode & 0777);
    if (st == GW_OK)
        *ret_fd = fd;
    else
        close(fd);
    return st;
}

gw_status gw_own_file_check(int fd, uid_t owner, const char *name, gw_error *err)
{
    struct stat file;
    if (fstat(fd, &file) != 0)
        return gw_fail(err, GW_IO, "%s: %s", name, strerror(errno));
    if (!S_ISREG(file.st_mode))
        return gw_fail(err, GW_UNSUPPORTED, "%s: not a regular file", name);
    if (file.st_uid != owner)
        return gw_fail(err, GW_UNSUPPORTED, "%s: belongs to user %u, not to user %u", name, (unsigned)file.st_uid,
                       (unsigned)owner);
    if (may_others_write(&file, fgetxattr(fd, ACL_NAME, NULL, 0)) || file.st_nlink > 1)
        return gw_fail(err, GW_UNSUPPORTED, "%s: other users may have written to it (mode %03o, %lu links)", name,
                       (unsigned)file.st_mode & 0777, (unsigned long)file.st_nlink);
    return GW_OK;
}

bool gw_own_is_public(const char *path)
{
    char part[PATH_MAX];
    struct stat entry;
    mode_t wanted = S_IROTH;
    if (realpath(path, part) == NULL)
        return false;
    for (char *slash = part + strlen(part); slash != NULL; slash = strrchr(part, '/')) {
        *slash = '\0';
        if (stat(part[0] == '\0' ? "/" : part, &entry) != 0 || (entry.st_mode & wanted) == 0)
            return false;
        wanted = S_IXOTH;
    }
    return true;
}

static bool has_bytes(int fd, const unsigned char *data, size_t bytes)
{
    unsigned char part[16 << 10];
    size_t done = 0;
    ssize_t got;
    while ((got = pread(fd, part, sizeof part, (off_t)done)) > 0) {
        if ((size_t)got > bytes - done || memcmp(part, data + done, (size_t)got) != 0)
            return false;
        done += (size_t)got;
    }
    return got == 0 && done == bytes;
}

static bool write_all(int fd, const unsigned char *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t written = write(fd, data + done, bytes - done);
        if (written == 0)
            errno = ENOSPC;
        if (written > 0)
            done += (size_t)written;
        else if (written == 0 || errno != EINTR)
            return false;
    }
    return true;
}

enum { CODE_MODE = 0755 };

/* True if the file need not be written again: it is ours, contains `data`, and has all permissions of CODE_MODE. */
static bool is_there(int folder, const char *name, const void *data, size_t bytes)
{
    struct stat file;
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool same = fd >= 0 && gw_own_file_check(fd, geteuid(), name, NULL) == GW_OK && fstat(fd, &file) == 0 &&
                (file.st_mode & CODE_MODE) == CODE_MODE && has_bytes(fd, data, bytes);
    if (fd >= 0)
        close(fd);
    return same;
}

gw_status gw_own_file_put(const char *folder, const char *name, const void *data, size_t bytes, gw_error *err)
{
    char fresh[64];
    int in;
    gw_status st = gw_own_folder_open(folder, &in, err);
    if (st != GW_OK)
        return st;
    if (is_there(in, name, data, bytes))
        goto out;
    snprintf(fresh, sizeof fresh, ".%.40s.%ld", name, (long)getpid());
    unlinkat(in, fresh, 0); /* remove the file if a killed process with the same pid left it behind */
    int fd = openat(in, fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, CODE_MODE);
    if (fd < 0 || !write_all(fd, data, bytes) || fchmod(fd, CODE_MODE) != 0 || renameat(in, fresh, in, name) != 0) {
        st = gw_fail(err, GW_IO, "write %s/%s: %s", folder, name, strerror(errno));
        unlinkat(in, fresh, 0);
    }
    if (fd >= 0)
        close(fd);
out:
    close(in);
    return st;
}

gw_status gw_own_file_copy(const char *folder, const char *name, const char *path, gw_error *err)
{
    enum { COPY_BYTES_MAX = 64 << 20 };
    struct stat file;
    int fd;
    gw_status st = gw_plain_open(path, true, &fd, err);
    if (st != GW_OK) {
        gw_wrap(err, "%s", path);
        return st;
    }
    void *data = MAP_FAILED;
    if (fstat(fd, &file) == 0 && file.st_size > 0 && file.st_size <= COPY_BYTES_MAX)
        data = mmap(NULL, (size_t)file.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (data == MAP_FAILED)
        return gw_fail(err, GW_IO, "%s: cannot be read", path);
    st = gw_own_file_put(folder, name, data, (size_t)file.st_size, err);
    munmap(data, (size_t)file.st_size);
    return st;
}

static gw_status plain_open_at(int folder, const char *name, bool may_be_link, int *ret_fd, gw_error *err)
{
    struct stat file;
    /* Check the type first, because merely opening a device can have an effect. A FIFO may still replace the file
     * before open(). With O_NONBLOCK, open() does not wait for the FIFO's writer. */
    if (fstatat(folder, name, &file, may_be_link ? 0 : AT_SYMLINK_NOFOLLOW) != 0)
        return gw_fail(err, GW_IO, "%s", strerror(errno));
    if (!S_ISREG(file.st_mode))
        return gw_fail(err, GW_IO, "not a regular file");
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (may_be_link ? 0 : O_NOFOLLOW));
    if (fd < 0)
        return gw_fail(err, GW_IO, "%s", strerror(errno));
    if (fstat(fd, &file) != 0 || !S_ISREG(file.st_mode)) {
        close(fd);
        return gw_fail(err, GW_IO, "not a regular file");
    }
    *ret_fd = fd;
    return GW_OK;
}

gw_status gw_plain_open(const char *path, bool may_be_link, int *ret_fd, gw_error *err)
{
    return plain_open_at(AT_FDCWD, path, may_be_link, ret_fd, err);
}

gw_status gw_plain_read(const char *path, size_t bytes_max, gw_text *text, gw_error *err)
{
    char part[1 << 14];
    size_t begin = text->bytes;
    ssize_t bytes = 1;
    int fd;
    gw_status st = gw_plain_open(path, true, &fd, err);
    if (st != GW_OK) {
        gw_wrap(err, "%s", path);
        return st;
    }
    while (text->bytes - begin <= bytes_max && !text->failed &&
           ((bytes = read(fd, part, sizeof part)) > 0 || (bytes < 0 && errno == EINTR)))
        gw_text_add(text, part, bytes > 0 ? (size_t)bytes : 0);
    int why = errno;
    close(fd);
    if (text->failed)
        return gw_fail(err, GW_NOMEM, "%s: no memory", path);
    if (bytes < 0)
        return gw_fail(err, GW_IO, "%s: %s", path, strerror(why));
    return text->bytes - begin > bytes_max
               ? gw_fail(err, GW_UNSUPPORTED, "%s: longer than %zu MiB", path, bytes_max >> 20)
               : GW_OK;
}

size_t gw_plain_peek(const char *path, char *out, size_t room)
{
    int fd;
    ssize_t bytes = 0;
    if (gw_plain_open(path, true, &fd, NULL) == GW_OK) {
        bytes = read(fd, out, room - 1);
        close(fd);
    }
    out[bytes > 0 ? bytes : 0] = '\0';
    return bytes > 0 ? (size_t)bytes : 0;
}

/* ---- files that another user names ---- */

typedef struct account {
    uid_t user;
    gid_t group[256];
    int group_count; /* -1: the groups are not known */
} account;

static void find_account(uid_t user, account *ret_account)
{
    struct passwd place, *entry = NULL;
    char text[4096];
    ret_account->user = user;
    ret_account->group_count = sizeof ret_account->group / sizeof ret_account->group[0];
    if (getpwuid_r(user, &place, text, sizeof text, &entry) != 0 || entry == NULL ||
        getgrouplist(entry->pw_name, entry->pw_gid, ret_account->group, &ret_account->group_count) < 0)
        ret_account->group_count = -1;
}

/* True if the mode of the open file or folder grants this right, R_OK or X_OK, to the user. If the groups of the user
 * are not known, both the group of the file and all others must have the right. */
static bool has_right(const account *who, int fd, mode_t right)
{
    struct stat entry;
    if (fstat(fd, &entry) != 0)
        return false;
    mode_t mode = entry.st_mode;
    if (who->user == 0)
        return true;
    if (entry.st_uid == who->user)
        return (mode >> 6 & right) != 0;
    for (int i = 0; i < who->group_count; i++)
        if (who->group[i] == entry.st_gid)
            return (mode >> 3 & right) != 0;
    return (mode & (who->group_count < 0 ? mode >> 3 : mode) & right) != 0;
}

/* Open a file below a folder, which is closed, without following links. `who` must have the right to enter all folders
 * and to read the file. NULL: our own rights count, and `..` is refused. */
static gw_status open_below(int folder, const char *path, const account *who, int *ret_fd, gw_error *err)
{
    char names[PATH_MAX], *rest = NULL;
    gw_status st = GW_OK;
    if (strlen(path) >= sizeof names)
        st = gw_fail(err, GW_USAGE, "the path is too long");
    strncpy(names, path, sizeof names - 1)[sizeof names - 1] = '\0';
    char *name = strtok_r(names, "/", &rest), *next = NULL;
    if (name == NULL)
        st = gw_fail(err, GW_USAGE, "the path is empty");
    for (; st == GW_OK && name != NULL; name = next) {
        int inner = -1;
        next = strtok_r(NULL, "/", &rest);
        if (who == NULL && strcmp(name, "..") == 0)
            st = gw_fail(err, GW_USAGE, "the path contains `..`");
        else if (who != NULL && !has_right(who, folder, X_OK))
            st = gw_fail(err, GW_UNSUPPORTED, "this user may not enter its folder");
        else if (next == NULL)
            st = plain_open_at(folder, name, false, ret_fd, err);
        else if ((inner = openat(folder, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0)
            st = gw_fail(err, GW_IO, "%s", errno == ENOTDIR ? "not a folder, or a link" : strerror(errno));
        close(folder);
        folder = inner;
    }
    if (folder >= 0)
        close(folder);
    if (st == GW_OK && who != NULL && !has_right(who, *ret_fd, R_OK)) {
        close(*ret_fd);
        st = gw_fail(err, GW_UNSUPPORTED, "this user may not read it");
    }
    return st;
}

gw_status gw_below_open(int folder, const char *path, int *ret_fd, gw_error *err)
{
    int own = path[0] == '/' ? -1 : openat(folder, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (own < 0)
        return gw_fail(err, GW_USAGE, "%s", path[0] == '/' ? "not a relative path" : strerror(errno));
    return open_below(own, path, NULL, ret_fd, err);
}

int gw_foreign_open(const char *path, uid_t user)
{
    account who;
    int fd = -1;
    /* In a user namespace, all users outside it have the same number, so the rights of this user are not known. */
    if (path[0] != '/' || (user != 0 && gw_own_is_root(user)))
        return -1;
    find_account(user, &who);
    int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return root >= 0 && open_below(root, path, &who, &fd, NULL) == GW_OK ? fd : -1;
}
