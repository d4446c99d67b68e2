/* Reads the counters in a line about progress: "Epoch 3/90 step 20: loss 0.5". */
#include "gwi_logs.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static uint64_t add_to_shape(uint64_t shape, const char *text, size_t bytes)
{
    enum { PRIME = 1099511628211 % UINT32_MAX };
    for (size_t i = 0; i < bytes; i++)
        shape = (shape ^ (unsigned char)tolower((unsigned char)text[i])) * PRIME;
    return shape;
}

static bool is_counter_name(const char *word, size_t bytes)
{
    static const char *const names[] = {
        "epoch", "epochs",    "step",        "steps",   "iter",        "iters", "it",     "updates", "batch", "update",
        "round", "iteration", "global_step", "episode", "num_updates", "trial", "trials", "fold",    "folds"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strlen(names[i]) == bytes && strncasecmp(names[i], word, bytes) == 0)
            return true;
    }
    return false;
}

/* Return the length of the counter's name in front of this number, as in "step: [12" or "step=12", and where it begins.
 * Returns 0 if there is no such name. */
static size_t name_before(const char *line, const char *number, const char **ret_begin)
{
    const char *end = number;
    while (end > line && strchr(" \t:=[#('\"|", end[-1]) != NULL)
        end--;
    const char *begin = end;
    while (begin > line && (isalpha((unsigned char)begin[-1]) || begin[-1] == '_'))
        begin--;
    size_t bytes = (size_t)(end - begin);
    *ret_begin = begin;
    return is_counter_name(begin, bytes) ? bytes : 0;
}

/* True if a time of day follows a date: " 10:15:00" after "11/14". */
static bool is_before_time(const char *at)
{
    at += strspn(at, " ");
    size_t digits = strspn(at, "0123456789");
    return (digits == 1 || digits == 2) && at[digits] == ':' && isdigit((unsigned char)at[digits + 1]);
}

/* Read the total after a number: "/90" or "/ 90". Returns a pointer to the text after the total, or NULL if there is no
 * total. */
static const char *total_after(const char *at, uint64_t *ret_total)
{
    char *end;
    while (*at == ' ')
        at++;
    if (*at != '/')
        return NULL;
    at += strspn(at, "/ ");
    if (!isdigit((unsigned char)*at))
        return NULL;
    *ret_total = strtoull(at, &end, 10);
    bool plain = *end == '\0' || strchr(" ]|),:[-", *end) != NULL;
    return plain && !is_before_time(end) ? end : NULL;
}

/* True if the number that starts at `number` is not part of a name, a fraction, a date or a time. */
static bool stands_alone(const char *line, const char *number)
{
    return number == line || strchr(" \t[(:=#|'\"", number[-1]) != NULL;
}

static void add_counter(gwi_counters *c, uint64_t value, const char *name, size_t bytes, uint64_t total)
{
    c->shape = add_to_shape(c->shape, name, bytes);
    c->shape = add_to_shape(c->shape, (const char *)&total, sizeof total);
    c->has_measure = c->has_measure || total != 0;
    if (c->count == GWI_COUNTERS_MAX)
        return;
    c->total[c->count] = total;
    c->is_epoch[c->count] = bytes >= 5 && strncasecmp(name, "epoch", 5) == 0;
    c->value[c->count++] = value;
}

gwi_counters gwi_counters_read(const char *line)
{
    gwi_counters c = {.shape = 1};
    for (const char *at = line; *at != '\0';) {
        char *end;
        if (!isdigit((unsigned char)*at)) {
            at++;
            continue;
        }
        uint64_t value = strtoull(at, &end, 10), total = 0;
        const char *behind = total_after(end, &total);
        const char *name = at;
        size_t name_bytes = name_before(line, at, &name);
        bool whole = *end != '.' || !isdigit((unsigned char)end[1]);
        bool alone = stands_alone(line, at);
        bool is_round = at == line + 1 && line[0] == '[' && end[0] == ']'; /* XGBoost: "[12] train-rmse:0.5" */
        if (alone && whole && (name_bytes > 0 || is_round || (behind != NULL && value <= total))) {
            add_counter(&c, value, name, name_bytes, behind != NULL ? total : 0);
            c.has_name = c.has_name || name_bytes > 0 || is_round;
        } else if (alone && (!whole || *end == 's' || strncmp(end, "ms", 2) == 0))
            c.has_measure = true;
        at = behind != NULL ? behind : end + strspn(end, ".0123456789");
    }
    return c;
}
