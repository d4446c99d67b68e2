/* Writes the device memory over time as CSV or JSON: one row for each value that changed. */
#include "gwi_curve.h"

#include <inttypes.h>
#include <stdlib.h>

typedef struct table {
    FILE *file;        /* borrowed */
    gwi_curve *memory; /* owned */
    bool has_rows;
} table;

static gw_status begin(gw_export_to *to, const char *head, gw_error *err)
{
    table *rows = calloc(1, sizeof *rows);
    if (rows == NULL)
        return gw_fail(err, GW_NOMEM, "no memory for the export");
    to->state = rows;
    rows->file = to->file;
    fputs(head, to->file);
    return gwi_curve_new(&rows->memory, err);
}

static void close_table(gw_export_to *to)
{
    table *rows = to->state;
    if (rows != NULL)
        gwi_curve_free(rows->memory);
    free(rows);
}

/* ---- csv ---- */

static gw_status begin_csv(gw_export_to *to, gw_error *err)
{
    return begin(to, "t_ns,pid,device,what,bytes\r\n", err);
}

/* The pid is empty for a card. */
static gw_status put_csv(void *user, const gwi_curve_value *value, gw_error *err)
{
    FILE *file = ((table *)user)->file;
    (void)err;
    fprintf(file, "%" PRIu64 ",", value->t_ns);
    if (value->what != GWI_CURVE_CARD_USED)
        fprintf(file, "%" PRIu32, value->pid);
    fprintf(file, ",%" PRIu32 ",%s,%" PRIu64 "\r\n", value->device, gwi_curve_name(value->what), value->bytes);
    return GW_OK;
}

static gw_status csv_item(gw_export_to *to, const gw_item *item, gw_error *err)
{
    table *rows = to->state;
    return gwi_curve_feed(rows->memory, item, put_csv, rows, err);
}

const gw_export_format gwi_export_memory_csv = {
    .name = "memory-csv",
    .about = "device memory over time as one table, one line per change",
    .begin = begin_csv,
    .item = csv_item,
    .close = close_table,
};

/* ---- json ---- */

static gw_status begin_json(gw_export_to *to, gw_error *err)
{
    return begin(to, "{\"schema\":1,\n\"memory\":[", err);
}

/* All values are numbers and names of ours, so nothing needs escaping. The pid is null for a card. */
static gw_status put_json(void *user, const gwi_curve_value *value, gw_error *err)
{
    table *rows = user;
    (void)err;
    fprintf(rows->file, "%s\n{\"t_ns\":%" PRIu64 ",\"pid\":", rows->has_rows ? "," : "", value->t_ns);
    rows->has_rows = true;
    if (value->what == GWI_CURVE_CARD_USED)
        fputs("null", rows->file);
    else
        fprintf(rows->file, "%" PRIu32, value->pid);
    fprintf(rows->file, ",\"device\":%" PRIu32 ",\"what\":\"%s\",\"bytes\":%" PRIu64 "}", value->device,
            gwi_curve_name(value->what), value->bytes);
    return GW_OK;
}

static gw_status json_item(gw_export_to *to, const gw_item *item, gw_error *err)
{
    table *rows = to->state;
    return gwi_curve_feed(rows->memory, item, put_json, rows, err);
}

static gw_status end_json(gw_export_to *to, gw_error *err)
{
    (void)err;
    fputs("\n]}\n", to->file);
    return GW_OK;
}

const gw_export_format gwi_export_memory_json = {
    .name = "memory-json",
    .about = "device memory over time as one object, one line per change",
    .begin = begin_json,
    .item = json_item,
    .end = end_json,
    .close = close_table,
};
