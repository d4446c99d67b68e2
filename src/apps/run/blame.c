/* `gpuwhy run --blame`: compares the first run's fault with that of a second run with synchronous launches.
 *
 * A synchronous launch reports the error of its own kernel. If the first call that reports a lost context is a launch,
 * it is at fault. A second run without a fault proves nothing: synchronous launches may hide a race. */
#include "gwi_blame.h"

#include "gw_fact.h"
#include "gw_logs.h"
#include "gw_model.h"
#include "gw_model_facts.h"
#include "gw_sites.h"
#include "gw_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

bool gwi_blame_wanted(const gw_verdict *verdict)
{
    static const char *const causes[] = {"illegal-address", "device-assert-index", "misaligned-access",
                                         "kernel-fault-other"};
    for (size_t i = 0; verdict->cause != NULL && i < sizeof causes / sizeof causes[0]; i++)
        if (strcmp(verdict->cause, causes[i]) == 0)
            return true;
    return false;
}

/* ---- reading the second run ---- */

static const gw_failure *first_fault(const gw_model *model)
{
    const gw_failure *first = NULL;
    for (size_t i = 0; i < model->failure_count; i++) {
        const gw_failure *failure = &model->failure[i];
        if (failure->is_sticky && !failure->by_dump && (first == NULL || failure->t_ns < first->t_ns))
            first = failure;
    }
    return first;
}

static const gw_thread *thread_of(const gw_model *model, const gw_failure *failure)
{
    for (size_t i = 0; i < model->thread_count; i++)
        if (model->thread[i].pid == failure->pid && model->thread[i].tid == failure->tid)
            return &model->thread[i];
    return NULL;
}

/* Return the last launch that the process made before the failure, or NULL if no launch is known. */
static const gw_ring_call *last_launch(const gw_model *model, const gw_failure *failure)
{
    const gw_ring_call *last = NULL;
    for (size_t i = 0; i < model->thread_count; i++) {
        const gw_thread *thread = &model->thread[i];
        for (size_t k = 0; thread->pid == failure->pid && k < thread->ring_count; k++) {
            const gw_ring_call *call = &thread->ring[k];
            if ((call->is_launch || call->is_graph_launch) && !call->captured && call->t_ns <= failure->t_ns &&
                (last == NULL || call->t_ns >= last->t_ns))
                last = call;
        }
    }
    return last;
}

/* Append the fields that are set in `part` to the fact "blame". The fact is written in several parts. */
static void add(gw_text *text, const gw_fact_blame *part)
{
    gw_fact_blame_write(part, text);
}

static bool has_text(const char *value)
{
    return value != NULL && value[0] != '\0';
}

/* Initialise a text member. An empty text counts as not set, so it is not written. */
#define SET_TEXT(member, value) .has_##member = has_text(value), .member = gw_fact_text_of(value)

