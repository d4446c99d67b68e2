/* Convert the dicts and lists of a pickle to records while the pickle is read. The keys of a complete dict show the
 * type of its record. */
#include "gwi_records.h"

#include "gw_array.h"
#include "gw_hash.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[GWI_NAME_COUNT] = {
#define GW_X(name) #name,
    GWI_TORCH_NAMES(GW_X)
#undef GW_X
};

static gw_status no_memory(gw_error *err)
{
    return gw_fail(err, GW_NOMEM, "no memory for its records");
}

static gw_pickle_value folded(uint32_t tag, uint64_t number)
{
    return (gw_pickle_value){.type = GW_PICKLE_FOLDED, .tag = tag, .number = number};
}

static bool is_folded(gw_pickle_value value, uint32_t tag)
{
    return value.type == GW_PICKLE_FOLDED && value.tag == tag;
}

/* ---- frames and stacks ---- */

/* A frame or a stack is a text of the pickle, so that equal ones have one number: the text's id. */
gw_status gwi_torch_store(gwi_torch *torch, gw_pickle *pickle, const void *data, size_t bytes, uint32_t *ret_number,
                          gw_error *err)
{
    gw_status st = gw_pickle_add_text(pickle, data, (uint32_t)bytes, ret_number, err);
    if (st == GW_OK && *ret_number > torch->number_most)
        torch->number_most = *ret_number;
    return st;
}

static gw_status store(gwi_torch *torch, gw_pickle *pickle, const void *data, size_t bytes, uint32_t tag,
                       gw_pickle_value *ret_folded, gw_error *err)
{
    uint32_t number;
    gw_status st = gwi_torch_store(torch, pickle, data, bytes, &number, err);
    if (st == GW_OK)
        *ret_folded = folded(tag, number);
    return st;
}

static const char *stored(const gwi_torch *torch, uint32_t number, size_t *ret_bytes)
{
    return gw_pickle_text(torch->pickle, (gw_pickle_value){.type = GW_PICKLE_TEXT, .number = number}, ret_bytes);
}

gwi_torch_frame gwi_torch_frame_of(const gwi_torch *torch, uint32_t number)
{
    gwi_torch_frame frame;
    memcpy(&frame, stored(torch, number, NULL), sizeof frame);
    return frame;
}

size_t gwi_torch_stack_of(const gwi_torch *torch, uint32_t number, uint32_t *ret_frame, size_t frame_max)
{
    size_t bytes;
    const char *data = stored(torch, number, &bytes);
    size_t count = bytes / sizeof *ret_frame;
    memcpy(ret_frame, data, (count < frame_max ? count : frame_max) * sizeof *ret_frame);
    return count;
}

/* ---- contents of a dict ---- */

static bool text_at(const gw_pickle *pickle, gw_pickle_value dict, uint32_t name, uint32_t *ret_text)
{
    gw_pickle_value value;
    if (!gw_pickle_get(pickle, dict, name, &value) || value.type != GW_PICKLE_TEXT)
        return false;
    *ret_text = (uint32_t)value.number;
    return true;
}

static uint32_t stack_at(const gw_pickle *pickle, gw_pickle_value dict)
{
    gw_pickle_value value;
    bool has = gw_pickle_get(pickle, dict, GWI_NAME_frames, &value) && is_folded(value, GWI_TAG_STACK);
    return has ? (uint32_t)value.number : 0;
}

/* Hash the values of the local variables of a frame. The dict of their thread is complete after its frames. */
static void hash_locals(gwi_torch *torch, const gw_pickle *pickle, gw_pickle_value frame)
{
    gw_pickle_value list;
    if (!gw_pickle_get(pickle, frame, GWI_NAME_locals, &list) || list.type != GW_PICKLE_LIST)
        return;
    torch->locals = torch->locals == 0 ? GW_HASH_START : torch->locals;
    for (size_t i = 0, count = gw_pickle_count(pickle, list); i < count; i++) {
        gw_pickle_value text;
        size_t bytes;
        if (!gw_pickle_get(pickle, gw_pickle_at(pickle, list, i, NULL), GWI_NAME_repr, &text))
            continue;
        const char *data = gw_pickle_text(pickle, text, &bytes);
        torch->locals = gw_hash_step(gw_hash_bytes(torch->locals, data, bytes), 0xff);
    }
}

