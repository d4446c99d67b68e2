/* Drains the buffers of a run folder.
 *
 * A drain copies the new records from all chunks and sorts the events by time. It passes on those that are at least 2
 * ms old; younger events wait for the next drain. Every event is always in a buffer or in the file, so none is lost if
 * the supervisor dies.
 *
 * The progress in each chunk (gwi_chunk_mark) goes to the writer as DRAINED items. gw_drain_commit() writes it into the
 * buffers once the events are in the file. */
#define _GNU_SOURCE
#include "gw_array.h"
#include "gwi_folder.h"

#include "gw_clock.h"
#include "gw_filter.h"
#include "gw_text.h"
#include "gwi_buffer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    HOLD_BACK_NS = 2000000,
    FORESEEN_NS = 100000000,       /* how far ahead foresee() predicts: the usual time between two drains */
    TEXT_PATIENCE_NS = 1000000000, /* how long an event waits for the rest of its text */
    UNREADY_NS = 1000000000,       /* for this long, a buffer that is still being set up is checked often */
    COUNTERS_EVERY_NS = 1000000000,
    AFTER_FAILURE_NS = 2000000000u, /* for this long after a failure, every drain passes on changed counters */
    RESULT_OUT_OF_MEMORY = 2,
    RESULT_NOT_FOUND = 500, /* not a failure: libraries look up functions that may not exist */
    RECORD_BYTES = sizeof(gw_raw_event),
    SLOTS_AT_ONCE = 32,
    NO_EVENT = UINT32_MAX
};

/* The new records of one chunk, copied. */
typedef struct part {
    uint32_t buffer, chunk; /* index in drain.buffer, and index of the chunk in this buffer */
    uint32_t slot, generation, tid;
    uint64_t sequence;
    uint32_t first; /* index of the part's first record in drain.record */
    uint32_t count;
    uint32_t base_bytes; /* offset of this first record, counted from the end of the chunk's head */
} part;

/* An event and its texts, which are adjacent in drain.record. Damaged records directly before the event also belong to
 * the group, and are skipped. */
typedef struct group {
    uint64_t t_ns; /* CLOCK_MONOTONIC */
    uint32_t first, count;
    uint32_t event; /* index of the event's record; NO_EVENT: the group has only damaged records */
    uint32_t part;  /* index of the part that contains the group's last record */
} group;

struct gw_drain {
    char *folder; /* owned */
    int end_fd;   /* epoll on the pidfds of the processes and on the folder; -1: none */
    int made_fd;  /* inotify: reports new files in the folder; -1: none */
    bool copy;
    bool listed;           /* for copies only: the folder has been read */
    bool last;             /* this is the last drain: do not wait for anything */
    uint64_t copied_at_ns; /* when copying began, see gwi_drain_open_copy() */
    uint64_t t0_monotonic_ns;
    bool expects;
    uint32_t expected_fn_count, expected_fn_hash;
    gwi_buffer **buffer; /* owned */
    uint32_t buffer_count;
    size_t buffer_capacity;
    uint64_t t_ns; /* time of the last event passed on, in ns since t0_monotonic_ns */
    uint64_t now_ns;
    uint64_t before_ns; /* start of the previous drain; 0: none */
    gwi_now now;        /* the clocks, read after the records were copied */
    /* data of the current drain */
    part *part;
    uint32_t part_count;
    size_t part_capacity;
    gw_raw_event *record;
    uint32_t *record_part;
    uint32_t record_count;
    size_t record_capacity, record_part_capacity;
    group *group;
    uint32_t group_count;
    size_t group_capacity;
    gw_drained_mark *mark;
    size_t mark_capacity;
    gw_item_sink sink;
    void *user;
    char text[GW_TEXT_BYTES_MAX + GW_RAW_TEXT_BYTES + 1];
    gw_hot_call call[GW_RING_ENTRIES];
    gw_ring ring;
};

/* ---- opening and closing ---- */

/* Start or stop watching a file descriptor: while it is watched, gw_drain_end_fd() becomes readable when it does. If
 * this fails, the next drain finds the new buffer or the end of the process. */
static void watch(const gw_drain *drain, int fd, bool on)
{
    struct epoll_event event = {.events = EPOLLIN};
    if (drain->end_fd >= 0 && fd >= 0)
        (void)!epoll_ctl(drain->end_fd, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, fd, &event);
}

/* Watch the folder for new buffers, so that a process that starts and ends between two drains is found in time. */
static void watch_folder(gw_drain *drain)
{
    drain->made_fd = gw_rare_calls_are_safe() ? inotify_init1(IN_CLOEXEC | IN_NONBLOCK) : -1;
    if (drain->made_fd >= 0 && inotify_add_watch(drain->made_fd, drain->folder, IN_CREATE | IN_MOVED_TO) >= 0)
        watch(drain, drain->made_fd, true);
}

gw_status gw_drain_open(const char *run_folder, uint64_t t0_monotonic_ns, gw_drain **ret_drain, gw_error *err)
{
    gw_drain *drain = calloc(1, sizeof *drain);
    if (drain == NULL || (drain->folder = strdup(run_folder)) == NULL) {
        free(drain);
        return gw_fail(err, GW_NOMEM, "%s: no memory to drain", run_folder);
    }
    drain->end_fd = drain->made_fd = -1;
    DIR *dir = opendir(run_folder);
    if (dir == NULL) {
        gw_status st = gw_fail(err, GW_IO, "run folder %s: %s", run_folder, strerror(errno));
        gw_drain_close(drain);
        return st;
    }
    closedir(dir);
    drain->t0_monotonic_ns = t0_monotonic_ns;
    drain->end_fd = epoll_create1(EPOLL_CLOEXEC);
    watch_folder(drain);
    *ret_drain = drain;
    return GW_OK;
}

int gw_drain_end_fd(const gw_drain *drain)
{
    return drain->end_fd;
}

void gw_drain_close(gw_drain *drain)
{
    if (drain == NULL)
        return;
    for (uint32_t i = 0; i < drain->buffer_count; i++)
        gwi_buffer_close(drain->buffer[i]);
    if (drain->end_fd >= 0)
        close(drain->end_fd);
    if (drain->made_fd >= 0)
        close(drain->made_fd);
    free(drain->buffer);
    free(drain->part);
    free(drain->record);
    free(drain->record_part);
    free(drain->group);
    free(drain->mark);
    free(drain->folder);
    free(drain);
}

void gw_drain_expect(gw_drain *drain, uint32_t fn_count, uint32_t fn_table_hash)
{
    drain->expects = true;
    drain->expected_fn_count = fn_count;
    drain->expected_fn_hash = fn_table_hash;
}

