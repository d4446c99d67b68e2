/* Past runs in memory, and lists of them. */
#include "gwi_past_store.h"

#include "gw_array.h"

#include <stdlib.h>

void gwi_past_clear(gwi_past *past)
{
    free(past->cause);
    free(past->end);
    free(past->card);
    free(past->recording);
    free(past->folder);
    free(past->command);
    for (size_t i = 0; i < past->attempt_count; i++) {
        free(past->attempt[i].cause);
        free(past->attempt[i].end);
        free(past->attempt[i].recording);
    }
    free(past->attempt);
    *past = (gwi_past){0};
}

bool gwi_past_list_push(gwi_past_list *list, const gwi_past *past)
{
    if (!gw_array_room(&list->item, list->count, &list->capacity, sizeof *list->item))
        return false;
    list->item[list->count++] = *past;
    return true;
}

bool gwi_past_failed(const gwi_past *past)
{
    return past->status == GW_VERDICT_FAULT || (past->has_exit && (past->signal != 0 || past->exit_code != 0));
}

void gwi_past_free(gwi_past_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        gwi_past_clear(&list->item[i]);
    free(list->item);
    *list = (gwi_past_list){0};
}
