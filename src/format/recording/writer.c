/* Collects items into blocks by kind, writes them, and compacts the file near its size limit. */
#define _GNU_SOURCE
#include "gw_array.h"
#include "gwi_folder.h"

#include "gw_clock.h"
#include "gwi_source.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BYTES_MAX_MIN = 64 << 10, STDERR_PART_BYTES = 64 << 10 };

struct gw_writer {
    gwi_out out;
    char *path; /* owned */
    uint64_t bytes_max;
    uint64_t compact_at; /* file length at which the file is compacted */
    uint32_t fn_count;
    gwi_bytes dict;
    gwi_encoder *encoder;     /* the pending block of events */
    gwi_bytes items;          /* the pending block of other items */
    gwi_block_type pending;   /* type of the pending block; 0: none */
    gwi_bytes marks;          /* marks for the next SYNC block */
    uint32_t synced_sequence; /* sequence number of the first block after the last SYNC block */
    uint64_t event_count;     /* number of events written so far, including dropped ones */
    uint64_t dropped_count;   /* number of events dropped because of the size limit or a failed write */
    uint64_t alive_dropped_count;
    uint64_t dropped_said;
    uint64_t t_ns;    /* time of the last item */
    gw_status failed; /* status of the first failed write; failed_error has its text */
    gw_error failed_error;
    char *spare; /* owned: path of the spare file; NULL: none, or already in use */
    uint64_t spare_bytes_max;
    gw_error spare_reason; /* "": the writer has not moved to the spare file */
    gwi_out left;          /* the file that was left for the spare file; only fd, end and sequence; fd -1: none */
};

/* Return the file length at which the file is compacted. It leaves room below `bytes_max` for one more flush. */
static uint64_t full_at(uint64_t bytes_max)
{
    const uint64_t room_max = 512 << 10;
    return bytes_max - (bytes_max / 16 < room_max ? bytes_max / 16 : room_max);
}

static void writer_free(gw_writer *writer)
{
    if (writer == NULL)
        return;
    gwi_out_close(&writer->out);
    if (writer->left.fd >= 0)
        close(writer->left.fd);
    free(writer->encoder);
    gwi_bytes_free(&writer->dict);
    gwi_bytes_free(&writer->items);
    gwi_bytes_free(&writer->marks);
    free(writer->path);
    free(writer->spare);
    free(writer);
}

/* Allocate a writer without a file. Even after a failure, it must be freed. */
static gw_status new_writer(const char *path, uint64_t bytes_max, const char *const *fn_names, uint32_t fn_count,
                            gw_writer **ret_writer, gw_error *err)
{
    gw_writer *writer = calloc(1, sizeof *writer);
    if (writer == NULL)
        return gw_fail(err, GW_NOMEM, "%s: no memory for the writer", path);
    writer->out.fd = writer->left.fd = -1;
    writer->path = strdup(path);
    writer->encoder = gwi_encoder_new();
    writer->fn_count = fn_count < GWI_FN_UNKNOWN ? fn_count : GWI_FN_UNKNOWN;
    if (bytes_max != 0)
        writer->bytes_max = bytes_max < BYTES_MAX_MIN ? BYTES_MAX_MIN : bytes_max;
    writer->compact_at = full_at(writer->bytes_max);
    *ret_writer = writer;
    if (writer->path == NULL || writer->encoder == NULL ||
        gwi_dict_encode(&writer->dict, fn_names, writer->fn_count) != GW_OK)
        return gw_fail(err, GW_NOMEM, "%s: no memory for the writer", path);
    return GW_OK;
}

/* The end of making a writer: return it, or free it after a failure. */
static gw_status hand_out(gw_writer *writer, gw_status st, gw_writer **ret_writer)
{
    if (st == GW_OK)
        *ret_writer = writer;
    else
        writer_free(writer);
    return st;
}

/* Write the file header and the dictionary. The writer owns `fd` even if this fails. */
static gw_status begin_file(gw_writer *writer, int fd, gw_error *err)
{
    writer->out.fd = fd;
    gw_status st = gwi_out_start(&writer->out, fd, writer->path, gw_realtime_ns(), err);
    return st == GW_OK ? gwi_out_block(&writer->out, GWI_BLOCK_DICT, writer->dict.data, writer->dict.used_bytes, err)
                       : st;
}