static uint64_t since_t0(const gw_drain *drain, uint64_t monotonic_ns)
{
    return monotonic_ns > drain->t0_monotonic_ns ? monotonic_ns - drain->t0_monotonic_ns : 0;
}

static uint64_t ticks_ns(const gw_drain *drain, const gwi_buffer *buffer, uint64_t ticks)
{
    return ticks == 0 ? 0 : since_t0(drain, gwi_buffer_ns(buffer, &drain->now, ticks));
}

static gw_status hand(gw_drain *drain, const gw_item *item, gw_error *err)
{
    return drain->sink(drain->user, item, err);
}

static gw_status say(gw_drain *drain, uint32_t pid, const char *key, const char *value, gw_error *err)
{
    gw_item item = {
        .kind = GW_ITEM_SUPERVISOR, .t_ns = since_t0(drain, drain->now_ns), .pid = pid, .pair = {key, value}};
    return hand(drain, &item, err);
}

/* ---- finding buffers ---- */

static bool is_known(const gw_drain *drain, const char *name)
{
    for (uint32_t i = 0; i < drain->buffer_count; i++)
        if (strcmp(drain->buffer[i]->name, name) == 0)
            return true;
    return false;
}

static gw_status read_folder(gw_drain *drain, gw_error *err)
{
    gw_status st = GW_OK;
    char made[4096];
    if (drain->listed)
        return GW_OK;
    while (drain->made_fd >= 0 && read(drain->made_fd, made, sizeof made) > 0)
        continue; /* the contents are not needed: all files of the folder are listed below */
    DIR *dir = opendir(drain->folder);
    if (dir == NULL)
        return gw_fail(err, GW_IO, "run folder %s: %s", drain->folder, strerror(errno));
    struct dirent *entry;
    while (st == GW_OK && (entry = readdir(dir)) != NULL) {
        gwi_buffer *buffer = NULL;
        if (!gw_ends_with(entry->d_name, ".buf") || entry->d_name[4] == '\0' || is_known(drain, entry->d_name))
            continue;
        st = gwi_buffer_open(dirfd(dir), entry->d_name, drain->copy, &buffer);
        if (st == GW_MISSING || st == GW_IO) { /* not a buffer, or too many open files: try again in the next drain */
            st = GW_OK;
            continue;
        }
        if (st == GW_OK &&
            !gw_array_room(&drain->buffer, drain->buffer_count, &drain->buffer_capacity, sizeof(gwi_buffer *)))
            st = GW_NOMEM;
        if (st == GW_OK)
            drain->buffer[drain->buffer_count++] = buffer;
        else
            gwi_buffer_close(buffer);
    }
    closedir(dir);
    if (st != GW_OK)
        return gw_fail(err, st, "run folder %s: no memory for its buffers", drain->folder);
    drain->listed = drain->copy; /* a copy reads the folder only once */
    return GW_OK;
}

/* True if the process still maps this file, or if that is unknown. */
static bool is_mapped(const gwi_buffer *buffer)
{
    char path[64], *line = NULL;
    size_t capacity = 0;
    bool found = false;
    snprintf(path, sizeof path, "/proc/%u/maps", buffer->head.pid);
    FILE *maps = fopen(path, "re");
    if (maps == NULL)
        return true;
    while (!found && getline(&line, &capacity, maps) >= 0)
        found = strstr(line, buffer->name) != NULL;
    free(line);
    fclose(maps);
    return found;
}

/* Mark the older buffers that this process no longer maps. After an exec, the process is alive but no longer writes to
 * the buffer of the old program. */
static void find_replaced(gw_drain *drain, const gwi_buffer *newer)
{
    for (uint32_t i = 0; i < drain->buffer_count; i++) {
        gwi_buffer *older = drain->buffer[i];
        if (older == newer || !older->adopted || older->gone || older->head.pid != newer->head.pid ||
            older->head.start_monotonic_ns > newer->head.start_monotonic_ns || older->is_elsewhere || is_mapped(older))
            continue;
        watch(drain, older->pidfd, false);
        older->gone = older->replaced = true;
        older->gone_at_ns = drain->now_ns;
    }
}

static gw_status introduce(gw_drain *drain, gwi_buffer *buffer, gw_error *err)
{
    const gw_buffer_head *head = &buffer->head;
    gw_item item = {
        .kind = GW_ITEM_PROCESS,
        .t_ns = since_t0(drain, head->start_monotonic_ns),
        .pid = head->pid,
        .process = {.parent_pid = head->parent_pid,
                    .start_realtime_ns = head->start_realtime_ns,
                    .exe = head->exe,
                    .driver_path = head->driver_path,
                    .driver_build_id = head->driver_build_id,
                    .pid_namespace = head->pid_namespace,
                    .launcher = head->launcher},
    };
    buffer->introduced = true;
    watch(drain, buffer->pidfd, true);
    return hand(drain, &item, err);
}

static gw_status refuse(gw_drain *drain, gwi_buffer *buffer, gw_error *err)
{
    char why[160];
    snprintf(why, sizeof why, "%s: written by another build (%u functions, table %08x; expected %u, %08x)",
             buffer->name, buffer->head.fn_count, buffer->head.fn_table_hash, drain->expected_fn_count,
             drain->expected_fn_hash);
    buffer->useless = true;
    return say(drain, buffer->head.pid, "buffer.refused", why, err);
}

/* Pass a PROCESS item to the sink if the buffer has become ready since the last drain. Report a damaged buffer. */
static gw_status welcome(gw_drain *drain, gwi_buffer *buffer, gw_error *err)
{
    if (!buffer->adopted) {
        gw_error why = {""};
        gw_status st = gwi_buffer_adopt(buffer, &why);
        if (st == GW_MISSING)
            return GW_OK;
        if (st == GW_NOMEM)
            return gw_fail(err, st, "%s", why.text);
        if (st != GW_OK) {
            buffer->useless = true;
            return say(drain, buffer->head.pid, "buffer.damaged", why.text, err);
        }
        find_replaced(drain, buffer);
    }
    if (drain->expects &&
        (buffer->head.fn_count != drain->expected_fn_count || buffer->head.fn_table_hash != drain->expected_fn_hash))
        return refuse(drain, buffer, err);
    return introduce(drain, buffer, err);
}

static gw_status look_around(gw_drain *drain, gw_error *err)
{
    gw_status st = read_folder(drain, err);
    uint64_t looked_at_ns = 0;
    for (uint32_t i = 0; i < drain->buffer_count && st == GW_OK; i++) {
        gwi_buffer *buffer = drain->buffer[i];
        if (buffer->useless)
            continue;
        if (!buffer->introduced)
            st = welcome(drain, buffer, err);
        if (buffer->adopted && !buffer->gone && gwi_buffer_process_gone(buffer)) {
            looked_at_ns = looked_at_ns == 0 ? gw_monotonic_ns() : looked_at_ns;
            buffer->gone = true;
            /* Use the same time for all processes that have ended, because the order of their ends is unknown. */
            buffer->gone_at_ns = looked_at_ns;
            gwi_buffer_ask_status(buffer);
            watch(drain, buffer->pidfd, false);
        }
    }
    return st;
}

