/* A table of the device memory that is allocated and not freed.
 *
 * The model cannot serve here, because it can only be read when it is finished. */
#include "gwi_held.h"

#include "gw_event.h"
#include "gw_hash.h"

#include <stdlib.h>

/* ---- the table ---- */

enum { CAPACITY_FIRST = 1024, CAPACITY_MAX = 1 << 22 }; /* the largest one has 128 MiB */

static size_t place_of(const gwi_held *held, uint32_t pid, uint64_t handle, uint8_t thing)
{
    uint64_t hash = gw_hash_mix(gw_hash_mix(GW_HASH_START, handle), (uint64_t)pid << 8 | thing);
    return (size_t)(hash ^ hash >> 32) & (held->capacity - 1);
}

/* Return the index of the block, or of the empty entry where it belongs. The table has an empty entry. */
static size_t find(const gwi_held *held, uint32_t pid, uint64_t handle, uint8_t thing)
{
    size_t i = place_of(held, pid, handle, thing);
    while (held->block[i].pid != 0 &&
           (held->block[i].pid != pid || held->block[i].handle != handle || held->block[i].thing != thing))
        i = (i + 1) & (held->capacity - 1);
    return i;
}

static bool grow(gwi_held *held)
{
    gwi_held wider = *held;
    wider.capacity = held->capacity == 0 ? (size_t)CAPACITY_FIRST : held->capacity * 2;
    wider.block = wider.capacity > CAPACITY_MAX ? NULL : calloc(wider.capacity, sizeof *wider.block);
    if (wider.block == NULL) {
        held->failed = true;
        return false;
    }
    for (size_t i = 0; i < held->capacity; i++) {
        const gwi_held_block *block = &held->block[i];
        if (block->pid != 0)
            wider.block[find(&wider, block->pid, block->handle, block->thing)] = *block;
    }
    free(held->block);
    held->block = wider.block;
    held->capacity = wider.capacity;
    return true;
}

static void remove_at(gwi_held *held, size_t i)
{
    size_t mask = held->capacity - 1;
    held->live_bytes[held->block[i].device] -= held->block[i].bytes;
    held->block[i].pid = 0;
    held->count--;
    /* Move later entries of the same run of entries into the hole if their place is at or before it. */
    for (size_t k = (i + 1) & mask; held->block[k].pid != 0; k = (k + 1) & mask) {
        size_t place = place_of(held, held->block[k].pid, held->block[k].handle, held->block[k].thing);
        if (((k - place) & mask) < ((k - i) & mask))
            continue;
        held->block[i] = held->block[k];
        held->block[k].pid = 0;
        i = k;
    }
}

static void add(gwi_held *held, gwi_held_block block)
{
    if ((held->count + 1) * 2 > held->capacity && !grow(held))
        return;
    size_t i = find(held, block.pid, block.handle, block.thing);
    if (held->block[i].pid != 0) /* its free was lost */
        remove_at(held, i);
    held->block[find(held, block.pid, block.handle, block.thing)] = block;
    held->live_bytes[block.device] += block.bytes;
    held->count++;
}

/* Remove all blocks of a process, or only those of one context; context 0: all. */
static void remove_all(gwi_held *held, uint32_t pid, uint64_t context)
{
    for (size_t i = 0; i < held->capacity;) {
        const gwi_held_block *block = &held->block[i];
        if (block->pid == pid && (context == 0 || block->context == context))
            remove_at(held, i); /* another block may have moved to i */
        else
            i++;
    }
}

void gwi_held_free(gwi_held *held)
{
    free(held->block);
    *held = (gwi_held){0};
}

/* ---- contexts ---- */

static gwi_held_context *context_of(gwi_held *held, uint32_t pid, uint64_t context)
{
    for (size_t i = 0; i < GWI_HELD_CONTEXTS_MAX; i++)
        if (held->context[i].references > 0 && held->context[i].pid == pid && held->context[i].context == context)
            return &held->context[i];
    return NULL;
}

static gwi_held_context *primary_of(gwi_held *held, uint32_t pid, uint64_t device)
{
    for (size_t i = 0; i < GWI_HELD_CONTEXTS_MAX; i++) {
        gwi_held_context *context = &held->context[i];
        if (context->references > 0 && context->is_primary && context->pid == pid && context->device == device)
            return context;
    }
    return NULL;
}

static void make_context(gwi_held *held, const gw_event *event)
{
    gwi_held_context *context = context_of(held, event->pid, event->arg[0]);
    for (size_t i = 0; context == NULL && i < GWI_HELD_CONTEXTS_MAX; i++)
        if (held->context[i].references == 0)
            context = &held->context[i];
    if (context == NULL || event->arg[2] >= GWI_HELD_DEVICES_MAX)
        return;
    *context = (gwi_held_context){.context = event->arg[0],
                                  .pid = event->pid,
                                  .references = context->references + 1,
                                  .device = (uint8_t)event->arg[2],
                                  .is_primary = event->arg[3] == GW_CONTEXT_PRIMARY};
}

