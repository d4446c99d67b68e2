/* Reads a saved file of any kind into records. */
#include "gwi_records.h"

#include "gw_own.h"

#include <string.h>

/* Read the file as what it looks like. */
static gw_status read_any(const char *path, gwi_torch *torch, gw_error *err)
{
    const gw_pickle_options options = gwi_records_options(torch);
    char start[GWI_TORCH_START];
    (void)gw_plain_peek(path, start, sizeof start);
    if (gwi_pyspy_is(start)) {
        gw_status st = gw_pickle_new(&options, &torch->pickle, err);
        return st == GW_OK ? gwi_pyspy_read(path, torch, err) : st;
    }
    char first = start[strspn(start, " \t\r\n")];
    return first == '{' || first == '[' ? gw_pickle_read_json(path, &options, &torch->pickle, &torch->root, err)
                                        : gw_pickle_read(path, &options, &torch->pickle, &torch->root, err);
}

gw_status gwi_torch_read(const char *path, gwi_torch *torch, gw_error *err)
{
    memset(torch, 0, sizeof *torch);
    gw_status st = read_any(path, torch, err);
    torch->is_pyspy = st == GW_OK && torch->thread_count > 0;
    if (torch->is_pyspy) {
        st = gwi_pyspy_finish(torch, err);
        if (st != GW_OK)
            gw_wrap(err, "%s", path);
    } else if (st == GW_OK) {
        st = gwi_records_check(torch, path, err);
    }
    if (st != GW_OK)
        gwi_torch_free(torch);
    return st;
}
