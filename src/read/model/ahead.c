/* Prefetch the memory that the next events of a recording will access, before the events are applied. */
#include "gwi_ahead.h"

/* For each kind of event, the table in which the event's first argument is a key; 0: none. Rare kinds may be missing:
 * their memory is then not prefetched. */
static const uint8_t ways[UINT8_MAX + 1] = {
    [GW_EV_ALLOC] = GWI_SPACE_MEMORY,         [GW_EV_ALLOC_ASYNC] = GWI_SPACE_MEMORY,
    [GW_EV_FREE] = GWI_SPACE_MEMORY,          [GW_EV_FREE_ASYNC] = GWI_SPACE_MEMORY,
    [GW_EV_HOST_ALLOC] = GWI_SPACE_HOST,      [GW_EV_HOST_FREE] = GWI_SPACE_HOST,
    [GW_EV_VMM_CREATE] = GWI_SPACE_HANDLE,    [GW_EV_VMM_RELEASE] = GWI_SPACE_HANDLE,
    [GW_EV_VMM_MAP] = GWI_SPACE_MAPPING,      [GW_EV_VMM_UNMAP] = GWI_SPACE_MAPPING,
    [GW_EV_EVENT_CREATE] = GWI_SPACE_EVENT,   [GW_EV_EVENT_DESTROY] = GWI_SPACE_EVENT,
    [GW_EV_STREAM_CREATE] = GWI_SPACE_STREAM, [GW_EV_STREAM_DESTROY] = GWI_SPACE_STREAM,
    [GW_EV_FUNCTION] = GWI_SPACE_FUNCTION,
};

/* A smaller ledger stays in the processor's caches without help. */
enum { WORTH_FETCHING = 8192 };

typedef struct glance {
    const gwi_bucket *home;   /* the bucket of the event's first argument */
    const gwi_object *object; /* first the process's object array (fetch_bucket()), then one object (fetch_object()) */
    uint32_t hash;
} glance;

/* Used for an event with nothing to prefetch. */
static const gwi_bucket no_bucket;
static const gwi_object no_object;

static const gwi_process *process_of(const gw_model *model, uint32_t pid)
{
    const gwi_process *last = model->inner->last;
    return last != NULL && last->pid == pid ? last : gwi_process_known(model, pid);
}

static inline void fetch_bucket(const gwi_process *process, const gw_event *event, glance *it)
{
    /* a kind of event that is not in `ways` gets table 0, which is always empty */
    const gwi_table *table = &process->table[ways[event->kind]];
    bool empty = table->bucket == NULL;
    it->hash = gwi_hash(event->arg[0]);
    it->home = empty ? &no_bucket : gwi_table_home(table, it->hash);
    it->object = empty ? &no_object : process->object;
    gwi_prefetch(it->home);
}

static inline void fetch_object(glance *it)
{
    it->object += gwi_bucket_guess(it->home, it->hash);
    gwi_prefetch(it->object);
}

static inline void fetch_group(const gw_model *model, const glance *it)
{
    uint32_t group = it->object->group; /* not the index of a group if the object is dead */
    gwi_prefetch(&model->group[group < model->group_count ? group : 0]);
}

static void fetch(const gw_model *model, const gw_event *event, size_t count)
{
    glance seen[GWI_AHEAD_MAX];
    const gwi_process *process = NULL;
    for (size_t i = 0; i < count; i++) {
        if (process == NULL || process->pid != event[i].pid)
            process = process_of(model, event[i].pid);
        if (process == NULL)
            seen[i] = (glance){&no_bucket, &no_object, 0};
        else
            fetch_bucket(process, &event[i], &seen[i]);
    }
    for (size_t i = 0; i < count; i++)
        fetch_object(&seen[i]);
    for (size_t i = 0; i < count; i++)
        fetch_group(model, &seen[i]);
}

void gwi_ahead_feed(gw_model *model, const gw_event *event, size_t count)
{
    const gwi_process *last = model->inner->last;
    if (last != NULL && last->object_count >= WORTH_FETCHING)
        fetch(model, event, count);
    for (size_t i = 0; i < count; i++)
        gwi_model_event(model, &event[i]);
}
