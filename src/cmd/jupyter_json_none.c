/* A build without json-c: kernelspecs can neither be written nor read. */
#include "gwi_jupyter.h"

const char *const gwi_jupyter_question = "";

bool gwi_jupyter_has_json(void)
{
    return false;
}

static gw_status lacks(gw_error *err)
{
    return gw_fail(err, GW_UNSUPPORTED, "this build lacks JSON (json-c was not there when it was built)");
}

gw_status gwi_jupyter_prefix(const char *answer, gwi_path out, gw_error *err)
{
    (void)answer;
    (void)out;
    return lacks(err);
}

gw_status gwi_jupyter_spec(const char *answer, const gwi_kernelspec *spec, gw_text *text, gw_error *err)
{
    (void)answer;
    (void)spec;
    (void)text;
    return lacks(err);
}

gw_status gwi_jupyter_read(const char *path, gwi_kernel_found *ret_found, gw_error *err)
{
    (void)path;
    (void)ret_found;
    return lacks(err);
}
