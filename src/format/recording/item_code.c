/* Encodes and decodes items other than events. */
#include "gw_array.h"
#include "gwi_item_code.h"

#include "gw_names.h"

#include <stdlib.h>

enum { STRING_BYTES_MAX = 64 << 10, STDERR_BYTES_MAX = 256 << 10, RING_CALLS_MAX = 16 << 10 };

void gwi_bytes_free(gwi_bytes *bytes)
{
    free(bytes->data);
    *bytes = (gwi_bytes){0};
}

/* ---- writing ---- */

static bool reserve(gwi_bytes *bytes, size_t more)
{
    return gw_array_reach(&bytes->data, bytes->used_bytes + more, &bytes->capacity, 1);
}

/* The put functions do not check for space, because their callers have reserved it. */
static void put(gwi_bytes *bytes, const void *data, size_t count)
{
    if (count > 0)
        memcpy(bytes->data + bytes->used_bytes, data, count);
    bytes->used_bytes += (uint32_t)count;
}

static void put_u8(gwi_bytes *bytes, uint8_t value)
{
    put(bytes, &value, 1);
}

static void put_u16(gwi_bytes *bytes, uint16_t value)
{
    put(bytes, &value, 2);
}

static void put_u32(gwi_bytes *bytes, uint32_t value)
{
    put(bytes, &value, 4);
}

static void put_u64(gwi_bytes *bytes, uint64_t value)
{
    put(bytes, &value, 8);
}

static uint32_t string_bytes(const char *string)
{
    return string == NULL ? 0 : (uint32_t)strnlen(string, STRING_BYTES_MAX);
}

static void put_string(gwi_bytes *bytes, const char *string)
{
    uint32_t count = string_bytes(string);
    put_u32(bytes, count);
    put(bytes, string, count);
    put_u8(bytes, 0);
}

gwi_block_type gwi_item_block(gw_item_kind kind)
{
    switch (kind) {
    case GW_ITEM_META:
    case GW_ITEM_PROCESS:
    case GW_ITEM_EXIT:
    case GW_ITEM_MAPS:
    case GW_ITEM_SUPERVISOR:
    case GW_ITEM_SYMBOL:
    case GW_ITEM_MACHINE:
        return GWI_BLOCK_FACTS;
    case GW_ITEM_SAMPLE:
        return GWI_BLOCK_SAMPLES;
    case GW_ITEM_COUNTERS:
    case GW_ITEM_RING:
    case GW_ITEM_LOST:
        return GWI_BLOCK_STATE;
    case GW_ITEM_STDERR:
        return GWI_BLOCK_STDERR;
    case GW_ITEM_EVENT:
        return GWI_BLOCK_EVENTS;
    default:
        return 0;
    }
}

static uint8_t item_code(gw_item_kind kind)
{
    switch (kind) {
    case GW_ITEM_META:
        return GWI_CODE_META;
    case GW_ITEM_PROCESS:
        return GWI_CODE_PROCESS;
    case GW_ITEM_COUNTERS:
        return GWI_CODE_COUNTERS;
    case GW_ITEM_RING:
        return GWI_CODE_RING;
    case GW_ITEM_LOST:
        return GWI_CODE_LOST;
    case GW_ITEM_STDERR:
        return GWI_CODE_STDERR;
    case GW_ITEM_EXIT:
        return GWI_CODE_EXIT;
    case GW_ITEM_MAPS:
        return GWI_CODE_MAPS;
    case GW_ITEM_SUPERVISOR:
        return GWI_CODE_SUPERVISOR;
    case GW_ITEM_SYMBOL:
        return GWI_CODE_SYMBOL;
    case GW_ITEM_SAMPLE:
        return GWI_CODE_SAMPLE;
    case GW_ITEM_MACHINE:
        return GWI_CODE_MACHINE;
    default:
        return 0;
    }
}

static uint32_t frame_count(const gw_item *item)
{
    return item->symbol.count < GW_SYMBOL_FRAMES_MAX ? item->symbol.count : GW_SYMBOL_FRAMES_MAX;
}

static size_t symbol_bytes(const gw_item *item)
{
    size_t bytes = string_bytes(item->symbol.path);
    for (uint32_t i = 0; i < frame_count(item); i++)
        bytes += 20 + string_bytes(item->symbol.frame[i].function) + string_bytes(item->symbol.frame[i].file);
    return bytes;
}

