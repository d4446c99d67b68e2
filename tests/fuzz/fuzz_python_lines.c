/* Fuzzes gw_python_line(), which finds the source line of an instruction. Input: the Python version (1 byte), the
 * instruction's offset (2 bytes), then the line table. */
#include "gw_python_lines.h"
#include "inputs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3)
        return 0;
    int32_t line = gw_python_line(GW_PYTHON_FIRST + data[0] % 6, data + 3, size - 3, 1, data[1] | data[2] << 8);
    if (line < -1)
        abort();
    return 0;
}
