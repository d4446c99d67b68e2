/* Puts a cause first in a statement's list of possible causes, and stores the observation in the log that decided
 * this. */
#include "gwi_log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void gwi_log_decide(gwi_statement *statement, const char *cause, gw_certainty certainty, const char *why, ...)
{
    const gw_cause *row = gwi_cause_of(cause);
    va_list args;
    if (row == NULL)
        return;
    size_t at = 0;
    while (at < statement->cause_count && strcmp(statement->cause[at], cause) != 0)
        at++;
    if (at == statement->cause_count) {
        if (statement->cause_count < GWI_LOG_CAUSES_MAX)
            statement->cause_count++;
        else
            at--;
    }
    memmove(statement->cause + 1, statement->cause, at * sizeof statement->cause[0]);
    statement->cause[0] = row->id;
    statement->certainty = certainty;
    va_start(args, why);
    vsnprintf(statement->why, sizeof statement->why, why, args);
    va_end(args);
}
