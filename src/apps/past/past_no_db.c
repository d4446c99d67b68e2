/* A build without SQLite: past runs are in the text list alone. */
#include "gwi_past_store.h"

static gw_status fail(gw_error *err)
{
    return gw_fail(err, GW_UNSUPPORTED, "this build has no SQLite");
}

gw_status gwi_past_db_add(const char *path, const char *list_path, const gwi_past *past, size_t *ret_skipped,
                          gw_error *err)
{
    (void)path, (void)list_path, (void)past;
    *ret_skipped = 0;
    return fail(err);
}

gw_status gwi_past_db_read(const char *path, const gwi_past_query *query, gwi_past_list *ret_list, gw_error *err)
{
    (void)path, (void)query;
    *ret_list = (gwi_past_list){0};
    return fail(err);
}
