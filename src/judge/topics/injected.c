/* How the program took an injected failure.
 *
 * Only the thread of the failed call is followed, until the next failure that was injected into it. Its recorded calls
 * are in gw_injection; successful launches and copies are in the rings, which hold the last ones. A call that releases
 * something is no work, because a program also releases its objects before it stops. */
#include "gwi_injected.h"

#include <inttypes.h>
#include <string.h>

const gw_injection *gwi_injection_of(const gwi_case *c, const gw_failure *failure)
{
    const gw_injection *found = NULL;
    for (size_t i = 0; failure != NULL && failure->injected && i < c->model->injection_count; i++) {
        const gw_injection *injection = &c->model->injection[i];
        bool fits = injection->result == failure->result && (injection->fn == failure->fn || injection->closes);
        if (injection->pid == failure->pid && injection->t_ns <= failure->t_ns && fits)
            found = injection;
    }
    return found;
}

/* ---- what followed ---- */

/* Return the time until which the injection is followed: that of the next one into the same thread. */
static uint64_t followed_until(const gwi_case *c, const gw_injection *injection)
{
    const gw_injection *end = c->model->injection + c->model->injection_count;
    for (const gw_injection *later = injection + 1; later < end; later++)
        if (later->pid == injection->pid && later->tid == injection->tid && later->result != 0)
            return later->t_ns;
    return UINT64_MAX;
}

/* Find the launches and copies of the thread that succeeded after the injection. *ret_first is the first one, or NULL.
 */
static uint64_t ring_work(const gwi_case *c, const gw_injection *injection, const gw_ring_call **ret_first)
{
    uint64_t until = followed_until(c, injection), count = 0;
    const gw_thread *thread = gw_model_first_thread(c->model, injection->pid);
    *ret_first = NULL;
    for (; thread != NULL; thread = gw_model_next_thread(c->model, thread))
        for (size_t k = 0; thread->tid == injection->tid && k < thread->ring_count; k++) {
            const gw_ring_call *call = &thread->ring[k];
            if (call->t_ns <= injection->t_ns || call->t_ns >= until || call->is_sync || call->is_query)
                continue;
            *ret_first = *ret_first == NULL ? call : *ret_first;
            count++;
        }
    return count;
}

/* Return the last injection of a series in which the program retried the same call, and count these retries. */
static const gw_injection *series_end(const gwi_case *c, const gw_injection *injection, uint64_t *ret_count)
{
    const gw_injection *end = c->model->injection + c->model->injection_count, *last = injection;
    *ret_count = 0;
    for (const gw_injection *later = injection + 1; later < end; later++) {
        if (later->pid != injection->pid || later->tid != injection->tid || later->result == 0)
            continue;
        if (!later->is_retry)
            break;
        last = later;
        ++*ret_count;
    }
    return last;
}

static const gw_hang *hang_after(const gwi_case *c, const gw_injection *injection)
{
    for (size_t i = 0; i < c->model->hang_count; i++) {
        const gw_hang *hang = &c->model->hang[i];
        if (hang->pid == injection->pid && !hang->over && hang->t_ns > injection->t_ns)
            return hang;
    }
    return NULL;
}

static bool is_outside_signal(int signal)
{
    enum { HUP = 1, INT = 2, KILL = 9, TERM = 15 };
    return signal == HUP || signal == INT || signal == KILL || signal == TERM;
}

/* ---- in words ---- */

static void add_next(const gwi_case *c, const gw_injected_next *next, gw_text *text)
{
    char call[GWI_CALL_TEXT_MAX], at[GWI_PLACE_TEXT_MAX];
    gw_text_addf(text, "%s%s", gwi_call_text(call, gw_model_fn_name(c->model, next->fn)), gwi_at(c, next->site, at));
    if (next->result != 0)
        gw_text_addf(text, " (which returned %u)", next->result);
}

/* Append the end of the process: " and ended with status 1". Nothing if it is not known. */
static void add_end(const gw_process *process, gw_text *text)
{
    if (process == NULL || !process->exit_known || !process->exit.status_known)
        gw_text_add_str(text, "; how it ended is not known");
    else if (process->exit.signal != 0)
        gw_text_addf(text, "; signal %d ended it", process->exit.signal);
    else
        gw_text_addf(text, "; it ended with status %d", process->exit.exit_code);
}

