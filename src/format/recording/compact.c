/* Drops the oldest events of a recording that is near its size limit. Keeps those that made objects which still
 * exist. */
#define _GNU_SOURCE

#include "gw_array.h"
#include "gw_names.h"
#include "gwi_source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { SAME_FAILURES_MAX = 64, STDERR_KEPT_BYTES = 256 << 10, EVENT_BYTES_GUESS = 12 };

/* Keys of the table below, besides the kinds of objects (gw_thing). */
enum { FAILURE = GW_THING_COUNT, SAMPLE_FIRST, SAMPLE_LAST, FIRST_THREAD_STATE };

/* ---- a table from (kind of object, process, name) to a number ---- */

typedef struct entry {
    uint64_t name;
    uint32_t pid;
    uint32_t what; /* gw_thing, or one of the keys above; 0: empty entry */
    uint64_t value;
} entry;

typedef struct table {
    entry *slot; /* owned */
    size_t slot_count;
    size_t used;
} table;

static size_t home(const table *t, uint32_t what, uint32_t pid, uint64_t name)
{
    uint64_t h = (name ^ ((uint64_t)pid << 32 | what)) * 0x9e3779b97f4a7c15u;
    return (size_t)(h ^ (h >> 32)) & (t->slot_count - 1);
}

static entry *lookup(const table *t, uint32_t what, uint32_t pid, uint64_t name)
{
    size_t i = home(t, what, pid, name);
    while (t->slot[i].what != 0 && !(t->slot[i].what == what && t->slot[i].pid == pid && t->slot[i].name == name))
        i = (i + 1) & (t->slot_count - 1);
    return &t->slot[i];
}

static bool grow_table(table *t)
{
    if (t->slot != NULL && t->used * 2 < t->slot_count)
        return true;
    table larger = {.slot_count = t->slot == NULL ? 1024 : 2 * t->slot_count};
    larger.slot = calloc(larger.slot_count, sizeof *larger.slot);
    if (larger.slot == NULL)
        return false;
    for (size_t i = 0; i < t->slot_count; i++)
        if (t->slot[i].what != 0)
            *lookup(&larger, t->slot[i].what, t->slot[i].pid, t->slot[i].name) = t->slot[i];
    larger.used = t->used;
    free(t->slot);
    *t = larger;
    return true;
}

/* Return the entry with this key. If it is missing, add it with the value 0. Returns NULL if out of memory. */
static entry *demand(table *t, uint32_t what, uint32_t pid, uint64_t name)
{
    if (!grow_table(t))
        return NULL;
    entry *e = lookup(t, what, pid, name);
    if (e->what == 0) {
        *e = (entry){name, pid, what, 0};
        t->used++;
    }
    return e;
}

/* ---- the older half ---- */

typedef struct older {
    table table;
    uint8_t *keep; /* owned: KEEP_NOT, KEEP or KEEP_ALWAYS for each item of EVENTS, CARRY, STATE and SAMPLES blocks */
    size_t count, capacity;
    uint64_t events, events_kept;
    uint64_t alive_skip; /* drop this many of the oldest events marked KEEP nevertheless, for lack of space */
} older;

static bool remember(older *o, bool keep)
{
    if (!gw_array_room(&o->keep, o->count, &o->capacity, sizeof *o->keep))
        return false;
    o->keep[o->count++] = keep;
    return true;
}

enum { KEEP_NOT = 0, KEEP = 1, KEEP_ALWAYS = 2 };

static bool judge_failure(older *o, const gw_event *event)
{
    uint64_t detail = event->kind == GW_EV_NOTE ? event->arg[0] & 0xffff : event->result;
    uint64_t name = (uint64_t)event->kind << 32 | (uint64_t)event->fn << 16 | detail;
    entry *e = demand(&o->table, FAILURE, event->pid, name);
    if (e == NULL || !remember(o, false))
        return false;
    o->keep[o->count - 1] = e->value < SAME_FAILURES_MAX ? KEEP_ALWAYS : KEEP_NOT;
    e->value++;
    return true;
}

/* Decide whether to keep an event, by its kind (`fold` in gw_event.h). A PAIR event that ends an object is dropped with
 * the event that made the object. Returns false if out of memory. */
