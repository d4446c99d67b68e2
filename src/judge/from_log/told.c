/* Reads a recording's stderr as a log if the run ended badly and no driver call shows why. A cause found this way is
 * supported at most. */
#include "gw_text.h"
#include "gwi_cudnn_log.h"
#include "gwi_log.h"

#include <string.h>

/* True if no recorded event of the driver, the memory or the threads explains the end. */
static bool is_open_question(const gwi_case *c)
{
    return c->ended && c->bad_end && c->root == NULL && c->sticky == NULL && c->start == NULL && c->told == NULL &&
           !c->memory.known && c->hang.kind == GWI_HANG_NONE && c->model->stderr_facts.text_bytes > 0;
}

static gw_status read_stderr(const gw_stderr_facts *facts, gw_log **ret_log, gw_error *err)
{
    gw_log_reader *reader = NULL;
    size_t first = facts->text_gap > 0 ? facts->text_gap : facts->text_bytes;
    gw_status st = gw_log_open(&reader, err);
    if (st == GW_OK)
        st = gw_log_begin(reader, "stderr", err);
    if (st == GW_OK)
        st = gw_log_feed(reader, facts->text, first, err);
    if (st == GW_OK && facts->text_gap > 0)
        st = gw_log_begin(reader, "end of stderr", err); /* a separate file: text before it is missing */
    if (st == GW_OK && facts->text_gap > 0)
        st = gw_log_feed(reader, facts->text + facts->text_gap, facts->text_bytes - facts->text_gap, err);
    if (st == GW_OK)
        return gw_log_finish(reader, ret_log, err);
    gw_log_cancel(reader);
    return st;
}

/* True if the statement may explain the end of the program. Long before the exception that ended it, only a statement
 * of depth GWI_ROOT does. */
static bool is_about_the_end(const gwi_log_case *c, const gwi_statement *said)
{
    enum { LINES_NEAR = 60 };
    return c->exception == NULL || said->depth == GWI_ROOT || said->find->order + LINES_NEAR >= c->exception->order;
}

bool gwi_told_open(gwi_case *c, gwi_told *ret_told)
{
    gw_error err = {0};
    *ret_told = (gwi_told){0};
    if (!gw_logs_are_supported() || !is_open_question(c))
        return true;
    gw_status st = read_stderr(&c->model->stderr_facts, &ret_told->log, &err);
    if (st == GW_OK)
        st = gwi_log_open(ret_told->log, &ret_told->c, &err);
    if (st != GW_OK) {
        gwi_told_close(ret_told);
        return st != GW_NOMEM;
    }
    const gwi_statement *root = gwi_log_root(&ret_told->c);
    if (root != NULL && is_about_the_end(&ret_told->c, root)) {
        c->said = root;
        c->said_in = &ret_told->c;
    }
    return true;
}

void gwi_told_close(gwi_told *told)
{
    gwi_log_close(&told->c);
    gw_log_free(told->log);
    *told = (gwi_told){0};
}

static bool is_just_the_end(const char *cause)
{
    static const char *const ends[] = {"script-exception", "host-crash-of-process", "killed-by-scheduler-or-user",
                                       "host-oom-kill"};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        if (strcmp(cause, ends[i]) == 0)
            return true;
    }
    return false;
}

bool gwi_is_told_by_log(const gwi_case *c)
{
    if (c->said == NULL || c->said->certainty < GW_SUPPORTED || is_just_the_end(c->said->cause[0]))
        return false;
    /* Messages decide only about causes that events never show, or show only sometimes. */
    const gw_cause *cause = gwi_cause_of(c->said->cause[0]);
    return cause != NULL && (cause->is_told || cause->judge == gwi_judge_by_log);
}

gw_certainty gwi_judge_by_log(const gwi_case *c, gwi_finding *finding)
{
    if (c->said == NULL || finding->cause == NULL || strcmp(c->said->cause[0], finding->cause->id) != 0)
        return GW_CERTAINTY_NONE;
    const char *summary = finding->cause->summary;
    if (c->said->why[0] != '\0')
        gwi_headline(finding, "%s", c->said->why);
    else
        gwi_headline(finding, "%.*s", (int)strcspn(summary, "."), summary);
    gwi_log_say_line(c->said_in, finding, GWI_NO_TIME, "stderr", c->said->find);
    if (c->said_in->exception != NULL && c->said_in->exception->order != c->said->find->order)
        gwi_log_say_line(c->said_in, finding, GWI_NO_TIME, "stderr", c->said_in->exception);
    if (c->model->stderr_facts.frame[0] != '\0')
        gwi_evidence(finding, GWI_NO_TIME, "stderr", "raised at %s", c->model->stderr_facts.frame);
    const gw_cudnn_line *logged = gw_begins(finding->cause->id, "library-") ? gwi_cudnn_error(c, NULL) : NULL;
    if (logged != NULL)
        gwi_cudnn_say(finding, logged);
    gwi_rule_out_failed_call(c, finding);
    return c->said->certainty < GW_SUPPORTED ? c->said->certainty : GW_SUPPORTED;
}
