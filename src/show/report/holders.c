/* Finds the largest holders of each device: the call sites whose blocks may have been the largest sum. */
#include "gwi_holders.h"

#include "gwi_escape.h"

#include <stdlib.h>
#include <string.h>

enum { PLACES_NAMED_MAX = 64 /* only so many places of a device get a text, because naming is slow */ };

/* Groups with the same call site on a device; without a call site, groups with the same function. */
typedef struct holder_place {
    uint32_t site;
    uint16_t fn;
    uint8_t device;
    uint64_t weight;
    uint8_t column;
} holder_place;

typedef struct key {
    holder_place of;
    uint32_t group;
} key;

bool gwi_site_text(const gw_model *model, uint32_t site, gw_text *text)
{
    char shown[GW_PLACE_TEXT_MAX];
    const gw_stack *stack = gw_sites_stack(model->sites, site);
    bool known = stack != NULL && stack->user < stack->count;
    gw_text_add_str(text, known ? gw_frame_text(model->sites, &stack->frame[stack->user], shown) : "unknown place");
    return known;
}

static int compare_places(const holder_place *left, const holder_place *right)
{
    if (left->device != right->device)
        return left->device < right->device ? -1 : 1;
    if (left->site != right->site)
        return left->site < right->site ? -1 : 1;
    return (left->fn > right->fn) - (left->fn < right->fn);
}

static int compare_keys(const void *a, const void *b)
{
    return compare_places(&((const key *)a)->of, &((const key *)b)->of);
}

static int compare_weights(const void *a, const void *b)
{
    const holder_place *left = *(holder_place *const *)a, *right = *(holder_place *const *)b;
    if (left->device != right->device)
        return left->device < right->device ? -1 : 1;
    if (left->weight != right->weight)
        return left->weight > right->weight ? -1 : 1;
    return compare_places(left, right);
}

/* Return the most memory that the group can have held at one time. */
static uint64_t weight_of(const gw_group *group)
{
    return gwi_product(group->bytes, group->live_count_peak);
}

static bool has_memory(const gw_group *group)
{
    return group->cls <= GW_CLASS_DEVICE_LAST && group->device < GW_MODEL_DEVICE_PLACES;
}

/* List the groups of device memory with their places, sorted by place. Merged groups have the place of their kin. */
static key *list_keys(const gw_model *model, size_t *ret_count)
{
    key *list = malloc((model->group_count + 1) * sizeof *list);
    *ret_count = 0;
    for (size_t i = 1; list != NULL && i < model->group_count; i++) {
        const gw_group *group = &model->group[i];
        const gw_group *kin = group->kin < model->group_count ? &model->group[group->kin] : group;
        if (has_memory(group))
            list[(*ret_count)++] = (key){{.site = kin->site,
                                          .fn = kin->site == 0 ? kin->fn : 0,
                                          .device = group->device,
                                          .weight = weight_of(group)},
                                         (uint32_t)i};
    }
    if (list != NULL)
        qsort(list, *ret_count, sizeof *list, compare_keys);
    return list;
}

static void place_text(const gw_model *model, const holder_place *place, gw_text *text)
{
    char call[GW_CALL_TEXT_MAX];
    if (place->site != 0 && gwi_site_text(model, place->site, text))
        return;
    gw_text_clear(text);
    gw_text_addf(text, "%s, place unknown", gw_call_text(call, gw_model_fn_name(model, place->fn)));
    if (place->site != 0) {
        gw_text_clear(text);
        gw_text_addf(text, "place unknown (site %u)", place->site);
    }
}

/* Give a place the column of the holder with the same text, or a new one. */
static bool name_place(const gw_model *model, gwi_device_holders *holders, holder_place *place)
{
    gw_text text = {0};
    bool good = true;
    place_text(model, place, &text);
    size_t at = 0;
    while (at < holders->count && strcmp(holders->name[at], gw_text_str(&text)) != 0)
        at++;
    if (at == GWI_NAMED_MAX) {
        place->column = GWI_SMALLER;
        holders->smaller_count++;
    } else {
        if (at == holders->count && (good = gw_str_copy(gw_text_str(&text), &holders->name[at])))
            holders->count++;
        place->column = (uint8_t)at;
        holders->weight[at] = gwi_sum(holders->weight[at], place->weight);
    }
    gw_text_free(&text);
    return good && !text.failed;
}

static bool name_all(const gw_model *model, gwi_holders *holders, holder_place **by_weight, size_t count)
{
    unsigned named[GW_MODEL_DEVICE_PLACES] = {0};
    for (size_t i = 0; i < count; i++) {
        holder_place *place = by_weight[i];
        if (named[place->device]++ >= PLACES_NAMED_MAX) {
            place->column = GWI_SMALLER;
            holders->device[place->device].smaller_count++;
        } else if (!name_place(model, &holders->device[place->device], place)) {
            return false;
        }
    }
    return true;
}

/* Merge neighbours with equal places into `merged`, and store the index of each key's place in `of`. */
static size_t merge(const key *list, size_t count, holder_place *merged, size_t *of)
{
    size_t places = 0;
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || compare_keys(&list[i], &list[i - 1]) != 0)
            merged[places++] = list[i].of;
        else
            merged[places - 1].weight = gwi_sum(merged[places - 1].weight, list[i].of.weight);
        of[i] = places - 1;
    }
    return places;
}

bool gwi_holders_find(const gw_model *model, gwi_holders *ret_holders)
{
    size_t count = 0;
    gwi_holders holders = {.column = malloc(model->group_count + 1), .group_count = model->group_count};
    key *list = list_keys(model, &count);
    holder_place *merged = malloc((count + 1) * sizeof *merged),
                 **by_weight = malloc((count + 1) * sizeof(holder_place *));
    size_t *of = malloc((count + 1) * sizeof *of);
    bool good = holders.column != NULL && list != NULL && merged != NULL && by_weight != NULL && of != NULL;
    if (good) {
        memset(holders.column, GWI_SMALLER, model->group_count + 1);
        size_t places = merge(list, count, merged, of);
        for (size_t i = 0; i < places; i++)
            by_weight[i] = &merged[i];
        qsort(by_weight, places, sizeof *by_weight, compare_weights);
        good = name_all(model, &holders, by_weight, places);
    }
    for (size_t i = 0; good && i < count; i++)
        holders.column[list[i].group] = merged[of[i]].column;
    free(of);
    free(by_weight);
    free(merged);
    free(list);
    if (!good)
        gwi_holders_free(&holders);
    *ret_holders = holders;
    return good;
}

void gwi_holders_free(gwi_holders *holders)
{
    for (size_t device = 0; device < GW_MODEL_DEVICE_PLACES; device++) {
        for (size_t i = 0; i < holders->device[device].count; i++)
            free(holders->device[device].name[i]);
    }
    free(holders->column);
    *holders = (gwi_holders){0};
}

uint8_t gwi_holder_column(const gwi_holders *holders, uint32_t group)
{
    return group < holders->group_count ? holders->column[group] : GWI_SMALLER;
}