static bool is_read(const gwi_buffer *buffer)
{
    return buffer->introduced && !buffer->useless && !buffer->finished;
}

/* True if the buffer's process is alive, as far as this pid namespace can say. */
static bool is_alive(const gwi_buffer *buffer)
{
    return is_read(buffer) && !buffer->gone && !buffer->is_elsewhere;
}

/* ---- copying records ---- */

/* Return our progress in a chunk. If the chunk is new to us, start with the progress stored in its head. */
static gwi_chunk_mark *update_mark(gwi_buffer *buffer, uint32_t index, const gw_chunk_head *head, uint32_t used_bytes)
{
    gwi_chunk_mark *mark = &buffer->chunk[index];
    if (!mark->seen || mark->sequence != head->sequence) {
        uint32_t drained = head->drained_bytes;
        bool sane = drained <= used_bytes && drained % RECORD_BYTES == 0;
        *mark = (gwi_chunk_mark){
            .sequence = head->sequence, .handed_bytes = sane ? drained : 0, .seen = true, .taken = true};
    }
    return mark;
}

/* Predict which part of the buffer the program would fill in FORESEEN_NS, at its rate since the last drain. The
 * prediction falls slowly: a short pause does not mean that the program is idle. */
static void foresee(const gw_drain *drain, gwi_buffer *buffer, uint32_t new_records)
{
    uint64_t since_ns = buffer->head.start_monotonic_ns; /* used if the buffer is newer than the previous drain */
    if (since_ns < drain->before_ns)
        since_ns = drain->before_ns;
    buffer->foreseen_ratio *= 0.8;
    if (since_ns >= drain->now_ns || buffer->head.chunk_count == 0)
        return;
    double records = (double)new_records * FORESEEN_NS / (double)(drain->now_ns - since_ns);
    double ratio = records / ((double)buffer->head.chunk_count * GW_CHUNK_RECORDS);
    if (ratio > 1)
        ratio = 1;
    if (ratio > buffer->foreseen_ratio)
        buffer->foreseen_ratio = ratio;
}

/* Return the number of times that the process has taken a chunk. */
static uint64_t chunk_sequence(const gwi_buffer *buffer)
{
    uint64_t sequence;
    gwi_buffer_read(buffer, offsetof(gw_buffer_head, chunk_sequence), &sequence, sizeof sequence);
    return sequence;
}

/* True if all chunks must be read. Otherwise, only the chunks in use at the last drain can have changed: the process
 * has taken no chunk since. A thread increments chunk_sequence after it takes a chunk, so read chunk_sequence before
 * the chunks. */
static bool must_see_all(const gw_drain *drain, gwi_buffer *buffer)
{
    uint64_t sequence = chunk_sequence(buffer);
    bool all = sequence != buffer->sequence_seen || buffer->copy != NULL || buffer->gone || drain->last;
    buffer->sequence_seen = sequence;
    return all;
}

static gw_status find_parts(gw_drain *drain, uint32_t buffer_index, gw_error *err)
{
    gwi_buffer *buffer = drain->buffer[buffer_index];
    uint32_t new_records = 0;
    bool all = must_see_all(drain, buffer);
    for (uint32_t i = 0; i < buffer->head.chunk_count; i++) {
        gw_chunk_head head;
        if (!all && !buffer->chunk[i].taken)
            continue;
        gwi_buffer_read(buffer, gwi_chunk_offset(buffer, i), &head, sizeof head);
        buffer->chunk[i].taken = head.state != GW_CHUNK_FREE;
        uint32_t used_bytes = head.used_bytes;
        if (used_bytes > GW_CHUNK_RECORDS * RECORD_BYTES)
            used_bytes = GW_CHUNK_RECORDS * RECORD_BYTES;
        used_bytes -= used_bytes % RECORD_BYTES;
        if (head.state == GW_CHUNK_FREE || used_bytes == 0 || head.slot_index >= buffer->head.slot_count)
            continue;
        const gwi_chunk_mark *mark = update_mark(buffer, i, &head, used_bytes);
        if (mark->handed_bytes >= used_bytes)
            continue;
        new_records += (used_bytes - mark->handed_bytes) / RECORD_BYTES;
        if (!gw_array_room(&drain->part, drain->part_count, &drain->part_capacity, sizeof(part))) {
            buffer->sequence_seen--; /* makes the next drain read all chunks, so that it finds the remaining records */
            return gw_fail(err, GW_NOMEM, "%s: no memory to drain", buffer->name);
        }
        drain->part[drain->part_count++] = (part){.buffer = buffer_index,
                                                  .chunk = i,
                                                  .slot = head.slot_index,
                                                  .generation = head.generation,
                                                  .tid = head.tid,
                                                  .sequence = head.sequence,
                                                  .count = (used_bytes - mark->handed_bytes) / RECORD_BYTES,
                                                  .base_bytes = mark->handed_bytes};
    }
    foresee(drain, buffer, new_records);
    return GW_OK;
}

static bool same_thread(const part *a, const part *b)
{
    return a->buffer == b->buffer && a->slot == b->slot && a->generation == b->generation && a->tid == b->tid;
}

#define COMPARE(a, b)                                                                                                  \
    if ((a) != (b))                                                                                                    \
    return (a) < (b) ? -1 : 1

static int compare_parts(const void *left, const void *right)
{
    const part *a = left, *b = right;
    COMPARE(a->buffer, b->buffer);
    COMPARE(a->slot, b->slot);
    COMPARE(a->generation, b->generation);
    COMPARE(a->tid, b->tid);
    COMPARE(a->sequence, b->sequence);
    COMPARE(a->chunk, b->chunk);
    return 0;
}

