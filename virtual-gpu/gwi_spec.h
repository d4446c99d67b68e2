/* Helpers shared by the files that parse a specification. */
#ifndef GWI_SPEC_H
#define GWI_SPEC_H

#include <stdbool.h>

#include "gw_virt_spec.h"

/* Parse all of the text as a number from min to max. */
bool gwi_number_parse(const char *text, long long min, long long max, long long *ret);
/* Parse "NAME" or "NAME:N" into name and count. A missing count is 1. */
bool gwi_name_count(const char *text, gw_virt_fault *fault);

/* True if the text begins with the name of a GPU fault. The whole text must then follow the grammar in card_fault.c. */
bool gwi_is_card_fault(const char *text);
bool gwi_card_fault_parse(const char *text, gw_virt_fault *fault);

#endif
