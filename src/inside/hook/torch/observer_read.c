/* Read PyTorch's allocator and write its statistics, blocks and history as facts. */
#include "gwi_observer_inside.h"

#include "gw_history.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    READ_BUDGET_MS = 500,      /* time limit for one walk over the history */
    HISTORY_SINGLES_MAX = 512, /* write at most this many of the newest entries one by one */
    HELD_MAX = 64,             /* write at most this many stacks, those that held the most memory at the peak */
    DEVICES_MAX = 64
};

/* ---- reading PyTorch's allocator ---- */

typedef struct block {
    uint64_t address;
    uint64_t bytes;
    uint64_t age_ns;
    uint64_t requested_bytes; /* size before the allocator's rounding; the history has the same size */
    uint64_t order;           /* number of the block's request on the device, from course_find(); 0: not known */
    uint32_t state;
    uint32_t stack; /* number from gwi_stacks_number(); 0: not known */
    uint32_t site;  /* call site of the request, from course_find(); 0: not known */
} block;

typedef struct block_list {
    block *block; /* owned; a separate mapping, which can be created even if the heap is full */
    size_t count;
    size_t room;
} block_list;

typedef struct block_map {
    block_list live;
    uint64_t largest_inactive_bytes;
    uint64_t segment_count;
    bool expandable;
} block_map;

static int by_address(const void *left, const void *right)
{
    const block *a = left, *b = right;
    return (a->address > b->address) - (a->address < b->address);
}

static int by_bytes_falling(const void *left, const void *right)
{
    const block *a = left, *b = right;
    return (a->bytes < b->bytes) - (a->bytes > b->bytes);
}

static bool block_list_make(block_list *list, size_t room)
{
    memset(list, 0, sizeof *list);
    if (room == 0)
        return true;
    void *mapping = mmap(NULL, room * sizeof(block), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED)
        return false;
    list->block = mapping;
    list->room = room;
    return true;
}

static void block_list_free(block_list *list)
{
    if (list->block != NULL)
        munmap(list->block, list->room * sizeof(block));
    memset(list, 0, sizeof *list);
}

/* Return the list of frames of a history entry or a block, NULL if there is none. Before PyTorch 2.1, a block had its
 * frames in its own history list. */
static py_object *frames_of(py_object *dict)
{
    py_object *frames = gwi_obs.py.PyDict_GetItem(dict, gwi_obs.key.frames);
    py_object *history = frames != NULL ? NULL : gwi_obs.py.PyDict_GetItem(dict, gwi_obs.key.history);
    if (gwi_py_list_size(history) > 0)
        frames = gwi_obs.py.PyDict_GetItem(gwi_obs.py.PyList_GetItem(history, 0), gwi_obs.key.frames);
    return frames;
}

/* Return the segment at `index`. Returns NULL if the segment belongs to another device. */
static py_object *segment_at(py_object *segments, ptrdiff_t index, uint64_t device)
{
    py_object *segment = gwi_obs.py.PyList_GetItem(segments, index);
    return segment != NULL && gwi_py_number_in(segment, gwi_obs.key.device) == device ? segment : NULL;
}

static void add_block(block_map *map, py_object *entry, uint64_t address, bool with_stacks)
{
    uint64_t bytes = gwi_py_number_in(entry, gwi_obs.key.size);
    uint64_t requested = gwi_py_number_in(entry, gwi_obs.key.requested_size);
    char state[24];
    gwi_py_text(entry == NULL ? NULL : gwi_obs.py.PyDict_GetItem(entry, gwi_obs.key.state), state, sizeof state);
    if (strcmp(state, "inactive") == 0) {
        if (bytes > map->largest_inactive_bytes)
            map->largest_inactive_bytes = bytes;
    } else if (map->live.count < map->live.room) {
        map->live.block[map->live.count++] =
            (block){.address = address,
                    .bytes = bytes,
                    .requested_bytes = requested != 0 ? requested : bytes,
                    .age_ns = GW_AGE_UNKNOWN,
                    .stack = with_stacks && entry != NULL ? gwi_stacks_number(frames_of(entry)) : 0,
                    .state = strcmp(state, "active_allocated") == 0 ? GW_BLOCK_LIVE : GW_BLOCK_PENDING};
    }
}

