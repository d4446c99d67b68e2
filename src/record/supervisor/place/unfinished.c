/* Remembers which recordings have a supervisor: a link unfinished-BOOT-NAMESPACE-PID-TICKS in the state folder leads to
 * each. TICKS is the time at which the supervisor started. A supervisor removes its link at the end; a link without its
 * process is what a killed supervisor, or a machine that stopped, leaves behind. */
#include "gwi_place.h"

#include "gw_hash.h"
#include "gw_own.h"
#include "gw_process.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* A recording that was written to less than this ago may belong to a supervisor that we cannot see. A supervisor writes
 * at least once a minute. */
static const time_t quiet_seconds = 600;

typedef struct identity {
    uint64_t boot, pid_namespace, ticks;
    pid_t pid;
} identity;

static uint64_t boot_hash(void)
{
    char text[GW_BOOT_ID_MAX];
    return gw_boot_id(text) ? gw_hash_bytes(GW_HASH_START, text, strlen(text)) : 0;
}

static uint64_t own_pid_namespace(void)
{
    struct stat info;
    return stat("/proc/self/ns/pid", &info) == 0 ? (uint64_t)info.st_ino : 0;
}

void gwi_unfinished_set(const char *recording, gw_path out)
{
    gw_path folder, absolute;
    uint64_t ticks = 0;
    out[0] = '\0';
    if (gw_state_folder(folder, NULL) != GW_OK || realpath(recording, absolute) == NULL ||
        !gw_process_started(getpid(), &ticks) ||
        gw_path_format(out, NULL, "%s/unfinished-%" PRIx64 "-%" PRIx64 "-%d-%" PRIu64, folder, boot_hash(),
                       own_pid_namespace(), (int)getpid(), ticks) != GW_OK) {
        out[0] = '\0';
        return;
    }
    unlink(out); /* an earlier attempt of this process */
    if (symlink(absolute, out) != 0)
        out[0] = '\0';
}

void gwi_unfinished_clear(gw_path path)
{
    if (path[0] != '\0')
        unlink(path);
    path[0] = '\0';
}

static bool read_name(const char *name, identity *ret_who)
{
    int pid = 0, end = 0;
    bool is_read = sscanf(name, "unfinished-%" SCNx64 "-%" SCNx64 "-%d-%" SCNu64 "%n", &ret_who->boot,
                          &ret_who->pid_namespace, &pid, &ret_who->ticks, &end) == 4;
    ret_who->pid = (pid_t)pid;
    return is_read && name[end] == '\0' && pid > 0;
}

/* True unless the supervisor is certainly gone. */
static bool may_be_going(const identity *who, const struct stat *recording)
{
    uint64_t ticks;
    bool is_here = who->boot == boot_hash() && who->pid_namespace == own_pid_namespace();
    if (is_here)
        return gw_process_started(who->pid, &ticks) ? ticks == who->ticks : errno == EACCES;
    return time(NULL) - recording->st_mtime < quiet_seconds;
}

static bool is_done(int folder, const char *name, gw_unfinished_visitor *visit, void *user)
{
    gw_path target;
    identity who;
    struct stat info;
    ssize_t bytes = readlinkat(folder, name, target, sizeof target - 1);
    if (bytes <= 0 || !read_name(name, &who))
        return false;
    target[bytes] = '\0';
    if (stat(target, &info) != 0)
        return errno == ENOENT; /* it was removed */
    if (info.st_uid != geteuid())
        return true;
    bool is_going = may_be_going(&who, &info);
    return visit(user, target, is_going) && !is_going;
}

void gw_unfinished_visit(gw_unfinished_visitor *visit, void *user)
{
    gw_path path;
    int folder;
    if (gw_state_folder(path, NULL) != GW_OK || gw_own_folder_open(path, &folder, NULL) != GW_OK)
        return;
    int again = openat(folder, ".", GWI_FOLDER_FLAGS);
    DIR *entries = again < 0 ? NULL : fdopendir(again);
    for (struct dirent *entry; entries != NULL && (entry = readdir(entries)) != NULL;)
        if (strncmp(entry->d_name, "unfinished-", 11) == 0 && is_done(folder, entry->d_name, visit, user))
            unlinkat(folder, entry->d_name, 0);
    if (entries != NULL)
        closedir(entries);
    else if (again >= 0)
        close(again);
    close(folder);
}
