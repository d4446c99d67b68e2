/* Find literals for a pattern: every matching line contains at least one of them.
 *
 * Each part of a pattern is described by sets of strings. If a part matches only a few strings, one set has them all.
 * Otherwise, one set has all beginnings of a match, and another has all ends. The sets of adjacent parts are joined, so
 * that
 *
 *  (?<free>[\d.]+ ?[KMGT]?i?B) (?:is )?free    yields   "B free", "B is free"
 *
 * The result is the rarest set found (see keep_better()). Each alternative adds its own literals. An unsupported part
 * may match anything. logs_test fails if a pattern has no literal. */
#include "gwi_logs.h"

#include <string.h>

typedef struct reader {
    const char *at;
} reader;

/* A part of a pattern. An empty set means that the strings are unknown. In `whole`, the string "" means that the part
 * may be empty. In `first` and `last`, it stands for any text. */
typedef struct part {
    gwi_literals whole;       /* all strings that the part matches */
    gwi_literals first, last; /* a match begins with one of `first` and ends with one of `last` */
    gwi_literals best;        /* the rarest set found so far; a match contains one of its strings */
} part;

static void read_choice(reader *in, part *ret);

enum { BYTES_MIN = 3, BYTES_RARE = 10, JOINED_MAX = 40 };

/* ---- sets ---- */

static void copy(gwi_literals *to, const gwi_literals *from)
{
    to->count = from->count;
    memcpy(to->text, from->text, from->count * sizeof from->text[0]);
}

static void set_one(gwi_literals *set, const char *text)
{
    set->count = 1;
    strcpy(set->text[0], text);
}

/* Add a string, unless the set already has it. The caller must ensure that the set has room. */
static void add(gwi_literals *set, const char *text)
{
    for (size_t i = 0; i < set->count; i++) {
        if (strcmp(set->text[i], text) == 0)
            return;
    }
    strcpy(set->text[set->count++], text);
}

static bool add_all(gwi_literals *to, const gwi_literals *from)
{
    if (to->count + from->count > GWI_LITERALS_MAX)
        return false;
    for (size_t i = 0; i < from->count; i++)
        add(to, from->text[i]);
    return true;
}

static size_t longest(const gwi_literals *set)
{
    size_t bytes = 0;
    for (size_t i = 0; i < set->count; i++)
        bytes = strlen(set->text[i]) > bytes ? strlen(set->text[i]) : bytes;
    return bytes;
}

/* Append each string of `next` to each string of `set`. Returns false, with `set` unchanged, if the result would have
 * too many or too long strings. */
static bool join(gwi_literals *set, const gwi_literals *next)
{
    gwi_literals joined;
    if (next->count == 0 || set->count * next->count > JOINED_MAX || longest(set) + longest(next) > GWI_LITERAL_MAX)
        return false;
    joined.count = 0;
    for (size_t i = 0; i < set->count; i++) {
        for (size_t k = 0; k < next->count; k++) {
            char text[GWI_LITERAL_MAX + 1];
            strcat(strcpy(text, set->text[i]), next->text[k]);
            add(&joined, text);
        }
    }
    copy(set, &joined);
    return true;
}

/* True if the text is a common word in logs. Such a word is a poor literal even if it is long, because many
 * lines contain it. */
static bool is_common(const char *text)
{
    static const char *const words[] = {"error",   "Error",   "failed", "failure", "loss", "scale", "imeout",
                                        "version", "file",    "line",   "memory",  "exit", "name",  "loss scale",
                                        "node",    "process", "iter",   "step",    "GPU"};
    while (*text == ' ')
        text++;
    size_t bytes = strlen(text);
    while (bytes > 0 && text[bytes - 1] == ' ')
        bytes--;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strlen(words[i]) == bytes && memcmp(words[i], text, bytes) == 0)
            return true;
    }
    return false;
}

static size_t shortest(const gwi_literals *set)
{
    size_t bytes = set->count == 0 ? 0 : BYTES_RARE;
    for (size_t i = 0; i < set->count; i++) {
        size_t length = strlen(set->text[i]);
        length = length > BYTES_MIN && is_common(set->text[i]) ? BYTES_MIN : length;
        bytes = length < bytes ? length : bytes;
    }
    return bytes;
}

/* Copy `set` to `best` if `set` is rarer: its shortest string is longer, or equally long and the set has fewer
 * strings. */
static void keep_better(gwi_literals *best, const gwi_literals *set)
{
    size_t had = shortest(best), has = shortest(set);
    if (has > had || (has > 0 && has == had && set->count < best->count))
        copy(best, set);
}

/* ---- parts ---- */

static void set_whole(part *it, const char *text)
{
    set_one(&it->whole, text);
    set_one(&it->first, text);
    set_one(&it->last, text);
    it->best.count = 0;
}