static gw_status fold_frame(gwi_torch *torch, gw_pickle *pickle, gw_pickle_value dict, gw_pickle_value *ret_folded,
                            gw_error *err)
{
    gwi_torch_frame frame = {.line = -1};
    uint64_t line;
    if (!text_at(pickle, dict, GWI_NAME_filename, &frame.file) || !text_at(pickle, dict, GWI_NAME_name, &frame.name))
        return GW_OK; /* not a frame: leave the dict unchanged */
    hash_locals(torch, pickle, dict);
    if (gw_pickle_get_number(pickle, dict, GWI_NAME_line, &line) && line <= INT32_MAX)
        frame.line = (int32_t)line;
    return store(torch, pickle, &frame, sizeof frame, GWI_TAG_FRAME, ret_folded, err);
}

static gw_status fold_block(gwi_torch *torch, gw_pickle *pickle, gw_pickle_value dict, gw_pickle_value *ret_folded,
                            gw_error *err)
{
    gwi_torch_block block = {0};
    gw_pickle_value history;
    uint32_t state;
    if (!text_at(pickle, dict, GWI_NAME_state, &state) ||
        !gw_pickle_get_number(pickle, dict, GWI_NAME_size, &block.bytes))
        return GW_OK;
    block.state = GW_BLOCK_PENDING;
    if (state == GWI_NAME_inactive)
        block.state = GW_BLOCK_INACTIVE;
    else if (state == GWI_NAME_active_allocated)
        block.state = GW_BLOCK_LIVE;
    block.has_address = gw_pickle_get_number(pickle, dict, GWI_NAME_address, &block.address);
    (void)gw_pickle_get_number(pickle, dict, GWI_NAME_requested_size, &block.requested_bytes);
    block.stack = stack_at(pickle, dict);
    if (gw_pickle_get(pickle, dict, GWI_NAME_history, &history) && gw_pickle_count(pickle, history) > 0) {
        /* Before PyTorch 2.1, the stack and the requested size of a block are in the history of the block. The newest
         * entry of the history comes first. */
        gw_pickle_value last = gw_pickle_at(pickle, history, 0, NULL);
        block.stack = block.stack != 0 ? block.stack : stack_at(pickle, last);
        if (block.requested_bytes == 0)
            (void)gw_pickle_get_number(pickle, last, GWI_NAME_real_size, &block.requested_bytes);
    }
    if (!gw_array_room(&torch->block, torch->block_count, &torch->block_capacity, sizeof block))
        return no_memory(err);
    torch->block[torch->block_count] = block;
    *ret_folded = folded(GWI_TAG_BLOCK, torch->block_count++);
    return GW_OK;
}

static gw_status fold_segment(gwi_torch *torch, gw_pickle *pickle, gw_pickle_value dict, gw_pickle_value *ret_folded,
                              gw_error *err)
{
    gwi_torch_segment segment = {0};
    gw_pickle_value expandable, pool;
    uint64_t device = 0;
    if (!gw_pickle_get(pickle, dict, GWI_NAME_blocks, &segment.blocks) ||
        !gw_pickle_get_number(pickle, dict, GWI_NAME_total_size, &segment.bytes))
        return GW_OK;
    (void)gw_pickle_get_number(pickle, dict, GWI_NAME_device, &device);
    (void)gw_pickle_get_number(pickle, dict, GWI_NAME_address, &segment.address);
    segment.device = device > UINT32_MAX ? UINT32_MAX : (uint32_t)device;
    segment.is_expandable = gw_pickle_get(pickle, dict, GWI_NAME_is_expandable, &expandable) &&
                            expandable.type == GW_PICKLE_BOOL && expandable.number != 0;
    if (gw_pickle_get(pickle, dict, GWI_NAME_segment_pool_id, &pool))
        for (size_t i = 0, count = gw_pickle_count(pickle, pool); i < count; i++)
            segment.is_private = segment.is_private || gw_pickle_at(pickle, pool, i, NULL).number != 0;
    if (!gw_array_room(&torch->segment, torch->segment_count, &torch->segment_capacity, sizeof segment))
        return no_memory(err);
    torch->segment[torch->segment_count] = segment;
    *ret_folded = folded(GWI_TAG_SEGMENT, torch->segment_count++);
    return GW_OK;
}

