/* Reads the NCCL communicators of a buffer, and passes them on as facts. The process may still write them, and it may
 * have died at any instruction: a call that was being written is left out, and every number is checked. */
#include "gwi_buffer.h"

#include "gw_fact.h"

#include <stddef.h>
#include <string.h>

typedef struct teller {
    const gwi_buffer *buffer;
    const gwi_now *now;
    uint64_t t0_monotonic_ns;
    gw_item item; /* the time and pid of all items */
    gw_item_sink sink;
    void *user;
} teller;

static uint64_t ns_of(const teller *it, uint64_t ticks)
{
    uint64_t ns = ticks == 0 ? 0 : gwi_buffer_ns(it->buffer, it->now, ticks);
    return ns > it->t0_monotonic_ns ? ns - it->t0_monotonic_ns : 0;
}

static gw_status tell(teller *it, uint32_t tid, gw_fact_key key, gw_text *text, gw_error *err)
{
    it->item.tid = tid;
    it->item.pair.key = gw_fact_key_text(key);
    it->item.pair.value = gw_text_str(text);
    gw_status st = it->sink(it->user, &it->item, err);
    gw_text_free(text);
    return st;
}

static gw_status tell_call(teller *it, const gw_buffer_collective *call, gw_error *err)
{
    gw_text text = {0};
    const gw_fact_nccl_call fact = {
        GW_FACT_SET(call, gw_fact_text_of(gw_nccl_call_name((gw_nccl_call)call->call))),
        GW_FACT_SET(number, call->number),
        GW_FACT_SET(t_ns, ns_of(it, call->ticks)),
        GW_FACT_SET(end_ns, ns_of(it, call->end_ticks)),
        GW_FACT_SET(elements, call->elements),
        GW_FACT_SET(stream, call->stream),
        GW_FACT_SET(type, call->type),
        GW_FACT_SET(op, call->op),
        GW_FACT_SET(root_or_peer, call->root_or_peer),
        GW_FACT_SET(result, call->result),
        GW_FACT_SET(site, call->site),
        GW_FACT_SET(group, call->group),
        GW_FACT_SET(state, gw_fact_text_of(gw_collective_state_word((gw_collective_state)call->state))),
    };
    gw_fact_nccl_call_write(&fact, &text);
    return tell(it, call->tid, GW_FACT_NCCL_CALL, &text, err);
}

/* Read a call whose stamp must be `stamp`. Returns false if it is being written, or was replaced by a later one. */
static bool read_call(const gwi_buffer *buffer, uint64_t offset, uint64_t stamp, gw_buffer_collective *ret)
{
    uint64_t after = 0;
    gwi_buffer_read(buffer, offset, ret, sizeof *ret);
    gwi_buffer_read(buffer, offset + offsetof(gw_buffer_collective, stamp), &after, sizeof after);
    return ret->stamp == stamp && after == stamp;
}

/* Tell the last call of each function, if it is not among the last calls of all: oldest first. */
static gw_status tell_kinds(teller *it, uint64_t offset, uint64_t first, gw_error *err)
{
    gw_status st = GW_OK;
    uint64_t after = 0;
    for (unsigned n = 0; n < GW_NCCL_CALL_COUNT && st == GW_OK; n++) {
        gw_buffer_collective call, oldest = {0};
        uint64_t next = UINT64_MAX;
        for (unsigned i = 0; i < GW_NCCL_CALL_COUNT; i++) {
            uint64_t at = offset + offsetof(gw_buffer_communicator, of_kind) + i * sizeof call, stamp = 0;
            gwi_buffer_read(it->buffer, at + offsetof(gw_buffer_collective, stamp), &stamp, sizeof stamp);
            if (stamp <= after || stamp >= next || stamp > first || !read_call(it->buffer, at, stamp, &call))
                continue;
            next = stamp;
            oldest = call;
        }
        if (next == UINT64_MAX)
            break;
        after = next;
        if (oldest.state != GW_COLLECTIVE_REFUSED) /* others came after it */
            oldest.state = oldest.is_captured ? GW_COLLECTIVE_CAPTURED : GW_COLLECTIVE_ENQUEUED;
        st = tell_call(it, &oldest, err);
    }
    return st;
}

static gw_status tell_calls(teller *it, uint64_t offset, uint64_t total, gw_error *err)
{
    uint64_t first = total > GW_NCCL_LAST ? total - GW_NCCL_LAST : 0;
    gw_status st = tell_kinds(it, offset, first, err);
    for (uint64_t i = first; i < total && st == GW_OK; i++) {
        gw_buffer_collective call;
        uint64_t at = offset + offsetof(gw_buffer_communicator, last) + i % GW_NCCL_LAST * sizeof call;
        if (read_call(it->buffer, at, i + 1, &call))
            st = tell_call(it, &call, err);
    }
    return st;
}

