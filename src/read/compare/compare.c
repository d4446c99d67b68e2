/* Compare two portraits, one trait at a time. */
#include "gw_clock.h"
#include "gwi_compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Make portraits, which represent runs in a form that can be compared. */

void gw_portrait_free(gw_portrait *portrait)
{
    if (portrait == NULL)
        return;
    gwi_traits_free(&portrait->traits);
    gw_calls_free(portrait->calls);
    gw_model_free(portrait->model);
    free(portrait);
}

gw_status gw_portrait_make(gw_model *model, gw_calls *calls, gw_portrait **ret_portrait, gw_error *err)
{
    gw_portrait *portrait = calloc(1, sizeof *portrait);
    if (portrait == NULL) {
        gw_calls_free(calls);
        gw_model_free(model);
        return gw_fail(err, GW_NOMEM, "a run to compare");
    }
    portrait->model = model;
    portrait->calls = calls;
    *ret_portrait = portrait;
    return GW_OK;
}

typedef struct reading {
    gw_calls *calls;
    uint64_t until_ns;
    unsigned looks;
} reading;

static gw_status look(void *user, gw_model *model, const gw_event *event, gw_error *err)
{
    enum { LOOKS_PER_CLOCK = 256 };
    reading *at = user;
    if (at->looks++ % LOOKS_PER_CLOCK == 0 && at->until_ns != UINT64_MAX && gw_processor_ns() > at->until_ns)
        return gw_fail(err, GW_END, "reading takes too long");
    if (event != NULL && !gw_calls_feed(at->calls, model, event))
        return gw_fail(err, GW_NOMEM, "the order of calls");
    return GW_OK;
}

gw_status gw_portrait_read(const char *path, uint64_t until_ns, gw_portrait **ret_portrait, gw_error *err)
{
    gw_reader *reader = NULL;
    gw_model *model = NULL;
    reading at = {.calls = gw_calls_new(), .until_ns = until_ns};
    gw_status st = at.calls == NULL ? gw_fail(err, GW_NOMEM, "the order of calls") : GW_OK;
    if (st == GW_OK)
        st = gw_reader_open(path, &reader, err);
    if (st == GW_OK)
        st = gw_model_build_watched(reader, look, &at, &model, err);
    if (st == GW_OK) {
        st = gw_portrait_make(model, at.calls, ret_portrait, err);
        at.calls = NULL;
    }
    gw_calls_free(at.calls);
    gw_reader_close(reader);
    return st;
}

const gw_model *gw_portrait_model(const gw_portrait *portrait)
{
    return portrait->model;
}

void gw_portrait_name_sites(gw_portrait *portrait, uint32_t soft_ms, uint32_t hard_ms)
{
    /* if naming the sites fails, frames are printed as file and address */
    (void)!gw_model_name_sites(portrait->model, soft_ms, hard_ms, NULL);
}

const gw_trait *gw_portrait_traits(gw_portrait *portrait, size_t *ret_count)
{
    *ret_count = 0;
    if (!portrait->has_traits && !gwi_traits_find(portrait->model, &portrait->traits))
        return NULL;
    portrait->has_traits = true;
    *ret_count = portrait->traits.count;
    return portrait->traits.item;
}

const gw_trait *gw_portrait_trait(gw_portrait *portrait, gw_area area, const char *name)
{
    size_t count;
    return gw_portrait_traits(portrait, &count) == NULL ? NULL : gwi_trait_find(&portrait->traits, area, name);
}

void gw_comparison_free(gw_comparison *comparison)
{
    if (comparison == NULL)
        return;
    free(comparison->difference);
    free(comparison->parting.reason);
    free(comparison->parting.good.call);
    free(comparison->parting.good.place);
    free(comparison->parting.bad.call);
    free(comparison->parting.bad.place);
    free(comparison);
}

static bool is_same(const gw_trait *a, const gw_trait *b)
{
    if (!a->has_value || !b->has_value)
        return strcmp(a->text, b->text) == 0;
    double larger = fmax(fabs(a->value), fabs(b->value));
    return fabs(a->value - b->value) <= larger * a->tolerance;
}

static void add(gw_comparison *comparison, const gw_trait *good, const gw_trait *bad)
{
    const gw_trait *any = good != NULL ? good : bad;
    bool matters = any->matters && (any->lack_matters || (good != NULL && bad != NULL));
    comparison->difference[comparison->count++] = (gw_difference){any->area, matters, good, bad};
    comparison->differs = comparison->differs || matters;
}

/* Sort the differences by area. Within an area, put those that matter first; otherwise keep their order. Returns false
 * if out of memory. */
static bool put_in_order(gw_comparison *comparison)
{
    size_t count = 0;
    gw_difference *list = calloc(comparison->count + 1, sizeof *list);
    if (list == NULL)
        return false;
    for (int area = 0; area < GW_AREA_COUNT; area++)
        for (int light = 0; light < 2; light++)
            for (size_t i = 0; i < comparison->count; i++)
                if ((int)comparison->difference[i].area == area && comparison->difference[i].matters == !light)
                    list[count++] = comparison->difference[i];
    free(comparison->difference);
    comparison->difference = list;
    return true;
}

static bool compare_traits(gw_portrait *good, gw_portrait *bad, gw_comparison *comparison)
{
    size_t good_count, bad_count;
    const gw_trait *of_good = gw_portrait_traits(good, &good_count), *of_bad = gw_portrait_traits(bad, &bad_count);
    comparison->difference = calloc(good_count + bad_count + 1, sizeof *comparison->difference);
    if (of_good == NULL || of_bad == NULL || comparison->difference == NULL)
        return false;
    for (size_t i = 0; i < good_count; i++) {
        const gw_trait *other = gw_portrait_trait(bad, of_good[i].area, of_good[i].name);
        if (other != NULL && is_same(&of_good[i], other))
            comparison->same[of_good[i].area]++;
        else
            add(comparison, &of_good[i], other);
    }
    for (size_t i = 0; i < bad_count; i++)
        if (gw_portrait_trait(good, of_bad[i].area, of_bad[i].name) == NULL)
            add(comparison, NULL, &of_bad[i]);
    return put_in_order(comparison);
}

gw_status gw_compare(gw_portrait *good, gw_portrait *bad, gw_comparison **ret_comparison, gw_error *err)
{
    gw_comparison *comparison = calloc(1, sizeof *comparison);
    if (comparison == NULL || !compare_traits(good, bad, comparison) ||
        !gwi_parting_find(good, bad, &comparison->parting)) {
        gw_comparison_free(comparison);
        return gw_fail(err, GW_NOMEM, "compare two runs");
    }
    comparison->differs = comparison->differs || (comparison->parting.parted && comparison->parting.is_main);
    *ret_comparison = comparison;
    return GW_OK;
}
