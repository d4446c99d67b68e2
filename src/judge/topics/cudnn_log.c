/* Finds the lines of cuDNN's log that belong to a failure, and reports them as evidence. */
#include "gwi_cudnn_log.h"

#include <inttypes.h>
#include <string.h>

/* near_ns: a log line at most this far from a failure belongs to it. before_end_ns: a line at most this long before the
 * end belongs to the end. gpuwhy reads a line up to 0.1 s after cuDNN wrote it, or later on a busy machine. */
static const uint64_t near_ns = 1000000000u, before_end_ns = 5000000000u;

/* True if the line may belong to the judged process. Its pid may be unknown in the recording, because a pid namespace
 * has other pids. */
static bool is_of(const gwi_case *c, const gw_cudnn_line *line)
{
    return c->process == NULL || line->pid == c->process->pid || line->pid == 0 ||
           gw_model_process(c->model, line->pid) == NULL;
}

static bool has_word(const gw_cudnn_line *line, const char *const *words)
{
    if (words == NULL)
        return true;
    for (; *words != NULL; words++)
        if (line->status != NULL && strstr(line->status, *words) != NULL)
            return true;
    return false;
}

const gw_cudnn_line *gwi_cudnn_error(const gwi_case *c, const char *const *words)
{
    const gw_cudnn_line *last = NULL;
    for (size_t i = 0; i < c->model->cudnn_line_count; i++) {
        const gw_cudnn_line *line = &c->model->cudnn_line[i];
        if (line->is_error && is_of(c, line) && has_word(line, words) &&
            (last == NULL || line->t_last_ns >= last->t_last_ns))
            last = line;
    }
    return last;
}

bool gwi_cudnn_is_near(const gw_cudnn_line *line, uint64_t t_ns)
{
    return line->t_ns <= t_ns + near_ns && line->t_last_ns + near_ns >= t_ns;
}

static void add_line(gw_text *text, const gw_cudnn_line *line)
{
    gw_text_addf(text, "%s%s%s", line->function == NULL ? "" : line->function, line->function == NULL ? "" : ": ",
                 line->status == NULL ? "" : line->status);
    if (line->reason != NULL)
        gw_text_addf(text, "%s%s", line->status == NULL ? "" : ", ", line->reason);
    if (line->count > 1)
        gw_text_addf(text, " (%" PRIu64 " times)", line->count);
}

void gwi_cudnn_say(gwi_finding *finding, const gw_cudnn_line *line)
{
    gw_text text = {0};
    add_line(&text, line);
    gwi_evidence(finding, line->t_last_ns, "library log", "cuDNN's own log: %s", gw_text_str(&text));
    gw_text_free(&text);
}

gw_certainty gwi_cudnn_judge(const gwi_case *c, gwi_finding *finding, const char *const *words, const char *headline)
{
    const gw_cudnn_line *error = gwi_cudnn_error(c, NULL);
    bool is_open = c->ended && c->bad_end && c->signal == 0 && c->root == NULL && c->sticky == NULL &&
                   c->start == NULL && c->told == NULL && !c->memory.known && c->hang.kind == GWI_HANG_NONE;
    if (!is_open || error == NULL || !has_word(error, words) || error->t_last_ns + before_end_ns < c->model->t_end_ns)
        return GW_CERTAINTY_NONE;
    gwi_headline(finding, "%s", headline);
    gwi_cudnn_say(finding, error);
    gwi_rule_out_failed_call(c, finding);
    /* an exception that is not about the GPU may be the real reason */
    return c->exception == GW_EXCEPTION_NONE || c->exception == GW_EXCEPTION_GPU ? GW_SUPPORTED : GW_HYPOTHESIS;
}

void gwi_cudnn_add_workspace(const gwi_case *c, uint64_t t_ns, gw_text *text)
{
    for (size_t i = 0; i < c->model->cudnn_line_count; i++) {
        const gw_cudnn_line *line = &c->model->cudnn_line[i];
        bool is_about = (line->reason != NULL && strcasestr(line->reason, "workspace") != NULL) ||
                        (line->status != NULL && strstr(line->status, "ALLOC_FAILED") != NULL);
        if (!is_about || !is_of(c, line) || !gwi_cudnn_is_near(line, t_ns))
            continue;
        gw_text_addf(text, "; cuDNN's own log has a %s at that time: ", line->is_error ? "failure" : "warning");
        add_line(text, line);
        return;
    }
}