static gw_allocator_action action_of(const char *name)
{
    static const char *const texts[GW_ACTION_COUNT] = {
#define GW_X(action, text) text,
        GW_ALLOCATOR_ACTIONS(GW_X)
#undef GW_X
    };
    for (int i = 0; i < GW_ACTION_LIVE_PEAK; i++) /* LIVE_PEAK and later actions are gpuwhy's, not PyTorch's */
        if (strcmp(name, texts[i]) == 0)
            return (gw_allocator_action)i;
    return GW_ACTION_OTHER;
}

/* Return the index of a stream. Adds the stream if it is new. */
static uint32_t stream_number(gwi_torch *torch, uint64_t stream)
{
    uint32_t at = 0;
    while (at < torch->stream_count && torch->stream[at] != stream)
        at++;
    if (at == torch->stream_count && at < GWI_TORCH_STREAMS_MAX)
        torch->stream[torch->stream_count++] = stream;
    return at;
}

static gw_status fold_entry(gwi_torch *torch, gw_pickle *pickle, gw_pickle_value dict, gw_pickle_value *ret_folded,
                            gw_error *err)
{
    gwi_torch_entry entry = {.stack = stack_at(pickle, dict)};
    gw_pickle_value action;
    uint64_t stream = 0;
    if (!gw_pickle_get(pickle, dict, GWI_NAME_action, &action) || action.type != GW_PICKLE_TEXT ||
        !gw_pickle_get_number(pickle, dict, GWI_NAME_size, &entry.bytes))
        return GW_OK;
    entry.action = (uint8_t)action_of(gw_pickle_text(pickle, action, NULL));
    if (!gw_pickle_get_number(pickle, dict, GWI_NAME_addr, &entry.address))
        (void)gw_pickle_get_number(pickle, dict, GWI_NAME_device_free, &entry.address);
    (void)gw_pickle_get_number(pickle, dict, GWI_NAME_time_us, &entry.time_us);
    (void)gw_pickle_get_number(pickle, dict, GWI_NAME_stream, &stream);
    entry.stream = stream_number(torch, stream);
    if (!gw_array_room(&torch->entry, torch->entry_count, &torch->entry_capacity, sizeof entry))
        return no_memory(err);
    torch->entry[torch->entry_count] = entry;
    *ret_folded = folded(GWI_TAG_ENTRY, torch->entry_count++);
    return GW_OK;
}

/* Return the number of elements of the first tensor in a list of sizes. 0: not known. */
static uint64_t elements_at(const gw_pickle *pickle, gw_pickle_value dict, uint32_t name)
{
    gw_pickle_value sizes;
    uint64_t elements = 1;
    if (!gw_pickle_get(pickle, dict, name, &sizes) || gw_pickle_count(pickle, sizes) == 0)
        return 0;
    sizes = gw_pickle_at(pickle, sizes, 0, NULL);
    for (size_t i = 0, count = gw_pickle_count(pickle, sizes); i < count; i++) {
        gw_pickle_value size = gw_pickle_at(pickle, sizes, i, NULL);
        if (size.type != GW_PICKLE_INT || __builtin_mul_overflow(elements, size.number, &elements))
            return 0;
    }
    return sizes.type == GW_PICKLE_LIST ? elements : 0;
}

static bool first_text_at(const gw_pickle *pickle, gw_pickle_value dict, uint32_t name, uint32_t *ret_text)
{
    gw_pickle_value list, text;
    if (!gw_pickle_get(pickle, dict, name, &list))
        return false;
    text = gw_pickle_at(pickle, list, 0, NULL);
    if (text.type == GW_PICKLE_TEXT)
        *ret_text = (uint32_t)text.number;
    return text.type == GW_PICKLE_TEXT;
}

