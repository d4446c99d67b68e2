/* Names of the driver's results and of its functions, and the results in messages. */
#include "gw_data.h"
#include "gw_logs.h"
#include "gw_model_facts.h"
#include "gw_text.h"

#include <stdio.h>
#include <stdlib.h>
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

/* ---- in messages ---- */

bool gw_log_old_cuda_code(unsigned number, unsigned *ret_code)
{
    const gw_cuda_error *error = gw_data_cuda_error_old(number);
    if (error != NULL)
        *ret_code = error->code;
    return error != NULL;
}

static bool code_of_text(const char *text, unsigned *ret_code)
{
    const gw_cuda_error *error = gw_data_cuda_error_said(text);
    if (error != NULL)
        *ret_code = error->code;
    return error != NULL;
}

static bool code_of_name(const char *prefix, const char *name, unsigned *ret_code)
{
    char whole[96];
    snprintf(whole, sizeof whole, "%s%s", prefix, name);
    const gw_cuda_error *error = gw_data_cuda_error_named(whole);
    if (error != NULL)
        *ret_code = error->code;
    return error != NULL;
}

static bool code_of_number(const gw_log_find *find, unsigned *ret_code)
{
    const char *text = gw_log_text(find, "code");
    int64_t number = 0;
    bool is_hex = text != NULL && gw_begins(text, "0x");
    if (is_hex)
        number = strtol(text, NULL, 16);
    if ((!is_hex && !gw_log_number(find, "code", &number)) || number <= 0)
        return false;
    if (!gw_log_old_cuda_code((unsigned)number, ret_code))
        *ret_code = (unsigned)number;
    return gw_data_cuda_error(*ret_code) != NULL;
}

bool gw_log_cuda_code(const gw_log_find *find, unsigned *ret_code)
{
    const char *name = gw_log_text(find, "name"), *text = gw_log_text(find, "text");
    switch (find->sign) {
    case GW_SAYS_CUDA_NAME:
        return name != NULL && code_of_name("CUDA_ERROR_", name, ret_code);
    case GW_SAYS_CUDA_RUNTIME_NAME:
        return name != NULL && code_of_name("cudaError", name, ret_code);
    case GW_SAYS_CUDA_NUMBER:
    case GW_SAYS_CUDA_JULIA_NAME:
        return code_of_number(find, ret_code);
    case GW_SAYS_CUDA_TEXT:
    case GW_SAYS_CUDA_SHORT_TEXT:
        return text != NULL && code_of_text(text, ret_code);
    default:
        return false;
    }
}