static size_t item_bytes_max(const gw_item *item)
{
    enum { FIXED = 64, RING_CALL_BYTES_MAX = 2 + 3 * 8 + 3 };
    switch (item->kind) {
    case GW_ITEM_META:
    case GW_ITEM_MAPS:
    case GW_ITEM_SUPERVISOR:
        return FIXED + string_bytes(item->pair.key) + string_bytes(item->pair.value);
    case GW_ITEM_PROCESS:
        return FIXED + string_bytes(item->process.exe) + string_bytes(item->process.driver_path) +
               string_bytes(item->process.driver_build_id);
    case GW_ITEM_COUNTERS:
        return FIXED + 8 * GW_COUNT_COUNT + string_bytes(item->counters.thread_name);
    case GW_ITEM_RING:
        return FIXED + RING_CALL_BYTES_MAX * (size_t)item->ring.count;
    case GW_ITEM_STDERR:
        return FIXED + (size_t)item->stderr_part.count;
    case GW_ITEM_SYMBOL:
        return FIXED + symbol_bytes(item);
    case GW_ITEM_SAMPLE:
        return FIXED + 11 * (size_t)item->sample.count;
    case GW_ITEM_MACHINE:
        return FIXED + string_bytes(item->machine.text);
    default:
        return 2 * FIXED;
    }
}

static void put_counters(gwi_bytes *bytes, const gw_item *item)
{
    put_u64(bytes, item->counters.calls);
    put_u64(bytes, item->counters.synced_at_ns);
    put_u64(bytes, item->counters.inside_since_ns);
    put_u16(bytes, item->counters.inside_fn_plus_1);
    put_u8(bytes, GW_COUNT_COUNT);
    for (unsigned i = 0; i < GW_COUNT_COUNT; i++)
        put_u64(bytes, item->counters.counter[i]);
    put_string(bytes, item->counters.thread_name);
}

/* Write each call as its differences from the previous call. Small differences take few bytes, so a ring of 2,048 calls
 * takes about 14 KiB. */
static void put_ring(gwi_bytes *bytes, const gw_item *item)
{
    gw_hot_call last = {0};
    put_u64(bytes, item->ring.total);
    put_u64(bytes, item->ring.synced_total);
    put_u32(bytes, item->ring.count);
    for (uint32_t i = 0; i < item->ring.count; i++) {
        const gw_hot_call *call = &item->ring.call[i];
        uint64_t value[4] = {call->t_ns - last.t_ns, gwi_zigzag(call->what - last.what),
                             gwi_zigzag(call->stream - last.stream), call->fn == last.fn ? 0 : call->fn + 1u};
        uint32_t control = 0;
        for (unsigned k = 0; k < 4; k++)
            control |= gwi_length_of(value[k]) << (4 * k);
        put_u16(bytes, (uint16_t)control);
        for (unsigned k = 0; k < 4; k++)
            put(bytes, &value[k], (control >> (4 * k)) & 15);
        last = *call;
    }
}

static void put_symbol(gwi_bytes *bytes, const gw_item *item)
{
    put_string(bytes, item->symbol.path);
    put_u64(bytes, item->symbol.build_id);
    put_u64(bytes, item->symbol.address);
    put_u8(bytes, item->symbol.state);
    put_u8(bytes, (uint8_t)frame_count(item));
    for (uint32_t i = 0; i < frame_count(item); i++) {
        put_string(bytes, item->symbol.frame[i].function);
        put_string(bytes, item->symbol.frame[i].file);
        put_u32(bytes, item->symbol.frame[i].line);
    }
    for (uint32_t i = 0; i < frame_count(item); i++)
        put_u32(bytes, item->symbol.frame[i].column);
}

/* Write each value in as few bytes as it needs. It is no difference from the previous sample, whose block may be
 * dropped. */
static void put_sample(gwi_bytes *bytes, const gw_item *item)
{
    put_u8(bytes, item->sample.source);
    put_u8(bytes, item->sample.whole);
    put_u32(bytes, item->sample.device);
    put_u16(bytes, (uint16_t)item->sample.count);
    for (uint32_t i = 0; i < item->sample.count; i++) {
        const gw_sample_value *value = &item->sample.value[i];
        unsigned length = gwi_length_of(value->value);
        put_u16(bytes, value->metric);
        put_u8(bytes, (uint8_t)(value->state << 4 | length));
        put(bytes, &value->value, length);
    }
}