static gw_status fold_collective(gwi_torch *torch, gw_pickle *pickle, gw_pickle_value dict, gw_pickle_value *ret_folded,
                                 gw_error *err)
{
    gwi_torch_collective call = {.dtype = UINT32_MAX};
    gw_pickle_value p2p;
    uint32_t state = UINT32_MAX;
    if (!text_at(pickle, dict, GWI_NAME_profiling_name, &call.name) ||
        !first_text_at(pickle, dict, GWI_NAME_process_group, &call.group))
        return GW_OK;
    if (!gw_pickle_get_number(pickle, dict, GWI_NAME_collective_seq_id, &call.number))
        (void)gw_pickle_get_number(pickle, dict, GWI_NAME_seq_id, &call.number); /* before version 2.2 */
    (void)gw_pickle_get_number(pickle, dict, GWI_NAME_pg_id, &call.group_number);
    (void)gw_pickle_get_number(pickle, dict, GWI_NAME_time_created_ns, &call.time_ns);
    (void)first_text_at(pickle, dict, GWI_NAME_input_dtypes, &call.dtype);
    (void)text_at(pickle, dict, GWI_NAME_state, &state);
    call.in = elements_at(pickle, dict, GWI_NAME_input_sizes);
    call.out = elements_at(pickle, dict, GWI_NAME_output_sizes);
    call.is_p2p = gw_pickle_get(pickle, dict, GWI_NAME_is_p2p, &p2p) && p2p.number != 0;
    call.is_completed = state == GWI_NAME_completed;
    call.stack = stack_at(pickle, dict);
    if (!gw_array_room(&torch->collective, torch->collective_count, &torch->collective_capacity, sizeof call))
        return no_memory(err);
    torch->collective[torch->collective_count] = call;
    *ret_folded = folded(GWI_TAG_COLLECTIVE, torch->collective_count++);
    return GW_OK;
}

/* A thread of a dump that py-spy wrote as JSON. */
static gw_status fold_thread(gwi_torch *torch, gw_pickle *pickle, gw_pickle_value dict, gw_pickle_value *ret_folded,
                             gw_error *err)
{
    gwi_torch_thread thread = {.name = UINT32_MAX,
                               .command = UINT32_MAX,
                               .native = UINT32_MAX,
                               .stack = stack_at(pickle, dict),
                               .locals = torch->locals};
    gw_pickle_value active;
    uint64_t pid, tid = 0;
    torch->locals = 0;
    if (!gw_pickle_get_number(pickle, dict, GWI_NAME_pid, &pid) || pid > INT32_MAX)
        return GW_OK;
    (void)gw_pickle_get_number(pickle, dict, GWI_NAME_thread_id, &thread.thread_id);
    if (gw_pickle_get_number(pickle, dict, GWI_NAME_os_thread_id, &tid) && tid <= INT32_MAX)
        thread.tid = (uint32_t)tid;
    (void)text_at(pickle, dict, GWI_NAME_thread_name, &thread.name);
    thread.pid = (uint32_t)pid;
    thread.is_active = gw_pickle_get(pickle, dict, GWI_NAME_active, &active) && active.number != 0;
    if (!gw_array_room(&torch->thread, torch->thread_count, &torch->thread_capacity, sizeof thread))
        return no_memory(err);
    torch->thread[torch->thread_count] = thread;
    *ret_folded = folded(GWI_TAG_THREAD, torch->thread_count++);
    return GW_OK;
}

/* Fold a list that contains only frames into a stack. Leave other lists unchanged. */
static gw_status fold_list(gwi_torch *torch, gw_pickle *pickle, gw_pickle_value list, gw_pickle_value *ret_folded,
                           gw_error *err)
{
    size_t count = gw_pickle_count(pickle, list);
    for (size_t i = 0; i < count; i++) {
        gw_pickle_value item = gw_pickle_at(pickle, list, i, NULL);
        if (!is_folded(item, GWI_TAG_FRAME))
            return GW_OK;
        if (!gw_array_room(&torch->frame, i, &torch->frame_capacity, sizeof *torch->frame))
            return no_memory(err);
        torch->frame[i] = (uint32_t)item.number;
    }
    if (count == 0 || count > UINT32_MAX / sizeof *torch->frame)
        return GW_OK;
    return store(torch, pickle, torch->frame, count * sizeof *torch->frame, GWI_TAG_STACK, ret_folded, err);
}

static gw_status fold(void *user, gw_pickle *pickle, gw_pickle_value container, gw_pickle_value *ret_folded,
                      gw_error *err)
{
    gwi_torch *torch = user;
    gw_pickle_value unused;
    if (container.type == GW_PICKLE_LIST)
        return fold_list(torch, pickle, container, ret_folded, err);
    if (gw_pickle_get(pickle, container, GWI_NAME_profiling_name, &unused))
        return fold_collective(torch, pickle, container, ret_folded, err);
    if (gw_pickle_get(pickle, container, GWI_NAME_thread_id, &unused))
        return fold_thread(torch, pickle, container, ret_folded, err);
    if (gw_pickle_get(pickle, container, GWI_NAME_action, &unused))
        return fold_entry(torch, pickle, container, ret_folded, err);
    if (gw_pickle_get(pickle, container, GWI_NAME_filename, &unused))
        return fold_frame(torch, pickle, container, ret_folded, err);
    if (gw_pickle_get(pickle, container, GWI_NAME_blocks, &unused))
        return fold_segment(torch, pickle, container, ret_folded, err);
    if (gw_pickle_get(pickle, container, GWI_NAME_state, &unused))
        return fold_block(torch, pickle, container, ret_folded, err);
    return GW_OK;
}

