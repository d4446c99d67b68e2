#include "gwi_history.h"

gw_status gwi_history_write_json(const gwi_history_view *view, gw_error *err)
{
    (void)view;
    return gw_fail(err, GW_USAGE, "--json: this build lacks JSON (json-c was not there when it was built)");
}
