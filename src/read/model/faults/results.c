/* Names of the driver's results and of its functions. */
#include "gw_data.h"
#include "gw_model_facts.h"

#include <stdio.h>
#include <string.h>

const char *gw_result_name(uint16_t result)
{
    const gw_cuda_error *error = gw_data_cuda_error(result);
    return error != NULL && error->driver_name != NULL ? error->driver_name : "CUDA_ERROR_?";
}

char *gw_call_text(char out[GW_CALL_TEXT_MAX], const char *fn_name)
{
    snprintf(out, GW_CALL_TEXT_MAX, "%.70s", fn_name == NULL ? "?" : fn_name);
    char *tail = strstr(out, "_ptsz");
    if (tail == NULL)
        tail = strstr(out, "_ptds");
    if (tail != NULL)
        *tail = '\0';
    size_t bytes = strlen(out);
    if (bytes > 3 && out[bytes - 3] == '_' && out[bytes - 2] == 'v')
        out[bytes - 3] = '\0';
    return out;
}