static void add_went_on(const gwi_case *c, const gw_injection *injection, const gw_ring_call *hot, gw_text *text)
{
    char call[GWI_CALL_TEXT_MAX];
    gw_text_add_str(text, "went on: next ");
    if (injection->next_count > 0 && (hot == NULL || injection->next[0].t_ns <= hot->t_ns))
        add_next(c, &injection->next[0], text);
    else if (hot != NULL)
        gw_text_add_str(text, gwi_call_text(call, hot->fn_name));
    for (uint32_t i = 1; i < injection->next_count; i++) {
        gw_text_add_str(text, ", then ");
        add_next(c, &injection->next[i], text);
    }
}

static void add_retry(uint64_t count, bool succeeded, const char *call, gw_text *text)
{
    gw_text_addf(text, "retried: called %s again", call);
    if (count > 1)
        gw_text_addf(text, ", %" PRIu64 " times", count);
    gw_text_add_str(text, succeeded ? ", with success" : ", without success");
}

static void add_noticed(const gwi_case *c, const gw_injection *injection, const gw_process *process, gw_text *text)
{
    const gw_stderr_line *line = &c->model->stderr_facts.result;
    gw_text_addf(text, "noticed: did no further GPU work and ended with status %d after %.3f s",
                 process->exit.exit_code, (double)(process->t_exit_ns - injection->t_ns) / 1e9);
    if (line->seen && line->t_ns >= injection->t_ns) {
        gw_text_add_str(text, ", and printed: ");
        gwi_quote_line(text, line);
    }
}

/* The thread did no further work. */
static gwi_taken stopped(const gwi_case *c, const gw_injection *injection, const gw_process *process, gw_text *text)
{
    bool ended = process != NULL && process->exit_known && process->exit.status_known && process->exit.signal == 0;
    if (ended && process->exit.exit_code != 0) {
        add_noticed(c, injection, process, text);
        return GWI_TAKEN_NOTICED;
    }
    if (ended) {
        gw_text_add_str(text, "did no further GPU work and ended with status 0; nothing shows whether it noticed");
        return GWI_TAKEN_ENDED;
    }
    gw_text_add_str(text, "did no further GPU work");
    add_end(process, text);
    return GWI_TAKEN_UNKNOWN;
}

gwi_taken gwi_injection_taken(const gwi_case *c, const gw_injection *injection, gw_text *text)
{
    char call[GWI_CALL_TEXT_MAX];
    uint64_t retries;
    injection = series_end(c, injection, &retries);
    const gw_process *process = gw_model_process(c->model, injection->pid);
    const gw_hang *hang = hang_after(c, injection);
    const gw_ring_call *hot;
    uint64_t work = injection->work_count + ring_work(c, injection, &hot);
    bool is_last = followed_until(c, injection) == UINT64_MAX;
    bool ended = process != NULL && process->exit_known && process->exit.status_known;
    gwi_call_text(call, gw_model_fn_name(c->model, injection->fn));
    if (hang != NULL) {
        gw_text_addf(text, "hung: no driver call of pid %" PRIu32 " began or ended for %.1f s", injection->pid,
                     (double)hang->for_ns / 1e9);
        return GWI_TAKEN_HUNG;
    }
    if (is_last && ended && process->exit.signal != 0 && !is_outside_signal(process->exit.signal)) {
        gw_text_addf(text, "died of signal %d, %.3f s after it", process->exit.signal,
                     (double)(process->t_exit_ns - injection->t_ns) / 1e9);
        if (work > 0) {
            gw_text_add_str(text, ", and before that ");
            add_went_on(c, injection, hot, text);
        }
        return GWI_TAKEN_DIED;
    }
    /* a launch or copy before the retry shows that the program went on without one */
    if (hot == NULL || injection->t_retry_ns == 0 || injection->t_retry_ns <= hot->t_ns)
        retries += injection->retry_count;
    if (retries > 0) {
        add_retry(retries, injection->retry_succeeded, call, text);
        add_end(process, text);
        return GWI_TAKEN_RETRIED;
    }
    if (work > 0 || !is_last) {
        if (work > 0)
            add_went_on(c, injection, hot, text);
        else
            gw_text_add_str(text, "went on until the next injected failure");
        add_end(process, text);
        return GWI_TAKEN_WENT_ON;
    }
    return stopped(c, injection, process, text);
}