/* ---- the root ---- */

static gw_pickle_value torch_segments(const gwi_torch *torch)
{
    gw_pickle_value list = {0};
    if (torch->root.type == GW_PICKLE_LIST)
        return torch->root; /* PyTorch before 2.0: the root itself is the list of segments */
    (void)gw_pickle_get(torch->pickle, torch->root, GWI_NAME_segments, &list);
    return list;
}

gw_pickle_value gwi_torch_traces(const gwi_torch *torch)
{
    gw_pickle_value list = {0};
    (void)gw_pickle_get(torch->pickle, torch->root, GWI_NAME_device_traces, &list);
    return list;
}

const char *gwi_torch_settings(const gwi_torch *torch)
{
    gw_pickle_value settings, text;
    if (torch->root.type != GW_PICKLE_DICT ||
        !gw_pickle_get(torch->pickle, torch->root, GWI_NAME_allocator_settings, &settings) ||
        !gw_pickle_get(torch->pickle, settings, GWI_NAME_PYTORCH_CUDA_ALLOC_CONF, &text) || text.type != GW_PICKLE_TEXT)
        return NULL;
    return gw_pickle_text(torch->pickle, text, NULL);
}

static bool holds_only(const gw_pickle *pickle, gw_pickle_value list, uint32_t tag)
{
    for (size_t i = 0, count = gw_pickle_count(pickle, list); i < count; i++)
        if (!is_folded(gw_pickle_at(pickle, list, i, NULL), tag))
            return false;
    return list.type == GW_PICKLE_LIST;
}

/* Check that the blocks of a segment fill it exactly. */
static gw_status check_segment(const gwi_torch *torch, size_t index, const char *path, gw_error *err)
{
    const gwi_torch_segment *segment = &torch->segment[index];
    uint64_t sum = 0;
    if (!holds_only(torch->pickle, segment->blocks, GWI_TAG_BLOCK))
        return gw_fail(err, GW_UNSUPPORTED, "%s: segment %zu has no list of blocks", path, index);
    for (size_t i = 0, count = gw_pickle_count(torch->pickle, segment->blocks); i < count; i++)
        sum += torch->block[gw_pickle_at(torch->pickle, segment->blocks, i, NULL).number].bytes;
    if (sum != segment->bytes)
        return gw_fail(err, GW_CORRUPT, "%s: the blocks of segment %zu add up to %" PRIu64 " bytes instead of %" PRIu64,
                       path, index, sum, segment->bytes);
    return GW_OK;
}

static gw_pickle_value member(const gwi_torch *torch, gw_pickle_value dict, uint32_t name)
{
    gw_pickle_value value = {0};
    (void)gw_pickle_get(torch->pickle, dict, name, &value);
    return value;
}

const char *gwi_torch_ranks_of(const gwi_torch *torch, uint32_t group, const char **ret_description)
{
    gw_pickle_value config = member(torch, torch->root, GWI_NAME_pg_config), it = member(torch, config, group);
    gw_pickle_value ranks = member(torch, it, GWI_NAME_ranks), desc = member(torch, it, GWI_NAME_desc);
    *ret_description = desc.type == GW_PICKLE_TEXT ? gw_pickle_text(torch->pickle, desc, NULL) : NULL;
    return ranks.type == GW_PICKLE_TEXT ? gw_pickle_text(torch->pickle, ranks, NULL) : NULL;
}

/* Read the number in the key of a group in "pg_status". */
static uint64_t number_of_key(const gwi_torch *torch, gw_pickle_value key)
{
    return key.type == GW_PICKLE_TEXT ? strtoull(gw_pickle_text(torch->pickle, key, NULL), NULL, 10) : UINT64_MAX;
}

