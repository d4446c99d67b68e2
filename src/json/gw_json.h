/* Small helpers for json-c. */
#ifndef GWI_JSON_H
#define GWI_JSON_H

#include <json-c/json.h>

/* Return a member of an object, borrowed from it. NULL: there is none, it is null, or `object` is not an object. */
json_object *gwi_json_member(json_object *object, const char *name);
/* Return a member that is a string, borrowed from the object. NULL: there is none, or it is not a string. */
const char *gwi_json_text(json_object *object, const char *name);
/* Return a new string in valid UTF-8, owned by the caller; NULL, which is JSON's null, for NULL. */
json_object *gwi_json_string(const char *text);

#endif
