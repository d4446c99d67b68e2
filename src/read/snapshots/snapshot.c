/* Convert the records of a snapshot to the facts that a model reads.
 *
 * The facts describe each device at its last out-of-memory error, or as in the snapshot if there was none. An error is
 * ignored if a later request of at least that size succeeded. The snapshot was taken after the exception had freed much
 * memory. So the live blocks at the error are computed backwards through the history. */
#include "gw_torch.h"
#include "gwi_feeder.h"

#include "gw_history.h"
#include "gw_model_facts.h"
#include "gw_site.h"
#include "gw_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THE_PROCESS = 1, HELD_MAX = 64 };

/* The history of one device. */
typedef struct trace {
    uint32_t device;
    const uint32_t *entry; /* indices into gwi_torch.entry, oldest first; borrowed */
    size_t count;
    bool has_times;
} trace;

/* The memory of a device at one moment. */
typedef struct moment {
    size_t end;                 /* number of history entries before the moment */
    const gwi_torch_entry *oom; /* out-of-memory error at this moment; NULL: the snapshot was taken at this moment */
    uint64_t t_ns;
    gw_live_set live;
    uint64_t live_bytes, reserved_bytes;
} moment;

static void state(gwi_feeder *f, uint32_t device, gw_allocator_field field, uint64_t value)
{
    gwi_feed_fact(f, GW_EV_ALLOCATOR_STATE, 0, field, value, device, 0);
}

static uint64_t time_of(const gwi_feeder *f, const gwi_torch_entry *entry)
{
    return entry->time_us >= f->first_us && f->first_us != 0 ? (entry->time_us - f->first_us) * 1000 : 0;
}

/* Return the age of something that happened at `t_ns`. Entries are not sorted by time: if `t_ns` is later than
 * f->now_ns, the age is 0. */
static uint64_t age_since(const gwi_feeder *f, uint64_t t_ns)
{
    return t_ns < f->now_ns ? f->now_ns - t_ns : 0;
}

static uint64_t age_of(const gwi_feeder *f, const gwi_torch_entry *entry)
{
    return age_since(f, time_of(f, entry));
}

/* ---- the device at a moment ---- */

static const gwi_torch_entry *entry_at(const gwi_feeder *f, const trace *t, size_t index)
{
    return &f->torch->entry[t->entry[index]];
}

static uint64_t block_bytes(const gwi_torch_block *block)
{
    return block->requested_bytes != 0 ? block->requested_bytes : block->bytes;
}

/* Placeholder for the stack of a block that was live at the described moment and freed later. The entry of the free
 * lacks the stack of the allocation. */
enum { STACK_NOT_MET = -1 };

/* Replace the placeholders in the set of live blocks with the stacks of the allocations. These are in the history
 * before entry `end`. If an allocation is not there, its stack becomes 0 (unknown). */
static void name_stacks(const gwi_feeder *f, const trace *t, gw_live_set *live, size_t end)
{
    for (size_t i = end; i-- > 0;) {
        const gwi_torch_entry *entry = entry_at(f, t, i);
        gw_live_entry *block = entry->action == GW_ACTION_ALLOC ? gw_live_set_find(live, entry->address) : NULL;
        if (block != NULL && block->address != 0 && !block->gone && block->stack == (uint32_t)STACK_NOT_MET)
            block->stack = entry->stack;
    }
    for (size_t i = 0; i < live->entry_count; i++)
        if (live->entry[i].stack == (uint32_t)STACK_NOT_MET)
            live->entry[i].stack = 0;
}

static void step_back(moment *at, const gwi_torch_entry *entry)
{
    switch ((gw_allocator_action)entry->action) {
    case GW_ACTION_ALLOC:
        gw_live_set_remove(&at->live, entry->address);
        at->live_bytes -= entry->bytes < at->live_bytes ? entry->bytes : at->live_bytes;
        break;
    case GW_ACTION_FREE:
        gw_live_set_add(&at->live, entry->address, entry->bytes, (uint32_t)STACK_NOT_MET);
        at->live_bytes += entry->bytes;
        break;
    case GW_ACTION_SEGMENT_ALLOC:
    case GW_ACTION_SEGMENT_MAP:
        at->reserved_bytes -= entry->bytes < at->reserved_bytes ? entry->bytes : at->reserved_bytes;
        break;
    case GW_ACTION_SEGMENT_FREE:
    case GW_ACTION_SEGMENT_UNMAP:
        at->reserved_bytes += entry->bytes;
        break;
    default:
        break;
    }
}

