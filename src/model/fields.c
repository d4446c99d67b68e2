#define _GNU_SOURCE
#include "gwi_fields.h"

#include "gwi_inner.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The text behind "name=" at the beginning of a line; NULL: there is none. */
const char *gwi_field(const char *value, const char *name, size_t *ret_bytes)
{
    size_t name_bytes = strlen(name);
    for (const char *line = value; line != NULL && *line != '\0';) {
        size_t bytes = strcspn(line, "\n");
        if (bytes > name_bytes && strncmp(line, name, name_bytes) == 0 && line[name_bytes] == '=') {
            *ret_bytes = bytes - name_bytes - 1;
            return line + name_bytes + 1;
        }
        line += bytes + (line[bytes] == '\n');
    }
    return NULL;
}

char *gwi_text_field(gw_model *model, const char *value, const char *name)
{
    size_t bytes;
    const char *text = gwi_field(value, name, &bytes);
    if (text == NULL || bytes == 0)
        return NULL;
    char *copy = strndup(text, bytes);
    if (copy == NULL)
        model->inner->nomem = true;
    return copy;
}

bool gwi_number_field(const char *value, const char *name, uint64_t *ret_number)
{
    size_t bytes;
    const char *text = gwi_field(value, name, &bytes);
    char *end;
    if (text == NULL || bytes == 0 || text[0] == '-')
        return false;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 0);
    if (end != text + bytes || errno != 0)
        return false;
    *ret_number = number;
    return true;
}

uint32_t gwi_small_field(const char *value, const char *name)
{
    uint64_t number = 0;
    return gwi_number_field(value, name, &number) && number <= UINT32_MAX ? (uint32_t)number : 0;
}