static void add_segment(block_map *map, py_object *segment, bool with_stacks)
{
    py_object *blocks = gwi_obs.py.PyDict_GetItem(segment, gwi_obs.key.blocks);
    uint64_t address = gwi_py_number_in(segment, gwi_obs.key.address);
    py_object *expandable = gwi_obs.py.PyDict_GetItem(segment, gwi_obs.key.is_expandable);
    map->segment_count++;
    if (expandable != NULL && gwi_obs.py.PyObject_IsTrue(expandable) == 1)
        map->expandable = true;
    for (ptrdiff_t i = 0, n = gwi_py_list_size(blocks); i < n; i++) {
        py_object *entry = gwi_obs.py.PyList_GetItem(blocks, i);
        add_block(map, entry, address, with_stacks);
        /* older versions of PyTorch do not store the address of a block, but the blocks of a segment are adjacent */
        address += gwi_py_number_in(entry, gwi_obs.key.size);
    }
}

/* Read the segments and blocks of a device. Returns false if there is no memory for the list. */
static bool read_blocks(py_object *snapshot, uint64_t device, bool with_stacks, block_map *map)
{
    memset(map, 0, sizeof *map);
    py_object *segments = gwi_obs.py.PyDict_GetItem(snapshot, gwi_obs.key.segments);
    ptrdiff_t segment_count = gwi_py_list_size(segments);
    size_t room = 0;
    for (ptrdiff_t i = 0; i < segment_count; i++) {
        py_object *segment = segment_at(segments, i, device);
        if (segment != NULL)
            room += (size_t)gwi_py_list_size(gwi_obs.py.PyDict_GetItem(segment, gwi_obs.key.blocks));
    }
    if (!block_list_make(&map->live, room))
        return false;
    for (ptrdiff_t i = 0; i < segment_count; i++) {
        py_object *segment = segment_at(segments, i, device);
        if (segment != NULL)
            add_segment(map, segment, with_stacks);
    }
    return true;
}

/* Write the largest blocks one by one, and the total size of all others as one fact. */
static void write_blocks(block_list *live)
{
    size_t listed = live->count < GWI_OBSERVER_BLOCKS_MAX ? live->count : GWI_OBSERVER_BLOCKS_MAX;
    uint64_t rest_bytes = 0;
    if (live->count > 1)
        qsort(live->block, live->count, sizeof(block), by_bytes_falling);
    for (size_t i = 0; i < listed; i++) {
        const block *b = &live->block[i];
        uint32_t site = gwi_stacks_site(b->stack);
        gwi_obs.port->fact_at(GW_EV_ALLOCATOR_BLOCK, site != 0 ? site : b->site, b->address, b->bytes, b->age_ns,
                              b->order << GW_BLOCK_ORDER_SHIFT | b->state);
    }
    for (size_t i = listed; i < live->count; i++)
        rest_bytes += live->block[i].bytes;
    if (live->count > listed)
        gwi_obs.port->fact(GW_EV_ALLOCATOR_BLOCK, live->count - listed, rest_bytes, GW_AGE_UNKNOWN, GW_BLOCK_REST,
                           NULL);
}

/* Set the age, order and call site of each live block from what the hook itself has recorded (gwi_course.h). */
static void join_course(block_list *live, uint64_t device)
{
    for (size_t i = 0; i < live->count; i++) {
        block *b = &live->block[i];
        gwi_observer_block known;
        if (b->state != GW_BLOCK_LIVE || !gwi_obs.port->course_find(device, b->address, &known))
            continue;
        b->age_ns = known.age_ns;
        b->order = known.order;
        b->site = known.site;
    }
}

/* ---- history ---- */

typedef struct history_entry {
    gw_allocator_action action;
    uint64_t address;
    uint64_t bytes;
    uint64_t age_ns;
} history_entry;

typedef struct history_walk {
    py_object *trace;
    ptrdiff_t count;
    uint64_t now_realtime_ns;
    uint64_t deadline_ns;
    uint64_t live_bytes; /* live bytes just after the current entry; the walk goes back in time */
    uint64_t peak_bytes;
    ptrdiff_t peak_end; /* index of the first entry after the peak of live bytes */
    gw_history_spans spans;
} history_walk;

