/* Without elfutils nothing can be read. */
#include "gw_gpucore.h"
#include "gw_hostcore.h"

bool gw_gpucore_can_read(void)
{
    return false;
}

gw_status gw_gpucore_read(int fd, const char *name, gw_gpucore **ret_core, gw_error *err)
{
    (void)fd;
    (void)ret_core;
    return gw_fail(err, GW_UNSUPPORTED, "%s: this build cannot read GPU core dumps (elfutils was not there)", name);
}

void gw_gpucore_free(gw_gpucore *core)
{
    (void)core;
}

gw_status gw_hostcore_read(int fd, const char *name, gw_hostcore *ret_core, gw_error *err)
{
    (void)fd;
    (void)ret_core;
    return gw_fail(err, GW_UNSUPPORTED, "%s: this build cannot read core dumps (elfutils was not there)", name);
}