gw_status gwi_writer_on_fd(int fd, const char *path, uint64_t bytes_max, const char *const *fn_names, uint32_t fn_count,
                           gw_writer **ret_writer, gw_error *err)
{
    gw_writer *writer = NULL;
    gw_status st = new_writer(path, bytes_max, fn_names, fn_count, &writer, err);
    if (st == GW_OK)
        st = begin_file(writer, fd, err);
    else
        close(fd);
    return hand_out(writer, st, ret_writer);
}

/* Create a file without a name in the folder of `path`. Returns -1 if the file system does not support this. */
static int open_unnamed(const char *path)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    if (slash == NULL)
        snprintf(folder, sizeof folder, ".");
    else if (snprintf(folder, sizeof folder, "%.*s", slash == path ? 1 : (int)(slash - path), path) >= PATH_MAX)
        return -1;
    return open(folder, O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
}

/* Give the file of `fd` a name. Returns false with the reason in errno, which is EEXIST if the name is taken. */
static bool give_name(int fd, const char *path)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    return linkat(AT_FDCWD, link, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0;
}

/* Create the file without a name, write its first blocks, and only then name it. Otherwise, a supervisor that dies
 * early leaves an empty file, which is no recording. If the file system cannot do this, *ret_is_made is false and the
 * writer is unchanged. */
static gw_status begin_unnamed(gw_writer *writer, bool *ret_is_made, gw_error *err)
{
    int fd = open_unnamed(writer->path);
    *ret_is_made = false;
    if (fd < 0)
        return GW_OK;
    gw_status st = begin_file(writer, fd, err);
    if (st != GW_OK)
        return st;
    *ret_is_made = give_name(fd, writer->path);
    if (*ret_is_made)
        return GW_OK;
    st = errno == EEXIST ? gw_fail(err, GW_IO, "create %s: %s", writer->path, strerror(errno)) : GW_OK;
    gwi_out_close(&writer->out);
    return st;
}