bool gwi_torch_enqueued(const gwi_torch *torch, uint64_t group_number, uint64_t *ret_number)
{
    gw_pickle_value all = member(torch, torch->root, GWI_NAME_pg_status), key;
    for (size_t i = 0, count = gw_pickle_count(torch->pickle, all); i < count; i++) {
        gw_pickle_value status = gw_pickle_at(torch->pickle, all, i, &key);
        gw_pickle_value last = member(torch, status, GWI_NAME_last_enqueued_collective);
        bool is_text = last.type == GW_PICKLE_TEXT; /* in JSON */
        if ((!is_text && last.type != GW_PICKLE_INT) || number_of_key(torch, key) != group_number)
            continue;
        int64_t number = is_text ? strtoll(gw_pickle_text(torch->pickle, last, NULL), NULL, 10) : (int64_t)last.number;
        *ret_number = number < 0 ? 0 : (uint64_t)number;
        return true;
    }
    return false;
}

bool gwi_torch_only_group(const gwi_torch *torch, uint32_t *ret_group, uint64_t *ret_number)
{
    gw_pickle_value config = member(torch, torch->root, GWI_NAME_pg_config), key, name;
    gw_pickle_value status = member(torch, torch->root, GWI_NAME_pg_status);
    if (gw_pickle_count(torch->pickle, config) != 1 || gw_pickle_count(torch->pickle, status) != 1)
        return false;
    (void)gw_pickle_at(torch->pickle, config, 0, &name);
    (void)gw_pickle_at(torch->pickle, status, 0, &key);
    *ret_group = (uint32_t)name.number;
    *ret_number = number_of_key(torch, key);
    return name.type == GW_PICKLE_TEXT;
}

static gw_status check_flight(const gwi_torch *torch, const char *path, gw_error *err)
{
    gw_pickle_value entries = member(torch, torch->root, GWI_NAME_entries); /* JSON has none if there are no calls */
    if (entries.type != GW_PICKLE_NONE && !holds_only(torch->pickle, entries, GWI_TAG_COLLECTIVE))
        return gw_fail(err, GW_UNSUPPORTED, "%s: a Flight Recorder dump without a list of calls", path);
    return GW_OK;
}

/* Reject a snapshot with unexpected parts, and a pickle that is not a snapshot, which would otherwise look like an
 * empty one. */
gw_status gwi_records_check(gwi_torch *torch, const char *path, gw_error *err)
{
    const gw_pickle *pickle = torch->pickle;
    gw_pickle_value traces = gwi_torch_traces(torch);
    bool bare = torch->root.type == GW_PICKLE_LIST && gw_pickle_count(pickle, torch->root) > 0;
    torch->is_flight = member(torch, torch->root, GWI_NAME_pg_config).type == GW_PICKLE_DICT &&
                       torch_segments(torch).type == GW_PICKLE_NONE;
    if (torch->is_flight)
        return check_flight(torch, path, err);
    if (torch->root.type != GW_PICKLE_DICT && !bare)
        return gw_fail(err, GW_UNSUPPORTED, "%s: a pickle, but not a PyTorch memory snapshot", path);
    if (!holds_only(pickle, torch_segments(torch), GWI_TAG_SEGMENT))
        return gw_fail(err, GW_UNSUPPORTED, "%s: a pickle, but not a PyTorch memory snapshot: no list of segments",
                       path);
    for (size_t i = 0; i < torch->segment_count; i++) {
        gw_status st = check_segment(torch, i, path, err);
        if (st != GW_OK)
            return st;
    }
    for (size_t i = 0, count = gw_pickle_count(pickle, traces); i < count; i++)
        if (!holds_only(pickle, gw_pickle_at(pickle, traces, i, NULL), GWI_TAG_ENTRY))
            return gw_fail(err, GW_UNSUPPORTED, "%s: the history of device %zu is not a list of entries", path, i);
    return GW_OK;
}

gw_pickle_options gwi_records_options(gwi_torch *torch)
{
    return (gw_pickle_options){.names = names, .name_count = GWI_NAME_COUNT, .fold = fold, .user = torch};
}

void gwi_torch_free(gwi_torch *torch)
{
    gw_pickle_free(torch->pickle);
    free(torch->frame);
    free(torch->block);
    free(torch->segment);
    free(torch->entry);
    free(torch->collective);
    free(torch->thread);
    memset(torch, 0, sizeof *torch);
}