/* Add to `at` the blocks of one device that are live in the snapshot, and the size of the device's segments. */
static void add_blocks(const gwi_feeder *f, uint32_t device, moment *at)
{
    for (size_t i = 0; i < f->torch->segment_count; i++) {
        const gwi_torch_segment *segment = &f->torch->segment[i];
        uint64_t address = segment->address;
        if (segment->device != device)
            continue;
        at->reserved_bytes += segment->bytes;
        for (size_t k = 0, n = gw_pickle_count(f->torch->pickle, segment->blocks); k < n; k++) {
            const gwi_torch_block *block =
                &f->torch->block[gw_pickle_at(f->torch->pickle, segment->blocks, k, NULL).number];
            address = block->has_address ? block->address : address;
            if (block->state == GW_BLOCK_LIVE || block->state == GW_BLOCK_PENDING) {
                gw_live_set_add(&at->live, address, block_bytes(block), block->stack);
                at->live_bytes += block_bytes(block);
            }
            address += block->bytes; /* older PyTorch stores no addresses, but blocks are adjacent */
        }
    }
}

/* Allocate an empty set of live blocks in `at`. The caller frees at->live.entry. Returns false if there is no
 * memory. */
static bool moment_make(const gwi_feeder *f, const trace *t, moment *at)
{
    at->live.entry_count = gw_live_set_room(f->torch->block_count + t->count);
    at->live.entry = calloc(at->live.entry_count, sizeof *at->live.entry);
    return at->live.entry != NULL;
}

/* Return the last out-of-memory error after which no request of at least that size succeeded, or NULL. *ret_index is
 * its index in the history. *ret_handled is the last error after which such a request did succeed, or NULL. */
static const gwi_torch_entry *find_oom(const gwi_feeder *f, const trace *t, size_t *ret_index,
                                       const gwi_torch_entry **ret_handled)
{
    uint64_t granted_bytes = 0;
    *ret_handled = NULL;
    for (size_t i = t->count; i-- > 0;) {
        const gwi_torch_entry *entry = entry_at(f, t, i);
        if (entry->action == GW_ACTION_ALLOC && entry->bytes > granted_bytes)
            granted_bytes = entry->bytes;
        if (entry->action != GW_ACTION_OOM)
            continue;
        if (granted_bytes < entry->bytes) {
            *ret_index = i;
            return entry;
        }
        if (*ret_handled == NULL)
            *ret_handled = entry;
    }
    return NULL;
}

/* True if no block changed between the moment and the snapshot. */
static bool is_unchanged_since(const gwi_feeder *f, const trace *t, size_t index)
{
    for (size_t i = index; i < t->count; i++) {
        const gwi_torch_entry *entry = entry_at(f, t, i);
        if (entry->action != GW_ACTION_OOM && entry->action != GW_ACTION_OTHER)
            return false;
    }
    return true;
}

/* ---- the report of a device ---- */

static void tell_map(gwi_feeder *f, uint32_t device, bool with_largest)
{
    uint64_t segments = 0, largest = 0;
    bool expandable = false;
    for (size_t i = 0; i < f->torch->segment_count; i++) {
        const gwi_torch_segment *segment = &f->torch->segment[i];
        if (segment->device != device)
            continue;
        segments++;
        expandable = expandable || segment->is_expandable;
        for (size_t k = 0, n = gw_pickle_count(f->torch->pickle, segment->blocks); k < n; k++) {
            const gwi_torch_block *block =
                &f->torch->block[gw_pickle_at(f->torch->pickle, segment->blocks, k, NULL).number];
            if (block->state == GW_BLOCK_INACTIVE && block->bytes > largest)
                largest = block->bytes;
        }
    }
    if (with_largest) {
        state(f, device, GW_ALLOCATOR_LARGEST_INACTIVE, largest);
        state(f, device, GW_ALLOCATOR_SEGMENTS, segments);
    }
    state(f, device, GW_ALLOCATOR_EXPANDABLE, expandable);
}

typedef struct held {
    uint32_t stack;
    uint64_t bytes, count;
} held;

static int by_stack(const void *left, const void *right)
{
    const held *a = left, *b = right;
    return (a->stack > b->stack) - (a->stack < b->stack);
}

static int by_bytes_falling(const void *left, const void *right)
{
    const held *a = left, *b = right;
    return (a->bytes < b->bytes) - (a->bytes > b->bytes);
}