static bool judge_event(older *o, const gw_event *event)
{
    o->events++;
    const gw_kind_traits *kind = gw_event_kind_traits(event->kind);
    if (event->result != 0 || kind->fold == GW_FOLD_FIRST)
        return judge_failure(o, event);
    bool is_pair = kind->fold == GW_FOLD_PAIR;
    bool frees_nothing = is_pair && kind->effect == GW_EFFECT_ENDS && event->arg[0] == 0;
    if (!remember(o, kind->fold != GW_FOLD_DROP && !frees_nothing))
        return false;
    if (!is_pair)
        return true;
    entry *e = demand(&o->table, kind->thing, event->pid, event->arg[0]);
    if (e == NULL)
        return false;
    if (kind->effect != GW_EFFECT_ENDS) {
        e->value = o->count; /* 1 + index of this event in `keep` */
    } else if (e->value != 0) {
        o->keep[e->value - 1] = KEEP_NOT;
        o->keep[o->count - 1] = KEEP_NOT;
        e->value = 0;
    }
    return true;
}

/* Keep the item, and drop the previous item of this kind and thread. Returns false if out of memory. */
static bool judge_state(older *o, const gw_item *item)
{
    entry *e = demand(&o->table, FIRST_THREAD_STATE + (uint32_t)item->kind, item->pid, item->tid);
    if (e == NULL || !remember(o, true))
        return false;
    if (e->value != 0)
        o->keep[e->value - 1] = KEEP_NOT;
    e->value = o->count;
    return true;
}

/* Keep the first and the last whole sample of each source and device. Those in between are dropped, even with the
 * highest values. Returns false if out of memory. */
static bool judge_sample(older *o, const gw_item *item)
{
    uint64_t name = (uint64_t)item->sample.source << 32 | item->sample.device;
    if (!remember(o, false) || !item->sample.whole)
        return !item->sample.whole;
    entry *first = demand(&o->table, SAMPLE_FIRST, item->pid, name);
    if (first == NULL)
        return false;
    if (first->value == 0) {
        first->value = o->count;
        o->keep[o->count - 1] = KEEP_ALWAYS;
        return true;
    }
    entry *last = demand(&o->table, SAMPLE_LAST, item->pid, name);
    if (last == NULL)
        return false;
    if (last->value != 0)
        o->keep[last->value - 1] = KEEP_NOT;
    last->value = o->count;
    o->keep[o->count - 1] = KEEP_ALWAYS;
    return true;
}

/* ---- reading the old file ---- */

typedef struct plan {
    uint64_t split_offset;  /* start of the newer half: all blocks from here on are copied */
    uint64_t stderr_offset; /* stderr blocks from here on are kept */
    uint64_t sync_offset;   /* the last SYNC block of the older half, which is kept */
} plan;

typedef struct block_place {
    uint64_t offset;
    uint32_t bytes;
    uint8_t type;
} block_place;

static gw_status list_blocks(gwi_in *in, block_place **ret_list, size_t *ret_count, gw_error *err)
{
    size_t count = 0, capacity = 0;
    block_place *list = NULL;
    gw_status st;
    while ((st = gwi_in_find(in, err)) == GW_OK) {
        if (!gw_array_room(&list, count, &capacity, sizeof *list)) {
            st = gw_fail(err, GW_NOMEM, "%s: no memory to compact", in->path);
            break;
        }
        list[count++] = (block_place){in->block_offset, GWI_BLOCK_HEAD_BYTES + in->head.stored_bytes, in->head.type};
    }
    gwi_in_rewind(in);
    if (st != GW_END) {
        free(list);
        return st;
    }
    *ret_list = list;
    *ret_count = count;
    return GW_OK;
}

static plan make_plan(const block_place *list, size_t count, uint64_t bytes_max)
{
    plan p = {0};
    uint64_t newer = 0, stderr_bytes = 0;
    size_t i = count;
    while (i > 0 && newer + list[i - 1].bytes <= bytes_max / 2)
        newer += list[--i].bytes;
    p.split_offset = i < count ? list[i].offset : UINT64_MAX;
    p.stderr_offset = UINT64_MAX;
    for (size_t k = count; k-- > 0;) {
        if (list[k].type != GWI_BLOCK_STDERR)
            continue;
        stderr_bytes += list[k].bytes;
        if (stderr_bytes <= STDERR_KEPT_BYTES && stderr_bytes <= bytes_max / 8)
            p.stderr_offset = list[k].offset;
    }
    for (size_t k = 0; k < i; k++)
        if (list[k].type == GWI_BLOCK_SYNC)
            p.sync_offset = list[k].offset;
    return p;
}

/* True for blocks of items that are kept or dropped one by one. All other blocks are kept or dropped as a whole. */
static bool is_judged(unsigned type)
{
    return type == GWI_BLOCK_EVENTS || type == GWI_BLOCK_CARRY || type == GWI_BLOCK_STATE || type == GWI_BLOCK_SAMPLES;
}

