/* From a pattern to the literals of which every line that matches must hold one.
 *
 * A small reading of the pattern: a sequence needs all its parts, so its best part is enough; alternatives need one
 * literal each. What is optional, a class or a repetition gives nothing. Where this reading is in doubt it gives
 * nothing, and the caller learns that the pattern has no literal: logs_test does not let that pass. */
#include "gwi_logs.h"

#include <string.h>

typedef struct reader {
    const char *at;
} reader;

static void read_choice(reader *in, gwi_literals *ret);

enum { BYTES_MIN = 3 };

/* Words that logs are full of: they tell little, however long they are. */
static bool is_common(const char *text)
{
    static const char *const words[] = {"error",   "Error",   "failed", "failure", "loss", "scale",
                                        "version", "file",    "line",   "memory",  "exit", "name",
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
    size_t bytes = set->count == 0 ? 0 : SIZE_MAX;
    for (size_t i = 0; i < set->count; i++) {
        size_t length = is_common(set->text[i]) ? BYTES_MIN : strlen(set->text[i]);
        bytes = length < bytes ? length : bytes;
    }
    return bytes;
}

/* The rarer the better: long literals, and few. */
static bool is_better(const gwi_literals *a, const gwi_literals *b)
{
    size_t first = shortest(a), second = shortest(b);
    return first != second ? first > second : first > 0 && a->count < b->count;
}

/* Behind a part: 0 where it must come, else it may be left out. Steps over the quantifier. */
static bool take_quantifier(reader *in, bool *ret_repeats)
{
    bool optional = false;
    *ret_repeats = false;
    if (*in->at == '?' || *in->at == '*' || *in->at == '+') {
        optional = *in->at != '+';
        *ret_repeats = *in->at != '?';
        in->at++;
    } else if (*in->at == '{') {
        optional = in->at[1] == '0';
        *ret_repeats = true;
        in->at += strcspn(in->at, "}");
        in->at += *in->at == '}';
    } else {
        return false;
    }
    if (*in->at == '?' || *in->at == '+') /* lazy, possessive */
        in->at++;
    return optional;
}

static void skip_class(reader *in)
{
    in->at++; /* [ */
    in->at += *in->at == '^';
    in->at += *in->at == ']';
    while (*in->at != '\0' && *in->at != ']')
        in->at += in->at[0] == '\\' && in->at[1] != '\0' ? 2 : 1;
    in->at += *in->at == ']';
}

/* Past "(" and what kind of group it is. False: one that looks around, whose text need not be in a match. */
static bool open_group(reader *in)
{
    in->at++; /* ( */
    if (in->at[0] == '?' &&
        (in->at[1] == '!' || in->at[1] == '=' || (in->at[1] == '<' && (in->at[2] == '!' || in->at[2] == '=')))) {
        in->at += in->at[1] == '<' ? 3 : 2;
        return false;
    }
    if (in->at[0] == '?' && in->at[1] == '<') {
        in->at += strcspn(in->at, ">");
        in->at += *in->at == '>';
    } else if (in->at[0] == '?' && in->at[1] == ':') {
        in->at += 2;
    }
    return true;
}

/* One character that stands for itself. False: something else is there; it was stepped over. */
static bool take_literal(reader *in, char *ret_byte, bool *ret_nothing)
{
    *ret_nothing = false;
    if (*in->at == '\\' && in->at[1] != '\0') {
        *ret_byte = in->at[1];
        in->at += 2;
        *ret_nothing = *ret_byte == 'b';
        return strchr("dwsSWDBnrtx", *ret_byte) == NULL && !*ret_nothing;
    }
    if (*in->at == '[') {
        skip_class(in);
        return false;
    }
    *ret_byte = *in->at++;
    *ret_nothing = *ret_byte == '^' || *ret_byte == '$';
    return *ret_byte != '.' && !*ret_nothing;
}

static void end_run(char *run, size_t *count, gwi_literals *best)
{
    gwi_literals one = {.count = 1};
    run[*count] = '\0';
    memcpy(one.text[0], run, *count + 1);
    if (*count > 0 && is_better(&one, best))
        *best = one;
    *count = 0;
}

/* Parts one after the other, up to | or ) or the end. */
static void read_sequence(reader *in, gwi_literals *best)
{
    char run[GWI_LITERAL_MAX + 1];
    size_t count = 0;
    *best = (gwi_literals){0};
    while (*in->at != '\0' && *in->at != '|' && *in->at != ')') {
        bool repeats, nothing;
        char byte = '\0';
        if (*in->at == '(') {
            gwi_literals inner;
            end_run(run, &count, best);
            bool needed = open_group(in);
            read_choice(in, &inner);
            in->at += *in->at == ')';
            if (!take_quantifier(in, &repeats) && needed && is_better(&inner, best))
                *best = inner;
            continue;
        }
        bool literal = take_literal(in, &byte, &nothing);
        if (nothing)
            continue;
        bool optional = take_quantifier(in, &repeats);
        if (!literal || optional || count == GWI_LITERAL_MAX)
            end_run(run, &count, best);
        if (literal && !optional)
            run[count++] = byte;
        if (repeats)
            end_run(run, &count, best);
    }
    end_run(run, &count, best);
}

static void read_choice(reader *in, gwi_literals *ret)
{
    bool open = false; /* an alternative without a literal: any line will do */
    *ret = (gwi_literals){0};
    for (;;) {
        gwi_literals one;
        read_sequence(in, &one);
        open = open || one.count == 0 || ret->count + one.count > GWI_LITERALS_MAX;
        for (size_t i = 0; i < one.count && !open; i++)
            memcpy(ret->text[ret->count++], one.text[i], sizeof one.text[i]);
        if (*in->at != '|')
            break;
        in->at++;
    }
    if (open)
        *ret = (gwi_literals){0};
}

void gwi_literals_find(const char *pattern, gwi_literals *ret)
{
    reader in = {pattern};
    read_choice(&in, ret);
    if (*in.at != '\0' || shortest(ret) < BYTES_MIN)
        *ret = (gwi_literals){0};
}
