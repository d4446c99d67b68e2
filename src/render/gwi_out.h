/* Shared inside render/: foreign strings made harmless. */
#ifndef GWI_OUT_H
#define GWI_OUT_H

#include "gw_out.h"

#include <stddef.h>

/* Bytes of the well-formed UTF-8 sequence at `string`; 0: there is none. */
size_t gwi_utf8_length(const char *string);

#endif