static bool is_events(unsigned type)
{
    return type == GWI_BLOCK_EVENTS || type == GWI_BLOCK_CARRY;
}

/* visit_block() calls this for every item of a block. */
typedef gw_status (*item_visitor)(void *user, const gw_item *item, gw_error *err);

static gw_status visit_block(gwi_source *source, item_visitor each, void *user, gw_error *err)
{
    const gw_item *item;
    gw_status st = gwi_in_unpack(&source->in, err);
    if (st != GW_OK)
        return st;
    bool events = is_events(source->in.head.type);
    if (events && !gwi_decoder_start(source->decoder, &source->dict, source->in.raw, source->in.head.raw_bytes))
        return gw_fail(err, GW_CORRUPT, "%s: an empty block of events", source->in.path);
    if (!events)
        gwi_item_reader_start(&source->items, &source->dict, source->in.raw, source->in.head.raw_bytes);
    for (;;) {
        st = events ? gwi_decoder_next(source->decoder, &item) : gwi_item_reader_next(&source->items, &item);
        if (st == GW_OK)
            st = each(user, item, err);
        if (st == GW_END)
            return GW_OK;
        if (st != GW_OK)
            return gw_fail(err, st, "%s: %s", source->in.path, gw_status_text(st));
    }
}

static gw_status judge(void *user, const gw_item *item, gw_error *err)
{
    older *o = user;
    bool ok;
    if (item->kind == GW_ITEM_EVENT)
        ok = judge_event(o, &item->event);
    else if (item->kind == GW_ITEM_SAMPLE)
        ok = judge_sample(o, item);
    else
        ok = judge_state(o, item);
    return ok ? GW_OK : gw_fail(err, GW_NOMEM, "no memory to compact");
}

static gw_status judge_older(gwi_source *source, const plan *p, older *o, gw_error *err)
{
    gw_status st = GW_OK;
    while (st == GW_OK && (st = gwi_in_find(&source->in, err)) == GW_OK) {
        if (source->in.block_offset >= p->split_offset)
            break;
        if (is_judged(source->in.head.type))
            st = visit_block(source, judge, o, err);
    }
    gwi_in_rewind(&source->in);
    return st == GW_END ? GW_OK : st;
}

/* Limit the older half's items to a quarter of `bytes_max`, at 12 bytes each. Beyond this, alive_skip drops the oldest
 * events, even if their objects still exist. */
static void fit_older(older *o, uint64_t bytes_max)
{
    uint64_t kept = 0;
    for (size_t i = 0; i < o->count; i++)
        kept += o->keep[i] != KEEP_NOT;
    uint64_t most = bytes_max / 4 / EVENT_BYTES_GUESS;
    o->alive_skip = kept > most ? kept - most : 0;
}

/* ---- writing the new file ---- */

typedef struct copier {
    gwi_out *out;
    older *o;
    size_t next; /* index in `keep` of the next item */
    gwi_encoder *encoder;
    gwi_bytes items;
    gwi_block_type items_type; /* type of the block made of `items` */
    uint64_t alive_dropped;
} copier;

static gw_status flush_carry(copier *c, gw_error *err)
{
    uint32_t bytes, count;
    const uint8_t *data = gwi_encoder_data(c->encoder, &bytes, &count);
    gw_status st = count == 0 ? GW_OK : gwi_out_block(c->out, GWI_BLOCK_CARRY, data, bytes, err);
    gwi_encoder_reset(c->encoder);
    return st;
}

static gw_status flush_state(copier *c, gw_error *err)
{
    gw_status st = c->items.used_bytes == 0
                       ? GW_OK
                       : gwi_out_block(c->out, c->items_type, c->items.data, c->items.used_bytes, err);
    c->items.used_bytes = 0;
    return st;
}

static gw_status flush(copier *c, gw_error *err)
{
    gw_status st = flush_carry(c, err);
    return st == GW_OK ? flush_state(c, err) : st;
}

