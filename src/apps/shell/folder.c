/* List the files of a folder, for `gpuwhy explain FOLDER`, and find the file that a mistyped name probably means. */
#include "gwi_folder.h"

#include "gw_array.h"
#include "gw_logs.h"
#include "gw_own.h"
#include "gw_place.h"
#include "gw_say.h"
#include "gw_text.h"
#include "gw_torch.h"
#include "gw_verdict.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

bool gwi_folder_is_recording(const char *name)
{
    size_t bytes = strlen(name), end = strlen(".gpuwhy");
    return bytes > end && strcmp(name + bytes - end, ".gpuwhy") == 0;
}

/* The recording of a second run (--blame) is not explained by itself: the first one has its result. */
static bool is_listed_recording(const char *name)
{
    return gwi_folder_is_recording(name) && !gw_ends_with(name, ".blame.gpuwhy");
}

bool gwi_folder_has_name_of_log(const char *name)
{
    static const char *const ends[] = {".log", ".txt", ".out",   ".err",    ".gz",
                                       ".xz",  ".zst", ".ipynb", ".stdout", ".stderr"};
    const char *end = strrchr(name, '.');
    for (size_t i = 0; end != NULL && i < sizeof ends / sizeof ends[0]; i++) {
        if (strcmp(end, ends[i]) == 0)
            return true;
    }
    return end == NULL || strspn(end + 1, "eo0123456789") == strlen(end + 1); /* as in "job.o1234" and "train.log.1" */
}

/* True for a regular file. A FIFO must be skipped, because reading it would wait for a writer. Empty logs are skipped;
 * an empty recording is one that could not be written. */
static bool is_plain_file(const char *path, bool may_be_link, bool may_be_empty)
{
    struct stat info;
    return (may_be_link ? stat(path, &info) : lstat(path, &info)) == 0 && S_ISREG(info.st_mode) &&
           (may_be_empty || info.st_size > 0);
}

/* True for a text log by its name, or for a file that another program saved about the ranks of a job. */
static bool is_evidence(const char *name, const char *path)
{
    bool is_named = gwi_folder_has_name_of_log(name) || gw_ends_with(name, "error.json"); /* torchrun's */
    return (is_named && gw_log_is_text(path)) || gw_saved_kind_of(path) != GW_SAVED_NONE;
}

static gw_status add_path(gwi_folder_files *files, size_t *room, const char *path)
{
    char *copy = strdup(path);
    if (copy == NULL || !gw_array_room(&files->path, (size_t)files->count, room, sizeof *files->path)) {
        free(copy);
        return GW_NOMEM;
    }
    files->path[files->count++] = copy;
    return GW_OK;
}

static gw_status list(DIR *dir, const char *folder, bool recordings, bool links, gwi_folder_files *ret, gw_error *err)
{
    gw_status st = GW_OK;
    size_t room = 0;
    rewinddir(dir);
    for (struct dirent *entry; st == GW_OK && (entry = readdir(dir)) != NULL;) {
        char path[4096];
        if (entry->d_name[0] == '.' || strcmp(entry->d_name, GWI_FOLDER_VERDICT) == 0 ||
            snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) >= (int)sizeof path ||
            is_listed_recording(entry->d_name) != recordings || !is_plain_file(path, links, recordings) ||
            (!recordings && !is_evidence(entry->d_name, path)))
            continue;
        st = add_path(ret, &room, path);
    }
    if (ret->count > 0)
        qsort(ret->path, (size_t)ret->count, sizeof *ret->path, by_name);
    ret->are_recordings = recordings;
    return st == GW_OK ? GW_OK : gw_fail(err, st, "list %s", folder);
}

static bool is_any_filled(const gwi_folder_files *files)
{
    for (int i = 0; i < files->count; i++) {
        if (is_plain_file(files->path[i], true, false))
            return true;
    }
    return false;
}

/* Check that only we can have written each file. */
static gw_status check_files(const gwi_folder_files *files, gw_error *err)
{
    gw_status st = GW_OK;
    for (int i = 0, fd; i < files->count && st == GW_OK; i++) {
        st = gw_plain_open(files->path[i], false, &fd, err);
        if (st != GW_OK) {
            gw_wrap(err, "%s", files->path[i]);
            break;
        }
        st = gw_own_file_check(fd, geteuid(), files->path[i], err);
        close(fd);
    }
    return st;
}

/* If another user than root owns the folder, say so, and return true. */
static bool is_foreign(DIR *dir, const char *folder)
{
    struct stat info;
    if (fstat(dirfd(dir), &info) != 0 || info.st_uid == geteuid() || gw_own_is_root(info.st_uid))
        return false;
    gw_say("%s belongs to user %u, who chose what is in it", folder, (unsigned)info.st_uid);
    return true;
}

gw_status gwi_folder_list(const char *folder, bool only_ours, gwi_folder_files *ret, gw_error *err)
{
    *ret = (gwi_folder_files){0};
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return gw_fail(err, GW_IO, "%s: %s", folder, strerror(errno));
    bool links = !only_ours && !is_foreign(dir, folder); /* another user's link would choose a file of ours */
    gw_status st = list(dir, folder, true, links, ret, err);
    if (st == GW_OK && !is_any_filled(ret)) {
        gwi_folder_files logs = {0};
        st = list(dir, folder, false, links, &logs, err);
        if (st != GW_OK || logs.count > 0 || ret->count == 0) { /* otherwise, say that the recordings are empty */
            gwi_folder_free(ret);
            *ret = logs;
        }
    }
    closedir(dir);
    if (st == GW_OK && ret->count == 0)
        st = gw_fail(err, GW_MISSING, "%s: the folder has no recordings and no text logs", folder);
    return st == GW_OK && only_ours ? check_files(ret, err) : st;
}

void gwi_folder_free(gwi_folder_files *files)
{
    for (int i = 0; i < files->count; i++)
        free(files->path[i]);
    free(files->path);
    *files = (gwi_folder_files){0};
}

bool gwi_folder_is_one(const char *path)
{
    static gw_path recording;
    struct stat info;
    pid_t supervisor;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode) && !gw_run_meta_read(path, recording, &supervisor);
}

bool gwi_folder_similar(const char *path, char *ret_name, size_t room)
{
    enum { EDITS_MAX = 2, BYTES_MIN = 4 };
    const char *name = gw_path_last(path);
    char folder[4096];
    snprintf(folder, sizeof folder, "%.*s", (int)(name - path), path);
    DIR *dir = strlen(name) >= BYTES_MIN ? opendir(folder[0] == '\0' ? "." : folder) : NULL;
    size_t best = EDITS_MAX + 1;
    if (dir == NULL)
        return false;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        size_t edits = gw_name_edits(name, entry->d_name);
        if (edits < best && (size_t)snprintf(ret_name, room, "%s%s", folder, entry->d_name) < room)
            best = edits;
    }
    closedir(dir);
    return best <= EDITS_MAX;
}
