/* Call sites with names: what was made in one line of the user's is of one kind, whatever way led there. A loop that
 * the compiler unrolled, a recursion, two callers of one function make several sites of one line. */
#include "inner.h"

#include <string.h>

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ (hash >> 29);
}

static uint64_t mix_text(uint64_t hash, const char *text)
{
    for (; text != NULL && *text != '\0'; text++)
        hash = mix(hash, (unsigned char)*text);
    return hash;
}

static bool is_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

/* Without a line, functions of one name are no proof of one place. */
static const gw_frame *line_of(const gw_model *model, const gw_group *group)
{
    const gw_frame *frame = group->site == 0 ? NULL : gw_sites_user(model->sites, group->site);
    return frame == NULL || frame->file == NULL || frame->line == 0 ? NULL : frame;
}

static uint64_t key_of(const gw_group *group, const gw_frame *line)
{
    uint64_t key =
        mix(mix(group->pid, group->bytes), (uint64_t)group->fn << 16 | (uint64_t)group->cls << 8 | group->device);
    return mix_text(mix(key, line->line), line->file);
}

static bool is_kin(const gw_group *a, const gw_frame *a_line, const gw_group *b, const gw_frame *b_line)
{
    return a->pid == b->pid && a->bytes == b->bytes && a->fn == b->fn && a->cls == b->cls && a->device == b->device &&
           a_line->line == b_line->line && is_text(a_line->file, b_line->file) &&
           is_text(a_line->function, b_line->function);
}

static void take_over(gw_group *kin, gw_group *group)
{
    kin->alloc_count += group->alloc_count;
    kin->free_count += group->free_count;
    kin->live_count += group->live_count;
    kin->live_count_peak += group->live_count_peak; /* at most */
    kin->step_count += group->step_count;
    kin->t_first_ns = group->t_first_ns < kin->t_first_ns ? group->t_first_ns : kin->t_first_ns;
    kin->order_first = group->order_first < kin->order_first ? group->order_first : kin->order_first;
    if (group->t_last_ns > kin->t_last_ns) {
        kin->t_last_ns = group->t_last_ns;
        kin->order_last = group->order_last;
        kin->frees_at_last = group->frees_at_last;
    }
    group->alloc_count = group->free_count = group->live_count = group->live_count_peak = group->step_count = 0;
}

static bool put_together(gw_model *model)
{
    gwi_table table = {0};
    bool good = true;
    for (uint32_t i = 1; i < model->group_count && good; i++) {
        gw_group *group = &model->group[i];
        const gw_frame *line = group->kin != i ? NULL : line_of(model, group);
        if (line == NULL)
            continue;
        uint64_t key = key_of(group, line);
        uint32_t index = i;
        while (gwi_table_get(&table, key, &index) &&
               !is_kin(&model->group[index], line_of(model, &model->group[index]), group, line)) {
            key = mix(key, 1);
            index = i;
        }
        if (index == i) {
            good = gwi_table_put(&table, key, i);
        } else {
            take_over(&model->group[index], group);
            group->kin = index;
        }
    }
    gwi_table_free(&table);
    return good;
}

gw_status gw_model_name_sites(gw_model *model, uint32_t soft_ms, uint32_t hard_ms, gw_error *err)
{
    if (gw_sites_count(model->sites) == 0)
        return GW_OK;
    gw_status st = gw_sites_resolve(model->sites, soft_ms, hard_ms, err);
    return put_together(model) || st != GW_OK ? st : gw_fail(err, GW_NOMEM, "the lines of the call sites");
}