/* Copy the records thread by thread and in the order of chunks, so that an event and its text are adjacent. */
static gw_status copy_records(gw_drain *drain, gw_error *err)
{
    if (drain->part_count > 0)
        qsort(drain->part, drain->part_count, sizeof *drain->part, compare_parts);
    uint32_t total = 0;
    for (uint32_t i = 0; i < drain->part_count; i++)
        total += drain->part[i].count;
    if (!gw_array_reach(&drain->record, total, &drain->record_capacity, sizeof *drain->record) ||
        !gw_array_reach(&drain->record_part, total, &drain->record_part_capacity, sizeof *drain->record_part))
        return gw_fail(err, GW_NOMEM, "run folder %s: no memory to drain", drain->folder);
    drain->record_count = 0;
    for (uint32_t i = 0; i < drain->part_count; i++) {
        part *p = &drain->part[i];
        const gwi_buffer *buffer = drain->buffer[p->buffer];
        p->first = drain->record_count;
        gwi_buffer_read(buffer, gwi_chunk_offset(buffer, p->chunk) + sizeof(gw_chunk_head) + p->base_bytes,
                        &drain->record[p->first], (size_t)p->count * RECORD_BYTES);
        for (uint32_t k = 0; k < p->count; k++)
            drain->record_part[drain->record_count++] = i;
    }
    return GW_OK;
}

/* ---- finding events ---- */

static bool is_event(const gw_raw_event *record)
{
    return record->kind < GW_EV_COUNT && record->kind != GW_EV_TEXT;
}

/* Find the group that starts at record `first`. The records of its thread end at `end`. Returns false if the text of
 * the group's event is incomplete. */
static bool find_group(const gw_drain *drain, uint32_t first, uint32_t end, group *ret_group)
{
    *ret_group = (group){.first = first, .event = NO_EVENT};
    uint32_t at = first;
    while (at < end && !is_event(&drain->record[at]))
        at++; /* skip a text without its event, or damage */
    bool whole = true;
    if (at < end) {
        ret_group->event = at;
        bool more = (drain->record[at].flags & GW_EVF_TEXT_FOLLOWS) != 0;
        for (at++; more && at < end && drain->record[at].kind == GW_EV_TEXT; at++)
            more = (drain->record[at].flags & GW_EVF_TEXT_FOLLOWS) != 0;
        /* If the next record is another event, the rest of the text was lost: do not wait for it. */
        whole = !more || at < end;
    }
    ret_group->count = at - first;
    ret_group->part = drain->record_part[at - 1];
    return whole;
}

/* The group at `first` must wait for the next drain. Return the record where the thread's next group may start: the
 * start of the next chunk. A thread may have two chunks at once (one of them for failures), so the next chunk may
 * contain earlier events. But if it begins with the rest of this group's text, all further records of the thread must
 * wait: return `end`. */
static uint32_t skip_to_next_part(const gw_drain *drain, uint32_t first, uint32_t end)
{
    const part *p = &drain->part[drain->record_part[first]];
    uint32_t next = p->first + p->count;
    return next < end && drain->record[next].kind == GW_EV_TEXT ? end : next;
}

/* Find the events of one thread in the records [first, end) that are not newer than the cutoff time. */
static gw_status find_events(gw_drain *drain, uint32_t first, uint32_t end, uint64_t cutoff_ns, gw_error *err)
{
    gwi_buffer *buffer = drain->buffer[drain->part[drain->record_part[first]].buffer];
    uint32_t last_part = UINT32_MAX;
    uint64_t t_ns = 0;
    while (first < end) {
        group found;
        bool whole = find_group(drain, first, end, &found);
        if (drain->record_part[first] != last_part)
            t_ns = 0; /* times are in order only within a chunk */
        last_part = drain->record_part[first];
        found.t_ns = t_ns;
        if (found.event != NO_EVENT) {
            uint64_t event_ns = gwi_buffer_ns(buffer, &drain->now, drain->record[found.event].ticks);
            found.t_ns = event_ns > t_ns ? event_ns : t_ns;
        }
        bool wait_for_text =
            !whole && !buffer->gone && !drain->last && found.t_ns + TEXT_PATIENCE_NS > drain->now.monotonic_ns;
        if (found.t_ns > cutoff_ns || wait_for_text) {
            buffer->left_over = true;
            first = skip_to_next_part(drain, first, end);
            continue;
        }
        if (!gw_array_room(&drain->group, drain->group_count, &drain->group_capacity, sizeof found))
            return gw_fail(err, GW_NOMEM, "run folder %s: no memory to drain", drain->folder);
        drain->group[drain->group_count++] = found;
        t_ns = found.t_ns;
        first += found.count;
    }
    return GW_OK;
}

static int compare_groups(const void *left, const void *right)
{
    const group *a = left, *b = right;
    COMPARE(a->t_ns, b->t_ns);
    COMPARE(a->first, b->first); /* preserves the order of a thread's events with equal times */
    return 0;
}

static gw_status collect(gw_drain *drain, uint64_t cutoff_ns, gw_error *err)
{
    gw_status st = GW_OK;
    drain->part_count = drain->group_count = 0;
    for (uint32_t i = 0; i < drain->buffer_count && st == GW_OK; i++) {
        drain->buffer[i]->left_over = false;
        if (is_read(drain->buffer[i]))
            st = find_parts(drain, i, err);
    }
    if (st == GW_OK)
        st = copy_records(drain, err);
    drain->now = gwi_now_take();
    uint32_t i = 0;
    while (i < drain->part_count && st == GW_OK) {
        uint32_t first = i;
        while (i < drain->part_count && same_thread(&drain->part[first], &drain->part[i]))
            i++;
        uint32_t end = drain->part[i - 1].first + drain->part[i - 1].count;
        st = find_events(drain, drain->part[first].first, end, cutoff_ns, err);
    }
    if (drain->group_count > 0)
        qsort(drain->group, drain->group_count, sizeof *drain->group, compare_groups);
    return st;
}

/* ---- passing on events ---- */

static void mark_handed(gw_drain *drain, const group *g)
{
    for (uint32_t i = g->first; i < g->first + g->count; i++) {
        const part *p = &drain->part[drain->record_part[i]];
        gwi_buffer *buffer = drain->buffer[p->buffer];
        gwi_chunk_mark *mark = &buffer->chunk[p->chunk];
        mark->handed_bytes = p->base_bytes + (i - p->first + 1) * RECORD_BYTES;
        mark->changed = buffer->handed = true;
    }
}

static uint32_t join_text(gw_drain *drain, const group *g)
{
    uint32_t bytes = 0;
    for (uint32_t i = g->event + 1; i < g->first + g->count; i++) {
        gw_raw_text text;
        memcpy(&text, &drain->record[i], sizeof text);
        uint32_t more = text.bytes <= sizeof text.text ? text.bytes : (uint32_t)sizeof text.text;
        if (bytes + more > GW_TEXT_BYTES_MAX)
            more = GW_TEXT_BYTES_MAX - bytes;
        memcpy(drain->text + bytes, text.text, more);
        bytes += more;
    }
    drain->text[bytes] = '\0';
    return bytes;
}

