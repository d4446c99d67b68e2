/* Compares several attempts of one command. Finds the traits that split the attempts: they distinguish all failed
 * attempts from all good ones.
 *
 * A trait may split the attempts by chance. Suppose that k of n attempts failed. Sorted by a trait's value, they can
 * have C(n, k) sets of positions, all equally likely. In 2 of these sets, they are all first or all last. `chance` is
 * an upper bound on the probability that this happens to at least one of all traits. */
#include "gwi_compare.h"

#include "gw_array.h"
#include "gw_text.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One trait and its values in all attempts. */
typedef struct row {
    gw_area area;
    char *name; /* owned */
    bool lack_matters, is_number;
    const char *unit;
    double tolerance;
    size_t count[2]; /* number of failed and of good attempts that have the trait */
    char *text[2];   /* owned; the text, if all these attempts have the same one, otherwise NULL */
    bool several[2];
    double low[2], high[2];
} row;

struct gw_attempts {
    row *item; /* owned */
    size_t count, capacity;
    size_t total[2]; /* number of failed and of good attempts */
};

enum { FAILED = 0, GOOD = 1 };

gw_attempts *gw_attempts_new(void)
{
    return calloc(1, sizeof(gw_attempts));
}

void gw_attempts_free(gw_attempts *attempts)
{
    for (size_t i = 0; attempts != NULL && i < attempts->count; i++) {
        free(attempts->item[i].name);
        free(attempts->item[i].text[FAILED]);
        free(attempts->item[i].text[GOOD]);
    }
    if (attempts != NULL)
        free(attempts->item);
    free(attempts);
}

/* True if the trait can be a cause. How an attempt ended and how far it ran cannot: they are effects of the fault. */
static bool can_explain(const gw_trait *trait)
{
    return trait->matters && trait->area != GW_AREA_END && trait->area != GW_AREA_WORK;
}

static row *find_or_add(gw_attempts *attempts, const gw_trait *trait)
{
    for (size_t i = 0; i < attempts->count; i++)
        if (attempts->item[i].area == trait->area && strcmp(attempts->item[i].name, trait->name) == 0)
            return &attempts->item[i];
    if (!gw_array_room(&attempts->item, attempts->count, &attempts->capacity, sizeof *attempts->item))
        return NULL;
    row *added = &attempts->item[attempts->count];
    *added = (row){.area = trait->area,
                   .name = strdup(trait->name),
                   .lack_matters = trait->lack_matters,
                   .is_number = trait->has_value,
                   .unit = trait->unit,
                   .tolerance = trait->tolerance,
                   .low = {DBL_MAX, DBL_MAX},
                   .high = {-DBL_MAX, -DBL_MAX}};
    if (added->name == NULL)
        return NULL;
    attempts->count++;
    return added;
}

static bool take(row *at, const gw_trait *trait, int which)
{
    at->count[which]++;
    at->is_number = at->is_number && trait->has_value;
    if (trait->has_value) {
        at->low[which] = trait->value < at->low[which] ? trait->value : at->low[which];
        at->high[which] = trait->value > at->high[which] ? trait->value : at->high[which];
    }
    if (at->text[which] == NULL && !at->several[which])
        return (at->text[which] = strdup(trait->text)) != NULL;
    if (at->text[which] != NULL && strcmp(at->text[which], trait->text) != 0) {
        at->several[which] = true;
        free(at->text[which]);
        at->text[which] = NULL;
    }
    return true;
}

bool gw_attempts_add(gw_attempts *attempts, gw_portrait *portrait, bool good)
{
    size_t count;
    const gw_trait *trait = gw_portrait_traits(portrait, &count);
    attempts->total[good ? GOOD : FAILED]++;
    for (size_t i = 0; trait != NULL && i < count; i++) {
        if (!can_explain(&trait[i]))
            continue;
        row *at = find_or_add(attempts, &trait[i]);
        if (at == NULL || !take(at, &trait[i], good ? GOOD : FAILED))
            return false;
    }
    return trait != NULL;
}

/* ---- splitting ---- */

typedef struct answer {
    bool splits;
    char bad[300], good[300]; /* `good` is "" if the value is unknown */
} answer;

static void number_text(char out[300], const char *lead, double value, const char *unit)
{
    char bytes[GW_BYTES_TEXT_MAX];
    if (strcmp(unit, "bytes") == 0)
        snprintf(out, 300, "%s%s", lead, gw_bytes_text(bytes, (uint64_t)value));
    else
        snprintf(out, 300, "%s%.0f", lead, value);
}

/* A number splits the attempts if it is greater, or smaller, in all failed ones than in all good ones. The gap must
 * exceed the tolerance. For memory, only a greater number can be a cause: a failed attempt ends early and so allocates
 * less. */
