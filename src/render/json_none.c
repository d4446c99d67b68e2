/* What stands in for json.c in a build without json-c. */
#include "gw_out.h"
#include "gw_out_compare.h"

bool gw_out_has_json(void)
{
    return false;
}

gw_status gw_out_json(const gw_verdict *verdict, gw_text *text, gw_error *err)
{
    (void)verdict;
    (void)text;
    return gw_fail(err, GW_UNSUPPORTED, "this build lacks JSON (json-c was not there when it was built)");
}

gw_status gw_out_comparison_json(const gw_comparison *comparison, gw_portrait *good, gw_portrait *bad, gw_text *text,
                                 gw_error *err)
{
    (void)comparison;
    (void)good;
    (void)bad;
    (void)text;
    return gw_fail(err, GW_UNSUPPORTED, "this build lacks JSON (json-c was not there when it was built)");
}
