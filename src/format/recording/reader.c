/* Returns the items of a recording or a run folder one by one, in the order in which they were recorded. */
#define _GNU_SOURCE
#include "gwi_folder.h"

#include "gw_own.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SEEN_MAX = 4096 }; /* maximum number of processes that process_is_new() remembers */
typedef struct seen_processes {
    uint32_t pid[SEEN_MAX];
    uint64_t start_ns[SEEN_MAX];
    size_t count;
} seen_processes;

/* A recording has one source. A run folder has two:
 * - the recording, up to its last flush
 * - the rest of the buffers, drained into a recording in memory */
struct gw_reader {
    gwi_source source[2];
    unsigned count;
    unsigned at;
    bool folder;
    bool alive;          /* the supervisor of the run folder is still running */
    bool record_read;    /* the recording of the run folder could be read; it is source 0 */
    unsigned said;       /* how many of the two final items were returned or skipped; see say_last() */
    seen_processes seen; /* processes seen in source 0 */
    gw_item last;
    uid_t owner;       /* see gw_reader_owner() */
    char *path;        /* owned */
    char *record_path; /* owned: path of the recording in a run folder */
};

/* Return the user who alone can have written this file or folder. Members of our own group are trusted. */
static uid_t owner_of(const struct stat *info)
{
    mode_t others = info->st_gid == getegid() ? S_IWOTH : S_IWOTH | S_IWGRP;
    return (info->st_mode & others) == 0 ? info->st_uid : GW_NO_OWNER;
}

/* Open a file as the next source. If another file named `path`, `owner` is the user who must own it, and links are
 * refused. So a file cannot make us read another user's file. Otherwise, pass NULL. */
static gw_status add_file(gw_reader *reader, const char *path, const uid_t *owner, gw_error *err)
{
    struct stat info;
    int fd;
    gw_status st = gw_plain_open(path, owner == NULL, &fd, err);
    if (st != GW_OK) {
        gw_wrap(err, "%s", path);
        return st;
    }
    if (owner != NULL)
        st = gw_own_file_check(fd, *owner, path, err);
    else if (fstat(fd, &info) == 0)
        reader->owner = owner_of(&info);
    else
        st = gw_fail(err, GW_IO, "%s: %s", path, strerror(errno));
    if (st != GW_OK) {
        close(fd);
        return st;
    }
    return gwi_source_start(&reader->source[reader->count++], fd, path, err);
}

static gw_status open_folder(gw_reader *reader, uid_t owner, gw_error *err)
{
    gwi_folder folder;
    gw_status st = gwi_folder_open(reader->path, &folder, err);
    if (st != GW_OK)
        return st;
    reader->folder = true;
    reader->alive = folder.supervisor_alive;
    reader->record_path = folder.record_path;
    folder.record_path = NULL;
    if (reader->record_path != NULL) {
        /* If the recording cannot be read, the reader still returns what is in the buffers. */
        gw_status file = add_file(reader, reader->record_path, &owner, err);
        if (file == GW_OK)
            file = gwi_source_scan_marks(&reader->source[reader->count - 1], gwi_folder_mark, &folder, err);
        reader->record_read = file == GW_OK;
        if (file != GW_OK && reader->count > 0)
            gwi_source_close(&reader->source[--reader->count]);
    }
    const gwi_dict *dict = reader->record_read ? &reader->source[0].dict : &folder.dict;
    int fd = -1;
    st = gwi_folder_drain(&folder, dict, &fd, err);
    if (st == GW_OK)
        st = gwi_source_start(&reader->source[reader->count++], fd, reader->path, err);
    gwi_folder_close(&folder);
    return st;
}

static gw_status open_any(gw_reader *reader, gw_error *err)
{
    struct stat info;
    if (stat(reader->path, &info) != 0)
        return gw_fail(err, GW_IO, "%s: %s", reader->path, strerror(errno));
    reader->owner = owner_of(&info);
    return S_ISDIR(info.st_mode) ? open_folder(reader, info.st_uid, err) : add_file(reader, reader->path, NULL, err);
}

static gw_status open_pairs(gw_reader *reader, gw_error *err)
{
    int fd;
    gw_status st = gw_plain_open(reader->path, true, &fd, err);
    if (st != GW_OK) {
        gw_wrap(err, "%s", reader->path);
        return st;
    }
    return gwi_source_start_pairs(&reader->source[reader->count++], fd, reader->path, err);
}

static gw_status open_with(gw_status (*open)(gw_reader *, gw_error *), const char *path, gw_reader **ret_reader,
                           gw_error *err)
{
    gw_reader *reader = calloc(1, sizeof *reader);
    gw_status st;
    if (reader == NULL || (reader->path = strdup(path)) == NULL)
        st = gw_fail(err, GW_NOMEM, "%s: no memory for the reader", path);
    else
        st = open(reader, err);
    if (st == GW_OK)
        *ret_reader = reader;
    else
        gw_reader_close(reader);
    return st;
}

gw_status gw_reader_open(const char *path, gw_reader **ret_reader, gw_error *err)
{
    return open_with(open_any, path, ret_reader, err);
}

gw_status gw_reader_open_pairs(const char *path, gw_reader **ret_reader, gw_error *err)
{
    return open_with(open_pairs, path, ret_reader, err);
}