static void note_failure(gw_drain *drain, gwi_buffer *buffer, const gw_raw_event *raw)
{
    if (raw->result == 0 || raw->result == RESULT_NOT_FOUND)
        return;
    buffer->failure_at_ns = drain->now_ns;
    if (raw->result != RESULT_OUT_OF_MEMORY)
        buffer->ring_due = true;
}

static gw_status hand_event(gw_drain *drain, const group *g, gw_error *err)
{
    const part *p = &drain->part[g->part];
    gwi_buffer *buffer = drain->buffer[p->buffer];
    mark_handed(drain, g);
    if (g->event == NO_EVENT)
        return GW_OK;
    const gw_raw_event *raw = &drain->record[g->event];
    uint64_t t_ns = since_t0(drain, g->t_ns);
    drain->t_ns = t_ns > drain->t_ns ? t_ns : drain->t_ns;
    gw_item item = {.kind = GW_ITEM_EVENT, .t_ns = drain->t_ns, .pid = buffer->head.pid, .tid = p->tid};
    item.event = (gw_event){.t_ns = drain->t_ns,
                            .pid = buffer->head.pid,
                            .tid = p->tid,
                            .fn = raw->fn < buffer->head.fn_count ? raw->fn : GWI_FN_UNKNOWN,
                            .kind = raw->kind,
                            .flags = raw->flags & (uint8_t)~GW_EVF_TEXT_FOLLOWS,
                            .result = raw->result,
                            .took_us = raw->took_us,
                            .site = raw->site,
                            .extra = raw->extra,
                            .context = raw->context,
                            .arg = {raw->arg[0], raw->arg[1], raw->arg[2], raw->arg[3]}};
    if (g->count > g->event - g->first + 1) {
        item.event.text_bytes = join_text(drain, g);
        item.event.text = drain->text;
    }
    note_failure(drain, buffer, raw);
    return hand(drain, &item, err);
}

/* ---- passing on state ---- */

static gw_status hand_lost(gw_drain *drain, gwi_buffer *buffer, gw_error *err)
{
    gw_buffer_head head;
    gwi_buffer_read(buffer, 0, &head, sizeof head);
    uint64_t lost[3] = {head.lost_events, head.lost_failures, head.threads_without_slot};
    if (memcmp(lost, buffer->lost_said, sizeof lost) == 0)
        return GW_OK;
    memcpy(buffer->lost_said, lost, sizeof lost);
    gw_item item = {.kind = GW_ITEM_LOST,
                    .t_ns = head.lost_ticks != 0 ? ticks_ns(drain, buffer, head.lost_ticks)
                                                 : since_t0(drain, drain->now.monotonic_ns),
                    .pid = buffer->head.pid,
                    .lost = {lost[0], lost[1], lost[2]}};
    return hand(drain, &item, err);
}

static gw_status hand_counters(gw_drain *drain, gwi_buffer *buffer, const gw_slot *slot, gwi_slot_said *said,
                               bool final, gw_error *err)
{
    char name[sizeof slot->name + 1] = "";
    uint64_t counter[GW_COUNT_COUNT];
    for (unsigned i = 0; i < GW_COUNT_COUNT; i++)
        counter[i] = slot->counter[i];
    uint32_t inside = slot->inside_fn;
    gw_item item = {.kind = GW_ITEM_COUNTERS, .pid = buffer->head.pid, .tid = slot->tid};
    item.counters.calls = slot->calls;
    item.counters.synced_at_ns = slot->synced_at; /* still in ticks, to compare it with the value passed on last */
    item.counters.inside_since_ns = inside == 0 ? 0 : slot->inside_since;
    item.counters.inside_fn_plus_1 = inside <= buffer->head.fn_count && inside <= UINT16_MAX ? (uint16_t)inside : 0;
    bool changed = memcmp(counter, said->counter, sizeof counter) != 0 ||
                   item.counters.calls != said->counters.counters.calls ||
                   item.counters.synced_at_ns != said->counters.counters.synced_at_ns ||
                   item.counters.inside_since_ns != said->counters.counters.inside_since_ns;
    bool soon = buffer->failure_at_ns != 0 && drain->now_ns - buffer->failure_at_ns < AFTER_FAILURE_NS;
    if (!changed || !(final || soon || drain->now_ns - said->at_ns >= COUNTERS_EVERY_NS))
        return GW_OK;
    said->counters = item;
    said->at_ns = drain->now_ns;
    memcpy(said->counter, counter, sizeof counter);
    memcpy(name, slot->name, sizeof slot->name);
    item.t_ns = since_t0(drain, drain->now.monotonic_ns);
    item.counters.synced_at_ns = ticks_ns(drain, buffer, item.counters.synced_at_ns);
    item.counters.inside_since_ns = ticks_ns(drain, buffer, item.counters.inside_since_ns);
    item.counters.counter = counter;
    item.counters.thread_name = name;
    return hand(drain, &item, err);
}

/* Copy the intact entries of a ring to drain->call, and return their number. `head` was read before the copy, so only
 * entries before `head` are used. The owner may have overwritten old entries during the copy; these are left out. */
static uint32_t copy_ring(gw_drain *drain, const gwi_buffer *buffer, uint32_t slot_index, uint32_t ring_index,
                          uint64_t head)
{
    gwi_buffer_read(buffer, buffer->head.ring_offset + (uint64_t)ring_index * sizeof(gw_ring), &drain->ring,
                    sizeof drain->ring);
    uint64_t head_after;
    if (buffer->ring_head_after != NULL)
        head_after = buffer->ring_head_after[slot_index];
    else
        gwi_buffer_read(buffer, gwi_slot_offset(buffer, slot_index) + offsetof(gw_slot, ring_head), &head_after,
                        sizeof head_after);
    if (head_after < head)
        return 0;
    uint64_t from = head_after >= GW_RING_ENTRIES ? head_after - GW_RING_ENTRIES + 1 : 0;
    uint32_t count = 0;
    uint64_t t_ns = 0;
    for (uint64_t i = from; i < head && count < GW_RING_ENTRIES; i++) {
        const gw_ring_entry *entry = &drain->ring.entry[i % GW_RING_ENTRIES];
        uint64_t entry_ns = ticks_ns(drain, buffer, entry->ticks);
        if (entry->ticks < buffer->head.start_ticks || entry_ns < t_ns)
            continue; /* this entry is damaged, because times do not decrease within a thread */
        t_ns = entry_ns;
        uint16_t fn = (uint16_t)entry->stream_fn;
        drain->call[count++] = (gw_hot_call){.t_ns = entry_ns,
                                             .what = entry->what,
                                             .stream = entry->stream_fn >> 16,
                                             .fn = fn < buffer->head.fn_count ? fn : GWI_FN_UNKNOWN};
    }
    return count;
}

