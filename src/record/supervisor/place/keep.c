/* Removes old recordings from the state folder. The limits are in the configuration. */
#include "gw_keep.h"
#include "gwi_place.h"

#include "gw_array.h"
#include "gw_config.h"
#include "gw_own.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { DAY_S = 24 * 3600 };

/* ---- configuration ---- */

gw_status gw_keep_limits_read(gw_keep_limits *ret_limits, gw_error *err)
{
    const gw_config *config = gw_config_process();
    if (config->error_count > 0)
        return gw_fail(err, GW_USAGE, "the configuration has errors");
    *ret_limits = (gw_keep_limits){.recordings = config->value[GW_CONFIG_KEEP_RECORDINGS].number,
                                   .bytes = config->value[GW_CONFIG_KEEP_BYTES].number,
                                   .days = config->value[GW_CONFIG_KEEP_DAYS].number};
    return GW_OK;
}

/* ---- recordings ---- */

enum { STEM_MAX = 64 };
typedef struct recording {
    char stem[STEM_MAX]; /* "20261123-223518-30021", the beginning of the names of all its files */
    uint64_t bytes;
    time_t t_s;   /* time at which one of its files was last written */
    bool is_used; /* a supervisor is still writing it */
    bool goes;    /* chosen for removal */
} recording;

typedef struct shelf {
    recording *item; /* owned */
    size_t count, capacity;
} shelf;

static const char *skip_digits(const char *text, int count_min)
{
    int count = 0;
    for (; isdigit((unsigned char)*text); text++)
        count++;
    return count >= count_min ? text : NULL;
}

static bool has_known_end(const char *end)
{
    static const char *const ends[] = {".gpuwhy", ".blame.gpuwhy", ".cudnn.log"};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (strcmp(end, ends[i]) == 0)
            return true;
    const char *digits = end[0] == '.' ? skip_digits(end + 1, 1) : NULL; /* ".PID.cudacore" */
    return digits != NULL && strcmp(digits, ".cudacore") == 0;
}

/* Copy YYYYMMDD-HHMMSS-PID[-N] from the name of a recording (gwi_recording_name()), or of a file that belongs to one.
 * Returns false for other files. */
static bool stem_of(const char *name, char out[STEM_MAX])
{
    const char *at = skip_digits(name, 8);
    if (at != name + 8 || *at != '-' || (at = skip_digits(at + 1, 6)) != name + 15 || *at != '-')
        return false;
    const char *end = skip_digits(at + 1, 1);
    if (end != NULL && *end == '-')
        end = skip_digits(end + 1, 1);
    if (end == NULL || end - name >= STEM_MAX || !has_known_end(end))
        return false;
    snprintf(out, STEM_MAX, "%.*s", (int)(end - name), name);
    return true;
}

static int by_stem(const void *left, const void *right)
{
    return strcmp(((const recording *)left)->stem, ((const recording *)right)->stem);
}

/* Order the newest recording first. */
static int by_age(const void *left, const void *right)
{
    const recording *a = left, *b = right;
    return a->t_s != b->t_s ? (a->t_s < b->t_s ? 1 : -1) : -by_stem(left, right);
}

/* Merge the files of each recording into one element. */
static void join_files(shelf *all)
{
    size_t kept = 0;
    if (all->count > 1)
        qsort(all->item, all->count, sizeof *all->item, by_stem);
    for (size_t i = 0; i < all->count; i++) {
        recording *last = kept == 0 ? NULL : &all->item[kept - 1];
        if (last == NULL || strcmp(last->stem, all->item[i].stem) != 0) {
            all->item[kept++] = all->item[i];
            continue;
        }
        last->bytes += all->item[i].bytes;
        last->t_s = all->item[i].t_s > last->t_s ? all->item[i].t_s : last->t_s;
    }
    all->count = kept;
}