static void put_machine(gwi_bytes *bytes, const gw_item *item)
{
    put_u8(bytes, item->machine.kind);
    put_u8(bytes, item->machine.source);
    put_u32(bytes, item->machine.device);
    put_u32(bytes, item->machine.count);
    put_u64(bytes, item->machine.code);
    put_u64(bytes, item->machine.value);
    put_string(bytes, item->machine.text);
}

static void put_payload(gwi_bytes *bytes, const gw_item *item)
{
    switch (item->kind) {
    case GW_ITEM_META:
    case GW_ITEM_MAPS:
    case GW_ITEM_SUPERVISOR:
        put_string(bytes, item->pair.key);
        put_string(bytes, item->pair.value);
        break;
    case GW_ITEM_PROCESS:
        put_u32(bytes, item->process.parent_pid);
        put_u64(bytes, item->process.start_realtime_ns);
        put_string(bytes, item->process.exe);
        put_string(bytes, item->process.driver_path);
        put_string(bytes, item->process.driver_build_id);
        put_u64(bytes, item->process.pid_namespace);
        break;
    case GW_ITEM_COUNTERS:
        put_counters(bytes, item);
        break;
    case GW_ITEM_RING:
        put_ring(bytes, item);
        break;
    case GW_ITEM_LOST:
        put_u64(bytes, item->lost.events);
        put_u64(bytes, item->lost.failures);
        put_u64(bytes, item->lost.threads);
        break;
    case GW_ITEM_STDERR:
        put_u32(bytes, item->stderr_part.count < STDERR_BYTES_MAX ? item->stderr_part.count : STDERR_BYTES_MAX);
        put(bytes, item->stderr_part.bytes,
            item->stderr_part.count < STDERR_BYTES_MAX ? item->stderr_part.count : STDERR_BYTES_MAX);
        put_u8(bytes, 0);
        break;
    case GW_ITEM_EXIT:
        put_u32(bytes, item->exit.pid);
        put_u8(bytes, (uint8_t)(item->exit.is_command | item->exit.status_known << 1 | item->exit.core_dumped << 2));
        put_u32(bytes, (uint32_t)item->exit.exit_code);
        put_u32(bytes, (uint32_t)item->exit.signal);
        break;
    case GW_ITEM_SYMBOL:
        put_symbol(bytes, item);
        break;
    case GW_ITEM_SAMPLE:
        put_sample(bytes, item);
        break;
    case GW_ITEM_MACHINE:
        put_machine(bytes, item);
        break;
    default:
        break;
    }
}

gw_status gwi_item_encode(gwi_bytes *bytes, const gw_item *item)
{
    uint8_t code = item_code(item->kind);
    if (code == 0 || (item->kind == GW_ITEM_RING && item->ring.count > RING_CALLS_MAX) ||
        (item->kind == GW_ITEM_SAMPLE && item->sample.count > GW_METRIC_COUNT))
        return GW_USAGE;
    if (!reserve(bytes, item_bytes_max(item)))
        return GW_NOMEM;
    put_u8(bytes, code);
    uint32_t length_at = bytes->used_bytes;
    put_u32(bytes, 0);
    put_u64(bytes, item->t_ns);
    put_u32(bytes, item->pid);
    put_u32(bytes, item->tid);
    put_payload(bytes, item);
    uint32_t length = bytes->used_bytes - length_at - 4;
    memcpy(bytes->data + length_at, &length, 4);
    return GW_OK;
}

/* ---- reading ---- */

/* Reads past the end return zeros and set `bad`, so that a decoder needs to check for errors only once, at the end. */
typedef struct cursor {
    const uint8_t *at, *end;
    bool bad;
} cursor;

static const uint8_t *take(cursor *c, size_t count)
{
    static const uint8_t zeros[8];
    if (c->bad || (size_t)(c->end - c->at) < count) {
        c->bad = true;
        return count <= sizeof zeros ? zeros : NULL;
    }
    const uint8_t *here = c->at;
    c->at += count;
    return here;
}

static uint64_t take_uint(cursor *c, unsigned bytes)
{
    uint64_t value = 0;
    memcpy(&value, take(c, bytes), bytes);
    return value;
}

static const char *take_string(cursor *c, uint32_t *ret_bytes)
{
    uint32_t count = (uint32_t)take_uint(c, 4);
    if (c->bad || (size_t)(c->end - c->at) < (size_t)count + 1 || c->at[count] != 0) {
        c->bad = true;
        return "";
    }
    *ret_bytes = count;
    return (const char *)take(c, (size_t)count + 1);
}