static gw_allocator_action action_of(py_object *text)
{
    static const char *const names[GW_ACTION_COUNT] = {
#define GW_X(name, text) text,
        GW_ALLOCATOR_ACTIONS(GW_X)
#undef GW_X
    };
    char name[24];
    if (!gwi_py_text(text, name, sizeof name))
        return GW_ACTION_OTHER;
    for (int i = 0; i < GW_ACTION_LIVE_PEAK; i++) /* actions from LIVE_PEAK on are gpuwhy's own */
        if (strcmp(name, names[i]) == 0)
            return (gw_allocator_action)i;
    return GW_ACTION_OTHER;
}

static bool history_at(const history_walk *walk, ptrdiff_t index, history_entry *ret_entry)
{
    py_object *entry = gwi_obs.py.PyList_GetItem(walk->trace, index);
    if (entry == NULL) {
        gwi_obs.py.PyErr_Clear();
        return false;
    }
    uint64_t t_ns = gwi_py_number_in(entry, gwi_obs.key.time_us) * 1000;
    ret_entry->action = action_of(gwi_obs.py.PyDict_GetItem(entry, gwi_obs.key.action));
    ret_entry->address = gwi_py_number_in(entry, gwi_obs.key.addr);
    ret_entry->bytes = gwi_py_number_in(entry, gwi_obs.key.size);
    ret_entry->age_ns = t_ns < walk->now_realtime_ns ? walk->now_realtime_ns - t_ns : 0;
    return true;
}

/* Set the age of the live block at the entry's address. `live` is sorted by address. The history is read backwards, so
 * the first allocation found there made the block. */
static void give_age(block_list *live, const history_entry *entry)
{
    block wanted = {.address = entry->address};
    block *found = live->count == 0 ? NULL : bsearch(&wanted, live->block, live->count, sizeof(block), by_address);
    if (found != NULL && found->age_ns == GW_AGE_UNKNOWN)
        found->age_ns = entry->age_ns;
}

static void step_back(history_walk *walk, block_list *live, const history_entry *entry)
{
    if (entry->action != GW_ACTION_ALLOC && entry->action != GW_ACTION_FREE)
        return;
    gw_history_see(&walk->spans, entry->age_ns, walk->live_bytes);
    if (entry->action == GW_ACTION_ALLOC) {
        give_age(live, entry);
        walk->live_bytes -= entry->bytes < walk->live_bytes ? entry->bytes : walk->live_bytes;
    } else {
        walk->live_bytes += entry->bytes;
    }
    gw_history_see(&walk->spans, entry->age_ns, walk->live_bytes); /* live bytes before the entry */
}

static void write_condensed(const history_walk *walk)
{
    for (size_t span = GW_HISTORY_SPANS; span-- > 0;) {
        uint64_t age_ns = gw_history_span_age_ns(&walk->spans, span);
        if (!walk->spans.seen[span])
            continue;
        gwi_obs.port->fact(GW_EV_ALLOCATOR_HISTORY, GW_ACTION_LIVE_PEAK, 0, walk->spans.highest[span], age_ns, NULL);
        gwi_obs.port->fact(GW_EV_ALLOCATOR_HISTORY, GW_ACTION_LIVE_LOW, 0, walk->spans.lowest[span], age_ns, NULL);
    }
}

static void write_singles(const history_walk *walk)
{
    ptrdiff_t first = walk->count > HISTORY_SINGLES_MAX ? walk->count - HISTORY_SINGLES_MAX : 0;
    history_entry entry;
    for (ptrdiff_t i = first; i < walk->count; i++)
        if (history_at(walk, i, &entry))
            gwi_obs.port->fact(GW_EV_ALLOCATOR_HISTORY, entry.action, entry.address, entry.bytes, entry.age_ns, NULL);
}

/* ---- holders of the memory ---- */

typedef struct holder {
    uint64_t bytes, count;
    uint32_t stack;
} holder;

static int by_held_falling(const void *left, const void *right)
{
    const holder *a = left, *b = right;
    return (a->bytes < b->bytes) - (a->bytes > b->bytes);
}

static uint32_t stack_at(const history_walk *walk, ptrdiff_t index)
{
    py_object *entry = gwi_obs.py.PyList_GetItem(walk->trace, index);
    return entry == NULL ? 0 : gwi_stacks_number(frames_of(entry));
}

