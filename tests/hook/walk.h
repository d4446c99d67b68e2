/* For tests: read a buffer file and check the rules that a buffer obeys at any moment, even while the program writes to
 * it. */
#ifndef WALK_H
#define WALK_H

#include "gw_buffer.h"
#include "gw_event.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WALK_EVENTS_MAX = 16384 };

typedef struct walk_event {
    gw_raw_event raw;
    uint32_t tid;
    char text[GW_TEXT_BYTES_MAX + 1];
} walk_event;

typedef struct walk {
    const gw_buffer_head *head;
    const char *fault; /* first broken rule; NULL: none was found */
    char fault_text[200];
    int event_count;
    int slots_live, slots_ended;
    uint64_t counter[GW_COUNT_COUNT];
    uint64_t ring_entries;
    walk_event event[WALK_EVENTS_MAX];
} walk;

static inline bool walk_fail(walk *w, const char *what, uint64_t where)
{
    if (w->fault == NULL) {
        snprintf(w->fault_text, sizeof w->fault_text, "%s (%llu)", what, (unsigned long long)where);
        w->fault = w->fault_text;
    }
    return false;
}

static inline void walk_chunk(walk *w, const gw_chunk *chunk, uint32_t index)
{
    uint32_t used = atomic_load(&chunk->head.used_bytes), state = atomic_load(&chunk->head.state);
    if (state > GW_CHUNK_FULL || used % 64 != 0 || used > GW_CHUNK_RECORDS * 64) {
        walk_fail(w, "chunk head", index);
        return;
    }
    if (state == GW_CHUNK_FREE)
        return;
    bool text_expected = false;
    for (uint32_t i = 0; i < used / 64; i++) {
        const gw_raw_event *raw = &chunk->record[i];
        if (raw->kind >= GW_EV_COUNT || raw->result >= 1000 || raw->ticks == 0) {
            walk_fail(w, "record", index * 1000 + i);
            return;
        }
        if ((raw->kind == GW_EV_TEXT) != text_expected) {
            walk_fail(w, "text where none belongs, or none where one does", index * 1000 + i);
            return;
        }
        text_expected = (raw->flags & GW_EVF_TEXT_FOLLOWS) != 0;
        if (raw->kind == GW_EV_TEXT) {
            const gw_raw_text *text = (const gw_raw_text *)raw;
            if (text->bytes > GW_RAW_TEXT_BYTES) {
                walk_fail(w, "text bytes", index * 1000 + i);
                return;
            }
            if (w->event_count > 0)
                strncat(w->event[w->event_count - 1].text, text->text, text->bytes);
        } else if (w->event_count < WALK_EVENTS_MAX) {
            w->event[w->event_count] = (walk_event){.raw = *raw, .tid = chunk->head.tid};
            w->event_count++;
        }
    }
    if (text_expected)
        walk_fail(w, "text missing at the end", index);
}

/* Read and check all of a mapped buffer. Returns false if it breaks a rule; `w->fault` then describes which one. */
static inline bool walk_map(walk *w, const void *map)
{
    const gw_buffer_head *head = map;
    w->head = head;
    w->fault = NULL;
    w->event_count = w->slots_live = w->slots_ended = 0;
    w->ring_entries = 0;
    memset(w->counter, 0, sizeof w->counter);
    if (!atomic_load(&head->ready))
        return true;
    if (memcmp(head->magic, GW_BUFFER_MAGIC, 8) != 0 || head->version != GW_BUFFER_VERSION ||
        head->chunk_count != GW_CHUNK_COUNT || atomic_load(&head->rings_taken) > GW_RING_COUNT)
        return walk_fail(w, "head", 0);
    const gw_slot *slot = (const gw_slot *)((const char *)map + head->slot_offset);
    for (uint32_t i = 0; i < head->slot_count; i++) {
        uint32_t state = atomic_load(&slot[i].state);
        if (state > GW_SLOT_ENDED)
            return walk_fail(w, "slot state", i);
        if (state == GW_SLOT_FREE)
            continue;
        if (slot[i].tid == 0 || atomic_load(&slot[i].ring_index) < -1 ||
            atomic_load(&slot[i].ring_index) >= GW_RING_COUNT)
            return walk_fail(w, "slot", i);
        w->slots_live += state == GW_SLOT_LIVE;
        w->slots_ended += state == GW_SLOT_ENDED;
        w->ring_entries += atomic_load(&slot[i].ring_head);
        for (int c = 0; c < GW_COUNT_COUNT; c++)
            w->counter[c] += atomic_load(&slot[i].counter[c]);
    }
    const gw_chunk *chunk = (const gw_chunk *)((const char *)map + head->chunk_offset);
    for (uint32_t i = 0; i < head->chunk_count && w->fault == NULL; i++)
        walk_chunk(w, &chunk[i], i);
    return w->fault == NULL;
}

static inline const void *walk_open(const char *path)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    void *map = fstat(fd, &info) == 0 && info.st_size == GW_BUFFER_BYTES
                    ? mmap(NULL, GW_BUFFER_BYTES, PROT_READ, MAP_SHARED, fd, 0)
                    : MAP_FAILED;
    close(fd);
    return map == MAP_FAILED ? NULL : map;
}

/* Find the n-th buffer (from 0) of a folder, sorted by name. Returns false if there is none. */
static inline bool walk_find(const char *folder, int n, char *path, size_t path_bytes)
{
    struct dirent **names;
    int count = scandir(folder, &names, NULL, alphasort), seen = 0;
    bool found = false;
    for (int i = 0; i < count; i++) {
        if (strstr(names[i]->d_name, ".buf") != NULL && seen++ == n) {
            snprintf(path, path_bytes, "%.200s/%.100s", folder, names[i]->d_name);
            found = true;
        }
    }
    for (int i = 0; i < count; i++)
        free(names[i]);
    if (count >= 0)
        free(names);
    return found;
}

static inline const walk_event *walk_event_find(const walk *w, unsigned kind, int result)
{
    for (int i = 0; i < w->event_count; i++)
        if (w->event[i].raw.kind == kind && w->event[i].raw.result == result)
            return &w->event[i];
    return NULL;
}

static inline int walk_event_count(const walk *w, unsigned kind)
{
    int count = 0;
    for (int i = 0; i < w->event_count; i++)
        count += w->event[i].raw.kind == kind;
    return count;
}

#endif
