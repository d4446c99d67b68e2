/* The input of a replay from PyTorch's own memory history: a saved snapshot, or a recording whose observer read the
 * history. The history has requested sizes, addresses and changes of segments in one order, and snapshots have streams.
 * It does not have the calls that the driver refused. It must begin with the process's first allocation. */
#include "gwi_replay.h"

#include "gw_hash.h"

#include <inttypes.h>
#include <stdlib.h>

#define MIB ((uint64_t)1 << 20)

/* The live blocks by address: linear probing, at most half full. */
typedef struct live_table {
    uint64_t *address; /* owned; 0: empty */
    uint32_t *block;   /* owned */
    size_t slot_count;
} live_table;

static bool table_make(live_table *table, size_t blocks)
{
    table->slot_count = 16;
    while (table->slot_count < 2 * blocks + 2)
        table->slot_count *= 2;
    table->address = calloc(table->slot_count, sizeof *table->address);
    table->block = calloc(table->slot_count, sizeof *table->block);
    return table->address != NULL && table->block != NULL;
}

static void table_free(live_table *table)
{
    free(table->address);
    free(table->block);
}

/* Return the slot of the address or, if it is not there, an empty one. Addresses are never removed, because a block's
 * address is used again soon. */
static size_t slot_of(const live_table *table, uint64_t address)
{
    size_t at = gw_hash_mix(1, address) & (table->slot_count - 1);
    while (table->address[at] != 0 && table->address[at] != address)
        at = (at + 1) & (table->slot_count - 1);
    return at;
}

typedef struct history {
    const gw_allocator_report *report;
    gw_replay_input *input;
    live_table live; /* `block` is the block's number + 1; 0: free */
    bool no_memory;
} history;

static void add_event(history *h, gw_replay_event event)
{
    size_t at = h->input->event_count;
    h->no_memory = h->no_memory || !gwi_replay_event_add(h->input, &event);
    if (!h->no_memory)
        h->input->step_at[at] = (uint32_t)h->input->step_count;
}

static void add_step(history *h, gw_replay_step_kind kind, uint64_t address, uint64_t bytes)
{
    gw_replay_step step = {.kind = kind, .address = address, .bytes = bytes};
    h->no_memory = h->no_memory || !gwi_replay_step_add(h->input, &step);
}

/* True if a segment has the address. Only for the first allocation, so it may be slow. */
static bool has_segment(const gw_replay_input *input, uint64_t address)
{
    for (size_t i = 0; i < input->step_count; i++)
        if (address - input->step[i].address < input->step[i].bytes)
            return true;
    return false;
}

static gw_status not_whole(gw_error *err)
{
    return gw_fail(err, GW_MISSING, "PyTorch's memory history does not begin with the first allocation");
}

static gw_status allocate(history *h, const gw_allocator_entry *entry, gw_error *err)
{
    size_t slot = slot_of(&h->live, entry->address);
    if (h->input->block_count == 0 && !has_segment(h->input, entry->address))
        return not_whole(err);
    if (entry->address == 0 || entry->bytes == 0 || h->live.block[slot] != 0)
        return gw_fail(err, GW_CORRUPT, "the allocator's history has two blocks at one address");
    h->live.address[slot] = entry->address;
    h->live.block[slot] = ++h->input->block_count;
    add_event(h, (gw_replay_event){.kind = GW_REPLAY_REQUEST,
                                   .block = h->input->block_count - 1,
                                   .stream = entry->stream,
                                   .bytes = entry->bytes,
                                   .least = entry->bytes,
                                   .address = entry->address,
                                   .is_requested = true});
    return GW_OK;
}

static gw_status release(history *h, const gw_allocator_entry *entry, gw_error *err)
{
    size_t slot = slot_of(&h->live, entry->address);
    if (h->live.block[slot] == 0)
        return not_whole(err);
    add_event(h, (gw_replay_event){.kind = GW_REPLAY_FREE, .block = h->live.block[slot] - 1});
    h->live.block[slot] = 0;
    return GW_OK;
}