static gw_status list_files(int folder, shelf *all, gw_error *err)
{
    enum { BLOCK_BYTES = 512 };
    int again = openat(folder, ".", GWI_FOLDER_FLAGS);
    DIR *entries = again < 0 ? NULL : fdopendir(again);
    gw_status st = entries == NULL ? gw_fail(err, GW_IO, "read the state folder: %s", strerror(errno)) : GW_OK;
    for (struct dirent *entry; st == GW_OK && (entry = readdir(entries)) != NULL;) {
        struct stat info;
        recording file = {.bytes = 0};
        if (!stem_of(entry->d_name, file.stem) || fstatat(folder, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(info.st_mode) || info.st_uid != geteuid())
            continue;
        file.bytes = (uint64_t)info.st_blocks * BLOCK_BYTES;
        file.t_s = info.st_mtime;
        if (gw_array_room(&all->item, all->count, &all->capacity, sizeof *all->item))
            all->item[all->count++] = file;
        else
            st = gw_fail(err, GW_NOMEM, "no memory for the list of recordings");
    }
    if (entries != NULL)
        closedir(entries);
    else if (again >= 0)
        close(again);
    join_files(all);
    if (all->count > 1)
        qsort(all->item, all->count, sizeof *all->item, by_age);
    return st;
}

/* If `folder` is the run folder of a running supervisor, mark the recording that it writes. */
static void mark_used(void *user, const char *folder)
{
    shelf *all = user;
    gw_path path;
    recording wanted = {.bytes = 0};
    pid_t pid;
    int lock = gwi_run_folder_lock(folder, true);
    if (lock >= 0)
        close(lock);
    if (lock >= 0 || errno != EWOULDBLOCK || !gw_run_meta_read(folder, path, &pid) || strrchr(path, '/') == NULL ||
        !stem_of(strrchr(path, '/') + 1, wanted.stem))
        return;
    for (size_t i = 0; i < all->count; i++)
        if (strcmp(all->item[i].stem, wanted.stem) == 0)
            all->item[i].is_used = true;
}

static void choose(shelf *all, const gw_keep_limits *limits, gw_keep_result *result)
{
    time_t now_s = time(NULL);
    for (size_t i = 0; i < all->count; i++) { /* newest first */
        recording *it = &all->item[i];
        bool is_old = limits->days != 0 && now_s > it->t_s && (uint64_t)(now_s - it->t_s) / DAY_S >= limits->days;
        bool is_more = limits->recordings != 0 && result->kept >= limits->recordings;
        bool is_large = limits->bytes != 0 && result->kept_bytes + it->bytes > limits->bytes;
        it->goes = i > 0 && (is_old || is_more || is_large) && !it->is_used;
        *(it->goes ? &result->removed : &result->kept) += 1;
        *(it->goes ? &result->removed_bytes : &result->kept_bytes) += it->bytes;
    }
}

/* Remove all files of the chosen recordings. */
static gw_status remove_chosen(int folder, shelf *all, gw_error *err)
{
    int again = openat(folder, ".", GWI_FOLDER_FLAGS);
    DIR *entries = again < 0 ? NULL : fdopendir(again);
    gw_status st = entries == NULL ? gw_fail(err, GW_IO, "read the state folder: %s", strerror(errno)) : GW_OK;
    qsort(all->item, all->count, sizeof *all->item, by_stem);
    for (struct dirent *entry; entries != NULL && (entry = readdir(entries)) != NULL;) {
        recording wanted = {.bytes = 0};
        if (!stem_of(entry->d_name, wanted.stem))
            continue;
        const recording *found = bsearch(&wanted, all->item, all->count, sizeof wanted, by_stem);
        if (found != NULL && found->goes && unlinkat(folder, entry->d_name, 0) != 0 && errno != ENOENT)
            st = gw_fail(err, GW_IO, "remove %s from the state folder: %s", entry->d_name, strerror(errno));
    }
    if (entries != NULL)
        closedir(entries);
    else if (again >= 0)
        close(again);
    return st;
}

gw_status gw_keep_apply(const gw_keep_limits *limits, gw_keep_result *ret_result, gw_error *err)
{
    gw_path path;
    shelf all = {0};
    int folder;
    *ret_result = (gw_keep_result){0};
    gw_status st = gw_state_folder(path, err);
    if (st == GW_OK)
        st = gw_own_folder_open(path, &folder, err);
    if (st != GW_OK)
        return st;
    st = list_files(folder, &all, err);
    gw_run_folders_visit(mark_used, &all);
    if (st == GW_OK)
        choose(&all, limits, ret_result);
    if (st == GW_OK && ret_result->removed > 0)
        st = remove_chosen(folder, &all, err);
    close(folder);
    free(all.item);
    return st;
}
