#include "ahead.h"

#include <string.h>

/* Which table an event of a kind looks into by its first argument; 0: none. Kinds that are rare may be left out. */
static const uint8_t ways[GW_EV_COUNT] = {
    [GW_EV_ALLOC] = GWI_SPACE_MEMORY,         [GW_EV_ALLOC_ASYNC] = GWI_SPACE_MEMORY,
    [GW_EV_FREE] = GWI_SPACE_MEMORY,          [GW_EV_FREE_ASYNC] = GWI_SPACE_MEMORY,
    [GW_EV_HOST_ALLOC] = GWI_SPACE_HOST,      [GW_EV_HOST_FREE] = GWI_SPACE_HOST,
    [GW_EV_VMM_CREATE] = GWI_SPACE_HANDLE,    [GW_EV_VMM_RELEASE] = GWI_SPACE_HANDLE,
    [GW_EV_VMM_MAP] = GWI_SPACE_MAPPING,      [GW_EV_VMM_UNMAP] = GWI_SPACE_MAPPING,
    [GW_EV_EVENT_CREATE] = GWI_SPACE_EVENT,   [GW_EV_EVENT_DESTROY] = GWI_SPACE_EVENT,
    [GW_EV_STREAM_CREATE] = GWI_SPACE_STREAM, [GW_EV_STREAM_DESTROY] = GWI_SPACE_STREAM,
    [GW_EV_FUNCTION] = GWI_SPACE_FUNCTION,
};

/* The process of an event that has a way; NULL: nothing to fetch. */
static const gwi_process *process_of(const gw_model *model, const gw_event *event)
{
    if (event->kind >= GW_EV_COUNT || ways[event->kind] == GWI_SPACE_NONE || event->result != 0)
        return NULL;
    const gwi_process *last = model->inner->last;
    if (last != NULL && last->pid == event->pid)
        return last;
    for (size_t i = model->process_count; i-- > 0;) {
        if (model->inner->process[i]->pid == event->pid)
            return model->inner->process[i];
    }
    return NULL;
}

static void fetch_bucket(const gw_model *model, const gw_event *event)
{
    const gwi_process *process = process_of(model, event);
    if (process != NULL)
        gwi_table_prefetch(&process->table[ways[event->kind]], gwi_hash(event->arg[0]));
}

/* The object that the event ends, as it looks now; any object for one that makes something: asking which it is would
 * cost more than fetching one too many. 0: none. */
static uint32_t fetch_object(const gw_model *model, const gw_event *event)
{
    const gwi_process *process = process_of(model, event);
    if (process == NULL || process->table[ways[event->kind]].bucket == NULL)
        return 0;
    uint32_t index = gwi_table_guess(&process->table[ways[event->kind]], gwi_hash(event->arg[0]));
    gwi_prefetch(&process->object[index]);
    return index;
}

static void fetch_group(const gw_model *model, const gw_event *event, uint32_t index)
{
    const gwi_process *process = process_of(model, event);
    if (process == NULL || index >= process->object_count)
        return;
    uint32_t group = process->object[index].group;
    gwi_prefetch(&model->group[group < model->group_count ? group : 0].live_count); /* of a dead one it is no group */
}

static gw_event *at(gwi_ahead *ahead, uint64_t number)
{
    return &ahead->event[number % GWI_AHEAD_ROOM];
}

static void feed_one(gwi_ahead *ahead, gw_model *model)
{
    gwi_model_event(model, at(ahead, ahead->fed_count++));
}

void gwi_ahead_flush(gwi_ahead *ahead, gw_model *model)
{
    while (ahead->fed_count < ahead->put_count)
        feed_one(ahead, model);
}

/* The decoder has just written these words one by one, and a load of two at once would wait until they are in the
 * cache: the compiler is kept from joining them. */
#define FRESH(to, from, field)                                                                                         \
    do {                                                                                                               \
        __typeof__((to)->field) word = (from)->field;                                                                  \
        __asm__("" : "+r"(word));                                                                                      \
        (to)->field = word;                                                                                            \
    } while (0)

static void copy_event(gw_event *to, const gw_event *from)
{
    FRESH(to, from, t_ns);
    to->pid = from->pid;
    to->tid = from->tid;
    to->fn = from->fn;
    to->kind = from->kind;
    to->flags = from->flags;
    to->result = from->result;
    FRESH(to, from, took_us);
    to->site = from->site;
    to->extra = from->extra;
    to->context = from->context;
    for (int i = 0; i < 4; i++)
        FRESH(to, from, arg[i]);
    FRESH(to, from, text);
    FRESH(to, from, text_bytes);
}

void gwi_ahead_put(gwi_ahead *ahead, gw_model *model, const gw_event *event)
{
    if (event->text_bytes >= GWI_AHEAD_TEXT_BYTES) {
        gwi_ahead_flush(ahead, model);
        gwi_model_event(model, event);
        return;
    }
    uint64_t number = ahead->put_count++, waiting = ahead->put_count - ahead->fed_count;
    gw_event *copy = at(ahead, number);
    copy_event(copy, event);
    if (event->text != NULL) {
        char *text = ahead->text[number % GWI_AHEAD_ROOM];
        memcpy(text, event->text, event->text_bytes);
        text[event->text_bytes] = '\0'; /* as a reader's */
        copy->text = text;
    }
    fetch_bucket(model, copy);
    if (waiting > GWI_AHEAD_STEP) {
        uint64_t before = number - GWI_AHEAD_STEP;
        ahead->object[before % GWI_AHEAD_ROOM] = fetch_object(model, at(ahead, before));
    }
    if (waiting > 2 * GWI_AHEAD_STEP) {
        uint64_t before = number - 2 * GWI_AHEAD_STEP;
        fetch_group(model, at(ahead, before), ahead->object[before % GWI_AHEAD_ROOM]);
    }
    if (waiting > GWI_AHEAD_WAIT)
        feed_one(ahead, model);
}