static void end_context(gwi_held *held, gwi_held_context *context)
{
    if (context == NULL)
        return;
    context->references = 0;
    remove_all(held, context->pid, context->context);
}

static void release_context(gwi_held *held, gwi_held_context *context)
{
    if (context != NULL && context->references > 1)
        context->references--;
    else
        end_context(held, context);
}

static void forget_process(gwi_held *held, uint32_t pid)
{
    remove_all(held, pid, 0);
    for (size_t i = 0; i < GWI_HELD_CONTEXTS_MAX; i++)
        if (held->context[i].pid == pid)
            held->context[i].references = 0;
}

/* ---- events ---- */

static void allocate(gwi_held *held, const gw_event *event, gw_thing thing)
{
    gwi_held_context *context = context_of(held, event->pid, event->context);
    gwi_held_block block = {.handle = event->arg[0],
                            .bytes = event->arg[1],
                            .context = event->context,
                            .pid = event->pid,
                            .thing = (uint8_t)thing,
                            .device = context == NULL ? 0 : context->device};
    if (event->kind == GW_EV_ALLOC && event->arg[2] == GW_SPACE_MANAGED)
        return; /* managed memory need not be on the card */
    if (event->kind == GW_EV_VMM_CREATE) {
        block.context = 0; /* it does not belong to a context */
        block.device = event->arg[2] < GWI_HELD_DEVICES_MAX ? (uint8_t)event->arg[2] : 0;
    }
    add(held, block);
}

static void release(gwi_held *held, const gw_event *event, gw_thing thing)
{
    if (held->capacity == 0)
        return;
    size_t i = find(held, event->pid, event->arg[0], (uint8_t)thing);
    if (held->block[i].pid != 0)
        remove_at(held, i);
}

/* A process with its own CUDA_VISIBLE_DEVICES has other cards behind the same numbers. */
static void take_attribute(gwi_held_pci *pci, uint64_t attribute, uint64_t value)
{
    /* CUdevice_attribute of bus, device and domain */
    static const uint64_t attributes[] = {33, 34, 50};
    for (unsigned i = 0; i < 3; i++) {
        if (attribute != attributes[i])
            continue;
        pci->is_mixed = pci->is_mixed || (pci->known[i] && pci->part[i] != (uint32_t)value);
        pci->known[i] = true;
        pci->part[i] = (uint32_t)value;
    }
}

static void take_event(gwi_held *held, const gw_event *event)
{
    if (event->result != 0)
        return;
    switch ((gw_event_kind)event->kind) {
    case GW_EV_ALLOC:
    case GW_EV_ALLOC_ASYNC:
        allocate(held, event, GW_THING_MEMORY);
        break;
    case GW_EV_VMM_CREATE:
        allocate(held, event, GW_THING_VMM_MEMORY);
        break;
    case GW_EV_FREE:
    case GW_EV_FREE_ASYNC:
        release(held, event, GW_THING_MEMORY);
        break;
    case GW_EV_VMM_RELEASE:
        release(held, event, GW_THING_VMM_MEMORY);
        break;
    case GW_EV_CTX_CREATE:
        make_context(held, event);
        break;
    case GW_EV_CTX_DESTROY:
        end_context(held, context_of(held, event->pid, event->arg[0]));
        break;
    case GW_EV_CTX_RELEASE:
        release_context(held, primary_of(held, event->pid, event->arg[2]));
        break;
    case GW_EV_CTX_RESET:
        end_context(held, primary_of(held, event->pid, event->arg[2]));
        break;
    case GW_EV_DEVICE:
        if (event->arg[0] < GWI_HELD_DEVICES_MAX)
            held->total_bytes[event->arg[0]] = event->arg[1];
        break;
    case GW_EV_DEVICE_ATTRIBUTE:
        if (event->arg[0] < GWI_HELD_DEVICES_MAX)
            take_attribute(&held->pci[event->arg[0]], event->arg[1], event->arg[2]);
        break;
    default:
        break;
    }
}

void gwi_held_take(gwi_held *held, const gw_item *item)
{
    if (item->kind == GW_ITEM_EVENT)
        take_event(held, &item->event);
    else if (item->kind == GW_ITEM_PROCESS)
        forget_process(held, item->pid); /* a new program in an old process */
    else if (item->kind == GW_ITEM_EXIT)
        forget_process(held, item->exit.pid);
}

/* Tells steady growth of the held memory from warm-up, caches, plateaus and memory that every iteration frees. */