static gw_status hand_ring(gw_drain *drain, gwi_buffer *buffer, uint32_t slot_index, const gw_slot *slot,
                           gwi_slot_said *said, bool final, gw_error *err)
{
    int32_t ring_index = slot->ring_index;
    uint64_t head = slot->ring_head;
    bool rate_ok = final || !said->ring_said || drain->now_ns - said->ring_at_ns >= COUNTERS_EVERY_NS;
    if (ring_index < 0 || (uint32_t)ring_index >= buffer->head.ring_count || head == 0 || !rate_ok ||
        (said->ring_said && said->ring_head == head))
        return GW_OK;
    said->ring_said = true;
    said->ring_head = head;
    said->ring_at_ns = drain->now_ns;
    gw_item item = {.kind = GW_ITEM_RING,
                    .t_ns = since_t0(drain, drain->now.monotonic_ns),
                    .pid = buffer->head.pid,
                    .tid = slot->tid};
    item.ring.count = copy_ring(drain, buffer, slot_index, (uint32_t)ring_index, head);
    item.ring.call = drain->call;
    item.ring.total = head;
    item.ring.synced_total = slot->synced_ring_head;
    return hand(drain, &item, err);
}

/* Return a slot, for a walk along all slots of a buffer. They are read into `room`, SLOTS_AT_ONCE at a time. */
static const gw_slot *slot_at(const gwi_buffer *buffer, uint32_t index, gw_slot room[SLOTS_AT_ONCE])
{
    uint32_t left = buffer->head.slot_count - index, count = left < SLOTS_AT_ONCE ? left : (uint32_t)SLOTS_AT_ONCE;
    if (index % SLOTS_AT_ONCE == 0)
        gwi_buffer_read(buffer, gwi_slot_offset(buffer, index), room, count * sizeof *room);
    return &room[index % SLOTS_AT_ONCE];
}

static gw_status hand_slot(gw_drain *drain, gwi_buffer *buffer, uint32_t index, const gw_slot *slot, bool final,
                           gw_error *err)
{
    uint32_t state = slot->state;
    if (state != GW_SLOT_LIVE && state != GW_SLOT_ENDED)
        return GW_OK;
    gwi_slot_said *said = &buffer->slot[index];
    if (said->generation != slot->generation)
        *said = (gwi_slot_said){.generation = slot->generation};
    bool slot_final = final || (state == GW_SLOT_ENDED && !said->ended_said);
    gw_status st = hand_counters(drain, buffer, slot, said, slot_final, err);
    if (st == GW_OK && (slot_final || buffer->ring_due))
        st = hand_ring(drain, buffer, index, slot, said, slot_final, err);
    said->ended_said = state == GW_SLOT_ENDED;
    return st;
}

static gw_status hand_slots(gw_drain *drain, gwi_buffer *buffer, bool final, gw_error *err)
{
    gw_status st = GW_OK;
    gw_slot room[SLOTS_AT_ONCE];
    for (uint32_t i = 0; i < buffer->head.slot_count && st == GW_OK; i++)
        st = hand_slot(drain, buffer, i, slot_at(buffer, i, room), final, err);
    buffer->ring_due = false;
    return st;
}

static gw_status hand_exit(gw_drain *drain, gwi_buffer *buffer, gw_error *err)
{
    bool ours = !drain->copy && buffer->head.parent_pid == (uint32_t)getpid();
    if (!buffer->gone || buffer->replaced || ours)
        return GW_OK;
    gw_item item = {.kind = GW_ITEM_EXIT,
                    .t_ns = since_t0(drain, buffer->gone_at_ns),
                    .pid = buffer->head.pid,
                    .exit = {.pid = buffer->head.pid, .exit_code = -1}};
    /* Try again: once the parent has waited for the process, newer Linux kernels return the status. */
    gwi_buffer_ask_status(buffer);
    if (buffer->status_known) {
        item.exit.status_known = true;
        item.exit.exit_code = WIFEXITED(buffer->status) ? WEXITSTATUS(buffer->status) : -1;
        item.exit.signal = WIFSIGNALED(buffer->status) ? WTERMSIG(buffer->status) : 0;
        item.exit.core_dumped = WIFSIGNALED(buffer->status) && WCOREDUMP(buffer->status);
    }
    return hand(drain, &item, err);
}

static gw_status hand_marks(gw_drain *drain, gwi_buffer *buffer, gw_error *err)
{
    if (!buffer->handed)
        return GW_OK;
    buffer->handed = false;
    if (!gw_array_room(&drain->mark, buffer->head.chunk_count, &drain->mark_capacity, sizeof *drain->mark))
        return gw_fail(err, GW_NOMEM, "%s: no memory for marks", buffer->name);
    uint32_t count = 0;
    for (uint32_t i = 0; i < buffer->head.chunk_count; i++) {
        gwi_chunk_mark *mark = &buffer->chunk[i];
        if (mark->changed)
            drain->mark[count++] = (gw_drained_mark){mark->sequence, mark->handed_bytes};
        mark->changed = false;
    }
    gw_item item = {.kind = GW_ITEM_DRAINED,
                    .t_ns = drain->t_ns,
                    .pid = buffer->head.pid,
                    .drained = {buffer->head.start_monotonic_ns, drain->mark, count}};
    return hand(drain, &item, err);
}

static gw_status hand_state(gw_drain *drain, gwi_buffer *buffer, bool last, uint64_t cutoff_ns, gw_error *err)
{
    bool ends = buffer->gone && !buffer->left_over && (last || cutoff_ns >= buffer->gone_at_ns);
    gw_status st = hand_lost(drain, buffer, err);
    if (st == GW_OK)
        st = hand_slots(drain, buffer, last || ends, err);
    if (st == GW_OK && (last || ends))
        st = gwi_buffer_tell_nccl(buffer, &drain->now, drain->t0_monotonic_ns, since_t0(drain, drain->now.monotonic_ns),
                                  drain->sink, drain->user, err);
    if (st == GW_OK && ends)
        st = hand_exit(drain, buffer, err);
    if (st == GW_OK)
        buffer->finished = ends;
    return st;
}

