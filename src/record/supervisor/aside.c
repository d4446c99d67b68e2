/* Enters a mount namespace in which some folders are overlays. */
#include "gw_aside.h"

#include "gw_filter.h"
#include "gw_place.h"
#include "gw_text.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
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

static bool is_inside(const char *path, const char *folder)
{
    size_t bytes = strlen(folder);
    return gw_begins(path, folder) && (path[bytes] == '/' || path[bytes] == '\0' || strcmp(folder, "/") == 0);
}

static bool cover(const char *folder, const char *scratch, int number)
{
    static const char *const extra[] = {",userxattr", ""}; /* the first is needed in a user namespace */
    gw_path upper, work;
    gw_text how = {0};
    bool good = gw_path_format(upper, NULL, "%s/%d", scratch, number) == GW_OK && mkdir(upper, 0700) == 0 &&
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

bool gw_aside_enter(const gw_aside *aside)
{
    gw_path now;
    for (int i = 0; i < GW_ASIDE_FOLDERS_MAX; i++) {
        const char *folder = aside->folder[i];
        /* ':' and ',' separate the words of mount() */
        if (folder != NULL && (is_inside(aside->scratch, folder) || strpbrk(folder, ":,\\") != NULL))
            return false;
    }
    bool good = getcwd(now, sizeof now) != NULL && enter_namespaces() &&
                mount("tmpfs", aside->scratch, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0700,size=1g") == 0;
    for (int i = 0; good && i < GW_ASIDE_FOLDERS_MAX; i++)
        good = aside->folder[i] == NULL || cover(aside->folder[i], aside->scratch, i);
    return good && chdir(now) == 0; /* the folder that was entered before lies below the overlay */
}
