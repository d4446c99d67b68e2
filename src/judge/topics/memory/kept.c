/* Reports the memory that was live at the failure, grouped by the phase that allocated it. A phase is, for example, a
 * cell of a notebook or an epoch. */
#include "gwi_kept.h"

#include "gw_array.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEPT_ROOM = 64, KEPT_SAID_MAX = 4 };

/* False if a framework has its own allocator but sent no report. The ledger has only its large segments then. Blocks in
 * a segment may belong to later phases. */
static bool can_tell(const gwi_case *c)
{
    const gwi_memory *memory = &c->memory;
    return memory->known && memory->live_count > 0 && (c->framework == GW_FRAMEWORK_RAW || memory->report != NULL);
}

/* Format the age of the blocks at the failure: "31.2 s" or "31.2 to 12.0 s". */
static void age_text(char out[64], const gwi_memory *memory, const gw_kept *kept)
{
    double oldest = (double)(memory->t_ns - kept->t_first_ns) / 1e9;
    double youngest = (double)(memory->t_ns - kept->t_last_ns) / 1e9;
    if (oldest - youngest < 0.1)
        snprintf(out, 64, "%.1f s", oldest);
    else
        snprintf(out, 64, "%.1f to %.1f s", oldest, youngest);
}

static void say_one(const gwi_case *c, gwi_finding *finding, const gw_kept *kept)
{
    char bytes[GW_BYTES_TEXT_MAX], age[64];
    gw_bytes_text(bytes, kept->bytes);
    if (!kept->time_known) {
        gwi_measure(finding, GWI_NO_TIME, gwi_memory_source(&c->memory), (double)kept->bytes, "bytes",
                    "%s in %" PRIu64 " block%s, allocated at an unknown time", bytes, kept->count,
                    GWI_PLURAL(kept->count));
        return;
    }
    age_text(age, &c->memory, kept);
    gwi_measure(finding, kept->t_first_ns, gwi_memory_source(&c->memory), (double)kept->bytes, "bytes",
                "%s in %" PRIu64 " block%s %s%s, %s earlier", bytes, kept->count, GWI_PLURAL(kept->count),
                kept->phase != NULL ? "allocated in " : "allocated outside any phase",
                kept->phase != NULL ? kept->phase->name : "", age);
}

void gwi_say_kept(const gwi_case *c, gwi_finding *finding)
{
    gw_kept kept[KEPT_SAID_MAX];
    const gwi_memory *memory = &c->memory;
    if (!can_tell(c))
        return;
    size_t count = gw_model_kept(c->model, memory->pid, memory->live, memory->live_count, kept, KEPT_SAID_MAX);
    for (size_t i = 0; i < count; i++)
        say_one(c, finding, &kept[i]);
}

/* ---- the complete list in the verdict ---- */

static int by_bytes(const void *left, const void *right)
{
    const gw_live *a = *(const gw_live *const *)left, *b = *(const gw_live *const *)right;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

/* Return the group for the phase in which the block was allocated. Returns NULL if there is none. */
static gw_verdict_kept *group_of(const gwi_case *c, gw_verdict *verdict, const gw_kept *kept, const gw_live *live)
{
    const gw_phase *phase = live->has_time ? gw_model_phase_at(c->model, c->memory.pid, live->t_ns) : NULL;
    const gw_phase *first = phase == NULL ? NULL : &c->model->phase[phase->alike];
    for (size_t i = 0; i < verdict->kept_count; i++) {
        if (kept[i].phase == first && kept[i].time_known == live->has_time)
            return &verdict->kept[i];
    }
    return NULL;
}

/* Add the 2,048 largest live blocks to the groups of their phases, with their addresses. */
static bool list_blocks(const gwi_case *c, gw_verdict *verdict, const gw_kept *kept)
{
    enum { BLOCKS_MAX = 2048 };
    const gwi_memory *memory = &c->memory;
    const gw_live **order = malloc(memory->live_count * sizeof *order);
    if (order == NULL)
        return false;
    bool good = true;
    for (size_t i = 0; i < memory->live_count; i++)
        order[i] = &memory->live[i];
    qsort(order, memory->live_count, sizeof *order, by_bytes);
    for (size_t i = 0; i < memory->live_count && i < BLOCKS_MAX && good; i++) {
        gw_verdict_kept *group = group_of(c, verdict, kept, order[i]);
        if (group == NULL)
            continue;
        good = gw_array_more(&group->block, group->block_count, sizeof *group->block);
        if (!good)
            break;
        group->block[group->block_count++] =
            (gw_verdict_block){order[i]->address, order[i]->bytes, order[i]->t_ns, order[i]->has_time};
    }
    free(order);
    return good;
}

bool gwi_fill_kept(const gwi_case *c, gw_verdict *verdict)
{
    gw_kept kept[KEPT_ROOM];
    const gwi_memory *memory = &c->memory;
    if (!can_tell(c))
        return true;
    size_t count = gw_model_kept(c->model, memory->pid, memory->live, memory->live_count, kept, KEPT_ROOM);
    if (count == 0)
        return true;
    verdict->kept = calloc(count, sizeof *verdict->kept);
    if (verdict->kept == NULL)
        return false;
    for (size_t i = 0; i < count; i++) {
        verdict->kept[i] = (gw_verdict_kept){.phase = kept[i].phase == NULL ? NULL : strdup(kept[i].phase->name),
                                             .time_known = kept[i].time_known,
                                             .bytes = kept[i].bytes,
                                             .count = kept[i].count,
                                             .t_first_ns = kept[i].t_first_ns,
                                             .t_last_ns = kept[i].t_last_ns};
        verdict->kept_count++;
        if (kept[i].phase != NULL && verdict->kept[i].phase == NULL)
            return false;
    }
    return c->model->asked_phase == NULL || list_blocks(c, verdict, kept);
}

bool gwi_fill_failure(const gwi_case *c, gw_verdict *verdict)
{
    if (c->root == NULL && !c->memory.known)
        return true;
    uint32_t pid = c->root != NULL ? c->root->pid : c->memory.pid;
    verdict->has_failure = true;
    verdict->t_failure_ns = c->root != NULL ? c->root->t_ns : c->memory.t_ns;
    verdict->context_lost = c->sticky != NULL;
    const gw_phase *phase = gw_model_phase_at(c->model, pid, verdict->t_failure_ns);
    verdict->failure_phase = phase == NULL ? NULL : strdup(phase->name);
    return phase == NULL || verdict->failure_phase != NULL;
}
