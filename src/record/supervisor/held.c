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
