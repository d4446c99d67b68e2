/* Encodes and decodes items other than events. Each function code_...() does both, so the order of an item's fields is
 * written only once. */
#include "gw_array.h"
#include "gwi_code.h"

#include "gw_names.h"

#include <stdlib.h>

enum { STRING_BYTES_MAX = 64 << 10, STDERR_BYTES_MAX = 256 << 10, RING_CALLS_MAX = 16 << 10 };

/* Writes or reads one item. After a failure nothing more is written, and all further values are read as zeros. So the
 * status needs to be checked only once, at the end. */
typedef struct coder {
    gwi_bytes *to;           /* where the item is written; NULL: it is read */
    gwi_item_reader *reader; /* owns the arrays of an item that is read; NULL: the item is written */
    const uint8_t *at, *end; /* the bytes that are left to read */
    gw_status status;        /* of the first failure */
} coder;

static void fail(coder *c, gw_status status)
{
    c->status = c->status == GW_OK ? status : c->status;
}

static const uint8_t *take(coder *c, size_t count)
{
    const uint8_t *here = c->at;
    if (c->status != GW_OK || (size_t)(c->end - c->at) < count) {
        fail(c, GW_CORRUPT);
        return NULL;
    }
    c->at += count;
    return here;
}

static void put(coder *c, const void *data, size_t count)
{
    gwi_bytes *to = c->to;
    if (!gw_array_reach(&to->data, to->used_bytes + count, &to->capacity, 1))
        fail(c, GW_NOMEM);
    if (c->status != GW_OK || count == 0)
        return;
    memcpy(to->data + to->used_bytes, data, count);
    to->used_bytes += (uint32_t)count;
}

/* Code a value of this length. */
static void code(coder *c, void *value, size_t bytes)
{
    if (c->to != NULL) {
        put(c, value, bytes);
        return;
    }
    const uint8_t *data = take(c, bytes);
    if (data != NULL)
        memcpy(value, data, bytes);
    else
        memset(value, 0, bytes);
}

/* Code the length of a text, its bytes and a NUL. A text that is read is borrowed from the block. */
static void code_bytes(coder *c, const char **text, uint32_t *count)
{
    code(c, count, 4);
    if (c->to != NULL) {
        put(c, *text, *count);
        put(c, "", 1);
        return;
    }
    const uint8_t *data = take(c, (size_t)*count + 1);
    if (data != NULL && data[*count] != 0)
        fail(c, GW_CORRUPT);
    *text = c->status == GW_OK ? (const char *)data : "";
}

/* Code a string, which is "" instead of NULL in the file. Returns its length. */
static uint32_t code_string(coder *c, const char **string)
{
    uint32_t count = c->to == NULL || *string == NULL ? 0 : (uint32_t)strnlen(*string, STRING_BYTES_MAX);
    code_bytes(c, string, &count);
    return count;
}

/* True if the payload has further fields. Recordings of older versions lack the last ones. */
static bool has_more(const coder *c)
{
    return c->to != NULL || (c->status == GW_OK && c->at < c->end);
}

/* ---- the kinds of items ---- */

static void code_pair(coder *c, gw_item *item)
{
    code_string(c, &item->pair.key);
    code_string(c, &item->pair.value);
}

static void code_process(coder *c, gw_item *item)
{
    code(c, &item->process.parent_pid, 4);
    code(c, &item->process.start_realtime_ns, 8);
    code_string(c, &item->process.exe);
    code_string(c, &item->process.driver_path);
    code_string(c, &item->process.driver_build_id);
    if (has_more(c))
        code(c, &item->process.pid_namespace, 8);
}

/* The numbers that are read get the order that the counters have in this build. */
static void code_counters(coder *c, gw_item *item)
{
    uint8_t count = GW_COUNT_COUNT;
    code(c, &item->counters.calls, 8);
    code(c, &item->counters.synced_at_ns, 8);
    code(c, &item->counters.inside_since_ns, 8);
    code(c, &item->counters.inside_fn_plus_1, 2);
    code(c, &count, 1);
    if (c->to == NULL)
        memset(c->reader->counter, 0, sizeof c->reader->counter);
    for (unsigned i = 0; i < count; i++) {
        uint64_t value = c->to != NULL ? item->counters.counter[i] : 0;
        code(c, &value, 8);
        bool known = c->to == NULL && i < c->reader->dict->counter_count;
        unsigned mine = known ? c->reader->dict->counter[i] : GW_COUNT_COUNT;
        if (mine < GW_COUNT_COUNT)
            c->reader->counter[mine] = value;
    }
    if (c->to == NULL)
        item->counters.counter = c->reader->counter;
    code_string(c, &item->counters.thread_name);
}