/* Write which stacks held the memory at the peak: one fact for each large holder, and one for all others together. */
static void tell_held(gwi_feeder *f, const gw_live_set *live, uint64_t age_ns)
{
    held *list = calloc(live->used + 1, sizeof *list);
    size_t count = 0, sums = 0;
    held rest = {0};
    if (list == NULL) {
        f->status = f->status == GW_OK ? gw_fail(f->err, GW_NOMEM, "no memory for the holders") : f->status;
        return;
    }
    for (size_t i = 0; i < live->entry_count; i++) {
        const gw_live_entry *entry = &live->entry[i];
        if (entry->address != 0 && !entry->gone)
            list[count++] = (held){entry->stack, entry->bytes, 1};
    }
    qsort(list, count, sizeof *list, by_stack);
    for (size_t i = 0; i < count; i++) {
        if (sums > 0 && list[sums - 1].stack == list[i].stack) {
            list[sums - 1].bytes += list[i].bytes;
            list[sums - 1].count++;
        } else {
            list[sums++] = list[i];
        }
    }
    qsort(list, sums, sizeof *list, by_bytes_falling);
    for (size_t i = 0; i < sums; i++) {
        if (i < HELD_MAX) {
            gwi_feed_fact(f, GW_EV_ALLOCATOR_HELD, gwi_feed_site(f, list[i].stack), GW_MOMENT_PEAK, list[i].bytes,
                          list[i].count, age_ns);
        } else {
            rest.bytes += list[i].bytes;
            rest.count += list[i].count;
        }
    }
    if (rest.count > 0)
        gwi_feed_fact(f, GW_EV_ALLOCATOR_HELD, 0, GW_MOMENT_REST, rest.bytes, rest.count, age_ns);
    free(list);
}

/* Address of a live block, and the time at which the block was allocated. Lists are sorted by address. */
typedef struct birth {
    uint64_t address, t_ns;
} birth;

static int by_address(const void *left, const void *right)
{
    const birth *a = left, *b = right;
    return (a->address > b->address) - (a->address < b->address);
}

static void tell_blocks(gwi_feeder *f, const trace *t, const moment *at)
{
    birth *list = calloc(at->live.used + 1, sizeof *list);
    size_t count = 0;
    if (list == NULL) {
        f->status = f->status == GW_OK ? gw_fail(f->err, GW_NOMEM, "no memory for the live blocks") : f->status;
        return;
    }
    for (size_t i = 0; i < at->live.entry_count; i++)
        if (at->live.entry[i].address != 0 && !at->live.entry[i].gone)
            list[count++] = (birth){at->live.entry[i].address, UINT64_MAX};
    qsort(list, count, sizeof *list, by_address);
    for (size_t i = at->end; t->has_times && count > 0 && i-- > 0;) {
        const gwi_torch_entry *entry = entry_at(f, t, i);
        birth wanted = {.address = entry->address};
        birth *found =
            entry->action != GW_ACTION_ALLOC ? NULL : bsearch(&wanted, list, count, sizeof wanted, by_address);
        if (found != NULL && found->t_ns == UINT64_MAX)
            found->t_ns = time_of(f, entry);
    }
    for (size_t i = 0; i < count; i++) {
        gw_live_set live = at->live;
        const gw_live_entry *entry = gw_live_set_find(&live, list[i].address);
        uint64_t age_ns = list[i].t_ns == UINT64_MAX ? GW_AGE_UNKNOWN : age_since(f, list[i].t_ns);
        gwi_feed_fact(f, GW_EV_ALLOCATOR_BLOCK, gwi_feed_site(f, entry->stack), entry->address, entry->bytes, age_ns,
                      GW_BLOCK_LIVE);
    }
    free(list);
}

/* Walk back from the moment `at` to the start of the history. Store each period's highest and lowest live bytes in
 * `spans`. Returns the index of the first entry after the peak of live bytes. */
static size_t walk_back(const gwi_feeder *f, const trace *t, moment at, gw_history_spans *spans)
{
    uint64_t highest = at.live_bytes;
    size_t peak = at.end;
    at.live = (gw_live_set){0}; /* this walk only counts bytes; it must not change the caller's set of live blocks */
    for (size_t i = at.end; i-- > 0;) {
        const gwi_torch_entry *entry = entry_at(f, t, i);
        bool counts = entry->action == GW_ACTION_ALLOC || entry->action == GW_ACTION_FREE;
        if (counts)
            gw_history_see(spans, age_of(f, entry), at.live_bytes);
        step_back(&at, entry);
        if (counts)
            gw_history_see(spans, age_of(f, entry), at.live_bytes);
        if (at.live_bytes > highest) {
            highest = at.live_bytes;
            peak = i;
        }
    }
    return peak;
}

