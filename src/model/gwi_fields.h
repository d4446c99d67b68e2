/* Facts whose text is lines "name=value". Names that this build does not know are passed over. */
#ifndef GWI_MODEL_FIELDS_H
#define GWI_MODEL_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gw_model;

/* The text behind "name=" at the beginning of a line; NULL: there is none. It ends after *ret_bytes, not with a zero.
 */
const char *gwi_field(const char *value, const char *name, size_t *ret_bytes);
/* A copy, the caller's; NULL: not there, empty, or no memory (then the model knows). */
char *gwi_text_field(struct gw_model *model, const char *value, const char *name);
/* Decimal, or hexadecimal with 0x. */
bool gwi_number_field(const char *value, const char *name, uint64_t *ret_number);
uint32_t gwi_small_field(const char *value, const char *name); /* 0: not there, or no such number */

#endif