/* Write the call site of the refused request, from the history's last out-of-memory entry. If an allocation follows
 * that entry, it belongs to an earlier refusal. */
static void write_request(const history_walk *walk)
{
    enum { LOOK_BACK_MAX = 64 };
    history_entry entry;
    for (ptrdiff_t i = walk->count; i-- > 0 && walk->count - i <= LOOK_BACK_MAX;) {
        if (!history_at(walk, i, &entry) || entry.action == GW_ACTION_ALLOC)
            return;
        if (entry.action != GW_ACTION_OOM)
            continue;
        uint32_t site = gwi_stacks_site(stack_at(walk, i));
        if (site != 0)
            gwi_obs.port->fact_at(GW_EV_ALLOCATOR_HELD, site, GW_MOMENT_REQUEST, entry.bytes, 1, entry.age_ns);
        return;
    }
}

/* Restore the set of live blocks at the peak by undoing all later entries of the history. Returns false if the time
 * limit is reached. */
static bool back_to_peak(const history_walk *walk, gw_live_set *set)
{
    history_entry entry;
    for (ptrdiff_t i = walk->count; i-- > walk->peak_end;) {
        if ((i & 4095) == 0 && gwi_obs_clock_ns(CLOCK_MONOTONIC) > walk->deadline_ns)
            return false;
        if (!history_at(walk, i, &entry))
            continue;
        if (entry.action == GW_ACTION_FREE)
            /* The entry of a free has the allocation's stack only in a history that gpuwhy enabled. In the program's
             * own, the stack is unknown. */
            gw_live_set_add(set, entry.address, entry.bytes, gwi_obs.history_since_ns != 0 ? stack_at(walk, i) : 0);
        else if (entry.action == GW_ACTION_ALLOC)
            gw_live_set_remove(set, entry.address);
    }
    return true;
}

static void write_held(const gw_live_set *set, holder *list, uint64_t age_ns)
{
    uint32_t count = gwi_stacks_count();
    holder rest = {0};
    for (uint32_t i = 0; i < count; i++)
        list[i].stack = i;
    for (size_t i = 0; i < set->entry_count; i++) {
        const gw_live_entry *entry = &set->entry[i];
        if (entry->address == 0 || entry->gone || entry->stack >= count)
            continue;
        list[entry->stack].bytes += entry->bytes;
        list[entry->stack].count++;
    }
    qsort(list, count, sizeof *list, by_held_falling);
    for (uint32_t i = 0; i < count && list[i].count > 0; i++) {
        uint32_t site = i < HELD_MAX ? gwi_stacks_site(list[i].stack) : 0;
        if (site != 0) {
            gwi_obs.port->fact_at(GW_EV_ALLOCATOR_HELD, site, GW_MOMENT_PEAK, list[i].bytes, list[i].count, age_ns);
        } else {
            rest.bytes += list[i].bytes;
            rest.count += list[i].count;
        }
    }
    if (rest.count > 0)
        gwi_obs.port->fact_at(GW_EV_ALLOCATOR_HELD, 0, GW_MOMENT_REST, rest.bytes, rest.count, age_ns);
}