static void set_anything(part *it)
{
    set_whole(it, "");
    it->whole.count = 0;
}

/* How often a part may occur: exactly once, at most once, at least once, or any number of times. */
typedef enum times { ONCE, MAYBE, SOME, ANY } times;

static times take_quantifier(reader *in)
{
    times found;
    if (*in->at == '?' || *in->at == '*' || *in->at == '+') {
        found = SOME;
        if (*in->at == '?')
            found = MAYBE;
        else if (*in->at == '*')
            found = ANY;
        in->at++;
    } else if (*in->at == '{') {
        found = in->at[1] == '0' ? ANY : SOME;
        in->at += strcspn(in->at, "}");
        in->at += *in->at == '}';
    } else {
        return ONCE;
    }
    if (*in->at == '?' || *in->at == '+') /* skip the mark of a lazy or possessive quantifier */
        in->at++;
    return found;
}

static void repeat(part *it, times often)
{
    if (often == ONCE)
        return;
    if (often == SOME) {
        keep_better(&it->best, &it->whole);
        it->whole.count = 0;
    } else if (often == MAYBE && it->whole.count > 0 && it->whole.count < GWI_LITERALS_MAX) {
        add(&it->whole, "");
        copy(&it->first, &it->whole);
        copy(&it->last, &it->whole);
        it->best.count = 0;
    } else {
        set_anything(it);
    }
}

/* Read a character class. A class of a few plain characters, such as [Tt], matches these. Any other class may match
 * anything. */
static void read_class(reader *in, part *ret)
{
    enum { FEW = 4 };
    bool few = true;
    in->at++; /* skip [ */
    few = *in->at != '^';
    in->at += *in->at == '^';
    ret->whole.count = 0;
    for (bool begun = false; *in->at != '\0' && (*in->at != ']' || !begun); begun = true) {
        bool escaped = in->at[0] == '\\' && in->at[1] != '\0';
        char text[2] = {in->at[escaped], '\0'};
        in->at += escaped ? 2 : 1;
        bool range = in->at[0] == '-' && in->at[1] != ']' && in->at[1] != '\0';
        few = few && !range && !(escaped && strchr("dwsSWDBbnrtx", text[0]) != NULL) && ret->whole.count < FEW;
        if (few)
            add(&ret->whole, text);
    }
    in->at += *in->at == ']';
    if (!few) {
        set_anything(ret);
        return;
    }
    copy(&ret->first, &ret->whole);
    copy(&ret->last, &ret->whole);
    ret->best.count = 0;
}

typedef enum group { GROUP_PLAIN, GROUP_LOOKAROUND, GROUP_WITH_OPTIONS } group;

/* Skip "(" and the characters that define the kind of the group. */
static group open_group(reader *in)
{
    in->at++; /* skip ( */
    if (in->at[0] == '?' &&
        (in->at[1] == '!' || in->at[1] == '=' || (in->at[1] == '<' && (in->at[2] == '!' || in->at[2] == '=')))) {
        in->at += in->at[1] == '<' ? 3 : 2;
        return GROUP_LOOKAROUND;
    }
    if (in->at[0] == '?' && in->at[1] == '<') {
        in->at += strcspn(in->at, ">");
        in->at += *in->at == '>';
    } else if (in->at[0] == '?' && in->at[1] == ':') {
        in->at += 2;
    } else if (in->at[0] == '?') {
        in->at += strcspn(in->at, ":)");
        in->at += *in->at == ':';
        return GROUP_WITH_OPTIONS;
    }
    return GROUP_PLAIN;
}

static void read_group(reader *in, part *ret)
{
    group kind = open_group(in);
    read_choice(in, ret);
    in->at += *in->at == ')';
    if (kind == GROUP_LOOKAROUND) /* the match need not contain its text */
        set_whole(ret, "");
    else if (kind == GROUP_WITH_OPTIONS) /* with (?i:...), letters match in either case */
        set_anything(ret);
}

static void read_escape(reader *in, part *ret)
{
    char text[2] = {in->at[1], '\0'};
    in->at += 2;
    if (text[0] == 'b')
        set_whole(ret, "");
    else if (strchr("dwsSWDBnrtx", text[0]) != NULL)
        set_anything(ret);
    else
        set_whole(ret, text);
}

static void read_atom(reader *in, part *ret)
{
    char text[2] = {*in->at, '\0'};
    if (*in->at == '(') {
        read_group(in, ret);
    } else if (*in->at == '[') {
        read_class(in, ret);
    } else if (*in->at == '\\' && in->at[1] != '\0') {
        read_escape(in, ret);
    } else {
        in->at++;
        if (text[0] == '.')
            set_anything(ret);
        else
            set_whole(ret, text[0] == '^' || text[0] == '$' ? "" : text);
    }
}

