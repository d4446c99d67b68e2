/* Hangs, as the supervisor told them in facts:
 *
 *     hang         pid        "for_ms=5000 cpu_ms=3"
 *     hang.thread  pid, tid   "wait=lock owner=12 in=cuCtxSynchronize in_ms=5000 questions=0 site=3221225473
 *                              not_ready=0 where=futex_wait name=left"
 *     hang.frame   pid, tid   "wait_for_second+0x12 in program", innermost first; of versions that wrote no site
 *     hang.over    pid        ""
 *
 * Threads and frames belong to the last `hang` of their process. */
#include "gwi_inner.h"

#include <stdio.h>
#include <string.h>

enum { HANGS_MAX = 256, HANG_THREADS_MAX = 256, HANG_FRAMES_MAX = 64 };

/* The word after "key=", up to a blank; `to_end`: up to the end of the text. */
static const char *word_of(const char *text, const char *key, char *word, size_t room, bool to_end)
{
    size_t key_bytes = strlen(key);
    word[0] = '\0';
    for (const char *at = text; (at = strstr(at, key)) != NULL; at += key_bytes) {
        if (at != text && at[-1] != ' ')
            continue;
        at += key_bytes;
        size_t bytes = to_end ? strlen(at) : strcspn(at, " ");
        snprintf(word, room, "%.*s", (int)(bytes < room - 1 ? bytes : room - 1), at);
        return word;
    }
    return NULL;
}

static bool number_of(const char *text, const char *key, uint64_t *ret_number)
{
    char word[24];
    if (word_of(text, key, word, sizeof word, false) == NULL || word[0] < '0' || word[0] > '9')
        return false;
    *ret_number = strtoull(word, NULL, 10);
    return true;
}

static gw_hang *last_of(gw_model *model, uint32_t pid)
{
    for (size_t i = model->hang_count; i-- > 0;) {
        if (model->hang[i].pid == pid)
            return &model->hang[i];
    }
    return NULL;
}

static void add_hang(gw_model *model, const gw_pair *fact)
{
    uint64_t for_ms = 0;
    if (model->hang_count >= HANGS_MAX ||
        !gwi_room(model, &model->hang, model->hang_count, &model->inner->hang_capacity, sizeof(gw_hang)))
        return;
    gw_hang *hang = &model->hang[model->hang_count++];
    *hang = (gw_hang){.t_ns = fact->t_ns, .pid = fact->pid};
    number_of(fact->value, "for_ms=", &for_ms);
    hang->for_ns = for_ms > fact->t_ns / 1000000u ? fact->t_ns : for_ms * 1000000u;
    hang->cpu_known = number_of(fact->value, "cpu_ms=", &hang->cpu_ms);
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
    uint64_t number = 0;
    *thread = (gw_hang_thread){.tid = fact->tid};
    word_of(fact->value, "name=", thread->name, sizeof thread->name, true);
    word_of(fact->value, "wait=", thread->wait, sizeof thread->wait, false);
    word_of(fact->value, "in=", thread->inside_fn, sizeof thread->inside_fn, false);
    word_of(fact->value, "where=", thread->where, sizeof thread->where, false);
    if (number_of(fact->value, "owner=", &number))
        thread->owner_tid = (uint32_t)number;
    if (number_of(fact->value, "owner_ended=", &number))
        thread->owner_ended = (uint32_t)number;
    if (number_of(fact->value, "in_ms=", &number))
        thread->inside_ns = number * 1000000u;
    number_of(fact->value, "questions=", &thread->questions);
    number_of(fact->value, "not_ready=", &thread->not_ready);
    if (number_of(fact->value, "site=", &number) && number <= UINT32_MAX)
        thread->site = gw_sites_number(model->sites, fact->pid, (uint32_t)number);
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
        if (fact->key == NULL || fact->value == NULL || strncmp(fact->key, "hang", 4) != 0)
            continue;
        gw_hang *hang = last_of(model, fact->pid);
        if (strcmp(fact->key, "hang") == 0)
            add_hang(model, fact);
        else if (strcmp(fact->key, "hang.thread") == 0)
            add_thread(model, fact);
        else if (strcmp(fact->key, "hang.frame") == 0)
            add_frame(model, fact);
        else if (strcmp(fact->key, "hang.over") == 0 && hang != NULL && !hang->over) {
            hang->over = true;
            hang->t_over_ns = fact->t_ns;
        }
    }
}

void gwi_hangs_free(gw_model *model)
{
    for (size_t i = 0; i < model->hang_count; i++) {
        for (size_t k = 0; k < model->hang[i].thread_count; k++)
            free(model->hang[i].thread[k].frame);
        free(model->hang[i].thread);
    }
    free(model->hang);
}