static void refuse(history *h, const gw_allocator_entry *entry)
{
    add_event(h, (gw_replay_event){.kind = GW_REPLAY_REFUSED,
                                   .stream = entry->stream,
                                   .bytes = entry->bytes,
                                   .least = entry->bytes,
                                   .is_requested = true});
}

/* The size of the pages that were mapped at this address. */
static uint64_t page_at(const gw_replay_input *input, uint64_t address)
{
    for (size_t i = input->step_count; i-- > 0;)
        if (input->step[i].kind == GW_REPLAY_CREATE && input->step[i].address == address)
            return input->step[i].bytes;
    return 0;
}

/* Mapped ranges become pages. The large pool maps pages of large_segment_bytes, the small pool one small page at a
 * time. */
static gw_status pages(history *h, const gw_allocator_entry *entry, gw_error *err)
{
    enum { PAGES_MAX = 1 << 16 };
    uint64_t large = h->input->settings.large_segment_bytes;
    bool is_map = entry->action == GW_ACTION_SEGMENT_MAP;
    uint64_t page = is_map ? (entry->bytes % large == 0 ? large : 2 * MIB) : page_at(h->input, entry->address);
    if (page == 0 || entry->bytes % page != 0 || entry->bytes / page > PAGES_MAX)
        return gw_fail(err, GW_CORRUPT, "the allocator's history has a mapping that is not in pages");
    for (uint64_t done = 0; !h->no_memory && done < entry->bytes; done += page)
        add_step(h, is_map ? GW_REPLAY_CREATE : GW_REPLAY_UNMAP, entry->address + done, page);
    return GW_OK;
}

static gw_status add_entry(history *h, const gw_allocator_entry *entry, gw_error *err)
{
    switch ((gw_allocator_action)entry->action) {
    case GW_ACTION_ALLOC:
        return allocate(h, entry, err);
    case GW_ACTION_FREE:
        return release(h, entry, err);
    case GW_ACTION_SEGMENT_ALLOC:
        add_step(h, GW_REPLAY_TAKE, entry->address, entry->bytes);
        return GW_OK;
    case GW_ACTION_SEGMENT_FREE:
        add_step(h, GW_REPLAY_GIVE, entry->address, entry->bytes);
        return GW_OK;
    case GW_ACTION_SEGMENT_MAP:
    case GW_ACTION_SEGMENT_UNMAP:
        return pages(h, entry, err);
    case GW_ACTION_OOM:
        refuse(h, entry);
        return GW_OK;
    default:
        return GW_OK; /* requested frees: the block is usable when the free is completed */
    }
}

gw_status gwi_replay_from_history(const gw_allocator_report *report, bool is_snapshot, gw_replay_input *input,
                                  gw_error *err)
{
    history h = {.report = report, .input = input};
    size_t count = report->entry_count;
    if (count == 0)
        return gw_fail(err, GW_MISSING,
                       "the recording does not have PyTorch's allocations one by one: they are written when PyTorch "
                       "runs out of memory, or with gpuwhy run --allocations");
    if (!is_snapshot && report->field[GW_ALLOCATOR_HISTORY_TOTAL] > count)
        return gw_fail(err, GW_MISSING,
                       "the recording has only the last %zu of %" PRIu64 " entries of PyTorch's history", count,
                       report->field[GW_ALLOCATOR_HISTORY_TOTAL]);
    input->steps_have_order = true;
    input->step_at = calloc(count + 1, sizeof *input->step_at);
    h.no_memory = !table_make(&h.live, count) || input->step_at == NULL;
    gw_status st = GW_OK;
    for (size_t i = 0; st == GW_OK && !h.no_memory && i < count; i++)
        st = add_entry(&h, &report->entry[i], err);
    if (st == GW_OK && h.no_memory)
        st = gw_fail(err, GW_NOMEM, "no memory for the replay");
    if (st == GW_OK)
        input->step_at[input->event_count] = (uint32_t)input->step_count;
    table_free(&h.live);
    return st;
}
