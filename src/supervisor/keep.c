/* Removes old recordings from the state folder. The user can configure the limits. */
#include "gw_keep.h"
#include "gwi_place.h"

#include "gw_array.h"
#include "gw_own.h"
#include "gw_text.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const gw_keep_limits standard = {.recordings = 500, .bytes = 8ull << 30, .days = 90};

enum { DAY_S = 24 * 3600 };

/* ---- configuration ---- */

static gw_status wrong(gw_error *err, const char *path, const char *key, const char *wanted)
{
    return gw_fail(err, GW_USAGE, "%s: keep.%s: expected %s", path, key, wanted);
}

/* Read a number that is not negative. If the key is missing, *value is unchanged. */
static gw_status read_number(json_object *keep, const char *path, const char *key, uint64_t *value, gw_error *err)
{
    json_object *item;
    if (!json_object_object_get_ex(keep, key, &item))
        return GW_OK;
    if (!json_object_is_type(item, json_type_int) || json_object_get_int64(item) < 0)
        return wrong(err, path, key, "a number of at least 0");
    *value = (uint64_t)json_object_get_int64(item);
    return GW_OK;
}

/* Read a size: a number of bytes, or a string such as "8GiB". */
static gw_status read_size(json_object *keep, const char *path, const char *key, uint64_t *value, gw_error *err)
{
    json_object *item;
    if (!json_object_object_get_ex(keep, key, &item))
        return GW_OK;
    if (json_object_is_type(item, json_type_string))
        return gw_bytes_parse(json_object_get_string(item), value) ? GW_OK
                                                                   : wrong(err, path, key, "a size such as \"8GiB\"");
    return read_number(keep, path, key, value, err);
}

static gw_status check_keys(json_object *object, const char *path, const char *const *known, gw_error *err)
{
    json_object_object_foreach(object, key, value)
    {
        size_t i = 0;
        (void)value;
        while (known[i] != NULL && strcmp(known[i], key) != 0)
            i++;
        if (known[i] == NULL)
            return gw_fail(err, GW_USAGE, "%s: unknown key \"%s\"", path, key);
    }
    return GW_OK;
}

static gw_status read_keep(json_object *root, const char *path, gw_keep_limits *limits, gw_error *err)
{
    static const char *const root_keys[] = {"keep", NULL}, *const keep_keys[] = {"recordings", "bytes", "days", NULL};
    json_object *keep;
    if (!json_object_is_type(root, json_type_object))
        return gw_fail(err, GW_USAGE, "%s: expected an object: {\"keep\": {..}}", path);
    gw_status st = check_keys(root, path, root_keys, err);
    if (st != GW_OK || !json_object_object_get_ex(root, "keep", &keep))
        return st;
    if (!json_object_is_type(keep, json_type_object))
        return gw_fail(err, GW_USAGE, "%s: keep: expected an object", path);
    st = check_keys(keep, path, keep_keys, err);
    if (st == GW_OK)
        st = read_number(keep, path, "recordings", &limits->recordings, err);
    if (st == GW_OK)
        st = read_size(keep, path, "bytes", &limits->bytes, err);
    return st == GW_OK ? read_number(keep, path, "days", &limits->days, err) : st;
}

/* Read at most the first 64 KiB of a file. The caller frees *ret_text, which is NULL if there is no such file. */
static gw_status read_file(const char *path, char **ret_text, gw_error *err)
{
    enum { BYTES_MAX = 64 << 10 };
    gw_error why;
    int fd;
    *ret_text = NULL;
    if (access(path, F_OK) != 0)
        return GW_OK;
    gw_status st = gw_plain_open(path, true, &fd, &why);
    if (st != GW_OK)
        return gw_fail(err, st, "%s: %s", path, why.text);
    char *text = malloc(BYTES_MAX + 1);
    ssize_t bytes = text == NULL ? -1 : read(fd, text, BYTES_MAX);
    close(fd);
    if (bytes < 0) {
        free(text);
        return gw_fail(err, text == NULL ? GW_NOMEM : GW_IO, "%s: %s", path, strerror(errno));
    }
    text[bytes] = '\0';
    *ret_text = text;
    return GW_OK;
}

static unsigned line_at(const char *text, size_t offset)
{
    unsigned line = 1;
    for (size_t i = 0; i < offset && text[i] != '\0'; i++)
        line += text[i] == '\n';
    return line;
}

gw_status gw_keep_limits_read(gw_keep_limits *ret_limits, gw_error *err)
{
    gw_path path;
    char *text;
    *ret_limits = standard;
    if (gw_config_path(path, NULL) != GW_OK)
        return GW_OK;
    gw_status st = read_file(path, &text, err);
    if (st != GW_OK || text == NULL)
        return st;
    json_tokener *parser = json_tokener_new();
    json_object *root = parser == NULL ? NULL : json_tokener_parse_ex(parser, text, (int)strlen(text) + 1);
    enum json_tokener_error error = parser == NULL ? json_tokener_success : json_tokener_get_error(parser);
    if (parser == NULL)
        st = gw_fail(err, GW_NOMEM, "%s: out of memory", path);
    else if (error != json_tokener_success)
        st = gw_fail(err, GW_USAGE, "%s:%u: %s", path, line_at(text, json_tokener_get_parse_end(parser)),
                     json_tokener_error_desc(error));
    else
        st = read_keep(root, path, ret_limits, err);
    json_object_put(root);
    if (parser != NULL)
        json_tokener_free(parser);
    free(text);
    return st;
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