static gw_status begin_named(gw_writer *writer, gw_error *err)
{
    int fd = open(writer->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return gw_fail(err, GW_IO, "create %s: %s", writer->path, strerror(errno));
    gw_status st = begin_file(writer, fd, err);
    if (st != GW_OK)
        unlink(writer->path); /* remove the incomplete file, which this writer created */
    return st;
}

gw_status gw_writer_create(const char *path, uint64_t bytes_max, const char *const *fn_names, uint32_t fn_count,
                           gw_writer **ret_writer, gw_error *err)
{
    gw_writer *writer = NULL;
    bool is_made = false;
    gw_status st = new_writer(path, bytes_max, fn_names, fn_count, &writer, err);
    if (st == GW_OK)
        st = begin_unnamed(writer, &is_made, err);
    if (st == GW_OK && !is_made)
        st = begin_named(writer, err);
    return hand_out(writer, st, ret_writer);
}

/* Store the first error, because gw_writer_close() reports it again. */
static gw_status note_failure(gw_writer *writer, gw_status st, const gw_error *error, gw_error *err)
{
    if (writer->failed == GW_OK) {
        writer->failed = st;
        writer->failed_error = *error;
    }
    return gw_fail(err, st, "%s", error->text);
}

/* Compact the file if it has reached compact_at. A failure loses no events. The writer tries again when the file has
 * grown by another sixteenth of the limit. */
static void compact(gw_writer *writer)
{
    gwi_out smaller;
    gwi_compacted done;
    gw_error ignored;
    if (writer->bytes_max == 0 || writer->out.end < writer->compact_at)
        return;
    if (gwi_compact(writer->path, writer->bytes_max, &smaller, &done, &ignored) != GW_OK) {
        writer->compact_at = writer->out.end + writer->bytes_max / 16;
        return;
    }
    /* The new file numbers its blocks from 0. As many blocks follow the last synced block as in the old file. */
    uint32_t unsynced = writer->out.sequence - writer->synced_sequence;
    gwi_out_close(&writer->out);
    writer->out = smaller;
    writer->synced_sequence = smaller.sequence > unsynced ? smaller.sequence - unsynced : 0;
    writer->dropped_count += done.events_dropped;
    writer->alive_dropped_count += done.alive_dropped;
    writer->compact_at =
        smaller.end < writer->bytes_max * 3 / 4 ? full_at(writer->bytes_max) : smaller.end + writer->bytes_max / 4;
}

static bool copy_bytes(int from, int to, uint64_t bytes)
{
    static char part[64 << 10];
    for (uint64_t done = 0; done < bytes;) {
        size_t wanted = bytes - done < sizeof part ? (size_t)(bytes - done) : sizeof part;
        ssize_t got = pread(from, part, wanted, (off_t)done);
        if (got <= 0 || pwrite(to, part, (size_t)got, (off_t)done) != got)
            return false;
        done += (uint64_t)got;
    }
    return true;
}

/* Write an item to the file that was left, where room was reserved for the last blocks. Nothing helps if this fails. */
static void put_to_left(gw_writer *writer, const gw_item *item)
{
    gwi_out now = writer->out, *left = &writer->left;
    gwi_bytes bytes = {0};
    gw_error ignored;
    writer->out.fd = left->fd;
    writer->out.end = left->end;
    writer->out.sequence = left->sequence;
    writer->out.room_until = left->end;
    if (gwi_item_encode(&bytes, item) == GW_OK)
        (void)gwi_out_block(&writer->out, gwi_item_block(item->kind), bytes.data, bytes.used_bytes, &ignored);
    left->end = writer->out.end;
    left->sequence = writer->out.sequence;
    writer->out = now;
    gwi_bytes_free(&bytes);
}

/* Copy what was written so far to the spare file and continue there. Returns false if there is no spare file or the
 * copy fails. */
static bool move_to_spare(gw_writer *writer)
{
    int fd = writer->spare == NULL ? -1 : open(writer->spare, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    if (!copy_bytes(writer->out.fd, fd, writer->out.end)) {
        close(fd);
        unlink(writer->spare);
        return false;
    }
    writer->left = writer->out;
    writer->out.fd = fd;
    writer->out.room_until = writer->out.end;
    free(writer->path);
    writer->path = writer->spare;
    writer->out.path = writer->path;
    writer->spare = NULL;
    if (writer->bytes_max == 0 || writer->bytes_max > writer->spare_bytes_max) {
        writer->bytes_max = writer->spare_bytes_max;
        writer->compact_at = full_at(writer->bytes_max);
    }
    return true;
}

void gw_writer_set_spare(gw_writer *writer, const char *path, uint64_t bytes_max)
{
    free(writer->spare);
    writer->spare = strdup(path); /* NULL if out of memory: then there is no spare file */
    writer->spare_bytes_max = bytes_max < BYTES_MAX_MIN ? BYTES_MAX_MIN : bytes_max;
}

int gw_writer_file(const gw_writer *writer)
{
    return fcntl(writer->out.fd, F_DUPFD_CLOEXEC, 0);
}

const char *gw_writer_spare_reason(const gw_writer *writer)
{
    return writer->spare_reason.text[0] == '\0' ? NULL : writer->spare_reason.text;
}

/* Write a block. If this fails with an I/O error, move to the spare file and write the block there. */
static gw_status put_block(gw_writer *writer, gwi_block_type type, const uint8_t *raw, uint32_t bytes, gw_error *err)
{
    gw_error why = {""};
    gw_status st = gwi_out_block(&writer->out, type, raw, bytes, &why);
    if (st == GW_IO && move_to_spare(writer)) {
        gw_item item = {.kind = GW_ITEM_SUPERVISOR, .t_ns = writer->t_ns};
        item.pair.key = "recording.stopped";
        item.pair.value = why.text;
        writer->spare_reason = why;
        put_to_left(writer, &item);
        return gwi_out_block(&writer->out, type, raw, bytes, err);
    }
    return st == GW_OK ? st : gw_fail(err, st, "%s", why.text);
}

static gw_status flush_pending(gw_writer *writer, gw_error *err)
{
    gw_error error = {""};
    gw_status st = GW_OK;
    if (writer->pending == GWI_BLOCK_EVENTS) {
        uint32_t bytes, count;
        const uint8_t *data = gwi_encoder_data(writer->encoder, &bytes, &count);
        st = put_block(writer, GWI_BLOCK_EVENTS, data, bytes, &error);
        writer->event_count += count;
        if (st != GW_OK)
            writer->dropped_count += count;
        gwi_encoder_reset(writer->encoder);
    } else if (writer->pending != 0) {
        st = put_block(writer, writer->pending, writer->items.data, writer->items.used_bytes, &error);
        writer->items.used_bytes = 0;
    }
    writer->pending = 0;
    if (st != GW_OK)
        return note_failure(writer, st, &error, err);
    compact(writer);
    return GW_OK;
}

static gw_status turn_to(gw_writer *writer, gwi_block_type type, gw_error *err)
{
    gw_status st = writer->pending == type ? GW_OK : flush_pending(writer, err);
    writer->pending = type;
    return st;
}

static gw_status put_event(gw_writer *writer, const gw_item *item, gw_error *err)
{
    gw_event event = item->event;
    if (event.fn >= writer->fn_count)
        event.fn = GWI_FN_UNKNOWN;
    if (event.kind >= GW_EV_COUNT)
        event.kind = GW_EV_CALL;
    gw_status st = turn_to(writer, GWI_BLOCK_EVENTS, err);
    if (!gwi_encoder_add(writer->encoder, &event)) {
        gw_status flushed = flush_pending(writer, err);
        st = st == GW_OK ? flushed : st;
        writer->pending = GWI_BLOCK_EVENTS;
        if (!gwi_encoder_add(writer->encoder, &event))
            return gw_fail(err, GW_USAGE, "%s: an event does not fit into an empty block", writer->path);
    }
    return st;
}

/* Add an item to the pending block. A pending block of another type is written first. If this write fails, the item is
 * added nevertheless, and the status of the write is returned. */
static gw_status put_item(gw_writer *writer, const gw_item *item, gw_error *err)
{
    gw_status st = turn_to(writer, gwi_item_block(item->kind), err);
    gw_status coded = gwi_item_encode(&writer->items, item);
    if (coded != GW_OK)
        return gw_fail(err, coded, "%s: an item cannot be written: %s", writer->path, gw_status_text(coded));
    if (writer->items.used_bytes > GWI_BLOCK_RAW_GOAL) {
        gw_status flushed = flush_pending(writer, err);
        st = st == GW_OK ? flushed : st;
    }
    return st;
}

static gw_status put_stderr(gw_writer *writer, const gw_item *item, gw_error *err)
{
    gw_status st = GW_OK;
    gw_item part = *item;
    for (uint32_t done = 0; done < item->stderr_part.count && st == GW_OK; done += part.stderr_part.count) {
        uint32_t left = item->stderr_part.count - done;
        part.stderr_part.bytes = item->stderr_part.bytes + done;
        part.stderr_part.count = left < STDERR_PART_BYTES ? left : STDERR_PART_BYTES;
        st = put_item(writer, &part, err);
    }
    return st;
}

static gw_status put_marks(gw_writer *writer, const gw_item *item, gw_error *err)
{
    size_t wanted = writer->marks.used_bytes + (size_t)item->drained.count * sizeof(gwi_mark);
    if (wanted > GWI_BLOCK_RAW_MAX)
        return GW_OK; /* over 40,000 chunks, more than any run has; without marks, a reader returns some events twice */
    if (!gw_array_reach(&writer->marks.data, wanted, &writer->marks.capacity, 1))
        return gw_fail(err, GW_NOMEM, "%s: no memory for marks", writer->path);
    uint8_t *at = writer->marks.data + writer->marks.used_bytes;
    for (uint32_t i = 0; i < item->drained.count; i++, at += sizeof(gwi_mark)) {
        const gw_drained_mark *from = &item->drained.mark[i];
        gwi_mark mark = {item->pid, from->bytes, item->drained.start_monotonic_ns, from->sequence};
        memcpy(at, &mark, sizeof mark);
    }
    writer->marks.used_bytes = (uint32_t)wanted;
    return GW_OK;
}

gw_status gw_writer_put(gw_writer *writer, const gw_item *item, gw_error *err)
{
    if (item->kind == GW_ITEM_DRAINED)
        return put_marks(writer, item, err);
    writer->t_ns = item->t_ns;
    if (item->kind == GW_ITEM_EVENT)
        return put_event(writer, item, err);
    if (item->kind == GW_ITEM_STDERR)
        return put_stderr(writer, item, err);
    if (gwi_item_block(item->kind) == 0)
        return gw_fail(err, GW_USAGE, "%s: items of kind %d cannot be written", writer->path, (int)item->kind);
    if (item->kind == GW_ITEM_EXIT && item->exit.is_command && writer->left.fd >= 0)
        put_to_left(writer, item);
    return put_item(writer, item, err);
}

static gw_status say_number(gw_writer *writer, const char *key, uint64_t number, gw_error *err)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)number);
    gw_item item = {.kind = GW_ITEM_SUPERVISOR, .t_ns = writer->t_ns, .pair = {key, text}};
    return put_item(writer, &item, err);
}

