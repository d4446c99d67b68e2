/* Makes and removes the temporary folders of commands (gwi_temporary.h). */
#include "gwi_temporary.h"

#include "gw_text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const kinds[] = {"gpuwhy-fit.", "gpuwhy-lab.", "gpuwhy-rehearse.", "gpuwhy-rescue."};

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info;
    (void)kind;
    (void)where;
    return remove(path);
}

static void remove_tree(const char *path)
{
    enum { OPEN_MAX_OF_NFTW = 16 };
    nftw(path, remove_one, OPEN_MAX_OF_NFTW, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* Return a descriptor of the folder, locked; -1 if it is not ours alone, or another process has locked it. */
static int lock_folder(const char *path)
{
    struct stat info, named;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    /* the last test: another command may have removed it before it was locked */
    if (fd >= 0 && fstat(fd, &info) == 0 && info.st_uid == geteuid() && (info.st_mode & 077) == 0 &&
        flock(fd, LOCK_EX | LOCK_NB) == 0 && lstat(path, &named) == 0 && named.st_ino == info.st_ino)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static bool is_temporary(const char *name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (gw_begins(name, kinds[i]))
            return true;
    return false;
}

static void remove_left(const char *root)
{
    DIR *folder = opendir(root);
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        gw_path path;
        if (!is_temporary(entry->d_name) || gw_path_format(path, NULL, "%s/%s", root, entry->d_name) != GW_OK)
            continue;
        int lock = lock_folder(path);
        if (lock >= 0) {
            remove_tree(path);
            close(lock);
        }
    }
    if (folder != NULL)
        closedir(folder);
}

gw_status gwi_temporary_make(const char *kind, gwi_temporary *out, gw_error *err)
{
    enum { TRIES = 5 };
    const char *root = getenv("TMPDIR");
    root = root != NULL && root[0] == '/' ? root : "/tmp";
    remove_left(root);
    out->path[0] = '\0';
    for (int i = 0; i < TRIES; i++) {
        gw_path path;
        gw_status st = gw_path_format(path, err, "%s/gpuwhy-%s.XXXXXX", root, kind);
        if (st != GW_OK)
            return st;
        if (mkdtemp(path) == NULL)
            return gw_fail(err, GW_IO, "make folder %s: %s", path, strerror(errno));
        out->lock = lock_folder(path);
        if (out->lock < 0)
            continue; /* another command took it for one that was left behind, and removes it */
        memcpy(out->path, path, sizeof path);
        return GW_OK;
    }
    return gw_fail(err, GW_IO, "make a temporary folder in %s: it cannot be locked", root);
}

void gwi_temporary_remove(gwi_temporary *folder)
{
    if (folder->path[0] == '\0')
        return;
    remove_tree(folder->path);
    close(folder->lock);
    folder->path[0] = '\0';
}
