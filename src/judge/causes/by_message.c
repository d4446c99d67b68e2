/* The causes in by_message.def. The engine judges every cause by the program's output, so most rows need no judge.
 *
 * Never established: see by_message.def. */
#include "gwi_cudnn_log.h"

static gw_certainty judge_cudnn_log(const gwi_case *c, gwi_finding *finding, const char *word, const char *headline)
{
    const char *const words[] = {word, NULL};
    if (gwi_is_told(c, finding->cause))
        return GW_CERTAINTY_NONE; /* the verdict by the text reports the entry of the log, too */
    return gwi_cudnn_judge(c, finding, words, headline);
}

/* A judge, though an empty one, marks a cause that recordings show. */
static gw_certainty judge_nothing(const gwi_case *c, gwi_finding *finding)
{
    (void)c;
    (void)finding;
    return GW_CERTAINTY_NONE;
}

#define CAUSE(name, id_text, judge_or_null, summary_text, proof_text, ...)                                             \
    const gw_cause gwi_cause_##name = {                                                                                \
        .id = id_text, .summary = summary_text, .proof = proof_text, .fixes = {__VA_ARGS__}, .judge = judge_or_null}
#define GWI_BY_MESSAGE(name, id, ...)    CAUSE(name, id, NULL, __VA_ARGS__)
#define GWI_BY_RECORDINGS(name, id, ...) CAUSE(name, id, judge_nothing, __VA_ARGS__)
#define GWI_BY_MESSAGE_OR_CUDNN_LOG(name, id, word, headline, ...)                                                     \
    static gw_certainty judge_##name(const gwi_case *c, gwi_finding *finding)                                          \
    {                                                                                                                  \
        return judge_cudnn_log(c, finding, word, headline);                                                            \
    }                                                                                                                  \
    CAUSE(name, id, judge_##name, __VA_ARGS__)
#include "by_message.def"