/* The number of the entry's stream is in the event's `extra`. */
static void tell_entry(gwi_feeder *f, const gwi_torch_entry *entry)
{
    const uint64_t arg[4] = {entry->action, entry->action == GW_ACTION_OOM ? 0 : entry->address, entry->bytes,
                             age_of(f, entry)};
    f->extra = entry->stream;
    gwi_feed_event(f, GW_EV_ALLOCATOR_HISTORY, 0, arg, NULL);
    f->extra = 0;
}

static void tell_history(gwi_feeder *f, const trace *t, moment *at)
{
    gw_history_spans *spans = calloc(1, sizeof *spans);
    if (spans == NULL) {
        f->status = f->status == GW_OK ? gw_fail(f->err, GW_NOMEM, "no memory for the history") : f->status;
        return;
    }
    spans->oldest_age_ns = at->end > 0 ? age_of(f, entry_at(f, t, 0)) : 0;
    size_t peak = walk_back(f, t, *at, spans);
    for (size_t span = GW_HISTORY_SPANS; t->has_times && span-- > 0;) {
        if (!spans->seen[span])
            continue;
        uint64_t age_ns = gw_history_span_age_ns(spans, span);
        gwi_feed_fact(f, GW_EV_ALLOCATOR_HISTORY, 0, GW_ACTION_LIVE_PEAK, 0, spans->highest[span], age_ns);
        gwi_feed_fact(f, GW_EV_ALLOCATOR_HISTORY, 0, GW_ACTION_LIVE_LOW, 0, spans->lowest[span], age_ns);
    }
    for (size_t i = 0; t->has_times && i < at->end; i++)
        tell_entry(f, entry_at(f, t, i));
    if (t->has_times && at->oom != NULL)
        tell_entry(f, at->oom);
    for (size_t i = at->end; i-- > peak;) /* restore the set of blocks that were live at the peak */
        step_back(at, entry_at(f, t, i));
    name_stacks(f, t, &at->live, peak);
    tell_held(f, &at->live, peak < t->count && t->has_times ? age_of(f, entry_at(f, t, peak)) : 0);
    free(spans);
}

static void tell_handled(gwi_feeder *f, uint32_t device, const gwi_torch_entry *handled)
{
    char text[160], bytes[GW_BYTES_TEXT_MAX];
    snprintf(text, sizeof text,
             "device %u: a request for %s was refused, and a request of at least that size succeeded later", device,
             gw_bytes_text(bytes, handled->bytes));
    gwi_feed_pair(f, GW_ITEM_SUPERVISOR, "torch.handled", text);
}

static void tell_device(gwi_feeder *f, const trace *t)
{
    moment at = {.end = t->count};
    size_t index = 0;
    const gwi_torch_entry *handled;
    at.oom = find_oom(f, t, &index, &handled);
    if (!moment_make(f, t, &at)) {
        f->status = gw_fail(f->err, GW_NOMEM, "no memory for device %u", t->device);
        return;
    }
    add_blocks(f, t->device, &at);
    uint64_t end_ns = t->count > 0 && t->has_times ? time_of(f, entry_at(f, t, t->count - 1)) : f->now_ns;
    bool is_as_saved = at.oom == NULL || is_unchanged_since(f, t, index);
    for (; at.oom != NULL && at.end > index; at.end--)
        step_back(&at, entry_at(f, t, at.end - 1));
    f->now_ns = at.oom != NULL && t->has_times ? time_of(f, at.oom) : end_ns;
    if (at.oom != NULL) {
        /* If the card had enough free memory, PyTorch refused the request because of its own limit. The limit is at
         * least the reserved memory, and less than the reserved memory plus the request. */
        bool own_limit = at.oom->address >= at.oom->bytes;
        gwi_feed_fact(f, GW_EV_ALLOCATOR_OOM, gwi_feed_site(f, at.oom->stack), at.oom->bytes, 0,
                      own_limit ? 0 : at.oom->address, t->device);
        if (own_limit)
            state(f, t->device, GW_ALLOCATOR_LIMIT, at.reserved_bytes);
        state(f, t->device, GW_ALLOCATOR_WHEN, GW_WHEN_OOM);
        if (at.oom->stack != 0)
            gwi_feed_fact(f, GW_EV_ALLOCATOR_HELD, gwi_feed_site(f, at.oom->stack), GW_MOMENT_REQUEST, at.oom->bytes, 1,
                          0);
    } else {
        state(f, t->device, GW_ALLOCATOR_WHEN, GW_WHEN_REQUESTED);
        if (handled != NULL)
            tell_handled(f, t->device, handled);
    }
    state(f, t->device, GW_ALLOCATOR_ALLOCATED, at.live_bytes);
    state(f, t->device, GW_ALLOCATOR_RESERVED, at.reserved_bytes);
    tell_map(f, t->device, is_as_saved);
    state(f, t->device, GW_ALLOCATOR_HISTORY_TOTAL, t->count);
    name_stacks(f, t, &at.live, at.end);
    tell_blocks(f, t, &at);
    tell_history(f, t, &at); /* must be last: it replaces the set of live blocks with the blocks at the peak */
    free(at.live.entry);
}