static gw_status say_dropped(gw_writer *writer, gw_error *err)
{
    if (writer->dropped_count == writer->dropped_said)
        return GW_OK;
    writer->dropped_said = writer->dropped_count;
    gw_status st = say_number(writer, "dropped.events", writer->dropped_count, err);
    if (st == GW_OK && writer->alive_dropped_count > 0)
        st = say_number(writer, "dropped.alive", writer->alive_dropped_count, err);
    return st;
}

gw_status gw_writer_flush(gw_writer *writer, bool sync, gw_error *err)
{
    gw_status st = flush_pending(writer, err);
    if (st == GW_OK && writer->dropped_count != writer->dropped_said) {
        st = say_dropped(writer, err);
        if (st == GW_OK)
            st = flush_pending(writer, err);
    }
    bool news = writer->out.sequence != writer->synced_sequence || writer->marks.used_bytes > 0;
    if (st == GW_OK && news) {
        gw_error error = {""};
        st = put_block(writer, GWI_BLOCK_SYNC, writer->marks.data, writer->marks.used_bytes, &error);
        if (st != GW_OK)
            st = note_failure(writer, st, &error, err);
        writer->synced_sequence = writer->out.sequence;
    }
    writer->marks.used_bytes = 0;
    if (st == GW_OK && sync && fdatasync(writer->out.fd) != 0 && errno != EINVAL)
        st = gw_fail(err, GW_IO, "%s: sync: %s", writer->path, strerror(errno));
    return st;
}

