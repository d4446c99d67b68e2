/* Reads a text log, or the stderr of a run that ended badly as a log. If no driver call shows why the run ended, the
 * text's conclusion decides, unless a fact about the machine or the recording is more certain. A cause found this way
 * in a recording is supported at most. */
#include "gw_text.h"
#include "gwi_cudnn_log.h"
#include "gwi_log.h"

#include <string.h>

/* True if no recorded event of the driver, the memory or the threads explains the end. */
static bool is_open_question(const gwi_case *c)
{
    return c->ended && c->bad_end && c->root == NULL && c->sticky == NULL && c->start == NULL && c->told == NULL &&
           !c->memory.known && c->hang.kind == GWI_HANG_NONE;
}

/* Split a text of several runs: told->last is the last one, and told->before the one before it. */
static void split_runs(const gw_log *log, gwi_told *told)
{
    gw_log rest, more, part;
    told->run_count = 1;
    if (!gw_log_split(log, &rest, &told->last))
        return;
    for (told->run_count = 2; gw_log_split(&rest, &more, &part); told->run_count++) {
        gw_log_split_free(&rest);
        rest = more;
        if (told->before.file == NULL)
            told->before = part;
        else
            gw_log_split_free(&part);
    }
    if (told->before.file == NULL)
        told->before = rest;
    else
        gw_log_split_free(&rest);
}

/* True if nothing is known of the run: neither a failure, nor work, nor an end. */
static bool is_blank(const gwi_conclusion *end)
{
    return end->kind == GWI_ENDED_IN_SILENCE && end->it.find == NULL && end->good == NULL && end->open == NULL &&
           end->serving == NULL;
}

/* Judge the last run of a text. If nothing is known of it, as of a command that only lists versions, judge the whole
 * text as one run. */
static gw_status judge_runs(const gw_log *log, gwi_told *told, gw_error *err)
{
    split_runs(log, told);
    bool is_split = told->run_count > 1;
    gw_status st = gwi_log_open(is_split ? &told->last : log, NULL, &told->c, err);
    if (st != GW_OK || !is_split)
        return st;
    told->end = gwi_log_conclude(&told->c);
    if (is_blank(&told->end)) {
        gwi_told_close(told);
        told->run_count = 1;
        return gwi_log_open(log, NULL, &told->c, err);
    }
    st = gwi_log_open(&told->before, NULL, &told->earlier, err);
    if (st == GW_OK)
        told->earlier_end = gwi_log_conclude(&told->earlier);
    return st;
}

bool gwi_told_open(gwi_case *c, const gw_log *log, gwi_told *ret_told)
{
    gw_error err = {0};
    const gw_stderr_facts *recorded = log == NULL ? &c->model->stderr_facts : NULL;
    *ret_told = (gwi_told){0};
    if (recorded != NULL && (!c->ended || !c->bad_end || recorded->log == NULL))
        return true;
    gw_status st =
        recorded != NULL ? gwi_log_open(recorded->log, recorded, &ret_told->c, &err) : judge_runs(log, ret_told, &err);
    if (st != GW_OK)
        return false;
    ret_told->c.told = ret_told;
    c->text = &ret_told->c;
    ret_told->end = gwi_log_conclude(&ret_told->c);
    /* The signal that ended the program is known. The text only repeats how a program ended. */
    bool is_echo = c->signal != 0 && ret_told->end.it.cause_count > 0 && gwi_is_just_the_end(ret_told->end.it.cause[0]);
    if (gwi_is_log(c) || (is_open_question(c) && !is_echo))
        c->said = &ret_told->end;
    return true;
}

bool gwi_is_log(const gwi_case *c)
{
    return c->text != NULL && c->text->recorded == NULL;
}

void gwi_told_close(gwi_told *told)
{
    gwi_log_close(&told->c);
    gwi_log_close(&told->earlier);
    gw_log_split_free(&told->before);
    gw_log_split_free(&told->last);
    *told = (gwi_told){0};
}

