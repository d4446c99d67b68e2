/* Fuzz the parser of the text after `--gpu virtual:`. The input is one byte, then this text. If the byte is below 128,
 * "2xh200,fault=" is put before the text. */
#include "gw_virt_spec.h"
#include "inputs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[1024];
    if (!fuzz_text_after("2xh200,fault=", data, size, text, sizeof text))
        return 0;
    gw_virt_spec spec;
    gw_error err = {{0}};
    gw_status st = gw_virt_spec_parse(text, &spec, &err);
    if (st != GW_OK && err.text[0] == '\0')
        abort(); /* a rejected text needs a reason */
    if (st != GW_OK)
        return 0;
    if (spec.device_count == 0 || spec.device_count > GW_VIRT_DEVICES_MAX || spec.fault_count > GW_VIRT_FAULTS_MAX)
        abort();
    for (unsigned i = 0; i < spec.fault_count; i++)
        if (spec.faults[i].card >= spec.device_count)
            abort();
    return 0;
}
