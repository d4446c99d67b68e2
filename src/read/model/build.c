/* Build a model from a recording. Only this file uses gw_reader. feed.c does not, so a caller without a recording can
 * feed a model, too. */
#include "gwi_ahead.h"

#include <stdio.h>

static gw_status name_fns(gw_reader *reader, gw_model *model, gw_error *err)
{
    uint32_t count = gw_reader_fn_count(reader);
    const char **names = calloc(count + 1u, sizeof *names);
    if (names == NULL)
        return gw_fail(err, GW_NOMEM, "the names of the functions");
    for (uint32_t i = 0; i < count && i <= UINT16_MAX; i++)
        names[i] = gw_reader_fn_name(reader, (uint16_t)i);
    gw_status st = gw_model_name_fns(model, names, count, err);
    free(names);
    return st;
}

static void note_damage(gw_model *model, const gw_error *why)
{
    if (model->damaged_count++ == 0)
        snprintf(model->damaged_first, sizeof model->damaged_first, "%.255s", why->text);
}

typedef struct watcher {
    gw_model_watch *watch; /* called after each item; NULL: no callback */
    void *user;
    const gw_model_follower *follower; /* NULL: none */
} watcher;

/* Feed the model the events that the reader has already decoded, in batches. */
static gw_status feed_events(gw_reader *reader, gw_model *model, const watcher *who, gw_error *err)
{
    gw_event event[GWI_AHEAD_MAX];
    gw_status st = GW_OK;
    size_t count;
    while (st == GW_OK && (count = gw_reader_events(reader, event, GWI_AHEAD_MAX)) > 0) {
        gwi_ahead_feed(model, event, count);
        for (size_t i = 0; who->watch != NULL && st == GW_OK && i < count; i++)
            st = who->watch(who->user, model, &event[i], err);
    }
    return st;
}

/* Feed the whole recording in order. Returns GW_OK at the end of the recording. */
static gw_status feed_all(gw_reader *reader, gw_model *model, const watcher *who, gw_error *err)
{
    const gw_item *item;
    gw_error local = {""};
    for (;;) {
        gw_status st = gw_reader_next(reader, &item, &local);
        if (st == GW_OK) {
            st = gw_model_feed(model, item, err);
            const gw_model_follower *follower = model->inner->follower;
            if (st == GW_OK && follower != NULL && follower->item != NULL && item->kind != GW_ITEM_EVENT)
                follower->item(follower->user, model, item);
            if (st == GW_OK && who->watch != NULL)
                st = who->watch(who->user, model, item->kind == GW_ITEM_EVENT ? &item->event : NULL, err);
            if (st == GW_OK)
                st = feed_events(reader, model, who, err);
            if (st != GW_OK)
                return st;
        } else if (st == GW_CORRUPT) { /* count the damaged block; the next call continues after it */
            note_damage(model, &local);
            local.text[0] = '\0';
        } else {
            return st == GW_END ? GW_OK : gw_fail(err, st, "%s", local.text);
        }
    }
}

typedef struct phase_wanted {
    const char *name, *traceback;
    size_t bytes;
} phase_wanted;

/* Build a model of the whole run, or of one phase if `phase` is not NULL. */
static gw_status build(gw_reader *reader, const phase_wanted *phase, const watcher *who, bool finish,
                       gw_model **ret_model, gw_error *err)
{
    gw_model *model = NULL;
    gw_status st = gw_model_new(&model, err);
    if (st == GW_OK) {
        model->owner = gw_reader_owner(reader);
        model->inner->follower = who->follower;
        st = feed_all(reader, model, who, err);
    }
    if (st == GW_OK)
        st = name_fns(reader, model, err);
    if (st == GW_OK)
        model->inner->follower = NULL;
    if (st == GW_OK && phase != NULL)
        st = gw_model_end_phase(model, phase->name, phase->traceback, phase->bytes, err);
    if (st == GW_OK && finish)
        st = gw_model_finish(model, err);
    if (st == GW_OK) {
        *ret_model = model;
        model = NULL;
    }
    gw_model_free(model);
    return st;
}

gw_status gw_model_build(gw_reader *reader, gw_model **ret_model, gw_error *err)
{
    return build(reader, NULL, &(watcher){0}, true, ret_model, err);
}

gw_status gw_model_build_watched(gw_reader *reader, gw_model_watch *watch, void *user, gw_model **ret_model,
                                 gw_error *err)
{
    return build(reader, NULL, &(watcher){.watch = watch, .user = user}, true, ret_model, err);
}

gw_status gw_model_build_followed(gw_reader *reader, const gw_model_follower *follower, gw_model **ret_model,
                                  gw_error *err)
{
    return build(reader, NULL, &(watcher){.follower = follower}, true, ret_model, err);
}

gw_status gw_model_read(gw_reader *reader, gw_model **ret_model, gw_error *err)
{
    return build(reader, NULL, &(watcher){0}, false, ret_model, err);
}

gw_status gw_model_build_phase(gw_reader *reader, const char *name, const char *traceback, size_t bytes,
                               gw_model **ret_model, gw_error *err)
{
    return build(reader, &(phase_wanted){name, traceback, bytes}, &(watcher){0}, true, ret_model, err);
}