/* Write a copy of the dictionary, in case the first one is damaged, and the END block. */
static gw_status put_end(gw_writer *writer, gw_error *err)
{
    gw_status st = put_block(writer, GWI_BLOCK_DICT, writer->dict.data, writer->dict.used_bytes, err);
    uint64_t count[2] = {writer->event_count, writer->dropped_count};
    gw_status end = put_block(writer, GWI_BLOCK_END, (const uint8_t *)count, sizeof count, err);
    return st == GW_OK ? end : st;
}

gw_status gw_writer_close(gw_writer *writer, gw_error *err)
{
    if (writer == NULL)
        return GW_OK;
    gw_error last = {""};
    gw_status st = gw_writer_flush(writer, false, &last);
    if (st != GW_OK) /* still write the number of dropped events and the END block */
        st = say_dropped(writer, &last) == GW_OK ? flush_pending(writer, &last) : st;
    gw_status end = put_end(writer, &last);
    st = st == GW_OK ? end : st;
    if (writer->left.fd >= 0 && ftruncate(writer->left.fd, (off_t)writer->left.end) != 0 && st == GW_OK)
        st = gw_fail(&last, GW_IO, "the room that was reserved could not be given back: %s", strerror(errno));
    if (ftruncate(writer->out.fd, (off_t)writer->out.end) != 0 && st == GW_OK)
        st = gw_fail(&last, GW_IO, "%s: %s", writer->path, strerror(errno));
    /* a network file system may report only now that it has no room */
    if (close(writer->out.fd) != 0 && st == GW_OK)
        st = gw_fail(&last, GW_IO, "%s: %s; its end may be missing", writer->path, strerror(errno));
    writer->out.fd = -1;
    if (writer->failed != GW_OK) {
        st = writer->failed;
        last = writer->failed_error;
    }
    if (st != GW_OK)
        gw_fail(err, st, "%s", last.text);
    writer_free(writer);
    return st;
}
