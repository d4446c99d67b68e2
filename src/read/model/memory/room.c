/* Allocates memory for the model: growing arrays and copies of texts. If there is no memory, sets `nomem` of the
 * model. */
#include "gwi_inner.h"

#include "gw_array.h"

#include <string.h>

bool gwi_room(gw_model *model, void *array_pointer, size_t count, size_t *capacity, size_t element_bytes)
{
    bool good = gw_array_room(array_pointer, count, capacity, element_bytes);
    if (!good)
        model->inner->nomem = true;
    return good;
}

char *gwi_copy_text(gw_model *model, const char *text)
{
    if (text == NULL)
        return NULL;
    char *copy = strdup(text);
    if (copy == NULL)
        model->inner->nomem = true;
    return copy;
}

char *gwi_copy_fact_text(gw_model *model, gw_fact_text text)
{
    char *copy = text.bytes == 0 ? NULL : strndup(text.data, text.bytes);
    if (text.bytes > 0 && copy == NULL)
        model->inner->nomem = true;
    return copy;
}
