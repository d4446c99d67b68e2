/* Suggests a known name that is similar to an unknown word. */
#include "gw_verdict.h"

#include "gw_data.h"
#include "gw_text.h"

#include <string.h>

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
