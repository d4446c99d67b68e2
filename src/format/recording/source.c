/* Reads one file of a recording block by block and returns its items. */
#include "gwi_source.h"

#include <stdlib.h>

static gw_status block_fault(const gwi_source *source, gw_status status, const char *reason, gw_error *err)
{
    return gw_fail(err, status, "%s: offset %llu: %s", source->in.path, (unsigned long long)source->in.block_offset,
                   reason);
}

static gw_status read_dict(gwi_source *source, gw_error *err)
{
    gw_status st = gwi_in_unpack(&source->in, err);
    if (st != GW_OK)
        return st;
    gwi_dict dict = {0};
    st = gwi_dict_decode(source->in.raw, source->in.head.raw_bytes, &dict);
    if (st != GW_OK)
        return block_fault(source, st, "the dictionary is invalid", err);
    gwi_dict_free(&source->dict);
    source->dict = dict;
    source->dict_known = true;
    return GW_OK;
}

/* Find and decode the dictionary. It is in the first block, and a copy is at the end of the file in case the first
 * block is damaged. */
static gw_status find_dict(gwi_source *source, gw_error *err)
{
    gw_status st;
    do {
        st = gwi_in_find(&source->in, err);
        if (st == GW_OK && source->in.head.type == GWI_BLOCK_DICT) {
            st = read_dict(source, err);
            if (st == GW_UNSUPPORTED)
                return st;
        }
    } while ((st == GW_OK || st == GW_CORRUPT) && !source->dict_known);
    gwi_in_rewind(&source->in);
    return st == GW_END || st == GW_CORRUPT ? GW_OK : st;
}

gw_status gwi_source_start_pairs(gwi_source *source, int fd, const char *path, gw_error *err)
{
    *source = (gwi_source){.uncommitted_at = UINT64_MAX};
    return gwi_in_start(&source->in, fd, path, err);
}

gw_status gwi_source_start(gwi_source *source, int fd, const char *path, gw_error *err)
{
    gw_status st = gwi_source_start_pairs(source, fd, path, err);
    if (st != GW_OK)
        return st;
    source->decoder = malloc(sizeof *source->decoder);
    if (source->decoder == NULL)
        return gw_fail(err, GW_NOMEM, "%s: no memory for the reader", path);
    source->decoder->t_ns = 0; /* no event yet */
    return find_dict(source, err);
}

void gwi_source_close(gwi_source *source)
{
    gwi_in_close(&source->in);
    gwi_dict_free(&source->dict);
    gwi_item_reader_free(&source->items);
    free(source->decoder);
    source->decoder = NULL;
}

/* Start reading the block that gwi_in_find() found. Returns GW_OK even if the block has no items. */
static gw_status enter_block(gwi_source *source, gw_error *err)
{
    gwi_block_type type = source->in.head.type;
    bool from_buffers = type == GWI_BLOCK_EVENTS || type == GWI_BLOCK_STATE;
    if (from_buffers && source->in.block_offset >= source->uncommitted_at)
        return GW_OK;
    if (type == GWI_BLOCK_DICT) /* find_dict() has already decoded it, if it is needed; only check that it is valid */
        return source->decoder == NULL ? GW_OK : gwi_in_unpack(&source->in, err);
    bool events = type == GWI_BLOCK_EVENTS || type == GWI_BLOCK_CARRY;
    if (!events && type != GWI_BLOCK_FACTS && type != GWI_BLOCK_STATE && type != GWI_BLOCK_STDERR &&
        type != GWI_BLOCK_SAMPLES)
        return GW_OK; /* SYNC, END or a type of a newer version: no items */
    gw_status st = gwi_in_unpack(&source->in, err);
    if (st != GW_OK)
        return st;
    if (!events) {
        gwi_item_reader_start(&source->items, &source->dict, source->in.raw, source->in.head.raw_bytes);
        source->mode = GWI_IN_ITEMS;
        return GW_OK;
    }
    if (!source->dict_known)
        return block_fault(source, GW_CORRUPT, "events without a readable dictionary", err);
    if (!gwi_decoder_start(source->decoder, &source->dict, source->in.raw, source->in.head.raw_bytes))
        return block_fault(source, GW_CORRUPT, "too short for a block of events", err);
    source->mode = GWI_IN_EVENTS;
    return GW_OK;
}

/* Leave the current block. If `why` is GW_END, all items were read: enter the next block. Otherwise return `why`, with
 * `err`; the caller can continue with the next block. */
static gw_status leave_block(gwi_source *source, gw_status why, gw_error *err)
{
    if (source->mode == GWI_IN_EVENTS)
        source->t_ns = source->decoder->t_ns;
    source->mode = GWI_AT_BLOCK;
    if (why == GW_NOMEM)
        return block_fault(source, why, "no memory for an item", err);
    if (why != GW_END)
        return block_fault(source, why, "an item of this block is invalid", err);
    if (source->report != NULL)
        source->report(source->report_user, source->in.offset, source->in.file_bytes);
    gw_status st = gwi_in_find(&source->in, err);
    return st == GW_OK ? enter_block(source, err) : st;
}

gw_status gwi_source_next(gwi_source *source, const gw_item **ret_item, gw_error *err)
{
    for (;;) {
        gw_status st = GW_END;
        if (source->mode == GWI_IN_EVENTS) {
            st = gwi_decoder_next(source->decoder, ret_item);
        } else if (source->mode == GWI_IN_ITEMS) {
            st = gwi_item_reader_next(&source->items, ret_item);
            if (st == GW_OK)
                source->t_ns = (*ret_item)->t_ns;
        }
        if (st == GW_OK)
            return GW_OK;
        st = leave_block(source, st, err);
        if (st != GW_OK)
            return st;
    }
}

static void hand_out_marks(const gwi_source *source, gwi_mark_sink sink, void *user)
{
    gwi_mark mark;
    for (size_t at = 0; at + sizeof mark <= source->in.head.raw_bytes; at += sizeof mark) {
        memcpy(&mark, source->in.raw + at, sizeof mark);
        sink(user, &mark);
    }
}

gw_status gwi_source_scan_marks(gwi_source *source, gwi_mark_sink sink, void *user, gw_error *err)
{
    uint64_t uncommitted_at = 0;
    gw_status st;
    do {
        st = gwi_in_find(&source->in, err);
        if (st == GW_OK && source->in.head.type == GWI_BLOCK_SYNC) {
            uncommitted_at = source->in.offset;
            st = gwi_in_unpack(&source->in, err);
            if (st == GW_OK)
                hand_out_marks(source, sink, user);
        }
    } while (st == GW_OK || st == GW_CORRUPT);
    gwi_in_rewind(&source->in);
    source->uncommitted_at = uncommitted_at;
    return st == GW_END ? GW_OK : st;
}