static const char *take_text(cursor *c)
{
    uint32_t bytes;
    return take_string(c, &bytes);
}

void gwi_item_reader_start(gwi_item_reader *reader, const gwi_dict *dict, const uint8_t *raw, uint32_t raw_bytes)
{
    reader->dict = dict;
    reader->at = raw;
    reader->end = raw + raw_bytes;
}

void gwi_item_reader_free(gwi_item_reader *reader)
{
    free(reader->call);
    reader->call = NULL;
    reader->call_capacity = 0;
}

static void take_counters(gwi_item_reader *reader, cursor *c)
{
    gw_item *item = &reader->item;
    item->kind = GW_ITEM_COUNTERS;
    item->counters.calls = take_uint(c, 8);
    item->counters.synced_at_ns = take_uint(c, 8);
    item->counters.inside_since_ns = take_uint(c, 8);
    item->counters.inside_fn_plus_1 = (uint16_t)take_uint(c, 2);
    unsigned count = (unsigned)take_uint(c, 1);
    memset(reader->counter, 0, sizeof reader->counter);
    for (unsigned i = 0; i < count; i++) {
        uint64_t value = take_uint(c, 8);
        unsigned mine = i < reader->dict->counter_count ? reader->dict->counter[i] : GW_COUNT_COUNT;
        if (mine < GW_COUNT_COUNT)
            reader->counter[mine] = value;
    }
    item->counters.counter = reader->counter;
    item->counters.thread_name = take_text(c);
}

static gw_status take_ring(gwi_item_reader *reader, cursor *c)
{
    gw_item *item = &reader->item;
    gw_hot_call last = {0};
    item->kind = GW_ITEM_RING;
    item->ring.total = take_uint(c, 8);
    item->ring.synced_total = take_uint(c, 8);
    uint32_t count = (uint32_t)take_uint(c, 4);
    if (c->bad || count > (size_t)(c->end - c->at) / 2)
        return GW_CORRUPT; /* each call takes at least two bytes, so `count` is too large */
    if (!gw_array_reach(&reader->call, count, &reader->call_capacity, sizeof *reader->call))
        return GW_NOMEM;
    for (uint32_t i = 0; i < count && !c->bad; i++) {
        uint32_t control = (uint32_t)take_uint(c, 2);
        uint64_t value[4];
        for (unsigned k = 0; k < 4; k++) {
            unsigned length = (control >> (4 * k)) & 15;
            if (length > 8)
                return GW_CORRUPT;
            value[k] = take_uint(c, length);
        }
        last.t_ns += value[0];
        last.what += gwi_unzigzag(value[1]);
        last.stream += gwi_unzigzag(value[2]);
        if (value[3] != 0)
            last.fn = (uint16_t)(value[3] - 1);
        reader->call[i] = last;
    }
    item->ring.call = reader->call;
    item->ring.count = count;
    return GW_OK;
}

static void take_process(gw_item *item, cursor *c)
{
    item->kind = GW_ITEM_PROCESS;
    item->process.parent_pid = (uint32_t)take_uint(c, 4);
    item->process.start_realtime_ns = take_uint(c, 8);
    item->process.exe = take_text(c);
    item->process.driver_path = take_text(c);
    item->process.driver_build_id = take_text(c);
    /* recordings of older versions have no namespace */
    item->process.pid_namespace = !c->bad && c->at < c->end ? take_uint(c, 8) : 0;
}

static void take_exit(gw_item *item, cursor *c)
{
    item->kind = GW_ITEM_EXIT;
    item->exit.pid = (uint32_t)take_uint(c, 4);
    unsigned bits = (unsigned)take_uint(c, 1);
    item->exit.is_command = bits & 1;
    item->exit.status_known = (bits >> 1) & 1;
    item->exit.core_dumped = (bits >> 2) & 1;
    item->exit.exit_code = (int)(uint32_t)take_uint(c, 4);
    item->exit.signal = (int)(uint32_t)take_uint(c, 4);
}

static const char *take_text_or_null(cursor *c)
{
    uint32_t bytes = 0;
    const char *text = take_string(c, &bytes);
    return bytes == 0 ? NULL : text;
}

