/* Collect the results of the checks. */
#include "gwi_doctor.h"

#include "gw_array.h"
#include "gw_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const state_texts[] = {
#define GW_X(name, word) word,
    GW_CHECK_STATES(GW_X)
#undef GW_X
};

const char *gw_check_state_text(gw_check_state state)
{
    return state_texts[state];
}

void gwi_check(gw_checkup *checkup, const char *section, const char *id, gw_check_state state, const char *todo,
               const char *format, ...)
{
    gw_check check = {.section = section, .id = id, .state = state};
    va_list args;
    va_start(args, format);
    int bytes = vasprintf(&check.text, format, args);
    va_end(args);
    if (bytes < 0) {
        checkup->failed = true;
        return;
    }
    if (todo != NULL && todo[0] != '\0' && !gw_str_copy(todo, &check.todo))
        checkup->failed = true;
    if (!gw_array_room(&checkup->item, checkup->count, &checkup->capacity, sizeof *checkup->item)) {
        checkup->failed = true;
        free(check.text);
        free(check.todo);
        return;
    }
    checkup->item[checkup->count++] = check;
    checkup->counts[state]++;
}

void gw_checkup_free(gw_checkup *checkup)
{
    for (size_t i = 0; i < checkup->count; i++) {
        free(checkup->item[i].text);
        free(checkup->item[i].todo);
    }
    free(checkup->item);
    *checkup = (gw_checkup){0};
}
