/* Write a synthetic recording of any size: see made_recording.h. */
#include "made_recording.h"

#include <stdlib.h>
#include <string.h>

static uint64_t seed = 1, event_live;

static uint64_t random_next(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static const char *const fn_names[] = {"cuMemAlloc_v2", "cuMemFree_v2",      "cuMemAllocAsync",    "cuMemFreeAsync",
                                       "cuEventCreate", "cuEventDestroy_v2", "cuModuleGetFunction"};

/* Return one of the 256 block sizes, in bytes; `sort` is its index. Real training runs have few sizes, too. A
 * quarter are below 1 MiB. */
static uint64_t made_bytes(unsigned sort)
{
    return sort < 64 ? 512u * (1 + sort * 31) : (uint64_t)(sort - 63) * 341 * 1024;
}

static void fill_event(gw_event *event, uint64_t *live, uint64_t live_count)
{
    unsigned what = (unsigned)(random_next() % 1000);
    uint64_t *block = &live[random_next() % live_count];
    bool async = what >= 920 && what < 980;
    if (what < 980) {
        bool frees = *block != 0;
        event->kind = async ? (frees ? GW_EV_FREE_ASYNC : GW_EV_ALLOC_ASYNC) : (frees ? GW_EV_FREE : GW_EV_ALLOC);
        event->fn = (uint16_t)((async ? 2 : 0) + frees);
        event->arg[1] = frees ? 0 : made_bytes((unsigned)(random_next() % 256));
        event->arg[0] = frees ? *block : 0x7f0000000000 + (random_next() % (1 << 26)) * 512;
        event->arg[3] = async ? 0x55d0c0ffee00 : 0;
        event->took_us = (uint16_t)(random_next() % 4 == 0 ? 1 + random_next() % 60 : 0);
        *block = frees ? 0 : event->arg[0];
    } else if (what < 995) {
        bool destroys = event_live != 0;
        event->kind = destroys ? GW_EV_EVENT_DESTROY : GW_EV_EVENT_CREATE;
        event->fn = destroys ? 5 : 4;
        event->arg[0] = destroys ? event_live : 0x55d000000000 + (random_next() % (1 << 20)) * 64;
        event_live = destroys ? 0 : event->arg[0];
    } else if (random_next() % 5000 != 0) {
        event->kind = GW_EV_FUNCTION;
        event->fn = 6;
        event->arg[0] = 0x55d000000000 + (random_next() % (1 << 12)) * 64;
        event->text = "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEE";
        event->text_bytes = (uint32_t)strlen(event->text);
    } else {
        event->kind = GW_EV_ALLOC;
        event->result = 2;
        event->arg[1] = (random_next() % 1024) << 20;
    }
}

static gw_status put_event(gw_writer *writer, uint64_t *live, uint64_t live_count, uint64_t *t_ns, gw_error *err)
{
    gw_item item = {.kind = GW_ITEM_EVENT, .pid = 1000};
    gw_event *event = &item.event;
    fill_event(event, live, live_count);
    *t_ns += random_next() % (random_next() % 64 == 0 ? 200000 : 6000);
    item.t_ns = event->t_ns = *t_ns;
    event->pid = item.pid;
    event->tid = item.tid = 1000 + (uint32_t)(random_next() % 16 < 12 ? 0 : random_next() % 4);
    event->context = 0x55d0deadbeef0;
    return gw_writer_put(writer, &item, err);
}

gw_status gw_made_recording_write(const char *path, uint64_t event_count, uint64_t live_count, gw_error *err)
{
    gw_writer *writer = NULL;
    uint64_t *live = calloc(live_count, sizeof *live);
    if (live == NULL)
        return gw_fail(err, GW_NOMEM, "%s: no room for %llu blocks", path, (unsigned long long)live_count);
    uint64_t t_ns = 0;
    gw_status st = gw_writer_create(path, 0, fn_names, sizeof fn_names / sizeof fn_names[0], &writer, err);
    for (uint64_t i = 0; st == GW_OK && i < event_count; i++)
        st = put_event(writer, live, live_count, &t_ns, err);
    if (writer != NULL) {
        gw_status closed = gw_writer_close(writer, st == GW_OK ? err : NULL);
        st = st == GW_OK ? closed : st;
    }
    free(live);
    return st;
}