/* Code a call as its differences from the previous call. Small differences take few bytes, so a ring of 2,048 calls
 * takes about 14 KiB. */
static void put_call(coder *c, const gw_hot_call *call, const gw_hot_call *last)
{
    uint64_t value[4] = {call->t_ns - last->t_ns, gwi_zigzag(call->what - last->what),
                         gwi_zigzag(call->stream - last->stream), call->fn == last->fn ? 0 : call->fn + 1u};
    uint16_t control = 0;
    for (unsigned k = 0; k < 4; k++)
        control |= (uint16_t)(gwi_length_of(value[k]) << (4 * k));
    put(c, &control, 2);
    for (unsigned k = 0; k < 4; k++)
        put(c, &value[k], (control >> (4 * k)) & 15);
}

static void take_call(coder *c, gw_hot_call *call)
{
    uint64_t value[4] = {0};
    uint16_t control;
    code(c, &control, 2);
    for (unsigned k = 0; k < 4; k++) {
        unsigned length = (control >> (4 * k)) & 15;
        if (length > sizeof value[k])
            fail(c, GW_CORRUPT);
        else
            code(c, &value[k], length);
    }
    call->t_ns += value[0];
    call->what += gwi_unzigzag(value[1]);
    call->stream += gwi_unzigzag(value[2]);
    if (value[3] != 0)
        call->fn = (uint16_t)(value[3] - 1);
}

static void code_ring(coder *c, gw_item *item)
{
    gw_hot_call last = {0};
    code(c, &item->ring.total, 8);
    code(c, &item->ring.synced_total, 8);
    code(c, &item->ring.count, 4);
    for (uint32_t i = 0; c->to != NULL && i < item->ring.count; last = item->ring.call[i++])
        put_call(c, &item->ring.call[i], &last);
    if (c->to != NULL)
        return;
    if (item->ring.count > (size_t)(c->end - c->at) / 2)
        fail(c, GW_CORRUPT); /* each call takes at least two bytes, so `count` is too large */
    else if (!gw_array_reach(&c->reader->call, item->ring.count, &c->reader->call_capacity, sizeof last))
        fail(c, GW_NOMEM);
    for (uint32_t i = 0; i < item->ring.count && c->status == GW_OK; i++) {
        take_call(c, &last);
        c->reader->call[i] = last;
    }
    item->ring.call = c->reader->call;
}

static void code_lost(coder *c, gw_item *item)
{
    code(c, &item->lost.events, 8);
    code(c, &item->lost.failures, 8);
    code(c, &item->lost.threads, 8);
}

static void code_stderr(coder *c, gw_item *item)
{
    if (item->stderr_part.count > STDERR_BYTES_MAX)
        item->stderr_part.count = STDERR_BYTES_MAX;
    code_bytes(c, &item->stderr_part.bytes, &item->stderr_part.count);
}

static void code_exit(coder *c, gw_item *item)
{
    uint8_t bits = (uint8_t)(item->exit.is_command | item->exit.status_known << 1 | item->exit.core_dumped << 2);
    code(c, &item->exit.pid, 4);
    code(c, &bits, 1);
    code(c, &item->exit.exit_code, 4);
    code(c, &item->exit.signal, 4);
    item->exit.is_command = bits & 1;
    item->exit.status_known = (bits >> 1) & 1;
    item->exit.core_dumped = (bits >> 2) & 1;
}

static void code_frame(coder *c, gw_symbol_frame *frame)
{
    if (code_string(c, &frame->function) == 0)
        frame->function = NULL;
    if (code_string(c, &frame->file) == 0)
        frame->file = NULL;
    code(c, &frame->line, 4);
}

static void code_symbol(coder *c, gw_item *item)
{
    gw_symbol_frame frame[GW_SYMBOL_FRAMES_MAX] = {{0}};
    uint8_t count = (uint8_t)(item->symbol.count < GW_SYMBOL_FRAMES_MAX ? item->symbol.count : GW_SYMBOL_FRAMES_MAX);
    if (count > 0)
        memcpy(frame, item->symbol.frame, count * sizeof *frame);
    code_string(c, &item->symbol.path);
    code(c, &item->symbol.build_id, 8);
    code(c, &item->symbol.address, 8);
    code(c, &item->symbol.state, 1);
    code(c, &count, 1);
    if (count > GW_SYMBOL_FRAMES_MAX)
        fail(c, GW_CORRUPT);
    for (unsigned i = 0; i < count && c->status == GW_OK; i++)
        code_frame(c, &frame[i]);
    for (unsigned i = 0; i < count && has_more(c); i++)
        code(c, &frame[i].column, 4);
    if (c->to != NULL)
        return;
    memcpy(c->reader->frame, frame, sizeof frame);
    item->symbol.frame = c->reader->frame;
    item->symbol.count = count;
}