/* ---- the whole snapshot ---- */

static bool fill_trace(const gwi_torch *torch, uint32_t device, uint32_t *entry, trace *ret_trace)
{
    gw_pickle_value traces = gwi_torch_traces(torch);
    gw_pickle_value list = gw_pickle_at(torch->pickle, traces, device, NULL);
    *ret_trace = (trace){.device = device, .entry = entry, .count = gw_pickle_count(torch->pickle, list)};
    ret_trace->has_times = ret_trace->count > 0;
    for (size_t i = 0; i < ret_trace->count; i++) {
        entry[i] = (uint32_t)gw_pickle_at(torch->pickle, list, i, NULL).number;
        ret_trace->has_times = ret_trace->has_times && torch->entry[entry[i]].time_us != 0;
    }
    bool used = ret_trace->count > 0;
    for (size_t i = 0; i < torch->segment_count; i++)
        used = used || torch->segment[i].device == device;
    return used;
}

static size_t longest_trace(const gwi_torch *torch)
{
    gw_pickle_value traces = gwi_torch_traces(torch);
    size_t most = 0;
    for (size_t i = 0, count = gw_pickle_count(torch->pickle, traces); i < count; i++) {
        size_t length = gw_pickle_count(torch->pickle, gw_pickle_at(torch->pickle, traces, i, NULL));
        most = length > most ? length : most;
    }
    return most;
}

static uint64_t first_time_us(const gwi_torch *torch)
{
    uint64_t first = 0;
    for (size_t i = 0; i < torch->entry_count; i++) {
        uint64_t t = torch->entry[i].time_us;
        first = t != 0 && (first == 0 || t < first) ? t : first;
    }
    return first;
}

static void tell_all(gwi_feeder *f, const char *path)
{
    enum { DEVICES_MAX = 16 };
    uint32_t *entry = malloc((longest_trace(f->torch) + 1) * sizeof *entry);
    if (entry == NULL) {
        f->status = gw_fail(f->err, GW_NOMEM, "%s: no memory for its history", path);
        return;
    }
    gwi_feed_pair(f, GW_ITEM_META, GW_META_SNAPSHOT, path);
    if (gwi_torch_settings(f->torch) != NULL)
        gwi_feed_pair(f, GW_ITEM_META, "env.PYTORCH_CUDA_ALLOC_CONF", gwi_torch_settings(f->torch));
    for (size_t i = 0; i < f->torch->segment_count; i++)
        if (f->torch->segment[i].is_private) {
            gwi_feed_pair(f, GW_ITEM_META, GW_META_PRIVATE_POOLS, "1");
            break;
        }
    gwi_feed_process(f);
    gwi_feed_fact(f, GW_EV_NOTE, 0, GW_NOTE_OBSERVER_ATTACHED, 0, 0, 0);
    for (uint32_t device = 0; device < DEVICES_MAX && f->status == GW_OK; device++) {
        trace t;
        if (fill_trace(f->torch, device, entry, &t))
            tell_device(f, &t);
    }
    free(entry);
}

bool gw_torch_is_snapshot(const char *path)
{
    return gw_pickle_is(path);
}

gw_status gw_torch_snapshot_model(const char *path, gw_model **ret_model, gw_error *err)
{
    gwi_torch torch;
    gwi_feeder f = {.err = err, .status = GW_OK};
    gw_status st = gwi_torch_read(path, &torch, err);
    if (st != GW_OK)
        return st;
    if (torch.is_flight || torch.is_pyspy) {
        gwi_torch_free(&torch);
        return gw_saved_model(&path, 1, NULL, NULL, ret_model, err);
    }
    f.first_us = first_time_us(&torch);
    if (!gwi_feed_begin(&f, &torch, THE_PROCESS)) {
        st = gw_fail(err, GW_NOMEM, "%s: no memory for its stacks", path);
        goto out;
    }
    st = gw_model_new(&f.model, err);
    if (st != GW_OK)
        goto out;
    tell_all(&f, path);
    st = f.status;
    if (st == GW_OK)
        st = gw_model_finish(f.model, err);
    if (st == GW_OK) {
        *ret_model = f.model;
        f.model = NULL;
    }
out:
    gw_model_free(f.model);
    gwi_feed_end(&f);
    gwi_torch_free(&torch);
    return st;
}