static void take_symbol(gwi_item_reader *reader, cursor *c)
{
    gw_item *item = &reader->item;
    item->kind = GW_ITEM_SYMBOL;
    item->symbol.path = take_text(c);
    item->symbol.build_id = take_uint(c, 8);
    item->symbol.address = take_uint(c, 8);
    item->symbol.state = (uint8_t)take_uint(c, 1);
    item->symbol.count = (uint32_t)take_uint(c, 1);
    c->bad = c->bad || item->symbol.count > GW_SYMBOL_FRAMES_MAX;
    for (uint32_t i = 0; i < item->symbol.count && !c->bad; i++) {
        reader->frame[i].function = take_text_or_null(c);
        reader->frame[i].file = take_text_or_null(c);
        reader->frame[i].line = (uint32_t)take_uint(c, 4);
        reader->frame[i].column = 0;
    }
    bool has_columns = !c->bad && c->at < c->end; /* recordings of older versions have none */
    for (uint32_t i = 0; i < item->symbol.count && has_columns; i++)
        reader->frame[i].column = (uint32_t)take_uint(c, 4);
    item->symbol.frame = reader->frame;
}

static void take_pair(gw_item *item, cursor *c, gw_item_kind kind)
{
    item->kind = kind;
    item->pair.key = take_text(c);
    item->pair.value = take_text(c);
}

static gw_status take_sample(gwi_item_reader *reader, cursor *c)
{
    gw_item *item = &reader->item;
    bool seen[GW_METRIC_COUNT] = {false};
    item->kind = GW_ITEM_SAMPLE;
    item->sample.source = (uint8_t)take_uint(c, 1);
    item->sample.whole = take_uint(c, 1) & 1;
    item->sample.device = (uint32_t)take_uint(c, 4);
    unsigned count = (unsigned)take_uint(c, 2);
    for (unsigned i = 0; i < count && !c->bad; i++) {
        gw_sample_value value = {.metric = (uint16_t)take_uint(c, 2)};
        unsigned control = (unsigned)take_uint(c, 1);
        if ((control & 15) > 8)
            return GW_CORRUPT;
        value.state = (uint8_t)(control >> 4);
        value.value = take_uint(c, control & 15);
        if (value.metric >= GW_METRIC_COUNT || value.state >= GW_SAMPLE_STATE_COUNT || seen[value.metric])
            continue;
        seen[value.metric] = true;
        reader->sample[item->sample.count++] = value;
    }
    item->sample.value = reader->sample;
    return GW_OK;
}

static void take_machine(gw_item *item, cursor *c)
{
    item->kind = GW_ITEM_MACHINE;
    item->machine.kind = (uint8_t)take_uint(c, 1);
    item->machine.source = (uint8_t)take_uint(c, 1);
    item->machine.device = (uint32_t)take_uint(c, 4);
    item->machine.count = (uint32_t)take_uint(c, 4);
    item->machine.code = take_uint(c, 8);
    item->machine.value = take_uint(c, 8);
    item->machine.text = take_text(c);
}

/* Decode the payload of an item. Returns GW_MISSING if this build does not know the code. */
static gw_status take_payload(gwi_item_reader *reader, cursor *c, unsigned code)
{
    gw_item *item = &reader->item;
    switch (code) {
    case GWI_CODE_META:
        take_pair(item, c, GW_ITEM_META);
        return GW_OK;
    case GWI_CODE_MAPS:
        take_pair(item, c, GW_ITEM_MAPS);
        return GW_OK;
    case GWI_CODE_SUPERVISOR:
        take_pair(item, c, GW_ITEM_SUPERVISOR);
        return GW_OK;
    case GWI_CODE_PROCESS:
        take_process(item, c);
        return GW_OK;
    case GWI_CODE_COUNTERS:
        take_counters(reader, c);
        return GW_OK;
    case GWI_CODE_RING:
        return take_ring(reader, c);
    case GWI_CODE_LOST:
        item->kind = GW_ITEM_LOST;
        item->lost.events = take_uint(c, 8);
        item->lost.failures = take_uint(c, 8);
        item->lost.threads = take_uint(c, 8);
        return GW_OK;
    case GWI_CODE_STDERR:
        item->kind = GW_ITEM_STDERR;
        item->stderr_part.bytes = take_string(c, &item->stderr_part.count);
        return GW_OK;
    case GWI_CODE_EXIT:
        take_exit(item, c);
        return GW_OK;
    case GWI_CODE_SYMBOL:
        take_symbol(reader, c);
        return GW_OK;
    case GWI_CODE_SAMPLE:
        return take_sample(reader, c);
    case GWI_CODE_MACHINE:
        take_machine(&reader->item, c);
        return GW_OK;
    default:
        return GW_MISSING;
    }
}

