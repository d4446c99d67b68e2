/* Looks up causes in the catalogue: their fixes for each framework, and the log lines that point to them. It can be
 * searched for words, too. */
#include "gw_text.h"
#include "gw_verdict.h"
#include "gwi_log.h"

#include "gw_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- log lines that point to a cause ---- */

typedef struct log_row {
    int sign;
    const char *name, *which, *causes;
} log_row;
static const log_row rows[] = {
#define GWI_SAYS(sign, which, depth, certainty, causes) {GW_SAYS_##sign, #sign, which, causes},
#include "log_rules.def"
#undef GWI_SAYS
};
enum { ROW_COUNT = sizeof rows / sizeof rows[0] };

static const struct {
    int sign;
    const char *value, *line;
} examples[] = {
#define GWI_EXAMPLE(sign, field, value, line) {GW_SAYS_##sign, value, line},
#include "examples.def"
#undef GWI_EXAMPLE
};
enum { EXAMPLE_COUNT = sizeof examples / sizeof examples[0] };

static const struct {
    int sign;
    const char *pattern; /* the regular expression of its messages */
} messages[] = {
#define GWI_MESSAGE(name, kind, depth, certainty, causes, pattern) {GW_SAYS_##name, pattern},
#include "messages.def"
#undef GWI_MESSAGE
};
enum { MESSAGE_COUNT = sizeof messages / sizeof messages[0] };

/* How the values of a sign without an example are written in logs. */
static const struct {
    int sign;
    const char *before;
} spoken[] = {{GW_SAYS_CUDA, "CUDA error"},
              {GW_SAYS_XID, "Xid"},
              {GW_SAYS_CUBLAS_NUMBER, "cuBLAS error"},
              {GW_SAYS_CUBLAS_STATUS, "CUBLAS_STATUS, one of"},
              {GW_SAYS_CUDNN_STATUS, "CUDNN_STATUS, one of"},
              {GW_SAYS_NCCL_ERROR, "NCCL error"},
              {GW_SAYS_ELASTIC_EXIT, "torchrun: exit code"},
              {GW_SAYS_GPU_EXCEPTION, "compute-sanitizer or cuda-gdb: exception"},
              {GW_SAYS_WORKER_KILLED, "a worker of the data loader ended by signal"}};

static const char *spoken_of(int sign)
{
    for (size_t i = 0; i < sizeof spoken / sizeof spoken[0]; i++) {
        if (spoken[i].sign == sign)
            return spoken[i].before;
    }
    return NULL;
}

static const char *pattern_of(int sign)
{
    for (size_t i = 0; i < MESSAGE_COUNT; i++) {
        if (messages[i].sign == sign)
            return messages[i].pattern;
    }
    return NULL;
}

/* Return an example of a log line that has the row's sign, or NULL. If the row lists values, the example contains
 * one of them. */
static const char *example_of(const log_row *row)
{
    for (size_t i = 0; i < EXAMPLE_COUNT; i++) {
        if (examples[i].sign != row->sign)
            continue;
        if (row->which[0] == '\0' || gwi_log_is_listed(row->which, examples[i].value))
            return examples[i].line;
    }
    return NULL;
}

size_t gw_cause_lines(const char *id, gw_cause_line *ret_lines, size_t count_max)
{
    size_t count = 0;
    for (int first = 1; first >= 0; first--) {
        for (size_t i = 0; i < ROW_COUNT && count < count_max; i++) {
            size_t bytes = strcspn(rows[i].causes, " ");
            bool is_first = strlen(id) == bytes && strncmp(rows[i].causes, id, bytes) == 0;
            if (is_first != (first == 1) || (!is_first && !gwi_log_is_listed(rows[i].causes, id)))
                continue;
            ret_lines[count++] = (gw_cause_line){.sign = spoken_of(rows[i].sign),
                                                 .which = rows[i].which[0] == '\0' ? NULL : rows[i].which,
                                                 .example = example_of(&rows[i]),
                                                 .pattern = pattern_of(rows[i].sign),
                                                 .is_first = is_first,
                                                 .is_only = rows[i].causes[bytes] == '\0'};
        }
    }
    return count;
}

/* ---- search ---- */

static bool has(const char *text, const char *word)
{
    return text != NULL && strcasestr(text, word) != NULL;
}

/* True if one of the listed CUDA errors has the word in its runtime name, its driver name or its meaning. */
static bool names_have(const char *codes, const char *word)
{
    for (const char *at = codes; *at != '\0';) {
        const gw_cuda_error *error = gw_data_cuda_error((unsigned)strtoul(at, NULL, 10));
        if (error != NULL &&
            (has(error->driver_name, word) || has(error->runtime_name, word) || has(error->meaning, word)))
            return true;
        at += strcspn(at, " ");
        at += *at == ' ';
    }
    return false;
}

