/* Store the order of a run's calls, and find the call where two runs diverge.
 *
 * Each thread is compared with its counterpart in the other run. The counterpart has the same number, in a process of
 * the same rank. If there are no ranks, the process has the same number. Numbers follow the order of the first calls.
 *
 * If several threads diverge, the earliest divergence in the bad run is reported. The run's first thread takes
 * precedence, because helper threads often start in random order. Hot calls (launches, copies) are recorded and
 * compared only if they fail. */
#include "gwi_compare.h"

#include "gw_array.h"
#include "gw_names.h"
#include "gw_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- storing ---- */

gw_calls *gw_calls_new(void)
{
    return calloc(1, sizeof(gw_calls));
}

void gw_calls_free(gw_calls *calls)
{
    if (calls == NULL)
        return;
    for (size_t i = 0; i < calls->thread_count; i++)
        free(calls->thread[i].call);
    free(calls->thread);
    free(calls);
}

/* True for a driver call that is not a query. The number of queries depends on timing, because programs repeat a query
 * until it succeeds. */
static bool is_call(const gw_event *event)
{
    return event->kind < GW_EV_TEXT && event->kind != GW_EV_QUERY;
}

static uint64_t bytes_of(const gw_event *event)
{
    for (unsigned i = 0; i < 4; i++) {
        if (strcmp(gw_event_arg_name(event->kind, i), "bytes") == 0)
            return event->arg[i];
    }
    return 0;
}

static gwi_thread_calls *add_thread(gw_calls *calls, uint32_t pid, uint32_t tid)
{
    size_t count = calls->thread_count;
    gwi_thread_calls added = {.pid = pid, .tid = tid, .process = 1, .place = 1};
    if (!gw_array_more(&calls->thread, count, sizeof *calls->thread))
        return NULL;
    gwi_thread_calls *list = calls->thread;
    for (size_t i = 0; i < count; i++) {
        added.place += list[i].pid == pid;
        if (list[i].pid != pid && list[i].process >= added.process)
            added.process = list[i].process + 1;
    }
    for (size_t i = 0; i < count && added.place > 1; i++)
        if (list[i].pid == pid)
            added.process = list[i].process;
    calls->last = calls->thread_count++;
    list[count] = added;
    return &list[count];
}

/* Find or add the thread. Returns NULL if out of memory, or if there are too many threads; then `cut` is set, too. */
static gwi_thread_calls *thread_of(gw_calls *calls, uint32_t pid, uint32_t tid)
{
    size_t count = calls->thread_count;
    if (calls->last < count && calls->thread[calls->last].pid == pid && calls->thread[calls->last].tid == tid)
        return &calls->thread[calls->last];
    for (size_t i = 0; i < count; i++) {
        if (calls->thread[i].pid == pid && calls->thread[i].tid == tid) {
            calls->last = i;
            return &calls->thread[i];
        }
    }
    calls->cut = calls->cut || count == GW_CALLS_THREADS_MAX;
    return count == GW_CALLS_THREADS_MAX ? NULL : add_thread(calls, pid, tid);
}

bool gw_calls_feed(gw_calls *calls, gw_model *model, const gw_event *event)
{
    if (!is_call(event))
        return true;
    gwi_thread_calls *thread = thread_of(calls, event->pid, event->tid);
    if (thread == NULL)
        return calls->thread_count == GW_CALLS_THREADS_MAX;
    thread->total++;
    if (calls->kept_count == GW_CALLS_MAX) {
        calls->cut = true;
        return true;
    }
    if (!gw_array_room(&thread->call, thread->count, &thread->capacity, sizeof *thread->call))
        return false;
    calls->kept_count++;
    thread->call[thread->count++] = (gwi_call){.t_ns = event->t_ns,
                                               .bytes = bytes_of(event),
                                               .site = gw_sites_number(model->sites, event->pid, event->site),
                                               .fn = event->fn,
                                               .result = event->result};
    return true;
}

/* ---- matching threads ---- */

typedef struct seat { /* identifies a thread by its process and index, to find its counterpart in the other run */
    bool has_rank;
    uint32_t rank, process, thread;
} seat;

static seat seat_of(const gw_portrait *portrait, size_t index)
{
    const gwi_thread_calls *thread = &portrait->calls->thread[index];
    const gw_process *process = gw_model_process(portrait->model, thread->pid);
    seat found = {.process = thread->process, .thread = thread->place};
    if (process != NULL && process->has_rank) {
        found.has_rank = true;
        found.rank = process->rank;
    }
    return found;
}

static bool same_seat(const seat *a, const seat *b)
{
    if (a->has_rank != b->has_rank || a->thread != b->thread)
        return false;
    return a->has_rank ? a->rank == b->rank : a->process == b->process;
}

/* ---- divergence ---- */

static bool same_call(const gw_portrait *good, const gwi_call *a, const gw_portrait *bad, const gwi_call *b)
{
    return a->bytes == b->bytes && a->result == b->result &&
           strcmp(gw_model_fn_name(good->model, a->fn), gw_model_fn_name(bad->model, b->fn)) == 0;
}

