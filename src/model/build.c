/* From a recording to a model. Apart from model.c so that a model can be fed without a reader. */
#include "inner.h"

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

gw_status gw_model_build(gw_reader *reader, gw_model **ret_model, gw_error *err)
{
    gw_model *model = NULL;
    gw_status st = gw_model_new(&model, err);
    if (st != GW_OK)
        return st;
    const gw_item *item;
    gw_error local;
    for (;;) {
        local.text[0] = '\0';
        st = gw_reader_next(reader, &item, &local);
        if (st == GW_OK) {
            st = gw_model_feed(model, item, err);
            if (st != GW_OK)
                goto out;
        } else if (st == GW_CORRUPT) { /* the reader goes on behind it */
            if (model->damaged_count++ == 0)
                snprintf(model->damaged_first, sizeof model->damaged_first, "%.255s", local.text);
        } else {
            break;
        }
    }
    if (st != GW_END) {
        gw_fail(err, st, "%s", local.text);
        goto out;
    }
    st = name_fns(reader, model, err);
    if (st == GW_OK)
        st = gw_model_finish(model, err);
    if (st == GW_OK) {
        *ret_model = model;
        model = NULL;
    }
out:
    gw_model_free(model);
    return st;
}
