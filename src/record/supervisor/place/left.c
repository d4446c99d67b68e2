/* Cleans up the run folders of killed supervisors, because these folders occupy memory. */
#include "gwi_place.h"

#include "gw_buffer.h"
#include "gw_text.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const time_t old_seconds = 24 * 3600;
/* A folder younger than this is left alone. It may belong to a supervisor in another pid namespace that has not locked
 * the folder yet. */
static const time_t young_seconds = 10;

/* ---- users of a folder ---- */

static uint64_t own_pid_namespace(void)
{
    char text[40] = "";
    ssize_t bytes = readlink("/proc/self/ns/pid", text, sizeof text - 1);
    const char *digits = bytes > 0 ? strpbrk(text, "0123456789") : NULL;
    return digits == NULL ? 0 : strtoull(digits, NULL, 10);
}

/* True if the process that writes this buffer may be alive. Always true for another pid namespace, whose processes we
 * cannot see. */
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

/* Return true if a process may still write to the folder's buffers. */
static bool has_writers(const char *path)
{
    int fd = open(path, GWI_FOLDER_FLAGS);
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

/* ---- moving ---- */

/* Copy `bytes` bytes of a file, but leave holes instead of zeros, because a buffer is mostly empty. */
static bool copy_bytes(int from, int to, off_t bytes)
{
    enum { STEP = 65536 };
    static char part[STEP];
    static const char zero[STEP];
    for (off_t at = 0; at < bytes;) {
        ssize_t got = pread(from, part, STEP, at);
        if (got <= 0)
            return false;
        if (memcmp(part, zero, (size_t)got) != 0 && pwrite(to, part, (size_t)got, at) != got)
            return false;
        at += got;
    }
    return ftruncate(to, bytes) == 0;
}

/* Copy a regular file from one folder to another. Other entries, such as the virtual cards' folder, are skipped,
 * because they are not needed any more. Returns false if copying fails. */
static bool copy_entry(int from, int to, const char *name)
{
    struct stat info;
    int source = openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (source < 0)
        return errno == ELOOP || errno == ENXIO;
    bool good = fstat(source, &info) == 0;
    if (good && S_ISREG(info.st_mode)) {
        int copy = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        good = copy >= 0 && copy_bytes(source, copy, info.st_size);
        if (copy >= 0)
            good = close(copy) == 0 && good;
    }
    close(source);
    return good;
}

/* Copy the regular files of a folder. Returns false if some could not be copied. */
static bool copy_files(const char *from, const char *to)
{
    int source = open(from, GWI_FOLDER_FLAGS), target = open(to, GWI_FOLDER_FLAGS);
    DIR *folder = source < 0 ? NULL : fdopendir(source);
    bool good = folder != NULL && target >= 0;
    for (struct dirent *entry; good && (entry = readdir(folder)) != NULL;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            good = copy_entry(source, target, entry->d_name);
    if (folder != NULL)
        closedir(folder);
    else if (source >= 0)
        close(source);
    if (target >= 0)
        close(target);
    return good;
}

/* Move the run folder to the state folder. Returns false if this fails; the run folder is then unchanged. */
static bool move_to_state(const char *folder, int pid)
{
    gw_path state, wanted;
    if (gw_state_folder(state, NULL) != GW_OK ||
        gw_path_format(wanted, NULL, "%s/gpuwhy-%u-%d-XXXXXX", state, (unsigned)getuid(), pid) != GW_OK ||
        mkdtemp(wanted) == NULL)
        return false;
    if (!copy_files(folder, wanted)) {
        gwi_folder_remove(wanted);
        return false;
    }
    gwi_folder_remove(folder);
    return true;
}

/* ---- each folder ---- */

static time_t age_of(const char *folder)
{
    struct stat info;
    return lstat(folder, &info) == 0 ? time(NULL) - info.st_mtime : 0;
}

int gwi_run_folder_lock(const char *folder, bool alone)
{
    gw_path path;
    if (gw_path_format(path, NULL, "%s/run.meta", folder) != GW_OK) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && flock(fd, (alone ? LOCK_EX : LOCK_SH) | LOCK_NB) != 0) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

bool gw_run_is_going(const char *folder, pid_t supervisor)
{
    /* Another process that asks, or tidies, has the lock for a moment, too. */
    enum { TRIES = 5 };
    const struct timespec pause = {.tv_nsec = 1000000};
    for (int i = 0; i < TRIES; i++) {
        int lock = gwi_run_folder_lock(folder, true);
        if (lock >= 0) {
            close(lock);
            return false;
        }
        if (errno != EWOULDBLOCK)
            return supervisor > 0 && (kill(supervisor, 0) == 0 || errno != ESRCH);
        nanosleep(&pause, NULL);
    }
    return true;
}

/* True if the folder contains the last events of a recording in our state folder. Other run folders stay in place: the
 * reader of their recording may have another state folder, and would not find them in ours. */
static bool belongs_to_us(const char *folder)
{
    gw_path recording, state;
    pid_t supervisor;
    if (!gw_run_meta_read(folder, recording, &supervisor) || gw_state_folder(state, NULL) != GW_OK)
        return false;
    size_t bytes = strlen(state);
    return strncmp(recording, state, bytes) == 0 && recording[bytes] == '/' && !gw_begins(recording, folder) &&
           access(recording, F_OK) == 0;
}

/* Move, keep or remove a folder whose supervisor is dead. */
static void take_away(const char *folder, int pid)
{
    if (belongs_to_us(folder) && (!gwi_is_in_memory(folder) || move_to_state(folder, pid)))
        return;
    if (age_of(folder) >= old_seconds)
        gwi_folder_remove(folder);
}

static void look_at(void *user, const char *folder)
{
    int pid = 0;
    (void)user;
    if (sscanf(strrchr(folder, '/'), "/gpuwhy-%*u-%d-", &pid) != 1 || pid <= 0 || kill(pid, 0) == 0 || errno != ESRCH ||
        age_of(folder) < young_seconds || has_writers(folder))
        return;
    int lock = gwi_run_folder_lock(folder, true);
    if (lock < 0 && errno != ENOENT)
        return;
    take_away(folder, pid);
    if (lock >= 0)
        close(lock);
}

void gwi_run_folders_tidy(void)
{
    gw_run_folders_visit(look_at, NULL);
}
