/* Instead of json.c where json-c was not found. */
#include "gwi_export.h"

static gw_status begin(gw_export_to *to, gw_error *err)
{
    (void)to;
    return gw_fail(err, GW_UNSUPPORTED, "this build lacks json-c, which the export to JSON needs; csv is there");
}

static gw_status put_item(gw_export_to *to, const gw_item *item, gw_error *err)
{
    (void)item;
    return begin(to, err);
}

const gw_export_format gwi_export_json = {
    .name = "json",
    .about = "one object, one line an item (not in this build: no json-c)",
    .begin = begin,
    .item = put_item,
};
