/* Reads command lines and users of processes (gw_process.h). */
#define _GNU_SOURCE
#include "gw_process.h"

#include "gw_mask.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WORDS_MAX = 32, COMMAND_BYTES_MAX = 200, STATUS_MAX = 32768 };

ssize_t gw_read_small(char *out, size_t room, int *ret_why, const char *format, ...)
{
    char path[PATH_MAX];
    va_list args;
    va_start(args, format);
    bool fits = vsnprintf(path, sizeof path, format, args) < (int)sizeof path;
    va_end(args);
    int fd = fits ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    int why = fits ? errno : ENAMETOOLONG;
    size_t count = 0;
    ssize_t got = fd < 0 ? -1 : 1;
    while (got > 0 && count + 1 < room) {
        got = TEMP_FAILURE_RETRY(read(fd, out + count, room - 1 - count));
        count += got > 0 ? (size_t)got : 0;
        why = errno;
    }
    if (fd >= 0)
        close(fd);
    out[got < 0 ? 0 : count] = '\0';
    errno = why;
    if (got < 0 && ret_why != NULL)
        *ret_why = why;
    return got < 0 ? -1 : (ssize_t)count;
}

void gw_process_command_add(gw_text *text, int pid)
{
    char bytes[4096], *words[WORDS_MAX + 1] = {NULL};
    ssize_t count = gw_read_small(bytes, sizeof bytes, NULL, "/proc/%d/cmdline", pid);
    size_t word_count = 0, before = text->bytes;
    for (size_t at = 0; (ssize_t)at < count && word_count < WORDS_MAX; at += strlen(bytes + at) + 1)
        words[word_count++] = bytes + at;
    for (size_t i = 0; i < word_count && text->bytes - before < COMMAND_BYTES_MAX; i++) {
        gw_text masked = {0};
        gw_mask_argument(&masked, words, (int)i);
        gw_text_add_str(text, i == 0 ? "" : " ");
        gw_add_printable(text, gw_text_str(&masked)); /* so that it is one line everywhere */
        gw_text_free(&masked);
    }
}

void gw_user_name_add(gw_text *text, unsigned uid)
{
    FILE *list = fopen("/etc/passwd", "re");
    struct passwd place, *entry = NULL;
    char line[4096];
    while (list != NULL && fgetpwent_r(list, &place, line, sizeof line, &entry) == 0 && entry->pw_uid != uid)
        entry = NULL;
    if (entry != NULL)
        gw_text_add_str(text, entry->pw_name);
    else
        gw_text_addf(text, "%u", uid);
    if (list != NULL)
        fclose(list);
}

void gw_process_user_add(gw_text *text, int pid)
{
    char path[64];
    struct stat info;
    snprintf(path, sizeof path, "/proc/%d", pid);
    if (stat(path, &info) == 0)
        gw_user_name_add(text, info.st_uid);
}

bool gw_process_stat(int pid, char out[GW_PROCESS_STAT_MAX])
{
    char line[GW_PROCESS_STAT_MAX];
    const char *at = gw_read_small(line, sizeof line, NULL, "/proc/%d/stat", pid) > 0 ? strrchr(line, ')') : NULL;
    if (at != NULL)
        snprintf(out, GW_PROCESS_STAT_MAX, "%s", at);
    return at != NULL;
}

bool gw_process_started(int pid, uint64_t *ret_ticks)
{
    char stat_[GW_PROCESS_STAT_MAX];
    return gw_process_stat(pid, stat_) &&
           sscanf(stat_, ") %*c%*d%*d%*d%*d%*d%*u%*u%*u%*u%*u%*u%*u%*d%*d%*d%*d%*d%*d%" SCNu64, ret_ticks) == 1;
}

bool gw_process_io(int pid, uint64_t *ret_read_bytes, uint64_t *ret_written_bytes)
{
    char text[1024];
    return gw_read_small(text, sizeof text, NULL, "/proc/%d/io", pid) > 0 &&
           sscanf(text, "rchar: %" SCNu64 " wchar: %" SCNu64, ret_read_bytes, ret_written_bytes) == 2;
}

bool gw_process_files(int pid, bool (*see)(void *user, int fd, const char *target), void *user)
{
    char path[64], target[512];
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    DIR *folder = opendir(path);
    if (folder == NULL)
        return false;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        ssize_t bytes = readlinkat(dirfd(folder), entry->d_name, target, sizeof target - 1);
        if (bytes <= 0)
            continue; /* "." and "..", or it was closed */
        target[bytes] = '\0';
        if (!see(user, atoi(entry->d_name), target))
            break;
    }
    closedir(folder);
    return true;
}

bool gw_boot_id(char out[GW_BOOT_ID_MAX])
{
    bool is_known = gw_read_small(out, GW_BOOT_ID_MAX, NULL, "/proc/sys/kernel/random/boot_id") > 0;
    out[strcspn(out, "\n")] = '\0';
    return is_known;
}

