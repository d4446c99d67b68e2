/* Small helpers for json-c: values that may be unknown, text in valid UTF-8, and members of an object. Any thread may
 * call them. New objects belong to the caller; NULL is JSON's null. */
#ifndef GW_JSON_H
#define GW_JSON_H

#include "gw_status.h"
#include "gw_text.h"

#include <json-c/json.h>

#include <stdbool.h>
#include <stdint.h>

/* Return a string in valid UTF-8. NULL: null. */
json_object *gw_json_string(const char *text);
/* Like gw_json_string(), but an empty text is null, too: it stands for an unknown one. */
json_object *gw_json_text(const char *text);
/* Return a number, or null if it is not known. */
json_object *gw_json_number(bool is_known, uint64_t number);

/* Append `whole` to `text`, with a line break at the end, and free it. `style` is JSON_C_TO_STRING_PLAIN, or _PRETTY,
 * which may be combined with _SPACED. GW_NOMEM: out of memory. */
gw_status gw_json_write(json_object *whole, int style, gw_text *text, gw_error *err);
/* Print `whole` on stdout, indented, and free it. GW_NOMEM: out of memory. main() reports if it cannot be written. */
GW_MUST_CHECK gw_status gw_json_print(json_object *whole, gw_error *err);

/* Return a member of an object, borrowed from it. NULL: there is none, it is null, or `object` is not an object. */
json_object *gw_json_member(json_object *object, const char *name);
/* Return a member that is a string, borrowed from the object. NULL: there is none, or it is not a string. */
const char *gw_json_member_text(json_object *object, const char *name);

#endif
