/* The stand-in for nvidia-smi: what can be asked of a card, by the names that --query-gpu uses. */
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
    const char *other_name; /* NULL: none */
    const char *unit;       /* NULL: none */
    nvmlReturn_t (*number)(nvmlDevice_t device, unsigned *value);
    unsigned divisor; /* of `number`; 0: none. Then two digits behind the point */
    nvmlReturn_t (*text)(nvmlDevice_t device, char out[GWI_SMI_VALUE_MAX]); /* where there is no `number` */
} gwi_smi_field;

/* NULL: no such field. */
const gwi_smi_field *gwi_smi_field_find(const char *name);
/* The value, or why there is none, in brackets. */
void gwi_smi_value(const gwi_smi_field *field, nvmlDevice_t device, char out[GWI_SMI_VALUE_MAX]);
/* The same by the field's name, which is one. */
const char *gwi_smi_get(const char *name, nvmlDevice_t device, char out[GWI_SMI_VALUE_MAX]);

#endif