/* Code each value in as few bytes as it needs. It is no difference from the previous sample, whose block may be
 * dropped. */
static void code_sample(coder *c, gw_item *item)
{
    bool seen[GW_METRIC_COUNT] = {false};
    uint8_t whole = item->sample.whole;
    uint16_t count = (uint16_t)item->sample.count;
    code(c, &item->sample.source, 1);
    code(c, &whole, 1);
    code(c, &item->sample.device, 4);
    code(c, &count, 2);
    item->sample.whole = whole & 1;
    for (unsigned i = 0; i < count && c->status == GW_OK; i++) {
        gw_sample_value value = c->to != NULL ? item->sample.value[i] : (gw_sample_value){0};
        uint8_t control = (uint8_t)(value.state << 4 | gwi_length_of(value.value));
        code(c, &value.metric, 2);
        code(c, &control, 1);
        if ((control & 15) > sizeof value.value)
            fail(c, GW_CORRUPT);
        else
            code(c, &value.value, control & 15);
        value.state = control >> 4;
        if (c->to != NULL || value.metric >= GW_METRIC_COUNT || value.state >= GW_SAMPLE_STATE_COUNT ||
            seen[value.metric])
            continue;
        seen[value.metric] = true;
        c->reader->sample[item->sample.count++] = value;
    }
    if (c->to == NULL)
        item->sample.value = c->reader->sample;
}

static void code_machine(coder *c, gw_item *item)
{
    code(c, &item->machine.kind, 1);
    code(c, &item->machine.source, 1);
    code(c, &item->machine.device, 4);
    code(c, &item->machine.count, 4);
    code(c, &item->machine.code, 8);
    code(c, &item->machine.value, 8);
    code_string(c, &item->machine.text);
}

/* `code` is 0 for items that this file does not encode, and `block` for items that are never written. */
static const struct {
    uint8_t code;
    gwi_block_type block;
    void (*fields)(coder *c, gw_item *item);
} kinds[GW_ITEM_COUNT] = {
    [GW_ITEM_META] = {GWI_CODE_META, GWI_BLOCK_FACTS, code_pair},
    [GW_ITEM_PROCESS] = {GWI_CODE_PROCESS, GWI_BLOCK_FACTS, code_process},
    [GW_ITEM_EVENT] = {0, GWI_BLOCK_EVENTS, NULL},
    [GW_ITEM_COUNTERS] = {GWI_CODE_COUNTERS, GWI_BLOCK_STATE, code_counters},
    [GW_ITEM_RING] = {GWI_CODE_RING, GWI_BLOCK_STATE, code_ring},
    [GW_ITEM_LOST] = {GWI_CODE_LOST, GWI_BLOCK_STATE, code_lost},
    [GW_ITEM_STDERR] = {GWI_CODE_STDERR, GWI_BLOCK_STDERR, code_stderr},
    [GW_ITEM_EXIT] = {GWI_CODE_EXIT, GWI_BLOCK_FACTS, code_exit},
    [GW_ITEM_MAPS] = {GWI_CODE_MAPS, GWI_BLOCK_FACTS, code_pair},
    [GW_ITEM_SUPERVISOR] = {GWI_CODE_SUPERVISOR, GWI_BLOCK_FACTS, code_pair},
    [GW_ITEM_SYMBOL] = {GWI_CODE_SYMBOL, GWI_BLOCK_FACTS, code_symbol},
    [GW_ITEM_SAMPLE] = {GWI_CODE_SAMPLE, GWI_BLOCK_SAMPLES, code_sample},
    [GW_ITEM_MACHINE] = {GWI_CODE_MACHINE, GWI_BLOCK_FACTS, code_machine},
};

gwi_block_type gwi_item_block(gw_item_kind kind)
{
    return kind < GW_ITEM_COUNT ? kinds[kind].block : 0;
}

static void code_head(coder *c, gw_item *item)
{
    code(c, &item->t_ns, 8);
    code(c, &item->pid, 4);
    code(c, &item->tid, 4);
}

gw_status gwi_item_encode(gwi_bytes *bytes, const gw_item *item)
{
    gw_item copy = *item;
    coder c = {.to = bytes};
    uint8_t number = item->kind < GW_ITEM_COUNT ? kinds[item->kind].code : 0;
    uint32_t begin = bytes->used_bytes, length = 0;
    if (number == 0 || (item->kind == GW_ITEM_RING && item->ring.count > RING_CALLS_MAX) ||
        (item->kind == GW_ITEM_SAMPLE && item->sample.count > GW_METRIC_COUNT))
        return GW_USAGE;
    code(&c, &number, 1);
    code(&c, &length, 4);
    code_head(&c, &copy);
    kinds[item->kind].fields(&c, &copy);
    if (c.status != GW_OK) {
        bytes->used_bytes = begin;
        return c.status;
    }
    length = bytes->used_bytes - begin - 5;
    memcpy(bytes->data + begin + 1, &length, 4);
    return GW_OK;
}