/* The history is divided into PARTS parts with equally many rounds. The last part does not count as growth, because its
 * memory may still be freed: it may be the rising side of one iteration. */
enum { PARTS = 8, RECENT_FROM = 4, RECENT_TO = 7 };
enum { SAMPLES_MIN = 16, ROUNDS_MIN = 32, RECENT_GROWING_MIN = 2, GROWING_MIN = 4, LAST_SAMPLES = 3 };
/* Smaller growth is noise: the part of the limit, and the part of the recent growth that counts for one part. */
enum { LIMIT_PART = 512, RECENT_PART = 8 };

size_t gwi_forecast_add(gwi_held_sample *sample, size_t count, size_t room, gwi_held_sample one)
{
    if (count == room) {
        for (size_t i = 0; i + 1 < count; i += 2) {
            gwi_held_sample *later = &sample[i + 1];
            uint64_t bytes = sample[i].bytes < later->bytes ? sample[i].bytes : later->bytes;
            sample[i / 2] = (gwi_held_sample){.t_ns = later->t_ns, .rounds = later->rounds, .bytes = bytes};
        }
        count /= 2;
    }
    sample[count++] = one;
    return count;
}

typedef struct boundary {
    uint64_t t_ns, kept_bytes;
} boundary;

static uint64_t lowest_from(const gwi_held_sample *sample, size_t from, size_t count)
{
    uint64_t lowest = UINT64_MAX;
    for (size_t i = from; i < count; i++)
        lowest = sample[i].bytes < lowest ? sample[i].bytes : lowest;
    return lowest;
}

/* Find time and kept memory at the start of each part, and at the end of the last one. */
static void find_boundaries(const gwi_held_sample *sample, size_t count, boundary at[PARTS + 1])
{
    uint64_t first = sample[0].rounds, rounds = sample[count - 1].rounds - first;
    size_t i = 0;
    for (unsigned part = 0; part <= PARTS; part++) {
        while (i + 1 < count && (sample[i].rounds - first) * PARTS < rounds * part)
            i++;
        at[part] = (boundary){sample[i].t_ns, lowest_from(sample, i, count)};
    }
}

static unsigned growing_parts(const boundary at[PARTS + 1], unsigned from, unsigned to, uint64_t least_bytes)
{
    unsigned count = 0;
    for (unsigned part = from; part < to; part++)
        count += at[part + 1].kept_bytes - at[part].kept_bytes >= least_bytes;
    return count;
}

static bool is_growth(const boundary at[PARTS + 1], uint64_t limit_bytes)
{
    uint64_t recent = at[RECENT_TO].kept_bytes - at[RECENT_FROM].kept_bytes, least = recent / RECENT_PART;
    return recent > 0 && recent >= limit_bytes / LIMIT_PART && at[RECENT_TO].t_ns > at[RECENT_FROM].t_ns &&
           growing_parts(at, RECENT_FROM, RECENT_TO, least) >= RECENT_GROWING_MIN &&
           growing_parts(at, 0, PARTS, least) >= GROWING_MIN;
}

void gwi_forecast_make(const gwi_held_sample *sample, size_t count, uint64_t limit_bytes, gwi_forecast *ret_forecast)
{
    *ret_forecast = (gwi_forecast){.grows = false};
    while (count > 0 && sample[0].bytes == 0) { /* the growth from nothing is the start of the program */
        sample++;
        count--;
    }
    if (count == 0)
        return;
    ret_forecast->kept_bytes = lowest_from(sample, count > LAST_SAMPLES ? count - LAST_SAMPLES : 0, count);
    if (count < SAMPLES_MIN || sample[count - 1].rounds - sample[0].rounds < ROUNDS_MIN)
        return;
    boundary at[PARTS + 1];
    find_boundaries(sample, count, at);
    if (!is_growth(at, limit_bytes))
        return;
    const boundary *from = &at[RECENT_FROM], *to = &at[RECENT_TO];
    double bytes_per_ns = (double)(to->kept_bytes - from->kept_bytes) / (double)(to->t_ns - from->t_ns);
    /* Continue the growth from the last boundary to now. The last samples may be the top of an iteration. */
    double now = (double)to->kept_bytes + bytes_per_ns * (double)(sample[count - 1].t_ns - to->t_ns);
    if (now < (double)ret_forecast->kept_bytes)
        ret_forecast->kept_bytes = (uint64_t)now;
    double left = (double)limit_bytes - (double)ret_forecast->kept_bytes;
    ret_forecast->grows = true;
    ret_forecast->bytes_per_minute = bytes_per_ns * 60e9;
    ret_forecast->full_s = left <= 0 ? 0 : left / bytes_per_ns / 1e9;
    ret_forecast->since_ns = from->t_ns;
}