/* ---- advice ---- */

/* Return the last injection with the rule of injection `first`. *ret_count counts them. NULL: an earlier one has the
 * same rule. */
static const gw_injection *last_with_rule(const gw_model *model, size_t first, uint64_t *ret_count)
{
    const char *rule = model->injection[first].rule;
    const gw_injection *last = NULL;
    *ret_count = 0;
    for (size_t i = 0; i < model->injection_count; i++) {
        const char *other = model->injection[i].rule;
        if (rule == NULL || other == NULL ? rule != other : strcmp(rule, other) != 0)
            continue;
        if (i < first)
            return NULL;
        last = &model->injection[i];
        ++*ret_count;
    }
    return last;
}

static bool advise_rule(const gwi_case *c, const gw_injection *last, uint64_t count, gw_string_list *advice)
{
    char call[GWI_CALL_TEXT_MAX], at[GWI_PLACE_TEXT_MAX];
    gw_text text = {0};
    const char *rule = last->rule == NULL ? "?" : last->rule;
    gwi_call_text(call, gw_model_fn_name(c->model, last->fn));
    if (last->result == 0) {
        gw_text_addf(&text, "--inject %s: gpuwhy slowed down %" PRIu64 " call%s by %.3f s each", rule, count,
                     GWI_PLURAL(count), (double)last->slow_ns / 1e9);
    } else {
        gw_text_addf(&text,
                     "--inject %s: gpuwhy let %" PRIu64 " call%s fail on purpose, %s %s%s with %u (%s); the program ",
                     rule, count, GWI_PLURAL(count), count > 1 ? "last" : "namely", call, gwi_at(c, last->site, at),
                     last->result, gw_result_name(last->result));
        (void)gwi_injection_taken(c, last, &text);
    }
    bool good = !text.failed && gwi_list_add(advice, gw_text_str(&text));
    gw_text_free(&text);
    return good;
}

static bool advise_fence(const gwi_case *c, const gw_fence *fence, gw_string_list *advice)
{
    char call[GWI_CALL_TEXT_MAX];
    gwi_call_text(call, gw_model_fn_name(c->model, fence->fn));
    if (fence->ends)
        return gwi_list_addf(advice,
                             "--fence=exit: gpuwhy ended pid %" PRIu32 " with status %d at its first call (%s) "
                             "after result %u (%s)",
                             fence->pid, GW_FENCE_EXIT_STATUS, call, fence->result, gw_result_name(fence->result));
    return gwi_list_addf(advice,
                         "--fence: after result %u (%s) gpuwhy kept %" PRIu64 " call%s of pid %" PRIu32
                         " from the driver, the first one %s",
                         fence->result, gw_result_name(fence->result), fence->refused_count,
                         GWI_PLURAL(fence->refused_count), fence->pid, call);
}

bool gwi_advise_interventions(const gwi_case *c, gw_string_list *advice)
{
    enum { RULES_MAX = 8, FENCES_MAX = 4 };
    const gw_model *model = c->model;
    const char *plan = gw_model_meta(model, GW_META_INJECT);
    uint64_t count;
    size_t told = 0;
    bool ended_well = c->ended && !c->bad_end && c->sticky == NULL; /* then no verdict names the failed call */
    const gw_injection *root = c->root == NULL || ended_well ? NULL : gwi_injection_of(c, c->root);
    for (size_t i = 0; i < model->injection_count && told < RULES_MAX; i++) {
        const gw_injection *last = last_with_rule(model, i, &count);
        if (last != NULL && last == root && count == 1)
            continue; /* the verdict is about it */
        if (last != NULL && (told++, !advise_rule(c, last, count, advice)))
            return false;
    }
    if (plan != NULL && model->injected_total == 0 &&
        !gwi_list_addf(advice, "--inject %s: no rule took effect; gpuwhy changed no call", plan))
        return false;
    for (size_t i = 0; i < model->fence_count && i < FENCES_MAX; i++)
        if (!advise_fence(c, &model->fence[i], advice))
            return false;
    return true;
}