/* The owner of /proc/PID is root if the process is not dumpable, so its status counts. */
bool gw_process_is_of(unsigned uid, int pid)
{
    char status[STATUS_MAX];
    unsigned real, effective;
    gw_read_small(status, sizeof status, NULL, "/proc/%d/status", pid);
    const char *line = strstr(status, "\nUid:");
    return line != NULL && sscanf(line, "\nUid: %u %u", &real, &effective) == 2 && (real == uid || effective == uid);
}

bool gw_process_has_capability(unsigned number)
{
    char status[STATUS_MAX];
    unsigned long long effective = 0;
    gw_read_small(status, sizeof status, NULL, "/proc/self/status");
    const char *line = strstr(status, "\nCapEff:");
    if (line != NULL)
        sscanf(line, "\nCapEff: %llx", &effective);
    return (effective >> number & 1) != 0;
}

bool gw_process_reads_all(void)
{
    enum { DAC_READ_SEARCH = 2 }; /* CAP_DAC_READ_SEARCH of linux/capability.h */
    return geteuid() == 0 || gw_process_has_capability(DAC_READ_SEARCH);
}

/* ---- descendants without a parent ---- */

void gw_orphans_take(void)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1);
}

bool gw_process_is_gpuwhy(int pid)
{
    char path[64], target[PATH_MAX];
    struct stat own, its;
    snprintf(path, sizeof path, "/proc/%d/exe", pid);
    ssize_t bytes = readlink(path, target, sizeof target - 1);
    target[bytes < 0 ? 0 : bytes] = '\0';
    return strstr(target, "/lib/gpuwhy/" GW_RELAY_FILE) != NULL || /* after an upgrade, " (deleted)" follows */
           (stat("/proc/self/exe", &own) == 0 && stat(path, &its) == 0 && own.st_dev == its.st_dev &&
            own.st_ino == its.st_ino);
}

/* A child that is just ending has no file any more; it may be a helper, whose status belongs to who waits for it. A
 * program may forbid us to look at it (PR_SET_DUMPABLE); our helpers do not, unless we are not readable ourselves. */
static bool is_orphan(pid_t pid)
{
    char stat_[GW_PROCESS_STAT_MAX], path[64];
    struct stat its;
    snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    if (!gw_process_stat(pid, stat_) || stat_[2] == 'Z' || stat_[2] == 'X')
        return false;
    if (stat(path, &its) != 0)
        return errno == EACCES && prctl(PR_GET_DUMPABLE) == 1;
    return !gw_process_is_gpuwhy(pid);
}

/* Store our orphans among the children of all our threads. Returns their number, at most `most`. */
static size_t find_orphans(pid_t *orphan, size_t most)
{
    size_t count = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; tasks != NULL && (task = readdir(tasks)) != NULL;) {
        char path[128];
        int child;
        snprintf(path, sizeof path, "/proc/self/task/%.20s/children", task->d_name);
        FILE *list = task->d_name[0] == '.' ? NULL : fopen(path, "re");
        while (list != NULL && count < most && fscanf(list, "%d", &child) == 1)
            if (is_orphan(child))
                orphan[count++] = child;
        if (list != NULL)
            fclose(list);
    }
    if (tasks != NULL)
        closedir(tasks);
    return count;
}

/* Only the first ones are named; their number is reported, too. */
static void add_name(gw_text *names, pid_t pid)
{
    enum { BYTES_MAX = 120 };
    if (names->bytes > BYTES_MAX)
        return;
    gw_text_add_str(names, names->bytes == 0 ? "" : ", ");
    gw_process_command_add(names, pid);
    gw_text_addf(names, " (pid %d)", (int)pid);
}

/* The children of an orphan that ends become ours, so look again until there are none. */
size_t gw_orphans_end(size_t *ret_left, gw_text *names)
{
    enum { MOST = 512, ROUNDS = 300, ROUNDS_OF_TERM = 50 };
    static const struct timespec pause = {.tv_nsec = 10000000};
    pid_t orphan[MOST], signalled[MOST];
    size_t count = 0, left = 0;
    for (int round = 0; round < ROUNDS; round++) {
        left = find_orphans(orphan, MOST);
        for (size_t i = 0; i < left; i++) {
            size_t at = 0;
            while (at < count && signalled[at] != orphan[i])
                at++;
            if (at == count && count < MOST) {
                add_name(names, orphan[i]);
                signalled[count++] = orphan[i];
            } else if (round < ROUNDS_OF_TERM) {
                continue;
            }
            kill(orphan[i], round < ROUNDS_OF_TERM ? SIGTERM : SIGKILL);
        }
        if (left == 0)
            break;
        nanosleep(&pause, NULL);
    }
    for (size_t i = 0; i < count; i++)
        waitpid(signalled[i], NULL, WNOHANG);
    *ret_left = left;
    return count;
}
