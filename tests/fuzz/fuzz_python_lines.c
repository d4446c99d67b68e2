/* Fuzz the line tables of Python code. The first byte selects the Python version, the next two the instruction. The
 * rest is the table. */
#include "gw_python_lines.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3)
        return 0;
    int32_t line = gw_python_line(GW_PYTHON_FIRST + data[0] % 6, data + 3, size - 3, 1, data[1] | data[2] << 8);
    if (line < -1)
        abort();
    return 0;
}
