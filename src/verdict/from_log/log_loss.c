/* Judges a log in which the last training loss is not a finite number. A training may continue with such a loss until
 * its last step, so the log reports no failure, and its lines look like progress. */
#include "gwi_log.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

/* Return the letters of the word before "loss" in a line: "Train" in "Train Loss: nan". *ret_bytes is 0 if there is no
 * such word. */
static const char *word_before_loss(const char *line, size_t *ret_bytes)
{
    const char *loss = strcasestr(line, "loss"), *end = loss;
    while (end != NULL && end > line && strchr(" _-/", end[-1]) != NULL)
        end--;
    const char *begin = end;
    while (begin != NULL && begin > line && isalpha((unsigned char)begin[-1]))
        begin--;
    *ret_bytes = begin != NULL ? (size_t)(end - begin) : 0;
    return begin;
}

/* True if both lines report the same kind of loss, such as "train loss". Other kinds do not count: the test loss of an
 * older checkpoint may be finite although the training loss is not. */
static bool is_same_loss(const char *a, const char *b)
{
    size_t bytes, other;
    const char *word = word_before_loss(a, &bytes), *second = word_before_loss(b, &other);
    return bytes == other && (bytes == 0 || strncasecmp(word, second, bytes) == 0);
}

static const gw_log_find *last_bad(const gw_log *log)
{
    const gw_log_find *found = NULL;
    for (size_t i = 0; i < log->find_count; i++) {
        if (log->find[i].sign == GW_SAYS_LOSS_NAN)
            found = &log->find[i];
    }
    return found;
}

/* Return the last line that gives a finite number for the same kind of loss as `bad`, or for any loss if it is the same
 * line. Returns NULL if there is none. */
static const gw_log_find *last_good(const gw_log *log, const gw_log_find *bad)
{
    const gw_log_find *found = NULL;
    for (size_t i = 0; i < log->find_count; i++) {
        const gw_log_find *find = &log->find[i];
        if (find->sign == GW_SAYS_LOSS_FINITE && (find->order == bad->order || is_same_loss(find->text, bad->text)))
            found = find;
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
    const gw_log_find *bad = last_bad(c->log);
    if (bad == NULL || is_explained(c))
        return;
    const gw_log_find *good = last_good(c->log, bad);
    if (good != NULL && good->order > bad->order)
        return;
    /* If one line has both a finite loss and this one, perhaps only one term of the loss is broken, or a term is
     * undefined for this batch. */
    bool is_mixed = good != NULL && good->order == bad->order;
    gwi_statement *statement = &c->statement[c->count++];
    *statement = (gwi_statement){.find = bad, .depth = GWI_LAST};
    gwi_log_decide(statement, "silent-data-corruption", GW_HYPOTHESIS, "%s", "");
    gwi_log_decide(statement, "numeric-divergence", is_mixed ? GW_HYPOTHESIS : GW_SUPPORTED,
                   "the last loss in the log is not a finite number");
}
