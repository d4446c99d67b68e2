/* Fuzz the reader of process core dumps. Seeds: any real core dump. */
#include "gw_hostcore.h"
#include "inputs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    int fd = fuzz_file(data, bytes);
    gw_error err;
    gw_hostcore core;
    if (gw_hostcore_read(fd, "fuzz", &core, &err) == GW_OK && core.tid == 0)
        abort();
    return 0;
}