static gw_status tell_communicator(teller *it, uint32_t place, const gw_buffer_communicator *c, gw_error *err)
{
    gw_text text = {0}, calls = {0};
    for (unsigned i = 0; i < GW_NCCL_CALL_COUNT; i++)
        gw_text_addf(&calls, "%s%llu", i == 0 ? "" : ",", (unsigned long long)c->calls[i]);
    const gw_fact_nccl_comm fact = {
        GW_FACT_SET(handle, c->handle),
        GW_FACT_SET(id, c->id),
        .has_size = c->size != 0,
        .size = c->size,
        .has_rank = c->size != 0,
        .rank = c->rank,
        .has_device = c->device >= 0,
        .device = (uint32_t)c->device,
        GW_FACT_SET(place, place),
        GW_FACT_SET(generation, c->generation),
        GW_FACT_SET(init_ns, ns_of(it, c->init_ticks)),
        GW_FACT_SET(end_ns, ns_of(it, c->end_ticks)),
        GW_FACT_SET(ready, c->is_ready != 0),
        GW_FACT_SET(aborted, c->is_aborted != 0),
        GW_FACT_SET(captured, c->has_captured != 0),
        GW_FACT_SET(site, c->init_site),
        GW_FACT_SET(collectives, c->collectives),
        GW_FACT_SET(p2p, c->p2p),
        GW_FACT_SET(calls, gw_fact_text_of(gw_text_str(&calls))),
    };
    gw_fact_nccl_comm_write(&fact, &text);
    gw_text_free(&calls);
    return tell(it, 0, GW_FACT_NCCL_COMM, &text, err);
}

gw_status gwi_buffer_tell_nccl(const gwi_buffer *buffer, const gwi_now *now, uint64_t t0_monotonic_ns, uint64_t t_ns,
                               gw_item_sink sink, void *user, gw_error *err)
{
    gw_status st = GW_OK;
    teller it = {.buffer = buffer,
                 .now = now,
                 .t0_monotonic_ns = t0_monotonic_ns,
                 .item = {.kind = GW_ITEM_SUPERVISOR, .t_ns = t_ns, .pid = buffer->head.pid},
                 .sink = sink,
                 .user = user};
    uint64_t lost = 0;
    gwi_buffer_read(buffer, offsetof(gw_buffer_head, communicators_lost), &lost, sizeof lost);
    if (lost > 0) {
        gw_text text = {0};
        gw_text_addf(&text, "%llu", (unsigned long long)lost);
        st = tell(&it, 0, GW_FACT_NCCL_LOST, &text, err);
    }
    for (uint32_t i = 0; i < buffer->head.communicator_count && st == GW_OK; i++) {
        gw_buffer_communicator c;
        uint64_t offset = buffer->head.communicator_offset + i * sizeof c;
        gwi_buffer_read(buffer, offset, &c, offsetof(gw_buffer_communicator, last));
        if (c.state == GW_NCCL_FREE || c.state > GW_NCCL_ENDED)
            continue;
        st = tell_communicator(&it, i, &c, err);
        if (st == GW_OK)
            st = tell_calls(&it, offset, c.total, err);
    }
    return st;
}

size_t gwi_buffer_inside_nccl(const gwi_buffer *buffer, uint32_t *tid, size_t tid_max)
{
    size_t count = 0;
    for (uint32_t i = 0; i < buffer->head.communicator_count && count < tid_max; i++) {
        gw_buffer_communicator c;
        gw_buffer_collective call;
        uint64_t offset = buffer->head.communicator_offset + i * sizeof c;
        gwi_buffer_read(buffer, offset, &c, offsetof(gw_buffer_communicator, last));
        if (c.state == GW_NCCL_FREE) /* places are taken in order */
            break;
        uint64_t total = c.total;
        uint64_t at =
            offset + offsetof(gw_buffer_communicator, last) + (total + GW_NCCL_LAST - 1) % GW_NCCL_LAST * sizeof call;
        if (c.state == GW_NCCL_MAKING)
            tid[count++] = c.init_tid;
        else if (c.state == GW_NCCL_READY && total != 0 && read_call(buffer, at, total, &call) &&
                 call.state == GW_COLLECTIVE_ENTERED && call.end_ticks == 0)
            tid[count++] = call.tid;
    }
    return count;
}
