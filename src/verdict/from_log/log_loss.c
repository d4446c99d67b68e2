/* Judges a log whose loss is not a number up to its end. A training may go on with such a loss until its last step, so
 * the log has no failure, and looks like progress. */
#include "gwi_log.h"

/* Return the last find with this sign. Returns NULL if there is none. */
static const gw_log_find *last_of(const gw_log *log, gw_sign sign)
{
    const gw_log_find *found = NULL;
    for (size_t i = 0; i < log->find_count; i++) {
        if (log->find[i].sign == sign)
            found = &log->find[i];
    }
    return found;
}

/* True if another line already explains how the run ended. */
static bool is_explained(const gwi_log_case *c)
{
    if (c->exception != NULL)
        return true;
    for (size_t i = 0; i < c->count; i++) {
        if (!c->statement[i].survived && !c->statement[i].is_open)
            return true;
    }
    return false;
}

void gwi_log_weigh_loss(gwi_log_case *c)
{
    const gw_log_find *bad = last_of(c->log, GW_SAYS_LOSS_NAN), *good = last_of(c->log, GW_SAYS_LOSS_FINITE);
    if (bad == NULL || is_explained(c) || (good != NULL && good->order > bad->order))
        return;
    /* A line with both may have one broken term of the loss, or one that is undefined for this batch. */
    bool is_mixed = good != NULL && good->order == bad->order;
    gwi_statement *statement = &c->statement[c->count++];
    *statement = (gwi_statement){.find = bad, .depth = GWI_LAST};
    gwi_log_decide(statement, "silent-data-corruption", GW_HYPOTHESIS, "%s", "");
    gwi_log_decide(statement, "numeric-divergence", is_mixed ? GW_HYPOTHESIS : GW_SUPPORTED,
                   "the last loss in the log is not a finite number");
}