void gwi_bytes_free(gwi_bytes *bytes)
{
    free(bytes->data);
    *bytes = (gwi_bytes){0};
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

gw_status gwi_item_reader_next(gwi_item_reader *reader, const gw_item **ret_item)
{
    gw_item *item = &reader->item;
    while (reader->at < reader->end) {
        coder c = {.reader = reader, .at = reader->at, .end = reader->end};
        uint8_t number;
        uint32_t length;
        code(&c, &number, 1);
        code(&c, &length, 4);
        if (c.status != GW_OK || (size_t)(c.end - c.at) < length || length < 16)
            return GW_CORRUPT;
        c.end = reader->at = c.at + length;
        memset(item, 0, sizeof *item);
        code_head(&c, item);
        while (item->kind < GW_ITEM_COUNT && (number == 0 || kinds[item->kind].code != number))
            item->kind++;
        if (item->kind == GW_ITEM_COUNT)
            continue; /* this build does not know the code */
        kinds[item->kind].fields(&c, item);
        if (c.status == GW_OK)
            *ret_item = item;
        return c.status;
    }
    return GW_END;
}

/* ---- the dictionary ---- */

static void put_name(coder *c, const char *name)
{
    code_string(c, &name);
}

gw_status gwi_dict_encode(gwi_bytes *bytes, const char *const *fn_names, uint32_t fn_count)
{
    coder c = {.to = bytes};
    uint32_t count[3] = {GW_EV_COUNT, GW_COUNT_COUNT, fn_count};
    code(&c, count, sizeof count);
    for (unsigned i = 0; i < GW_EV_COUNT; i++)
        put_name(&c, gw_event_kind_name(i));
    for (unsigned i = 0; i < GW_COUNT_COUNT; i++)
        put_name(&c, gw_counter_name(i));
    for (uint32_t i = 0; i < fn_count; i++)
        put_name(&c, fn_names[i]);
    return c.status;
}

/* Read a name, and return its number in this build. `unknown`: this build has no such name. */
static uint8_t take_number(coder *c, const char *(*name_of)(unsigned number), unsigned count, uint8_t unknown)
{
    const char *name;
    code_string(c, &name);
    for (unsigned i = 0; i < count; i++)
        if (strcmp(name, name_of(i)) == 0)
            return (uint8_t)i;
    return unknown;
}

void gwi_dict_free(gwi_dict *dict)
{
    free(dict->fn_name);
    free(dict->text);
    *dict = (gwi_dict){0};
}

gw_status gwi_dict_decode(const uint8_t *raw, uint32_t raw_bytes, gwi_dict *ret_dict)
{
    gwi_dict dict = {.text = malloc(raw_bytes + 1u)};
    if (dict.text == NULL)
        return GW_NOMEM;
    memcpy(dict.text, raw, raw_bytes);
    coder c = {.at = (const uint8_t *)dict.text, .end = (const uint8_t *)dict.text + raw_bytes};
    code(&c, &dict.kind_count, 4);
    code(&c, &dict.counter_count, 4);
    code(&c, &dict.fn_count, 4);
    if (dict.kind_count > 256 || dict.counter_count > 255 || dict.fn_count > raw_bytes / 5 ||
        dict.fn_count > GWI_FN_UNKNOWN)
        fail(&c, GW_CORRUPT);
    dict.fn_name = c.status == GW_OK ? calloc(dict.fn_count + 1u, sizeof *dict.fn_name) : NULL;
    if (dict.fn_name == NULL)
        fail(&c, GW_NOMEM);
    for (uint32_t i = 0; c.status == GW_OK && i < dict.kind_count; i++)
        dict.kind[i] = take_number(&c, gw_event_kind_name, GW_EV_COUNT, GW_EV_CALL);
    for (uint32_t i = 0; c.status == GW_OK && i < dict.counter_count; i++)
        dict.counter[i] = take_number(&c, gw_counter_name, GW_COUNT_COUNT, GW_COUNT_COUNT);
    for (uint32_t i = 0; c.status == GW_OK && i < dict.fn_count; i++)
        code_string(&c, &dict.fn_name[i]);
    if (c.status == GW_OK)
        *ret_dict = dict;
    else
        gwi_dict_free(&dict);
    return c.status;
}