gw_status gwi_item_reader_next(gwi_item_reader *reader, const gw_item **ret_item)
{
    while (reader->at < reader->end) {
        cursor c = {reader->at, reader->end, false};
        unsigned code = (unsigned)take_uint(&c, 1);
        uint32_t length = (uint32_t)take_uint(&c, 4);
        if (c.bad || (size_t)(c.end - c.at) < length || length < 16)
            return GW_CORRUPT;
        c.end = c.at + length;
        reader->at = c.end;
        memset(&reader->item, 0, sizeof reader->item);
        reader->item.t_ns = take_uint(&c, 8);
        reader->item.pid = (uint32_t)take_uint(&c, 4);
        reader->item.tid = (uint32_t)take_uint(&c, 4);
        gw_status st = take_payload(reader, &c, code);
        if (st == GW_MISSING)
            continue;
        if (st != GW_OK)
            return st;
        if (c.bad)
            return GW_CORRUPT;
        *ret_item = &reader->item;
        return GW_OK;
    }
    return GW_END;
}

/* ---- the dictionary ---- */

static bool put_name(gwi_bytes *bytes, const char *name)
{
    if (!reserve(bytes, 8 + string_bytes(name)))
        return false;
    put_string(bytes, name);
    return true;
}

gw_status gwi_dict_encode(gwi_bytes *bytes, const char *const *fn_names, uint32_t fn_count)
{
    if (!reserve(bytes, 12))
        return GW_NOMEM;
    put_u32(bytes, GW_EV_COUNT);
    put_u32(bytes, GW_COUNT_COUNT);
    put_u32(bytes, fn_count);
    bool ok = true;
    for (unsigned i = 0; i < GW_EV_COUNT && ok; i++)
        ok = put_name(bytes, gw_event_kind_name(i));
    for (unsigned i = 0; i < GW_COUNT_COUNT && ok; i++)
        ok = put_name(bytes, gw_counter_name(i));
    for (uint32_t i = 0; i < fn_count && ok; i++)
        ok = put_name(bytes, fn_names[i]);
    return ok ? GW_OK : GW_NOMEM;
}

static uint8_t kind_by_name(const char *name)
{
    for (unsigned i = 0; i < GW_EV_COUNT; i++)
        if (strcmp(name, gw_event_kind_name(i)) == 0)
            return (uint8_t)i;
    return GW_EV_CALL;
}

static uint8_t counter_by_name(const char *name)
{
    for (unsigned i = 0; i < GW_COUNT_COUNT; i++)
        if (strcmp(name, gw_counter_name(i)) == 0)
            return (uint8_t)i;
    return GW_COUNT_COUNT;
}

void gwi_dict_free(gwi_dict *dict)
{
    free(dict->fn_name);
    free(dict->text);
    *dict = (gwi_dict){0};
}

gw_status gwi_dict_decode(const uint8_t *raw, uint32_t raw_bytes, gwi_dict *ret_dict)
{
    gw_status st = GW_CORRUPT;
    gwi_dict dict = {.text = malloc(raw_bytes + 1u)};
    if (dict.text == NULL)
        return GW_NOMEM;
    memcpy(dict.text, raw, raw_bytes);
    cursor c = {(const uint8_t *)dict.text, (const uint8_t *)dict.text + raw_bytes, false};
    dict.kind_count = (uint32_t)take_uint(&c, 4);
    dict.counter_count = (uint32_t)take_uint(&c, 4);
    dict.fn_count = (uint32_t)take_uint(&c, 4);
    if (c.bad || dict.kind_count > 256 || dict.counter_count > 255 || dict.fn_count > raw_bytes / 5 ||
        dict.fn_count > GWI_FN_UNKNOWN)
        goto out;
    dict.fn_name = calloc(dict.fn_count + 1u, sizeof *dict.fn_name);
    if (dict.fn_name == NULL) {
        st = GW_NOMEM;
        goto out;
    }
    for (uint32_t i = 0; i < dict.kind_count; i++)
        dict.kind[i] = kind_by_name(take_text(&c));
    for (uint32_t i = 0; i < dict.counter_count; i++)
        dict.counter[i] = counter_by_name(take_text(&c));
    for (uint32_t i = 0; i < dict.fn_count; i++)
        dict.fn_name[i] = take_text(&c);
    if (c.bad)
        goto out;
    *ret_dict = dict;
    return GW_OK;
out:
    gwi_dict_free(&dict);
    return st;
}