void gw_reader_set_report(gw_reader *reader, gw_reader_report *report, void *user)
{
    if (reader->count > 0) { /* the first source is the recording; the other one is in memory */
        reader->source[0].report = report;
        reader->source[0].report_user = user;
    }
}

uid_t gw_reader_owner(const gw_reader *reader)
{
    return reader->owner;
}

void gw_reader_close(gw_reader *reader)
{
    if (reader == NULL)
        return;
    for (unsigned i = 0; i < reader->count; i++)
        gwi_source_close(&reader->source[i]);
    free(reader->path);
    free(reader->record_path);
    free(reader);
}

/* If the supervisor has died, its run folder may be read hours later. What the buffers say then is as old as the last
 * event, or as the end of the recording. Returns that time, or `t_ns` if it is earlier or nothing else is known. */
static uint64_t time_of_left(const gw_reader *reader, uint64_t t_ns)
{
    const gwi_source *buffers = &reader->source[reader->count - 1];
    uint64_t known_ns = reader->record_read ? reader->source[0].t_ns : 0;
    if (!reader->folder || reader->alive)
        return t_ns;
    if (buffers->decoder != NULL && buffers->decoder->t_ns > known_ns)
        known_ns = buffers->decoder->t_ns;
    return known_ns != 0 && known_ns < t_ns ? known_ns : t_ns;
}

/* Correct the time of an item from the buffers that has the time at which they were read. */
static void set_time_of_left(gw_reader *reader, const gw_item **item)
{
    gw_item_kind kind = (*item)->kind;
    if (kind == GW_ITEM_EVENT || kind == GW_ITEM_PROCESS)
        return;
    reader->last = **item;
    reader->last.t_ns = time_of_left(reader, reader->last.t_ns);
    *item = &reader->last;
}

/* Return the items after all others, one per call. A run folder has its state (SUPERVISOR). TRUNCATED follows if the
 * end of the recording is missing. Returns GW_END if no item is left. */
static gw_status say_last(gw_reader *reader, const gw_item **ret_item)
{
    bool complete = reader->folder && !reader->record_read ? reader->alive : !reader->source[0].in.truncated;
    reader->last.t_ns = time_of_left(reader, reader->source[reader->count - 1].t_ns);
    *ret_item = &reader->last;
    if (reader->said == 0) {
        reader->said = 1;
        if (reader->folder) {
            reader->last.kind = GW_ITEM_SUPERVISOR;
            reader->last.pair.key = "run.state";
            reader->last.pair.value = reader->alive ? "alive" : "supervisor died";
            return GW_OK;
        }
    }
    if (reader->said == 1) {
        reader->said = 2;
        reader->last.kind = GW_ITEM_TRUNCATED;
        if (!complete && !reader->alive)
            return GW_OK;
    }
    return GW_END;
}

/* Return false if the PROCESS item comes from the second source and the first source has already returned it. The
 * recording and the process's buffer can both contain the item. */
static bool process_is_new(gw_reader *reader, const gw_item *item)
{
    seen_processes *seen = &reader->seen;
    for (size_t i = 0; i < seen->count && reader->at == 1; i++)
        if (seen->pid[i] == item->pid && seen->start_ns[i] == item->process.start_realtime_ns)
            return false;
    if (reader->at == 0 && seen->count < SEEN_MAX) {
        seen->pid[seen->count] = item->pid;
        seen->start_ns[seen->count++] = item->process.start_realtime_ns;
    }
    return true;
}

gw_status gw_reader_next(gw_reader *reader, const gw_item **ret_item, gw_error *err)
{
    if (reader->at < reader->count && reader->source[reader->at].mode == GWI_IN_EVENTS &&
        gwi_decoder_next(reader->source[reader->at].decoder, ret_item) == GW_OK)
        return GW_OK; /* the usual case: the next event of the current block; all other cases follow */
    while (reader->at < reader->count) {
        gw_status st = gwi_source_next(&reader->source[reader->at], ret_item, err);
        if (__builtin_expect(st == GW_OK, 1)) {
            if (reader->count > 1 && (*ret_item)->kind == GW_ITEM_PROCESS && !process_is_new(reader, *ret_item))
                continue;
            if (reader->folder && reader->at + 1 == reader->count)
                set_time_of_left(reader, ret_item);
            return GW_OK;
        }
        if (st != GW_END)
            return st;
        reader->at++;
    }
    const gw_item *item;
    gw_status st = say_last(reader, &item);
    if (st == GW_OK)
        *ret_item = item;
    return st;
}

size_t gw_reader_events(gw_reader *reader, gw_event *event, size_t room)
{
    if (reader->at >= reader->count || reader->source[reader->at].mode != GWI_IN_EVENTS)
        return 0;
    gwi_decoder *decoder = reader->source[reader->at].decoder;
    size_t count = 0;
    while (count < room && gwi_decoder_event(decoder, &event[count]) == GW_OK)
        count++;
    return count;
}

const char *gw_reader_fn_name(const gw_reader *reader, uint16_t fn)
{
    const gwi_dict *dict = &reader->source[0].dict;
    return fn < dict->fn_count ? dict->fn_name[fn] : "?";
}

uint32_t gw_reader_fn_count(const gw_reader *reader)
{
    return reader->source[0].dict.fn_count;
}
