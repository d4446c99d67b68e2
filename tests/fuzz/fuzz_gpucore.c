/* Fuzz the reader of GPU core dumps. Seeds: the files in tests/fixtures/gpucore, unpacked into the folder of seeds. */
#include "gw_gpucore.h"
#include "inputs.h"

static volatile size_t sink;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    int fd = fuzz_file(data, bytes);
    gw_error err;
    gw_gpucore *core = NULL;
    if (gw_gpucore_read(fd, "fuzz", &core, &err) != GW_OK)
        return 0;
    for (size_t i = 0; i < core->fault_count; i++) {
        const gw_gpucore_fault *fault = &core->fault[i];
        sink += (fault->kernel == NULL ? 0 : strlen(fault->kernel)) + (fault->file == NULL ? 0 : strlen(fault->file)) +
                (fault->function == NULL ? 0 : strlen(fault->function)) + fault->line;
    }
    gw_gpucore_free(core);
    return 0;
}
