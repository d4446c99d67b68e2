/* Merges the groups of objects that the same lines of the user's code created. One line may have several call sites,
 * for example after loop unrolling. */
#include "gwi_inner.h"

#include "gw_hash.h"
#include "gw_text.h"

#include <string.h>
#include <unistd.h>

static uint64_t mix_text(uint64_t hash, const char *text)
{
    for (; text != NULL && *text != '\0'; text++)
        hash = gw_hash_mix(hash, (unsigned char)*text);
    return hash;
}

/* Number of innermost user frames that identify a place. With one, a helper that makes all allocations is one place.
 * With all, the first pass and the second are different places. */
enum { DEPTH = 3 };
typedef struct place {
    const gw_frame *frame[DEPTH];
    int depth; /* number of frames in `frame`; 0: the place is unknown */
} place;

static place place_of(const gw_model *model, const gw_group *group)
{
    place found = {.depth = 0};
    const gw_stack *stack = group->site == 0 ? NULL : gw_sites_stack(model->sites, group->site);
    if (stack == NULL || stack->user == stack->count || stack->frame[stack->user].line == 0)
        return found;
    uint8_t whose =
        stack->frame[stack->user].whose > GW_WHOSE_USER ? stack->frame[stack->user].whose : (uint8_t)GW_WHOSE_USER;
    for (size_t i = stack->user; i < stack->count && found.depth < DEPTH; i++)
        if (stack->frame[i].whose <= whose)
            found.frame[found.depth++] = &stack->frame[i];
    return found;
}

/* Return the frame's address if its line is unknown, otherwise 0. Without a line, functions of the same name may be
 * different places. */
static uint64_t address_of(const gw_frame *frame)
{
    return frame->line == 0 ? frame->address : 0;
}

static uint64_t key_of(const gw_group *group, const place *at)
{
    uint64_t key = gw_hash_mix(gw_hash_mix(group->pid, group->bytes),
                               (uint64_t)group->fn << 16 | (uint64_t)group->cls << 8 | group->device);
    for (int i = 0; i < at->depth; i++)
        key = mix_text(gw_hash_mix(gw_hash_mix(key, at->frame[i]->line), address_of(at->frame[i])), at->frame[i]->file);
    return key;
}

static bool is_same_place(const place *a, const place *b)
{
    bool same = a->depth == b->depth;
    for (int i = 0; i < a->depth && same; i++)
        same = a->frame[i]->line == b->frame[i]->line && gw_str_same(a->frame[i]->file, b->frame[i]->file) &&
               gw_str_same(a->frame[i]->function, b->frame[i]->function) &&
               gw_str_same(a->frame[i]->module, b->frame[i]->module) &&
               address_of(a->frame[i]) == address_of(b->frame[i]);
    return same;
}

static bool is_kin(const gw_model *model, const gw_group *a, const gw_group *b, const place *b_place)
{
    place a_place = place_of(model, a);
    return a->pid == b->pid && a->bytes == b->bytes && a->fn == b->fn && a->cls == b->cls && a->device == b->device &&
           is_same_place(&a_place, b_place);
}

static void take_over(gw_group *kin, gw_group *group)
{
    kin->alloc_count += group->alloc_count;
    kin->free_count += group->free_count;
    kin->live_count += group->live_count;
    /* an upper bound, because the two groups may have peaked at different times */
    kin->live_count_peak += group->live_count_peak;
    kin->step_count += group->step_count;
    kin->grown_at += group->grown_at;
    kin->buried_count += group->buried_count;
    kin->t_kept_ns = group->t_kept_ns > kin->t_kept_ns ? group->t_kept_ns : kin->t_kept_ns;
    kin->t_first_ns = group->t_first_ns < kin->t_first_ns ? group->t_first_ns : kin->t_first_ns;
    kin->order_first = group->order_first < kin->order_first ? group->order_first : kin->order_first;
    if (group->t_last_ns > kin->t_last_ns) {
        kin->t_last_ns = group->t_last_ns;
        kin->order_last = group->order_last;
        kin->frees_at_last = group->frees_at_last;
    }
    group->alloc_count = group->free_count = group->live_count = group->live_count_peak = group->step_count = 0;
    group->buried_count = group->grown_at = 0;
}

typedef struct wanted_kin {
    const gw_model *model;
    const gw_group *group;
    const place *at;
} wanted_kin;

static inline bool is_wanted(const void *context, uint32_t index)
{
    const wanted_kin *wanted = context;
    return is_kin(wanted->model, &wanted->model->group[index], wanted->group, wanted->at);
}

static bool put_together(gw_model *model)
{
    gwi_table table = {0};
    bool good = true;
    for (uint32_t i = 1; i < model->group_count && good; i++) {
        gw_group *group = &model->group[i];
        place at = place_of(model, group);
        if (at.depth == 0 || group->kin != i)
            continue;
        uint32_t hash = gwi_hash(key_of(group, &at));
        wanted_kin wanted = {model, group, &at};
        gwi_spot spot = gwi_table_find(&table, hash, is_wanted, &wanted);
        if (spot.bucket == NULL) {
            good = gwi_table_add(&table, hash, i);
        } else {
            group->kin = gwi_spot_value(spot);
            take_over(&model->group[group->kin], group);
        }
    }
    gwi_table_free(&table);
    return good;
}

gw_status gw_model_name_sites(gw_model *model, uint32_t soft_ms, uint32_t hard_ms, gw_error *err)
{
    /* with more sites, lines are not merged: the stacks of all sites would need over 80 MB */
    enum { SITES_MAX = 1 << 14 };
    gw_status st = GW_OK;
    if (gw_sites_count(model->sites) == 0)
        return GW_OK;
    if (model->owner == geteuid()) /* another user must not make us open the files of an address */
        st = gw_sites_resolve(model->sites, soft_ms, hard_ms, err);
    if (gw_sites_count(model->sites) > SITES_MAX)
        return st;
    return put_together(model) || st != GW_OK ? st : gw_fail(err, GW_NOMEM, "the lines of the call sites");
}
