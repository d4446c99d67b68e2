/* Judges a log in which the last training loss is not a finite number. Training can continue with such a loss to
 * its end, without an error in the log. */
#include "gwi_log.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

/* Return the start of the word before "loss" in a line: "Train" in "Train Loss: nan". *ret_bytes is the length of the
 * word; 0: there is none. */
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

/* True if both lines report the same kind of loss, such as "train loss". Kinds must not be mixed: the test loss of
 * an older checkpoint may be finite although the training loss is not. */
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

/* Return the last line with a finite loss of the same kind as `bad`, or NULL. In the line of `bad` itself, the kind
 * does not matter. */
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
    /* If the line also has a finite loss, this is only a hypothesis. One term of the loss may be broken, or
     * undefined for this batch. */
    bool is_mixed = good != NULL && good->order == bad->order;
    gwi_statement *statement = &c->statement[c->count++];
    *statement = (gwi_statement){.find = bad, .depth = GWI_LAST};
    gwi_log_decide(statement, "silent-data-corruption", GW_HYPOTHESIS, "%s", "");
    gwi_log_decide(statement, "numeric-divergence", is_mixed ? GW_HYPOTHESIS : GW_SUPPORTED,
                   "the last loss in the log is not a finite number");
}
