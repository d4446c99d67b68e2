/* The table of export formats, and the loop that passes every item of a recording to one of them. */
#include "gwi_curve.h"

#include <errno.h>
#include <string.h>

static const gw_export_format *const formats[] = {&gwi_export_json,        &gwi_export_csv,
                                                  &gwi_export_csv_sheet,   &gwi_export_memory_csv,
                                                  &gwi_export_memory_json, &gwi_export_perfetto};

const gw_export_format *gw_export_at(unsigned index)
{
    return index < sizeof formats / sizeof formats[0] ? formats[index] : NULL;
}

const gw_export_format *gw_export_find(const char *name)
{
    for (unsigned i = 0; gw_export_at(i) != NULL; i++)
        if (strcmp(gw_export_at(i)->name, name) == 0)
            return gw_export_at(i);
    return NULL;
}

static gw_status check_file(gw_export_to *to, gw_status st, gw_error *err)
{
    if (st == GW_OK && ferror(to->file))
        return gw_fail(err, GW_IO, "write the export: %s", strerror(errno));
    return st;
}

gw_status gw_export_run(const gw_export_format *format, gw_reader *reader, FILE *file, uint64_t *ret_faults,
                        gw_error *err)
{
    gw_export_to to = {.file = file, .reader = reader};
    gw_error fault = {""};
    uint64_t faults = 0;
    const gw_item *item;
    gw_status st = format->begin == NULL ? GW_OK : format->begin(&to, err);
    while (st == GW_OK) {
        gw_status got = gw_reader_next(reader, &item, &fault);
        if (got == GW_END)
            break;
        if (got == GW_OK) {
            st = format->item(&to, item, err);
            to.item_count++;
        } else if (got == GW_CORRUPT) {
            faults++;
            st = format->fault == NULL ? GW_OK : format->fault(&to, fault.text, err);
            to.item_count += format->fault != NULL;
        } else {
            st = gw_fail(err, got, "%s", fault.text);
        }
        st = check_file(&to, st, err);
    }
    if (st == GW_OK && format->end != NULL)
        st = format->end(&to, err);
    if (st == GW_OK && fflush(file) != 0)
        st = gw_fail(err, GW_IO, "write the export: %s", strerror(errno));
    if (format->close != NULL)
        format->close(&to);
    if (ret_faults != NULL)
        *ret_faults = faults;
    return st;
}