static gw_status carry(void *user, const gw_item *item, gw_error *err)
{
    copier *c = user;
    unsigned keep = c->o->keep[c->next++];
    if (keep == KEEP && item->kind == GW_ITEM_EVENT && c->o->alive_skip > 0) {
        c->o->alive_skip--;
        c->alive_dropped++;
        keep = KEEP_NOT;
    }
    if (keep == KEEP_NOT)
        return GW_OK;
    if (item->kind != GW_ITEM_EVENT) {
        gw_status st = flush_carry(c, err);
        gwi_block_type type = gwi_item_block(item->kind);
        if (st == GW_OK && (c->items.used_bytes > GWI_BLOCK_RAW_GOAL || type != c->items_type))
            st = flush_state(c, err);
        c->items_type = type;
        return st == GW_OK ? gwi_item_encode(&c->items, item) : st;
    }
    c->o->events_kept++;
    gw_status st = flush_state(c, err);
    if (st == GW_OK && !gwi_encoder_add(c->encoder, &item->event)) {
        st = flush_carry(c, err);
        if (st == GW_OK && !gwi_encoder_add(c->encoder, &item->event))
            st = gw_fail(err, GW_CORRUPT, "an event does not fit into an empty block");
    }
    return st;
}

static bool copied_as_is(const gwi_in *in, const plan *p)
{
    switch (in->head.type) {
    case GWI_BLOCK_STDERR:
        return in->block_offset >= p->stderr_offset;
    case GWI_BLOCK_SYNC:
        return in->block_offset == p->sync_offset;
    default:
        return true;
    }
}

static gw_status copy_block(gwi_source *source, const plan *p, copier *c, gw_error *err)
{
    gwi_in *in = &source->in;
    bool newer = in->block_offset >= p->split_offset;
    if (!newer && is_judged(in->head.type))
        return visit_block(source, carry, c, err);
    if (!newer && !copied_as_is(in, p))
        return GW_OK;
    gw_status st = flush(c, err);
    return st == GW_OK ? gwi_out_copy(c->out, &in->head, in->stored, err) : st;
}

static gw_status copy_all(gwi_source *source, const plan *p, copier *c, gw_error *err)
{
    gw_status st = GW_OK;
    while (st == GW_OK && (st = gwi_in_find(&source->in, err)) == GW_OK)
        st = copy_block(source, p, c, err);
    return st == GW_END ? flush(c, err) : st;
}

static gw_status rewrite(gwi_source *source, const plan *p, older *o, gwi_out *out, gwi_compacted *ret_done,
                         gw_error *err)
{
    copier c = {.out = out, .o = o, .encoder = gwi_encoder_new()};
    gw_status st = c.encoder == NULL ? gw_fail(err, GW_NOMEM, "no memory to compact") : GW_OK;
    if (st == GW_OK)
        st = copy_all(source, p, &c, err);
    free(c.encoder);
    gwi_bytes_free(&c.items);
    ret_done->events_dropped = o->events - o->events_kept;
    ret_done->alive_dropped = c.alive_dropped;
    return st;
}

static gw_status start_files(const char *path, const char *new_path, gwi_source *source, gwi_out *out, gw_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return gw_fail(err, GW_IO, "%s: %s", path, strerror(errno));
    gw_status st = gwi_source_start(source, fd, path, err);
    if (st != GW_OK)
        return st;
    unlink(new_path); /* the file exists if an earlier writer died while it was compacting */
    fd = open(new_path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return gw_fail(err, GW_IO, "%s: %s", new_path, strerror(errno));
    return gwi_out_start(out, fd, path, source->in.created_realtime_ns, err);
}

gw_status gwi_compact(const char *path, uint64_t bytes_max, gwi_out *ret_out, gwi_compacted *ret_done, gw_error *err)
{
    gwi_source source = {.in.fd = -1};
    gwi_out out = {.fd = -1};
    older o = {0};
    block_place *list = NULL;
    size_t count = 0;
    char *new_path = NULL;
    gw_status st;
    if (asprintf(&new_path, "%s.smaller", path) < 0)
        return gw_fail(err, GW_NOMEM, "%s: no memory to compact", path);
    st = start_files(path, new_path, &source, &out, err);
    if (st == GW_OK)
        st = list_blocks(&source.in, &list, &count, err);
    if (st != GW_OK)
        goto out;
    plan p = make_plan(list, count, bytes_max);
    st = judge_older(&source, &p, &o, err);
    if (st != GW_OK)
        goto out;
    fit_older(&o, bytes_max);
    st = rewrite(&source, &p, &o, &out, ret_done, err);
    if (st == GW_OK && (fdatasync(out.fd) != 0 || rename(new_path, path) != 0))
        st = gw_fail(err, GW_IO, "%s: %s", new_path, strerror(errno));
    if (st != GW_OK)
        goto out;
    *ret_out = out;
    out = (gwi_out){.fd = -1};
out:
    if (st != GW_OK)
        unlink(new_path);
    gwi_out_close(&out);
    gwi_source_close(&source);
    free(o.keep);
    free(o.table.slot);
    free(list);
    free(new_path);
    return st;
}