static bool examples_have(const log_row *row, const char *word)
{
    for (size_t i = 0; i < EXAMPLE_COUNT; i++) {
        bool same = examples[i].sign == row->sign &&
                    (row->which[0] == '\0' || gwi_log_is_listed(row->which, examples[i].value));
        if (same && has(examples[i].line, word))
            return true;
    }
    return false;
}

/* Return the weight of a word in log lines of the cause; 0: it is in none. The weight is higher where this cause is
 * the most likely one. */
static unsigned weigh_lines(const char *id, const char *word)
{
    enum { FIRST = 6, OTHER = 1 };
    unsigned most = 0;
    for (size_t i = 0; i < ROW_COUNT; i++) {
        const log_row *row = &rows[i];
        size_t bytes = strcspn(row->causes, " ");
        bool is_first = strlen(id) == bytes && strncmp(row->causes, id, bytes) == 0;
        if (!is_first && !gwi_log_is_listed(row->causes, id))
            continue;
        bool told = has(row->name, word) || gwi_log_is_listed(row->which, word) || examples_have(row, word) ||
                    (row->sign == GW_SAYS_CUDA ? names_have(row->which, word) : has(row->which, word));
        unsigned weight = OTHER;
        if (!told)
            weight = 0;
        else if (is_first)
            weight = FIRST;
        most = weight > most ? weight : most;
    }
    return most;
}

static unsigned weigh(const gw_cause_info *cause, const char *word)
{
    enum { ID = 8, SUMMARY = 6, FIX = 3, PROOF = 2 };
    unsigned lines = weigh_lines(cause->id, word);
    unsigned own = 0;
    if (has(cause->id, word))
        own = ID;
    else if (has(cause->summary, word))
        own = SUMMARY;
    for (size_t i = 0; i < GW_CAUSE_FRAMEWORKS && own < FIX; i++) {
        if (has(cause->fixes_for[i].fixes, word))
            own = FIX;
    }
    if (own == 0 && has(cause->fixes, word))
        own = FIX;
    if (own == 0 && has(cause->proof, word))
        own = PROOF;
    return own > lines ? own : lines;
}

static int compare(const void *a, const void *b)
{
    const gw_cause_hit *left = a, *right = b;
    if (left->word_count != right->word_count)
        return left->word_count > right->word_count ? -1 : 1;
    if (left->weight != right->weight)
        return left->weight > right->weight ? -1 : 1;
    return left->cause < right->cause ? -1 : 1; /* equal: keep the order of the catalogue */
}

size_t gw_causes_search(const char *const *words, size_t word_count, gw_cause_hit *ret_hits, size_t count_max)
{
    size_t causes_count, count = 0;
    const gw_cause_info *causes = gw_causes(&causes_count);
    for (size_t i = 0; i < causes_count && count < count_max; i++) {
        gw_cause_hit hit = {.cause = &causes[i]};
        for (size_t k = 0; k < word_count; k++) {
            unsigned weight = words[k][0] == '\0' ? 0 : weigh(&causes[i], words[k]);
            hit.weight += weight;
            hit.word_count += weight > 0;
        }
        if (hit.word_count > 0)
            ret_hits[count++] = hit;
    }
    if (count > 0)
        qsort(ret_hits, count, sizeof *ret_hits, compare);
    return count;
}

/* Suggests a known name that is similar to an unknown word. */

typedef struct search {
    const char *word, *best;
    size_t best_edits;
} search;

static void consider(search *s, const char *name)
{
    if (name == NULL)
        return;
    size_t count = gw_name_edits(s->word, name);
    if (count < s->best_edits) {
        s->best_edits = count;
        s->best = name;
    }
}

const char *gw_suggest_name(const char *word)
{
    enum { BYTES_FOR_EDIT = 5, BYTES_MIN = 4 }; /* allow one edit per BYTES_FOR_EDIT characters, and one more */
    size_t causes_count, bytes = strlen(word);
    if (bytes < BYTES_MIN || bytes > GW_NAME_EDITS_MAX)
        return NULL;
    search s = {.word = word, .best_edits = bytes / BYTES_FOR_EDIT + 2};
    const gw_cause_info *causes = gw_causes(&causes_count);
    for (size_t i = 0; i < causes_count; i++)
        consider(&s, causes[i].id);
    for (size_t i = 0; i < gw_data_cuda_errors_count; i++) {
        consider(&s, gw_data_cuda_errors[i].driver_name);
        consider(&s, gw_data_cuda_errors[i].runtime_name);
    }
    for (size_t i = 0; i < gw_data_cudnn_status_count; i++)
        consider(&s, gw_data_cudnn_status[i].name);
    for (size_t i = 0; i < gw_data_library_status_count; i++)
        consider(&s, gw_data_library_status[i].name);
    return s.best;
}
