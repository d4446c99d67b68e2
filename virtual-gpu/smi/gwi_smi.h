/* The virtual nvidia-smi: the fields of a GPU, named as in --query-gpu. */
#ifndef GWI_SMI_H
#define GWI_SMI_H

#include <stdbool.h>
#include <stdio.h>

#include "gw_nvml_abi.h"

#define GWI_SMI_DECLARE(symbol, parameters) nvmlReturn_t symbol parameters;
GW_NVML_FUNCTIONS(GWI_SMI_DECLARE)
#undef GWI_SMI_DECLARE
const char *nvmlErrorString(nvmlReturn_t result);

enum { GWI_SMI_VALUE_MAX = 160, GWI_SMI_COLUMNS_MAX = 96, GWI_SMI_PROCESSES_MAX = 256 };

typedef struct gwi_smi_field {
    const char *name;
    const char *other_name; /* NULL: the field has one name */
    const char *unit;       /* NULL: the value has no unit */
    nvmlReturn_t (*number)(nvmlDevice_t device, unsigned *value);
    unsigned divisor; /* for `number`: print number / divisor with two decimals; 0: no division */
    nvmlReturn_t (*text)(nvmlDevice_t device, char out[GWI_SMI_VALUE_MAX]); /* used if `number` is NULL */
} gwi_smi_field;

/* Return the field with this name; NULL if there is none. */
const gwi_smi_field *gwi_smi_field_find(const char *name);
/* Write the value to `out`, without its unit. If there is no value, write the reason in brackets. */
void gwi_smi_value(const gwi_smi_field *field, nvmlDevice_t device, char out[GWI_SMI_VALUE_MAX]);
/* Return the value of the field `name` as text: "N/A" if the GPU does not have it, "" if there is no such field.
 * `out` is a buffer for the text. */
const char *gwi_smi_get(const char *name, nvmlDevice_t device, char out[GWI_SMI_VALUE_MAX]);

#endif
