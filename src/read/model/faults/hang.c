/* Reads hangs from the supervisor's facts. Each line has a key, the ids in the fact, and an example value:
 *
 *     hang         pid        "for_ms=5000 cpu_ms=3"
 *     hang.thread  pid, tid   "wait=lock owner=12 in=cuCtxSynchronize in_ms=5000 questions=0 site=3221225473
 *                              not_ready=0 where=futex_wait name=left"
 *     hang.frame   pid, tid   "wait_for_second+0x12 in program", innermost frame first; only in old recordings
 *     hang.over    pid        ""
 *
 * Threads and frames belong to the last `hang` of their process. A hang may be looked at several times until it is
 * over; only the last look counts. */
#include "gwi_inner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HANGS_MAX = 256, HANG_THREADS_MAX = 256, HANG_FRAMES_MAX = 64 };

static gw_hang *last_of(gw_model *model, uint32_t pid)
{
    for (size_t i = model->hang_count; i-- > 0;) {
        if (model->hang[i].pid == pid)
            return &model->hang[i];
    }
    return NULL;
}

static void free_threads(gw_hang *hang)
{
    for (size_t k = 0; k < hang->thread_count; k++)
        free(hang->thread[k].frame);
    free(hang->thread);
}

static void add_hang(gw_model *model, const gw_pair *fact)
{
    gw_fact_hang said;
    gw_hang *hang = last_of(model, fact->pid);
    gw_fact_hang_read(gw_fact_text_of(fact->value), &said);
    bool meets = said.has_meets && said.meets;
    /* for_ms is 0 if `gpuwhy poke` looked at a process that does not hang */
    if (hang != NULL && !hang->over && said.for_ms != 0 && hang->meets == meets) {
        free_threads(hang);
    } else {
        if (model->hang_count >= HANGS_MAX ||
            !gwi_room(model, &model->hang, model->hang_count, &model->inner->hang_capacity, sizeof(gw_hang)))
            return;
        hang = &model->hang[model->hang_count++];
    }
    *hang = (gw_hang){.t_ns = fact->t_ns, .pid = fact->pid};
    hang->for_ns = said.for_ms > fact->t_ns / 1000000u ? fact->t_ns : said.for_ms * 1000000u;
    hang->meets = meets;
    hang->cpu_known = said.has_cpu_ms;
    hang->cpu_ms = said.cpu_ms;
}

static void add_thread(gw_model *model, const gw_pair *fact)
{
    gw_hang *hang = last_of(model, fact->pid);
    if (hang == NULL || hang->thread_count >= HANG_THREADS_MAX)
        return;
    if (hang->thread == NULL && (hang->thread = calloc(HANG_THREADS_MAX, sizeof *hang->thread)) == NULL) {
        model->inner->nomem = true;
        return;
    }
    gw_hang_thread *thread = &hang->thread[hang->thread_count++];
    gw_fact_hang_thread said;
    gw_fact_hang_thread_read(gw_fact_text_of(fact->value), &said);
    *thread = (gw_hang_thread){.tid = fact->tid,
                               .owner_tid = said.owner,
                               .owner_ended = said.owner_ended,
                               .inside_ns = said.in_ms * 1000000u,
                               .questions = said.questions,
                               .not_ready = said.not_ready};
    gw_fact_text_copy(thread->name, sizeof thread->name, said.name);
    gw_fact_text_copy(thread->wait, sizeof thread->wait, said.wait);
    gw_fact_text_copy(thread->inside_fn, sizeof thread->inside_fn, said.fn);
    gw_fact_text_copy(thread->where, sizeof thread->where, said.where);
    if (said.has_site)
        thread->site = gw_sites_number(model->sites, fact->pid, said.site);
}

static void add_frame(gw_model *model, const gw_pair *fact)
{
    gw_hang *hang = last_of(model, fact->pid);
    gw_hang_thread *thread = hang == NULL || hang->thread_count == 0 ? NULL : &hang->thread[hang->thread_count - 1];
    if (thread == NULL || thread->tid != fact->tid || thread->frame_count >= HANG_FRAMES_MAX)
        return;
    if (thread->frame == NULL && (thread->frame = calloc(HANG_FRAMES_MAX, sizeof *thread->frame)) == NULL) {
        model->inner->nomem = true;
        return;
    }
    thread->frame[thread->frame_count++] = fact->value;
}

void gwi_hangs_finish(gw_model *model)
{
    for (size_t i = 0; i < model->fact_count; i++) {
        const gw_pair *fact = &model->fact[i];
        gw_hang *hang = last_of(model, fact->pid);
        if (fact->value == NULL)
            continue;
        if (fact->what == GW_FACT_HANG)
            add_hang(model, fact);
        else if (fact->what == GW_FACT_HANG_THREAD)
            add_thread(model, fact);
        else if (fact->what == GW_FACT_HANG_FRAME)
            add_frame(model, fact);
        else if (fact->what == GW_FACT_HANG_OVER && hang != NULL && !hang->over) {
            hang->over = true;
            hang->t_over_ns = fact->t_ns;
        }
    }
}

void gwi_hangs_free(gw_model *model)
{
    for (size_t i = 0; i < model->hang_count; i++)
        free_threads(&model->hang[i]);
    free(model->hang);
}

/* ---- as text ---- */

char *gw_doing_text(char out[GW_DOING_TEXT_MAX], const gw_hang_thread *thread)
{
    static const struct {
        const char *word, *text; /* `word`: from GW_WAITS; `text`: its meaning, for messages */
    } rows[] = {{"running", "running"},
                {"lock", "waiting for a lock"},
                {"join", "waiting for another thread to end"},
                {"timed-lock", "waiting for a lock with a time limit"},
                {"shared-lock", "waiting for a lock that another process can release"},
                {"input", "waiting for input"},
                {"sleep", "sleeping"},
                {"child", "waiting for a child process to end"},
                {"device", "waiting for a kernel driver"},
                {"other", "waiting"}};
    const char *text = "in an unknown state";
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(thread->wait, rows[i].word) == 0)
            text = rows[i].text;
    if (strcmp(thread->wait, "input") == 0 &&
        (strstr(thread->where, "lock_inode_wait") != NULL || strstr(thread->where, "setlk") != NULL))
        text = "waiting for a lock on a file";
    snprintf(out, GW_DOING_TEXT_MAX, "%s%s%s%s", text, thread->where[0] == '\0' ? "" : " (in ", thread->where,
             thread->where[0] == '\0' ? "" : ")");
    return out;
}
