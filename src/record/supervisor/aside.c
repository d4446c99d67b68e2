/* Enters a mount namespace in which some folders are overlays, and the rest is read-only. */
#include "gw_aside.h"

#include "gw_filter.h"
#include "gw_place.h"
#include "gw_text.h"

#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static bool write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0)
        close(fd);
    return good;
}

/* Without the right to mount, a user namespace gives it. The user's and the group's number stay the same. */
static bool enter_namespaces(void)
{
    char user[64], group[64];
    snprintf(user, sizeof user, "%u %u 1", (unsigned)geteuid(), (unsigned)geteuid());
    snprintf(group, sizeof group, "%u %u 1", (unsigned)getegid(), (unsigned)getegid());
    if (!gw_rare_calls_are_safe())
        return false;
    if (unshare(CLONE_NEWNS) != 0 &&
        (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0 || !write_file("/proc/self/setgroups", "deny") ||
         !write_file("/proc/self/uid_map", user) || !write_file("/proc/self/gid_map", group)))
        return false;
    return mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

/* As struct mount_attr of Linux 5.12, which older headers do not have. */
typedef struct attributes {
    uint64_t set, clear, propagation, user_fd;
} attributes;

/* Make all mounts from `path` on read-only, or writable again. */
static bool set_read_only(const char *path, bool is_read_only)
{
    enum { SYSCALL = 442, RECURSIVE = 0x8000, READ_ONLY = 1 }; /* mount_setattr, AT_RECURSIVE, MOUNT_ATTR_RDONLY */
    const attributes how = {.set = is_read_only ? READ_ONLY : 0, .clear = is_read_only ? 0 : READ_ONLY};
    return syscall(SYSCALL, AT_FDCWD, path, RECURSIVE, &how, sizeof how) == 0;
}

static bool is_inside(const char *path, const char *folder)
{
    return gw_begins(path, folder) && (path[strlen(folder)] == '/' || path[strlen(folder)] == '\0');
}

static bool cover(const char *folder, const char *scratch, int number)
{
    static const char *const extra[] = {",userxattr", ""}; /* the first is needed in a user namespace */
    gw_path upper, work;
    gw_text how = {0};
    bool good = strpbrk(folder, ":,\\") == NULL && /* they separate the words of mount() */
                gw_path_format(upper, NULL, "%s/%d", scratch, number) == GW_OK && mkdir(upper, 0700) == 0 &&
                gw_path_format(work, NULL, "%s/%d.work", scratch, number) == GW_OK && mkdir(work, 0700) == 0;
    bool is_covered = false;
    for (size_t i = 0; good && !is_covered && i < sizeof extra / sizeof extra[0]; i++) {
        gw_text_clear(&how);
        gw_text_addf(&how, "lowerdir=%s,upperdir=%s,workdir=%s%s", folder, upper, work, extra[i]);
        is_covered = mount("overlay", folder, "overlay", MS_NOSUID | MS_NODEV, gw_text_str(&how)) == 0;
    }
    gw_text_free(&how);
    return is_covered;
}

/* Cover the folders, unless they lie in one that is covered. The file system's root stays read-only. */
static bool cover_all(const gw_aside *aside, const char *scratch)
{
    bool good = true;
    for (int i = 0; good && i < GW_ASIDE_FOLDERS_MAX; i++) {
        const char *folder = aside->folder[i];
        bool is_done = folder == NULL || strcmp(folder, "/") == 0;
        for (int k = 0; k < i && !is_done; k++)
            is_done =
                aside->folder[k] != NULL && strcmp(aside->folder[k], "/") != 0 && is_inside(folder, aside->folder[k]);
        good = is_done || cover(folder, scratch, i);
    }
    return good;
}

/* CUDA does not start if these are read-only. A checkpoint is not written there. */
static bool open_devices(void)
{
    static const char *const folders[] = {"/proc", "/sys", "/dev"};
    struct stat info;
    bool good = true;
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
        good = (stat(folders[i], &info) != 0 || set_read_only(folders[i], false)) && good;
    return good;
}

bool gw_aside_enter(const gw_aside *aside)
{
    gw_path now, scratch;
    if (getcwd(now, sizeof now) == NULL || !enter_namespaces() || !set_read_only("/", true) ||
        mount("tmpfs", aside->scratch, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0700,size=1g") != 0)
        return false;
    /* a descriptor, because an overlay over the folder that has `scratch` hides it */
    int fd = open(aside->scratch, O_PATH | O_CLOEXEC);
    bool good = fd >= 0 && gw_path_format(scratch, NULL, "/proc/self/fd/%d", fd) == GW_OK &&
                cover_all(aside, scratch) && open_devices();
    return good && chdir(now) == 0; /* the folder that was entered before lies below the overlay */
}

bool gw_aside_works(const gw_aside *aside)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0)
        _exit(gw_aside_enter(aside) ? 0 : 1);
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