/* Copy the first (`at_front`) or the last `bytes` bytes of each string. */
static void cut(const gwi_literals *set, size_t bytes, bool at_front, gwi_literals *ret)
{
    ret->count = 0;
    for (size_t i = 0; i < set->count; i++) {
        char text[GWI_LITERAL_MAX + 1];
        size_t length = strlen(set->text[i]);
        bool is_longer = length > bytes;
        strcpy(text, set->text[i] + (is_longer && !at_front ? length - bytes : 0));
        text[is_longer && at_front ? bytes : length] = '\0';
        add(ret, text);
    }
}

static const size_t cut_bytes[] = {8, 4, 2, 1};
enum { CUT_COUNT = sizeof cut_bytes / sizeof cut_bytes[0] };

/* Called if `set` joined with `next` is too large. Update `best` to the rarest of three sets: `best`, `set`, and `set`
 * joined with only the beginnings of the strings in `next`. */
static void keep_beginning(gwi_literals *best, const gwi_literals *set, const gwi_literals *next)
{
    keep_better(best, set);
    for (size_t i = 0; i < CUT_COUNT; i++) {
        gwi_literals joined, begins;
        copy(&joined, set);
        cut(next, cut_bytes[i], true, &begins);
        if (join(&joined, &begins)) {
            keep_better(best, &joined);
            return;
        }
    }
}

/* Join the ends of the strings in `set` with `next`. Returns false if the result is too large. */
static bool join_end(gwi_literals *set, const gwi_literals *next)
{
    for (size_t i = 0; i < CUT_COUNT; i++) {
        gwi_literals ends;
        cut(set, cut_bytes[i], false, &ends);
        if (join(&ends, next)) {
            copy(set, &ends);
            return true;
        }
    }
    return false;
}

/* Extend the part `it` by the part `next`, which follows it in the pattern. */
static void append(part *it, const part *next)
{
    bool is_known = next->whole.count > 0;
    const gwi_literals *after = is_known ? &next->whole : &next->first;
    gwi_literals before;
    copy(&before, &it->last);
    keep_better(&it->best, &next->best);
    bool all = join(&it->last, after);
    if (it->whole.count > 0) {
        copy(&it->first, all ? &it->last : &before);
        copy(&it->whole, &it->last);
        it->whole.count = all && is_known ? it->whole.count : 0;
    }
    if (!all) {
        keep_beginning(&it->best, &before, after);
        all = join_end(&it->last, after);
    }
    if (!is_known)
        keep_better(&it->best, &it->last);
    if (!is_known || !all)
        copy(&it->last, is_known ? &next->whole : &next->last);
}

/* Read a sequence of parts, up to |, ) or the end. */
static void read_sequence(reader *in, part *ret)
{
    set_whole(ret, "");
    while (*in->at != '\0' && *in->at != '|' && *in->at != ')') {
        part next;
        read_atom(in, &next);
        repeat(&next, take_quantifier(in));
        append(ret, &next);
    }
    keep_better(&ret->best, &ret->last);
    if (ret->whole.count > 0)
        copy(&ret->first, &ret->whole);
}

/* Add the strings of `from` to `to`. If either set is unknown, or the result is too large, `to` becomes unknown: {""}
 * with `empty_if_unknown`, otherwise the empty set. */
static void unite(gwi_literals *to, const gwi_literals *from, bool empty_if_unknown)
{
    bool known = to->count > 0 && from->count > 0 && add_all(to, from);
    if (!known && empty_if_unknown)
        set_one(to, "");
    else if (!known)
        to->count = 0;
}

static void read_choice(reader *in, part *ret)
{
    read_sequence(in, ret);
    while (*in->at == '|') {
        part other;
        in->at++;
        read_sequence(in, &other);
        unite(&ret->whole, &other.whole, false);
        unite(&ret->first, &other.first, true);
        unite(&ret->last, &other.last, true);
        unite(&ret->best, &other.best, false);
    }
}

/* Copy the literals, except those that contain another literal, because a search for "B free" also finds "GiB free". */
static void drop_longer(const gwi_literals *all, gwi_literals *ret)
{
    ret->count = 0;
    for (size_t i = 0; i < all->count; i++) {
        bool is_needed = true;
        for (size_t k = 0; k < all->count && is_needed; k++)
            is_needed = k == i || strstr(all->text[i], all->text[k]) == NULL;
        if (is_needed)
            strcpy(ret->text[ret->count++], all->text[i]);
    }
}

void gwi_literals_find(const char *pattern, gwi_literals *ret)
{
    reader in = {pattern};
    part all;
    read_choice(&in, &all);
    ret->count = 0;
    if (*in.at == '\0' && shortest(&all.best) >= BYTES_MIN)
        drop_longer(&all.best, ret);
}
