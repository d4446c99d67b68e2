/* `gpuwhy run --blame`: what a second run, whose launches were waited for one by one, says of the first one's fault.
 *
 * A launch that is waited for reports what its own kernel did, so the first call that answers with a lost context is
 * the one at fault, if it is a launch at all. When the second run has no fault, nothing is proved: races and chance
 * look alike. */
#include "gwi_blame.h"

#include "gw_model.h"
#include "gw_model_facts.h"

#include <inttypes.h>
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

/* The last launch of the process that was made before the failure; NULL: none is known. */
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

/* Nothing in it may look like the end of a field. */
static void add_cut(gw_text *text, const char *value)
{
    enum { BYTES_MAX = 1000 };
    size_t begin = text->bytes;
    gw_text_addf(text, "%.*s", BYTES_MAX, value == NULL ? "" : value);
    for (size_t i = begin; text->data != NULL && i < text->bytes; i++)
        if (text->data[i] == '\n' || text->data[i] == '\t')
            text->data[i] = '?';
}

static void add_text(gw_text *text, const char *name, const char *value)
{
    if (value == NULL || value[0] == '\0')
        return;
    gw_text_addf(text, "%s=", name);
    add_cut(text, value);
    gw_text_add_str(text, "\n");
}

static void add_ended(gw_text *text, int status)
{
    if (WIFSIGNALED(status))
        gw_text_addf(text, "ended=signal %d\n", WTERMSIG(status));
    else
        gw_text_addf(text, "ended=exit status %d\n", WEXITSTATUS(status));
}

static void add_fault(gw_text *text, const gw_model *model, const gw_failure *failure)
{
    bool launch = failure->kind == GW_EV_LAUNCH || failure->kind == GW_EV_GRAPH_LAUNCH;
    const gw_thread *thread = thread_of(model, failure);
    gw_text_addf(text, "end=%s\nresult=%u\ntid=%u\nt_ns=%" PRIu64 "\n", launch ? "in-launch" : "elsewhere",
                 failure->result, failure->tid, failure->t_ns);
    add_text(text, "call", failure->fn_name);
    const gw_ring_call *last = launch ? NULL : last_launch(model, failure);
    if (launch || last != NULL) {
        add_text(text, "kernel", launch ? failure->kernel : last->kernel);
        gw_text_addf(text, "stream=0x%" PRIx64 "\n", launch ? failure->arg[3] : last->stream);
    }
    if (thread != NULL) {
        add_text(text, "thread", thread->name);
        if (launch)
            gw_text_addf(text, "order=%" PRIu64 "\n", gw_launches(thread->counter));
    }
    if (model->stderr_facts.exception.seen)
        add_text(text, "frame", model->stderr_facts.frame);
}

/* The user's frame, and who called it: a helper that launches everything says little. */
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
    add_text(text, "where", gw_text_str(&line));
    text->failed = text->failed || line.failed;
    gw_text_free(&line);
}

/* The whole stack: where the first run's call only reported the fault, this is the place of the verdict. */
static void add_stack(gw_text *text, const gw_verdict *verdict)
{
    const gw_where *where = verdict->where;
    gw_text_addf(text, "user=%zu\n", where->user);
    for (size_t i = 0; i < where->frame_count && i < GW_BLAME_FRAMES_MAX; i++) {
        const gw_where_frame *frame = &where->frame[i];
        gw_text_addf(text, "stack.%zu=%s\t%s\t%" PRIu32 "\t0x%" PRIx64, i,
                     frame->python    ? "python"
                     : frame->inlined ? "inlined"
                                      : "native",
                     frame->whose == NULL ? "" : frame->whose, frame->line, frame->address);
        const char *const texts[] = {frame->function, frame->file, frame->module, frame->text};
        for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++) {
            gw_text_add_str(text, "\t");
            add_cut(text, texts[k]);
        }
        gw_text_add_str(text, "\n");
    }
    for (size_t i = 0; i < where->notes.count && i < GW_BLAME_NOTES_MAX; i++) {
        gw_text_addf(text, "note.%zu=", i);
        add_cut(text, where->notes.item[i]);
        gw_text_add_str(text, "\n");
    }
    add_text(text, "where_reason", verdict->where_reason);
}

static gw_status describe(const gw_model *model, const gw_verdict *verdict, int status, gw_text *text)
{
    const gw_failure *failure = first_fault(model);
    bool good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (failure != NULL)
        add_fault(text, model, failure);
    else
        gw_text_addf(text, "end=%s\n", good ? "no-fault" : "other");
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
    if (st == GW_OK) /* what has no name is called by file and address */
        (void)!gw_model_name_sites(model, GWI_NAMES_SOFT_MS, GWI_NAMES_HARD_MS, NULL);
    if (st == GW_OK)
        st = gw_judge(model, &verdict, err);
    if (st == GW_OK)
        st = describe(model, verdict, status, text);
    gw_verdict_free(verdict);
    gw_model_free(model);
    gw_reader_close(reader);
    return st;
}

void gwi_blame_record(gwi_record *record, const gwi_blame *second)
{
    gw_text text = {0};
    gw_error err = {0};
    if (second->not_run != NULL) {
        gw_text_addf(&text, "end=not-run\n");
        add_text(&text, "ended", second->not_run);
    } else if (read_second(second->recording, second->status, &text, &err) != GW_OK) {
        gw_text_clear(&text);
        gw_text_addf(&text, "end=other\nended=its recording cannot be read: ");
        gw_text_addf(&text, "%s\n", err.text);
    } else {
        add_ended(&text, second->status);
    }
    if (second->not_run == NULL && second->is_kept)
        add_text(&text, "recording", second->recording);
    gw_item item = {.kind = GW_ITEM_SUPERVISOR, .t_ns = gwi_record_now_ns(record)};
    item.pair.key = "blame";
    item.pair.value = gw_text_str(&text);
    gwi_record_put(record, &item);
    gw_text_free(&text);
}