gw_status gw_drain_run(gw_drain *drain, bool last, gw_item_sink sink, void *user, gw_error *err)
{
    gw_drain_commit(drain);
    drain->sink = sink;
    drain->user = user;
    drain->before_ns = drain->now_ns;
    drain->now_ns = gw_monotonic_ns();
    drain->last = last;
    uint64_t cutoff_ns = last ? UINT64_MAX : drain->now_ns - HOLD_BACK_NS;
    if (drain->copy)
        cutoff_ns = drain->copied_at_ns;
    gw_status st = look_around(drain, err);
    if (st == GW_OK)
        st = collect(drain, cutoff_ns, err);
    for (uint32_t i = 0; i < drain->group_count && st == GW_OK; i++)
        st = hand_event(drain, &drain->group[i], err);
    for (uint32_t i = 0; i < drain->buffer_count && st == GW_OK; i++)
        if (is_read(drain->buffer[i]))
            st = hand_state(drain, drain->buffer[i], last, cutoff_ns, err);
    /* Pass the marks to the writer even after a failure, because it already has the events that were passed before the
     * failure. */
    for (uint32_t i = 0; i < drain->buffer_count; i++) {
        gw_status marked =
            drain->buffer[i]->adopted ? hand_marks(drain, drain->buffer[i], st == GW_OK ? err : NULL) : GW_OK;
        st = st == GW_OK ? marked : st;
    }
    drain->group_count = 0;
    return st;
}

/* True for counters of calls that are not progress: queries, and also waits that return. A program that waits
 * repeatedly for finished work, while other work never ends, is like a program that polls. */
static bool is_question(unsigned counter)
{
    return counter == GW_COUNT_QUERY || counter == GW_COUNT_SYNC || counter == GW_COUNT_NOT_READY ||
           counter == GW_COUNT_NOT_FOUND || counter == GW_COUNT_PEER_ALREADY;
}

static gw_thread_look look_at_slot(const gw_drain *drain, const gwi_buffer *buffer, const gw_slot *slot)
{
    uint32_t inside = slot->inside_fn;
    gw_thread_look look = {.pid = buffer->head.pid, .tid = slot->tid, .calls = slot->calls};
    for (unsigned i = 0; i < GW_COUNT_COUNT; i++) {
        if (is_question(i))
            look.questions += slot->counter[i];
        else
            look.progress += slot->counter[i];
    }
    look.launches = slot->counter[GW_COUNT_LAUNCH] + slot->counter[GW_COUNT_GRAPH_LAUNCH];
    look.not_ready = slot->counter[GW_COUNT_NOT_READY];
    look.waits = slot->counter[GW_COUNT_SYNC] + slot->counter[GW_COUNT_READ];
    if (inside != 0 && inside <= buffer->head.fn_count && inside <= UINT16_MAX) {
        look.inside_fn_plus_1 = (uint16_t)inside;
        look.inside_since_ns = ticks_ns(drain, buffer, slot->inside_since);
    }
    return look;
}

static void look_at_buffer(const gw_drain *drain, const gwi_buffer *buffer, gw_thread_sink sink, void *user)
{
    enum { IN_NCCL_MAX = 64 };
    gw_slot room[SLOTS_AT_ONCE];
    uint32_t in_nccl[IN_NCCL_MAX];
    size_t in_nccl_count = gwi_buffer_inside_nccl(buffer, in_nccl, IN_NCCL_MAX);
    for (uint32_t i = 0; i < buffer->head.slot_count; i++) {
        const gw_slot *slot = slot_at(buffer, i, room);
        if (slot->state != GW_SLOT_LIVE)
            continue;
        gw_thread_look look = look_at_slot(drain, buffer, slot);
        for (size_t k = 0; k < in_nccl_count; k++)
            look.is_in_nccl = look.is_in_nccl || in_nccl[k] == look.tid;
        sink(user, &look);
    }
}

void gw_drain_look(gw_drain *drain, gw_thread_sink sink, void *user)
{
    drain->now = gwi_now_take();
    for (uint32_t i = 0; i < drain->buffer_count; i++) {
        const gwi_buffer *buffer = drain->buffer[i];
        if (is_alive(buffer))
            look_at_buffer(drain, buffer, sink, user);
    }
}

gw_status gw_drain_tell_nccl(gw_drain *drain, gw_item_sink sink, void *user, gw_error *err)
{
    gw_status st = GW_OK;
    drain->now = gwi_now_take();
    for (uint32_t i = 0; i < drain->buffer_count && st == GW_OK; i++)
        if (is_alive(drain->buffer[i]))
            st = gwi_buffer_tell_nccl(drain->buffer[i], &drain->now, drain->t0_monotonic_ns,
                                      since_t0(drain, drain->now.monotonic_ns), sink, user, err);
    return st;
}

void gw_drain_look_caches(const gw_drain *drain, gw_cache_sink sink, void *user)
{
    uint64_t allocated[GW_BUFFER_DEVICES], reserved[GW_BUFFER_DEVICES];
    for (uint32_t i = 0; i < drain->buffer_count; i++) {
        const gwi_buffer *buffer = drain->buffer[i];
        if (!is_alive(buffer))
            continue;
        gwi_buffer_read(buffer, offsetof(gw_buffer_head, torch_allocated_bytes), allocated, sizeof allocated);
        gwi_buffer_read(buffer, offsetof(gw_buffer_head, torch_reserved_bytes), reserved, sizeof reserved);
        for (uint32_t device = 0; device < GW_BUFFER_DEVICES; device++) {
            const gw_cache_look look = {buffer->head.pid, device, allocated[device], reserved[device]};
            if (reserved[device] != 0)
                sink(user, &look);
        }
    }
}

size_t gw_drain_alive(const gw_drain *drain, uint32_t *pid, size_t pid_max)
{
    size_t count = 0;
    for (uint32_t i = 0; i < drain->buffer_count; i++) {
        if (!is_alive(drain->buffer[i]))
            continue;
        if (count < pid_max)
            pid[count] = drain->buffer[i]->head.pid;
        count++;
    }
    return count;
}

/* ---- freeing ---- */

/* Free a full chunk if all its records are in the recording. Otherwise, store in the chunk's head how many bytes of
 * records are in the recording. */
static void commit_chunk(gwi_buffer *buffer, uint32_t index)
{
    gwi_chunk_mark *mark = &buffer->chunk[index];
    uint64_t offset = gwi_chunk_offset(buffer, index);
    gw_chunk_head head;
    gwi_buffer_read(buffer, offset, &head, sizeof head);
    uint32_t state = head.state, used = head.used_bytes, none = 0;
    if (!mark->seen || head.sequence != mark->sequence) {
        /* A thread that ended may leave a full chunk without records. Free it too. */
        if (state != GW_CHUNK_FULL || used != 0)
            return;
    } else if (state != GW_CHUNK_FULL || mark->handed_bytes < used) {
        if (head.drained_bytes != mark->handed_bytes)
            gwi_buffer_write(buffer, offset + offsetof(gw_chunk_head, drained_bytes), &mark->handed_bytes, 4);
        return;
    }
    /* Clear the old values before the chunk becomes free, because its next owner may set the fields of the head in any
     * order. */
    gwi_buffer_write(buffer, offset + offsetof(gw_chunk_head, used_bytes), &none, 4);
    gwi_buffer_write(buffer, offset + offsetof(gw_chunk_head, drained_bytes), &none, 4);
    mark->seen = mark->taken = false;
    uint32_t free_state = GW_CHUNK_FREE;
    gwi_buffer_write(buffer, offset + offsetof(gw_chunk_head, state), &free_state, 4);
}