static answer split_numbers(const row *at)
{
    answer found = {0};
    if (at->high[FAILED] < at->low[GOOD] * (1 - at->tolerance) && at->area != GW_AREA_MEMORY) {
        found.splits = true;
        number_text(found.bad, "at most ", at->high[FAILED], at->unit);
        number_text(found.good, "at least ", at->low[GOOD], at->unit);
    } else if (at->low[FAILED] * (1 - at->tolerance) > at->high[GOOD]) {
        found.splits = true;
        number_text(found.bad, "at least ", at->low[FAILED], at->unit);
        number_text(found.good, "at most ", at->high[GOOD], at->unit);
    }
    return found;
}

static answer split_texts(const row *at)
{
    answer found = {.splits = at->text[FAILED] != NULL && at->text[GOOD] != NULL &&
                              strcmp(at->text[FAILED], at->text[GOOD]) != 0};
    if (found.splits) {
        snprintf(found.bad, sizeof found.bad, "%.290s", at->text[FAILED]);
        snprintf(found.good, sizeof found.good, "%.290s", at->text[GOOD]);
    }
    return found;
}

/* Describe a trait that all failed attempts have and no good attempt has (`has` is FAILED), or the reverse (`has` is
 * GOOD). */
static answer split_lack(const row *at, int has)
{
    answer found = {.splits = at->lack_matters || has == FAILED};
    char *value = has == FAILED ? found.bad : found.good, *none = has == FAILED ? found.good : found.bad;
    if (at->text[has] != NULL)
        snprintf(value, 300, "%.290s", at->text[has]);
    else if (at->is_number)
        number_text(value, "at least ", at->low[has], at->unit);
    else
        snprintf(value, 300, "several values");
    snprintf(none, 300, "%s", at->lack_matters ? "absent" : "");
    return found;
}

static answer split(const gw_attempts *attempts, const row *at)
{
    bool all[2] = {at->count[FAILED] == attempts->total[FAILED], at->count[GOOD] == attempts->total[GOOD]};
    if (all[FAILED] && all[GOOD])
        return at->is_number ? split_numbers(at) : split_texts(at);
    /* A run lists only the memory places and libraries that it reached. If only failed attempts list a place, this does
     * not explain their failure. */
    bool is_place = at->area == GW_AREA_MEMORY || at->area == GW_AREA_LIBRARY;
    if (all[FAILED] && at->count[GOOD] == 0 && !is_place)
        return split_lack(at, FAILED);
    if (all[GOOD] && at->count[FAILED] == 0 && at->lack_matters)
        return split_lack(at, GOOD);
    return (answer){0};
}

static double chance_of(size_t good, size_t bad, size_t looked)
{
    double ways = 1;
    for (size_t i = 1; i <= bad; i++)
        ways *= (double)(good + i) / (double)i;
    double chance = 2 * (double)looked / ways;
    return chance > 1 ? 1 : chance;
}

static bool add(gw_splits *splits, const row *at, const answer *found)
{
    if (!gw_array_more(&splits->item, splits->count, sizeof *splits->item))
        return false;
    gw_split *added = &splits->item[splits->count++];
    *added = (gw_split){.area = at->area, .name = strdup(at->name), .bad = strdup(found->bad)};
    added->good = found->good[0] == '\0' ? NULL : strdup(found->good);
    return added->name != NULL && added->bad != NULL && (found->good[0] == '\0' || added->good != NULL);
}

gw_status gw_attempts_split(const gw_attempts *attempts, gw_splits *ret_splits, gw_error *err)
{
    gw_splits splits = {.good_count = attempts->total[GOOD], .bad_count = attempts->total[FAILED], .chance = 1};
    bool whole = true;
    for (size_t i = 0; splits.good_count > 0 && splits.bad_count > 0 && i < attempts->count && whole; i++) {
        const row *at = &attempts->item[i];
        /* A trait that is the same in all attempts cannot split them, so it does not increase `chance`. */
        bool varies = at->several[FAILED] || at->several[GOOD] || !gw_str_same(at->text[FAILED], at->text[GOOD]);
        splits.looked += varies;
        answer found = varies ? split(attempts, at) : (answer){0};
        whole = !found.splits || add(&splits, at, &found);
    }
    splits.chance = chance_of(splits.good_count, splits.bad_count, splits.looked);
    if (!whole) {
        gw_splits_free(&splits);
        return gw_fail(err, GW_NOMEM, "compare attempts");
    }
    *ret_splits = splits;
    return GW_OK;
}

void gw_splits_free(gw_splits *splits)
{
    for (size_t i = 0; i < splits->count; i++) {
        free(splits->item[i].name);
        free(splits->item[i].bad);
        free(splits->item[i].good);
    }
    free(splits->item);
    *splits = (gw_splits){0};
}
