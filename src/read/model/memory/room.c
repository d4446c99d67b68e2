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

char *gwi_copy_bytes(gw_model *model, const char *text, size_t bytes)
{
    gwi_texts *texts = &model->inner->texts;
    if (bytes == 0 || !gwi_room(model, &texts->item, texts->count, &texts->capacity, sizeof(char *)))
        return NULL;
    char *copy = strndup(text, bytes);
    if (copy == NULL)
        model->inner->nomem = true;
    else
        texts->item[texts->count++] = copy;
    return copy;
}

char *gwi_copy_text(gw_model *model, const char *text)
{
    return text == NULL ? NULL : gwi_copy_bytes(model, text, strlen(text) + 1);
}

char *gwi_copy_fact_text(gw_model *model, gw_fact_text text)
{
    return gwi_copy_bytes(model, text.data, text.bytes);
}