static void add_ended(gw_text *text, int status)
{
    char ended[40];
    snprintf(ended, sizeof ended, WIFSIGNALED(status) ? "signal %d" : "exit status %d",
             WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    add(text, &(gw_fact_blame){SET_TEXT(ended, ended)});
}

static void add_fault(gw_text *text, const gw_model *model, const gw_failure *failure)
{
    bool launch = failure->kind == GW_EV_LAUNCH || failure->kind == GW_EV_GRAPH_LAUNCH;
    const gw_thread *thread = thread_of(model, failure);
    const gw_ring_call *last = launch ? NULL : last_launch(model, failure);
    const char *kernel = NULL;
    uint64_t stream = 0;
    if (launch) {
        kernel = failure->kernel;
        stream = failure->arg[3];
    } else if (last != NULL) {
        kernel = last->kernel;
        stream = last->stream;
    }
    const char *thread_name = thread != NULL ? thread->name : NULL;
    const gw_log_find *frame = model->stderr_facts.frame.find;
    const gw_fact_blame part = {
        GW_FACT_SET(end, gw_fact_text_of(gw_blame_end_text(launch ? GW_BLAME_IN_LAUNCH : GW_BLAME_ELSEWHERE))),
        GW_FACT_SET(result, failure->result),
        GW_FACT_SET(tid, failure->tid),
        GW_FACT_SET(t_ns, failure->t_ns),
        SET_TEXT(call, failure->fn_name),
        SET_TEXT(kernel, kernel),
        .has_stream = launch || last != NULL,
        .stream = stream,
        SET_TEXT(thread, thread_name),
        .has_order = thread != NULL && launch,
        .order = thread != NULL ? gw_launches(thread->counter) : 0,
        SET_TEXT(frame, frame != NULL ? frame->text : NULL),
    };
    add(text, &part);
}

/* Write the user's frame and its callers. If the user's frame is a helper that makes all launches, the callers show
 * which launch failed. */
static void add_where(gw_text *text, const gw_where *where)
{
    enum { CALLERS_MAX = 3 };
    gw_text line = {0};
    unsigned shown = 0;
    gw_text_add_str(&line, where->frame[where->user].text);
    for (size_t i = where->user + 1; i < where->frame_count && shown < CALLERS_MAX; i++) {
        const gw_where_frame *frame = &where->frame[i];
        if (frame->whose == NULL || (strcmp(frame->whose, "own") != 0 && strcmp(frame->whose, "user") != 0))
            continue;
        gw_text_addf(&line, "%s%s", shown == 0 ? ", called at " : ", ", frame->text);
        shown++;
    }
    add(text, &(gw_fact_blame){SET_TEXT(where, gw_text_str(&line))});
    text->failed = text->failed || line.failed;
    gw_text_free(&line);
}

static const char *kind_of(const gw_where_frame *frame)
{
    if (frame->python)
        return "python";
    return frame->inlined ? "inlined" : "native";
}

/* Write the whole stack of the launch. The verdict shows it as the place of the fault, if the first run has only the
 * call that reported the fault. */
static void add_stack(gw_text *text, const gw_verdict *verdict)
{
    const gw_where *where = verdict->where;
    add(text, &(gw_fact_blame){GW_FACT_SET(user, where->user)});
    for (size_t i = 0; i < where->frame_count && i < GW_BLAME_FRAMES_MAX; i++) {
        const gw_where_frame *frame = &where->frame[i];
        const gw_fact_blame_frame columns = {
            GW_FACT_SET(kind, gw_fact_text_of(kind_of(frame))),
            SET_TEXT(whose, frame->whose),
            GW_FACT_SET(line, frame->line),
            GW_FACT_SET(address, frame->address),
            SET_TEXT(function, frame->function),
            SET_TEXT(file, frame->file),
            SET_TEXT(module, frame->module),
            SET_TEXT(text, frame->text),
        };
        gw_text_addf(text, "stack.%zu=", i);
        gw_fact_blame_frame_write(&columns, text);
        gw_text_add_str(text, "\n");
    }
    for (size_t i = 0; i < where->notes.count && i < GW_BLAME_NOTES_MAX; i++) {
        const gw_fact_blame_note note = {SET_TEXT(text, where->notes.item[i])};
        gw_text_addf(text, "note.%zu=", i);
        gw_fact_blame_note_write(&note, text);
        gw_text_add_str(text, "\n");
    }
    add(text, &(gw_fact_blame){SET_TEXT(where_reason, verdict->where_reason)});
}

static gw_status describe(const gw_model *model, const gw_verdict *verdict, int status, gw_text *text)
{
    const gw_failure *failure = first_fault(model);
    bool good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (failure != NULL)
        add_fault(text, model, failure);
    else
        add(text, &(gw_fact_blame){
                      GW_FACT_SET(end, gw_fact_text_of(gw_blame_end_text(good ? GW_BLAME_NO_FAULT : GW_BLAME_OTHER)))});
    if (failure != NULL && verdict->where != NULL) {
        add_where(text, verdict->where);
        add_stack(text, verdict);
    }
    return text->failed ? GW_NOMEM : GW_OK;
}

static gw_status read_second(const char *path, int status, gw_text *text, gw_error *err)
{
    gw_reader *reader = NULL;
    gw_model *model = NULL;
    gw_verdict *verdict = NULL;
    gw_status st = gw_reader_open(path, &reader, err);
    if (st == GW_OK)
        st = gw_model_build(reader, &model, err);
    if (st == GW_OK) /* if naming the sites fails, frames are printed as file and address */
        (void)!gw_model_name_sites(model, GW_NAMES_SOFT_MS, GW_NAMES_HARD_MS, NULL);
    if (st == GW_OK)
        st = gw_judge(model, &verdict, err);
    if (st == GW_OK)
        st = describe(model, verdict, status, text);
    gw_verdict_free(verdict);
    gw_model_free(model);
    gw_reader_close(reader);
    return st;
}

void gwi_blame_record(gw_supervisor *run, const gwi_blame *second)
{
    gw_text text = {0};
    gw_error err = {0};
    if (second->not_run != NULL) {
        add(&text, &(gw_fact_blame){GW_FACT_SET(end, gw_fact_text_of(gw_blame_end_text(GW_BLAME_NOT_RUN))),
                                    SET_TEXT(ended, second->not_run)});
    } else if (read_second(second->recording, second->status, &text, &err) != GW_OK) {
        gw_text_clear(&text);
        char ended[sizeof err.text + 40];
        snprintf(ended, sizeof ended, "its recording cannot be read: %s", err.text);
        add(&text, &(gw_fact_blame){GW_FACT_SET(end, gw_fact_text_of(gw_blame_end_text(GW_BLAME_OTHER))),
                                    SET_TEXT(ended, ended)});
    } else {
        add_ended(&text, second->status);
    }
    if (second->not_run == NULL && second->is_kept)
        add(&text, &(gw_fact_blame){SET_TEXT(recording, second->recording)});
    gw_supervisor_note(run, gw_fact_key_text(GW_FACT_BLAME), gw_text_str(&text));
    gw_text_free(&text);
}