static size_t count_same(const gw_portrait *good, const gwi_thread_calls *a, const gw_portrait *bad,
                         const gwi_thread_calls *b)
{
    size_t at = 0;
    while (at < a->count && at < b->count && same_call(good, &a->call[at], bad, &b->call[at]))
        at++;
    return at;
}

char *gwi_place_of(const gw_model *model, uint32_t site)
{
    char inner[GW_PLACE_TEXT_MAX], outer[GW_PLACE_TEXT_MAX];
    const gw_stack *stack = site == 0 ? NULL : gw_sites_stack(model->sites, site);
    if (stack == NULL || stack->user == stack->count)
        return NULL;
    const gw_frame *caller = gw_stack_caller(stack);
    gw_text text = {0};
    gw_text_addf(&text, "%s%s%s", gw_frame_text(model->sites, &stack->frame[stack->user], inner),
                 caller == NULL ? "" : ", called at ",
                 caller == NULL ? "" : gw_frame_text(model->sites, caller, outer));
    return text.data;
}

static bool fill_side(const gw_portrait *portrait, const gwi_thread_calls *thread, size_t at, gw_parting_side *side)
{
    *side = (gw_parting_side){.ended = at >= thread->count};
    if (side->ended)
        return true;
    const gwi_call *call = &thread->call[at];
    side->t_ns = call->t_ns;
    side->bytes = call->bytes;
    side->result = call->result;
    side->place = gwi_place_of(portrait->model, call->site);
    char name[GW_CALL_TEXT_MAX];
    return gw_str_copy(gw_call_text(name, gw_model_fn_name(portrait->model, call->fn)), &side->call);
}

/* True if the threads cannot be compared at call `at`: both have ended, or one made this call but it was not stored. */
static bool is_end(const gwi_thread_calls *a, const gwi_thread_calls *b, size_t at)
{
    return (at == a->count && at == b->count) || (at == a->count && a->total > a->count) ||
           (at == b->count && b->total > b->count);
}

static uint64_t time_of(const gwi_thread_calls *thread, size_t at)
{
    return at < thread->count ? thread->call[at].t_ns : UINT64_MAX;
}

typedef struct parting_place {
    const gwi_thread_calls *good, *bad;
    size_t at;
    seat where;
} parting_place;

static bool is_first_seat(const seat *where)
{
    return where->thread == 1 && (where->has_rank ? where->rank == 0 : where->process == 1);
}

static bool is_before(const parting_place *a, const parting_place *b)
{
    if (is_first_seat(&a->where) != is_first_seat(&b->where))
        return is_first_seat(&a->where);
    return time_of(a->bad, a->at) < time_of(b->bad, b->at);
}

/* Return the reason why the calls of this run cannot be compared, or NULL if they can. */
static const char *lack_of(const gw_portrait *portrait)
{
    const gw_model *model = portrait->model;
    if (portrait->calls == NULL || portrait->calls->thread_count == 0)
        return "no driver call was recorded";
    if (gw_model_fact(model, GW_FACT_DROPPED_EVENTS) != NULL)
        return "the recording reached its size limit and dropped its oldest calls";
    if (model->damaged_count > 0)
        return "the recording is damaged";
    for (size_t i = 0; i < model->process_count; i++)
        if (model->process[i].lost_events > 0)
            return "calls were lost during recording";
    return NULL;
}

bool gwi_parting_find(const gw_portrait *good, const gw_portrait *bad, gw_parting *ret_parting)
{
    const char *why_good = lack_of(good), *why_bad = lack_of(bad);
    *ret_parting = (gw_parting){0};
    if (why_good != NULL || why_bad != NULL) {
        gw_text text = {0};
        gw_text_addf(&text, "in the %s run, %s", why_good != NULL ? "good" : "bad",
                     why_good != NULL ? why_good : why_bad);
        ret_parting->reason = text.data;
        return !text.failed;
    }
    ret_parting->known = true;
    ret_parting->cut = good->calls->cut || bad->calls->cut;
    parting_place first = {0};
    uint64_t same_all = 0;
    for (size_t b = 0; b < bad->calls->thread_count; b++) {
        seat of_bad = seat_of(bad, b);
        for (size_t g = 0; g < good->calls->thread_count; g++) {
            seat of_good = seat_of(good, g);
            if (!same_seat(&of_good, &of_bad))
                continue;
            parting_place here = {&good->calls->thread[g], &bad->calls->thread[b], 0, of_bad};
            here.at = count_same(good, here.good, bad, here.bad);
            same_all += here.at;
            if (!is_end(here.good, here.bad, here.at) && (first.good == NULL || is_before(&here, &first)))
                first = here;
            break;
        }
    }
    ret_parting->same = same_all;
    if (first.good == NULL)
        return true;
    ret_parting->parted = true;
    ret_parting->is_main = is_first_seat(&first.where);
    ret_parting->same = first.at;
    ret_parting->process = first.where.process;
    ret_parting->thread = first.where.thread;
    return fill_side(good, first.good, first.at, &ret_parting->good) &&
           fill_side(bad, first.bad, first.at, &ret_parting->bad);
}
