/* Encodes protobuf's wire format (protobuf.dev, "Encoding"): a message is a list of fields, each with a number.
 *
 * Example: field 1 with the number 150 is 08 96 01; field 2 with the string "hi" is 12 02 68 69. If memory runs out,
 * the message stays unchanged and `failed` is set, as with all uses of gw_text. */
#ifndef GWI_WIRE_H
#define GWI_WIRE_H

#include "gw_text.h"

#include <stdint.h>

/* Append a number as groups of 7 bits, the lowest first. */
void gwi_wire_varint(gw_text *message, uint64_t value);
/* Append a field with a number: uint64, int64, int32, bool or an enum. Negative numbers are passed as (uint64_t). */
void gwi_wire_number(gw_text *message, unsigned field, uint64_t value);
/* Append what precedes `count` bytes of a field. */
void gwi_wire_head(gw_text *message, unsigned field, size_t count);
/* Append a field with bytes: a string, which must be UTF-8, or a message. */
void gwi_wire_bytes(gw_text *message, unsigned field, const char *bytes, size_t count);
/* Append a field with a string of unknown origin. Invalid UTF-8 is replaced, and a long text is cut. */
void gwi_wire_string(gw_text *message, unsigned field, const char *string);
/* Append a field with a message, which is then empty. */
void gwi_wire_message(gw_text *message, unsigned field, gw_text *inner);

#endif