bool gwi_is_just_the_end(const char *cause)
{
    static const char *const ends[] = {"script-exception", "host-crash-of-process", "killed-by-scheduler-or-user",
                                       "host-oom-kill"};
    return GW_IS_ONE_OF(cause, ends);
}

bool gwi_is_told(const gwi_case *c, const gw_cause *cause)
{
    return c->said != NULL && c->said->it.certainty != GW_CERTAINTY_NONE &&
           strcmp(c->said->it.cause[0], cause->id) == 0;
}

bool gwi_is_told_another(const gwi_case *c, const gw_cause *cause)
{
    return c->said != NULL && c->said->it.certainty != GW_CERTAINTY_NONE && !gwi_is_told(c, cause);
}

gw_certainty gwi_judge_by_text(const gwi_case *c, gwi_finding *finding)
{
    if (!gwi_is_told(c, finding->cause))
        return GW_CERTAINTY_NONE;
    gwi_log_say(c->text, c->said, finding);
    const gw_cudnn_line *logged = gw_begins(finding->cause->id, "library-") ? gwi_cudnn_error(c, NULL) : NULL;
    if (logged != NULL)
        gwi_cudnn_say(finding, logged);
    gwi_rule_out_failed_call(c, finding);
    return c->said->it.certainty < GW_SUPPORTED || gwi_is_log(c) ? c->said->it.certainty : GW_SUPPORTED;
}

void gwi_where_told(const gwi_case *c, gwi_finding *finding)
{
    const gw_log_find *exception =
        gwi_is_told(c, finding->cause) ? gwi_log_exception_of(c->text, c->said->it.find) : NULL;
    if (exception != NULL && finding->where.by == GWI_WHERE_NONE)
        finding->where = (gwi_wanted_place){.by = GWI_WHERE_TRACEBACK, .exception = exception};
}

void gwi_say_told(const gwi_case *c, gwi_finding *finding)
{
    gwi_say_said(c, finding, c->said->it.find);
}

bool gwi_is_decided_by(const gwi_case *c, gw_sign sign, const char *field)
{
    if (c->said == NULL || c->said->it.certainty == GW_CERTAINTY_NONE)
        return false;
    const gw_log_find *find = gw_log_in_line(c->text->log, sign, c->said->it.find->order);
    return find != NULL && (field == NULL || gw_log_text(find, field) != NULL);
}

const gw_log_find *gwi_said(const gwi_case *c, const gw_cause *cause)
{
    for (size_t i = 0; c->text != NULL && i < c->text->count; i++) {
        const gwi_statement *it = &c->text->statement[i];
        if (strcmp(it->cause[0], cause->id) == 0 && !it->survived)
            return it->find;
    }
    return NULL;
}

bool gwi_is_said_last(const gwi_case *c, const gw_log_find *said)
{
    const uint64_t soon_ns = 5000000000u;
    const gw_log *log = c->text->log;
    return said->file + 1 == log->file_count && said->line >= log->file[said->file].line_count &&
           gwi_log_t_ns(c->text, said) + soon_ns >= c->model->t_end_ns;
}

void gwi_say_said(const gwi_case *c, gwi_finding *finding, const gw_log_find *said)
{
    gwi_log_say_line(c->text, finding, said);
}

uint64_t gwi_said_t_ns(const gwi_case *c, const gw_log_find *said)
{
    return gwi_log_t_ns(c->text, said);
}

unsigned gwi_said_code(const gw_log_find *said)
{
    unsigned code = 0;
    return gw_log_cuda_code(said, &code) ? code : 0;
}

const gw_log_find *gwi_said_last_code(const gwi_case *c)
{
    for (size_t i = c->text == NULL ? 0 : c->text->log->find_count; i-- > 0;) {
        if (gwi_said_code(&c->text->log->find[i]) != 0)
            return &c->text->log->find[i];
    }
    return NULL;
}