static bool slot_has_chunk(const gwi_buffer *buffer, uint32_t slot_index, uint32_t generation)
{
    for (uint32_t i = 0; i < buffer->head.chunk_count; i++) {
        gw_chunk_head head;
        gwi_buffer_read(buffer, gwi_chunk_offset(buffer, i), &head, sizeof head);
        if (head.state != GW_CHUNK_FREE && head.slot_index == slot_index && head.generation == generation)
            return true;
    }
    return false;
}

static void commit_slot(gwi_buffer *buffer, uint32_t index)
{
    gwi_slot_said *said = &buffer->slot[index];
    if (!said->ended_said || slot_has_chunk(buffer, index, said->generation))
        return;
    uint32_t free_state = GW_SLOT_FREE;
    gwi_buffer_write(buffer, gwi_slot_offset(buffer, index) + offsetof(gw_slot, state), &free_state, 4);
    said->ended_said = false;
}

static void commit_buffer(gwi_buffer *buffer)
{
    for (uint32_t i = 0; i < buffer->head.chunk_count; i++)
        if (buffer->chunk[i].taken)
            commit_chunk(buffer, i);
    for (uint32_t i = 0; i < buffer->head.slot_count; i++)
        commit_slot(buffer, i);
}

static void remove_buffer(gw_drain *drain, uint32_t index)
{
    gwi_buffer *buffer = drain->buffer[index];
    char *path = NULL;
    if (asprintf(&path, "%s/%s", drain->folder, buffer->name) < 0 || (unlink(path) != 0 && errno != ENOENT)) {
        free(path);
        return; /* keep the buffer in the list, marked as finished, so that it is not opened again */
    }
    free(path);
    gwi_buffer_close(buffer);
    drain->buffer[index] = drain->buffer[--drain->buffer_count];
}

void gw_drain_commit(gw_drain *drain)
{
    if (drain->copy)
        return;
    for (uint32_t i = drain->buffer_count; i-- > 0;) {
        gwi_buffer *buffer = drain->buffer[i];
        if (buffer->finished)
            remove_buffer(drain, i);
        else if (is_read(buffer))
            commit_buffer(buffer);
    }
}

/* Return the fraction of the chunks that are in use, from 0 to 1. Only the supervisor frees chunks, so every chunk in
 * use at the last drain is still in use. chunk_sequence shows how many the process has taken since. */
static double taken_ratio(const gwi_buffer *buffer)
{
    uint64_t taken = chunk_sequence(buffer) - buffer->sequence_seen;
    for (uint32_t i = 0; i < buffer->head.chunk_count; i++)
        taken += buffer->chunk[i].taken;
    return taken < buffer->head.chunk_count ? (double)taken / buffer->head.chunk_count : 1;
}

double gw_drain_fill_ratio(const gw_drain *drain)
{
    double fullest = 0;
    for (uint32_t i = 0; i < drain->buffer_count; i++) {
        const gwi_buffer *buffer = drain->buffer[i];
        if (!buffer->adopted && !buffer->useless && gw_monotonic_ns() - buffer->opened_at_ns < UNREADY_NS)
            return 1;
        if (!is_read(buffer) || buffer->head.chunk_count == 0)
            continue;
        double taken = taken_ratio(buffer), foreseen = buffer->foreseen_ratio;
        double ratio = taken > foreseen ? taken : foreseen;
        fullest = ratio > fullest ? ratio : fullest;
    }
    return fullest;
}

/* ---- copies, for readers ---- */

/* The program continues while we copy its buffer, and a thread may have two chunks. The first chunk may be copied
 * before an event is written to it, the second after a later event. So leave out events that were written after copying
 * began. All earlier events are in the copy. */
gw_status gwi_drain_open_copy(const char *run_folder, uint64_t t0_monotonic_ns, gw_drain **ret_drain, gw_error *err)
{
    gw_drain *drain = NULL;
    gw_status st = gw_drain_open(run_folder, t0_monotonic_ns, &drain, err);
    if (st != GW_OK)
        return st;
    drain->copy = true;
    drain->copied_at_ns = gw_monotonic_ns();
    st = read_folder(drain, err);
    for (uint32_t i = 0; i < drain->buffer_count && st == GW_OK; i++) {
        gw_status adopted = gwi_buffer_adopt(drain->buffer[i], err);
        st = adopted == GW_NOMEM ? GW_NOMEM : GW_OK; /* ignore a damaged buffer here: the drain reports it */
    }
    if (st != GW_OK) {
        gw_drain_close(drain);
        return st;
    }
    *ret_drain = drain;
    return GW_OK;
}

gw_status gw_drain_peek(const char *run_folder, uint64_t t0_monotonic_ns, gw_thread_sink sink, void *user,
                        gw_error *err)
{
    gw_drain *drain = NULL;
    gw_status st = gwi_drain_open_copy(run_folder, t0_monotonic_ns, &drain, err);
    if (st != GW_OK)
        return st;
    drain->now = gwi_now_take();
    for (uint32_t i = 0; i < drain->buffer_count; i++) {
        const gwi_buffer *buffer = drain->buffer[i];
        if (buffer->adopted && !buffer->useless && !buffer->is_elsewhere && !gwi_buffer_process_gone(buffer))
            look_at_buffer(drain, buffer, sink, user);
    }
    gw_drain_close(drain);
    return GW_OK;
}

void gwi_drain_pass_over(gw_drain *drain, const gwi_mark *mark)
{
    for (uint32_t i = 0; i < drain->buffer_count; i++) {
        gwi_buffer *buffer = drain->buffer[i];
        if (!buffer->adopted || buffer->head.pid != mark->pid ||
            buffer->head.start_monotonic_ns != mark->start_monotonic_ns)
            continue;
        for (uint32_t k = 0; k < buffer->head.chunk_count; k++) {
            gw_chunk_head head;
            gwi_buffer_read(buffer, gwi_chunk_offset(buffer, k), &head, sizeof head);
            if (head.sequence != mark->sequence || head.state == GW_CHUNK_FREE)
                continue;
            uint32_t most = buffer->chunk[k].handed_bytes;
            if (most < head.drained_bytes)
                most = head.drained_bytes;
            if (most < mark->bytes)
                most = mark->bytes;
            buffer->chunk[k] = (gwi_chunk_mark){
                .sequence = head.sequence, .handed_bytes = most - most % RECORD_BYTES, .seen = true, .taken = true};
        }
    }
}
