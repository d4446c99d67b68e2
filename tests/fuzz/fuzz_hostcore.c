/* Fuzz the reader of process core dumps. Seeds: any real core dump. */
#include "gw_hostcore.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static int fd = -1;
    gw_error err;
    gw_hostcore core;
    if (fd < 0)
        fd = memfd_create("fuzz", 0);
    if (ftruncate(fd, 0) != 0 || pwrite(fd, data, bytes, 0) != (ssize_t)bytes)
        abort();
    if (gw_hostcore_read(fd, "fuzz", &core, &err) == GW_OK && core.tid == 0)
        abort();
    return 0;
}
