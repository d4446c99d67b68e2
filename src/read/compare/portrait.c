/* Make portraits, which represent runs in a form that can be compared. */
#include "gwi_compare.h"

#include "gw_clock.h"
#include "gw_text.h"

#include <stdio.h>
#include <stdlib.h>

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
    const gw_trait *trait = gw_portrait_traits(portrait, &count);
    for (size_t i = 0; i < count; i++)
        if (trait[i].area == area && gw_str_same(trait[i].name, name))
            return &trait[i];
    return NULL;
}