/* Write the stacks that held the memory when live bytes were highest. */
static void write_peak(const history_walk *walk, const block_list *live)
{
    if (gwi_stacks_count() == 1)
        return; /* the only stack is the unknown one */
    size_t slots = gw_live_set_room(live->count + (size_t)(walk->count - walk->peak_end));
    size_t set_bytes = slots * sizeof(gw_live_entry);
    history_entry entry = {0};
    void *mapping = mmap(NULL, set_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED)
        return;
    gw_live_set set = {.entry = mapping, .entry_count = slots};
    for (size_t i = 0; i < live->count; i++)
        gw_live_set_add(&set, live->block[i].address, live->block[i].requested_bytes, live->block[i].stack);
    if (back_to_peak(walk, &set)) {
        size_t list_bytes = gwi_stacks_count() * sizeof(holder);
        void *list = mmap(NULL, list_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (walk->peak_end < walk->count && !history_at(walk, walk->peak_end, &entry))
            entry.age_ns = 0;
        if (list != MAP_FAILED) {
            write_held(&set, list, entry.age_ns);
            munmap(list, list_bytes);
        }
    } else {
        gwi_obs_note(GW_NOTE_TEXT_ONLY,
                     "finding the holders of PyTorch's memory at its peak took too long: the list is incomplete");
    }
    munmap(mapping, set_bytes);
}

/* Walk the device's history backwards, set the ages of live blocks, and write the condensed history. */
static void read_history(py_object *snapshot, uint64_t device, uint64_t live_bytes, bool with_stacks, bool with_course,
                         block_list *live)
{
    static history_walk walk; /* static because it takes 8 KiB of stack; protected by the interpreter's lock */
    py_object *traces = gwi_obs.py.PyDict_GetItem(snapshot, gwi_obs.key.device_traces);
    history_entry entry;
    memset(&walk, 0, sizeof walk);
    if ((ptrdiff_t)device >= gwi_py_list_size(traces))
        return;
    walk.trace = gwi_obs.py.PyList_GetItem(traces, (ptrdiff_t)device);
    walk.count = gwi_py_list_size(walk.trace);
    walk.live_bytes = walk.peak_bytes = live_bytes;
    walk.peak_end = walk.count;
    walk.now_realtime_ns = gwi_obs_clock_ns(CLOCK_REALTIME);
    walk.deadline_ns = gwi_obs_clock_ns(CLOCK_MONOTONIC) + READ_BUDGET_MS * UINT64_C(1000000);
    gwi_obs.port->fact(GW_EV_ALLOCATOR_STATE, GW_ALLOCATOR_HISTORY_TOTAL, (uint64_t)walk.count, device, 0, NULL);
    if (gwi_obs.history_since_ns != 0)
        gwi_obs.port->fact(GW_EV_ALLOCATOR_STATE, GW_ALLOCATOR_HISTORY_AGE,
                           gwi_obs_clock_ns(CLOCK_MONOTONIC) - gwi_obs.history_since_ns, device, 0, NULL);
    if (walk.count == 0 || !history_at(&walk, 0, &entry))
        return;
    walk.spans.oldest_age_ns = entry.age_ns;
    if (live->count > 1)
        qsort(live->block, live->count, sizeof(block), by_address);
    for (ptrdiff_t i = walk.count - 1; i >= 0; i--) {
        if ((i & 4095) == 0 && gwi_obs_clock_ns(CLOCK_MONOTONIC) > walk.deadline_ns) {
            gwi_obs_note(GW_NOTE_TEXT_ONLY,
                         "reading PyTorch's memory history took too long: its older part is missing");
            break;
        }
        if (history_at(&walk, i, &entry))
            step_back(&walk, live, &entry);
        if (walk.live_bytes > walk.peak_bytes) {
            walk.peak_bytes = walk.live_bytes;
            walk.peak_end = i;
        }
    }
    if (!with_course) { /* otherwise course_write() writes more complete data */
        write_condensed(&walk);
        write_singles(&walk);
    }
    if (with_stacks) {
        write_request(&walk);
        write_peak(&walk, live);
    }
}

/* ---- statistics ---- */

/* Read stats[name]["all"][field] from PyTorch's statistics. */
static bool stat_of(py_object *stats, const char *name, py_object *field, uint64_t *ret_value)
{
    bool known = false;
    py_object *family = gwi_obs.py.PyDict_GetItemString(stats, name);
    py_object *all = family == NULL ? NULL : gwi_obs.py.PyDict_GetItem(family, gwi_obs.key.all);
    uint64_t value = gwi_py_number(all == NULL ? NULL : gwi_obs.py.PyDict_GetItem(all, field), &known);
    if (known)
        *ret_value = value;
    return known;
}

static void write_stat(py_object *stats, const char *name, py_object *field, gw_allocator_field as, uint64_t device)
{
    uint64_t value;
    if (stat_of(stats, name, field, &value))
        gwi_obs.port->fact(GW_EV_ALLOCATOR_STATE, as, value, device, 0, NULL);
}

static void write_count(py_object *stats, const char *name, gw_allocator_field as, uint64_t device)
{
    bool known;
    uint64_t value = gwi_py_number(gwi_obs.py.PyDict_GetItemString(stats, name), &known);
    if (known)
        gwi_obs.port->fact(GW_EV_ALLOCATOR_STATE, as, value, device, 0, NULL);
}

/* Return a new reference to the statistics of a device, without a driver call. Returns NULL if there are none; `reason`
 * then says why, for example no such device. */
static py_object *take_stats(uint64_t device, char *reason)
{
    py_object *argument = gwi_obs.py.PyLong_FromLongLong((long long)device);
    return gwi_py_call_torch("_cuda_memoryStats", gwi_py_tuple(&argument, 1), reason);
}

static void write_stats(py_object *stats, uint64_t device)
{
    write_stat(stats, "allocated_bytes", gwi_obs.key.current, GW_ALLOCATOR_ALLOCATED, device);
    write_stat(stats, "allocated_bytes", gwi_obs.key.peak, GW_ALLOCATOR_ALLOCATED_PEAK, device);
    write_stat(stats, "reserved_bytes", gwi_obs.key.current, GW_ALLOCATOR_RESERVED, device);
    write_stat(stats, "reserved_bytes", gwi_obs.key.peak, GW_ALLOCATOR_RESERVED_PEAK, device);
    write_stat(stats, "active_bytes", gwi_obs.key.current, GW_ALLOCATOR_ACTIVE, device);
    write_stat(stats, "inactive_split_bytes", gwi_obs.key.current, GW_ALLOCATOR_INACTIVE_SPLIT, device);
    write_count(stats, "num_alloc_retries", GW_ALLOCATOR_RETRIES, device);
    write_count(stats, "num_ooms", GW_ALLOCATOR_OOMS, device);
}

/* Return the total requested size of live blocks, as in history entries. Older versions of PyTorch report only the
 * allocated size: return that. 0: unknown. */
static uint64_t live_bytes_of(py_object *stats)
{
    uint64_t bytes = 0;
    if (!stat_of(stats, "requested_bytes", gwi_obs.key.current, &bytes))
        (void)stat_of(stats, "allocated_bytes", gwi_obs.key.current, &bytes);
    return bytes;
}

/* Take a snapshot of the allocator. If `history` is false, omit the history where PyTorch supports that, because it
 * takes most of the time. Returns NULL on failure, with the `reason`. */
static py_object *take_snapshot(bool history, char *reason)
{
    py_object *snapshot = NULL;
    if (!history) {
        py_object *part[3] = {gwi_obs.py.PyLong_FromLongLong(0), gwi_obs.py.PyLong_FromLongLong(0),
                              gwi_obs.py.PyBool_FromLong(0)};
        py_object *filter = gwi_py_tuple(part, 3);
        snapshot = gwi_py_call_torch("_cuda_memorySnapshot", filter == NULL ? NULL : gwi_py_tuple(&filter, 1), reason);
        if (snapshot != NULL || gwi_obs.history_since_ns != 0)
            return snapshot;
    }
    /* Since PyTorch 2.5 this function takes one argument. In older versions it takes none. */
    py_object *none = gwi_py_none();
    snapshot = gwi_py_call_torch("_cuda_memorySnapshot", gwi_py_tuple(&none, 1), reason);
    if (snapshot == NULL)
        snapshot = gwi_py_call_torch("_cuda_memorySnapshot", gwi_obs.py.PyTuple_New(0), reason);
    return snapshot;
}

static bool course_is_whole(void)
{
    return gwi_obs.port->course_is_whole != NULL && gwi_obs.port->course_is_whole();
}

/* True if the history should be read. If the hook has recorded all allocations and frees (gwi_course.h), the history
 * adds only their stacks. */
static bool wants_history(void)
{
    char reason[GWI_OBS_REASON_BYTES];
    return !course_is_whole() || gwi_obs.history_since_ns != 0 || !gwi_obs_history_is_off(reason);
}

/* Write the allocator's state on one device. If `stats` is NULL, write no statistics. If `full`, also write the history
 * and the allocations and frees that the hook recorded (gwi_course.h). A report about a refused request always has the
 * totals of these, and the age, order and call site of each live block. */
static void write_allocator(py_object *stats, uint64_t device, uint64_t when, bool full)
{
    char reason[GWI_OBS_REASON_BYTES];
    block_map map;
    gwi_obs.port->fact(GW_EV_ALLOCATOR_STATE, GW_ALLOCATOR_WHEN, when, device, 0, NULL);
    if (stats != NULL)
        write_stats(stats, device);
    bool with_history = full && wants_history();
    py_object *snapshot = take_snapshot(with_history, reason);
    if (snapshot == NULL) {
        gwi_obs_note(GW_NOTE_TEXT_ONLY, reason);
        return;
    }
    /* The history has stacks if gpuwhy requested them. It may have stacks if the program enabled it itself. */
    bool with_stacks = with_history && (gwi_obs.deep || gwi_obs.history_since_ns == 0) && gwi_stacks_begin();
    if (read_blocks(snapshot, device, with_stacks, &map)) {
        gwi_obs.port->fact(GW_EV_ALLOCATOR_STATE, GW_ALLOCATOR_LARGEST_INACTIVE, map.largest_inactive_bytes, device, 0,
                           NULL);
        gwi_obs.port->fact(GW_EV_ALLOCATOR_STATE, GW_ALLOCATOR_SEGMENTS, map.segment_count, device, 0, NULL);
        gwi_obs.port->fact(GW_EV_ALLOCATOR_STATE, GW_ALLOCATOR_EXPANDABLE, map.expandable, device, 0, NULL);
        bool with_course = (full || when == GW_WHEN_OOM) && course_is_whole();
        if (with_history)
            read_history(snapshot, device, stats == NULL ? 0 : live_bytes_of(stats), with_stacks, with_course,
                         &map.live);
        /* Call course_write() after reading the history, which may take long. The ages that it writes are relative to
         * the time of the call. */
        if (with_course && gwi_obs.port->course_write(device, full))
            join_course(&map.live, device);
        write_blocks(&map.live);
        block_list_free(&map.live);
    }
    gwi_py_give_back(snapshot);
    gwi_obs.py.PyErr_Clear();
}

void gwi_obs_read_at_oom(uint64_t device, bool with_history)
{
    char reason[GWI_OBS_REASON_BYTES];
    py_object *stats = take_stats(device, reason);
    if (stats == NULL)
        gwi_obs_note(GW_NOTE_TEXT_ONLY, reason);
    write_allocator(stats, device, GW_WHEN_OOM, with_history);
    gwi_py_give_back(stats);
}

/* Write the allocator's state at the program's end, for devices with reserved memory. Stop at the first device without
 * statistics. Do not query the number of devices: after a sticky error this could fail, and PyTorch would print a
 * warning. */
void gwi_obs_read_at_end(void)
{
    char reason[GWI_OBS_REASON_BYTES];
    for (uint64_t device = 0; device < DEVICES_MAX; device++) {
        uint64_t reserved_bytes = 0;
        py_object *stats = take_stats(device, reason);
        if (stats == NULL)
            break;
        bool full = (gwi_obs.deep && gwi_obs.history_since_ns != 0) || (gwi_obs.allocations && course_is_whole());
        if (stat_of(stats, "reserved_bytes", gwi_obs.key.current, &reserved_bytes) && reserved_bytes > 0)
            write_allocator(stats, device, GW_WHEN_END, full);
        gwi_py_give_back(stats);
    }
}

/* Record PyTorch's own limit (set_per_process_memory_fraction), if there is one. PyTorch passes the limit to the
 * out-of-memory callback as the total memory. */
void gwi_obs_write_limit(uint64_t device, uint64_t total_bytes)
{
    char reason[GWI_OBS_REASON_BYTES];
    py_object *argument = gwi_obs.py.PyLong_FromLongLong((long long)device);
    py_object *fraction = gwi_py_call_torch("_cuda_getMemoryFraction", gwi_py_tuple(&argument, 1), reason);
    double value = fraction == NULL ? 1.0 : gwi_obs.py.PyFloat_AsDouble(fraction);
    if (gwi_obs.py.PyErr_Occurred() != NULL)
        gwi_obs.py.PyErr_Clear();
    else if (value > 0.0 && value < 1.0)
        gwi_obs.port->fact(GW_EV_ALLOCATOR_STATE, GW_ALLOCATOR_LIMIT, total_bytes, device, 0, NULL);
    gwi_py_give_back(fraction);
}
