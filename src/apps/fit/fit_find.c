/* Runs the searches of `gpuwhy fit` with rehearsals, several at a time.
 *
 * Trials may end in any order. One that failed for another reason than memory counts as the upper end, but the answer
 * is then "not known". Recordings and verdicts of trials are in a temporary folder, and nothing of them stays. */
#include "gwi_fit_state.h"

#include <stdlib.h>

enum { LARGER = 16 };

/* Find the next trial of any combination. */
static bool next_trial(gwi_fit *fit, gwi_fit_trial *ret_trial)
{
    for (size_t i = 0; i < fit->plan.combination_count; i++) {
        uint64_t number;
        if (!gw_fit_search_next(&fit->one[i].search, &number))
            continue;
        *ret_trial = (gwi_fit_trial){.combination = i, .number = number, .kind = GWI_FIT_REHEARSAL};
        return true;
    }
    return false;
}

static gw_status take_result(gwi_fit *fit, const gwi_fit_trial *trial, gw_error *err)
{
    if (trial->cannot != 0) {
        fit->cannot = trial->cannot;
        return gw_fail(err, GW_USAGE, "%s", trial->why == NULL ? "no trial can be started" : trial->why);
    }
    gw_fit_search_result(&fit->one[trial->combination].search, trial->number, trial->fit);
    return GW_OK;
}

static gw_status search_all(gwi_fit *fit, uint64_t jobs, gw_error *err)
{
    gwi_fit_trial wanted, *trial;
    for (;;) {
        while (fit->running_count < jobs && fit->stop_signal == 0 && next_trial(fit, &wanted)) {
            wanted.is_alone = jobs == 1;
            gw_status st = gwi_fit_start(fit, &wanted, &trial, err);
            if (st != GW_OK)
                return st;
        }
        trial = gwi_fit_wait(fit);
        if (trial == NULL)
            return GW_OK;
        gw_status st = take_result(fit, trial, err);
        if (st != GW_OK)
            return st;
    }
}

/* ---- rehearsals alone ---- */

/* Rehearse a number again while nothing else runs, unless this was done. *ret_changed is set if the result is another
 * one. */
static gw_status repeat(gwi_fit *fit, size_t combination, uint64_t number, bool *ret_changed, gw_error *err)
{
    gwi_fit_trial wanted = {.combination = combination, .number = number, .kind = GWI_FIT_REHEARSAL, .is_alone = true},
                  *trial;
    const gwi_fit_trial *before = gwi_fit_trial_of(fit, combination, number, GWI_FIT_REHEARSAL);
    if (before == NULL || before->is_alone || fit->stop_signal != 0)
        return GW_OK;
    gw_status st = gwi_fit_start(fit, &wanted, &trial, err);
    if (st != GW_OK)
        return st;
    trial = gwi_fit_wait(fit);
    if (trial == NULL)
        return GW_OK;
    *ret_changed = *ret_changed || trial->fit != before->fit;
    return take_result(fit, trial, err);
}

/* Each rehearsal takes real memory for its context and code, so several at a time may disturb each other on a small
 * card. So the numbers that the answer names are rehearsed again, alone. If a result changes, the search goes on, one
 * rehearsal at a time. */
static gw_status check_alone(gwi_fit *fit, gw_error *err)
{
    bool changed = fit->jobs > 1;
    gw_status st = GW_OK;
    while (changed && st == GW_OK && fit->stop_signal == 0) {
        changed = false;
        for (size_t i = 0; i < fit->plan.combination_count && st == GW_OK; i++) {
            gw_fit_answer answer = gw_fit_search_answer(&fit->one[i].search);
            st = repeat(fit, i, answer.largest, &changed, err);
            if (st == GW_OK)
                st = repeat(fit, i, answer.next, &changed, err);
            if (st == GW_OK)
                st = repeat(fit, i, answer.hole, &changed, err);
        }
        if (changed && st == GW_OK)
            st = search_all(fit, 1, err);
    }
    return st;
}

/* ---- nothing fits: how much is needed? ---- */

/* Start rehearsals of the smallest number and of twice that number on a larger card. */
static gw_status start_larger(gwi_fit *fit, size_t combination, gw_error *err)
{
    const gwi_fit_case *one = &fit->one[combination];
    const gwi_fit_trial *first = gwi_fit_trial_of(fit, combination, one->answer.next, GWI_FIT_REHEARSAL);
    for (uint64_t i = 1; i <= 2; i++) {
        gwi_fit_trial *ignored, wanted = {.combination = combination,
                                          .number = one->answer.next * i,
                                          .kind = GWI_FIT_LARGER,
                                          .limit_bytes = first->limit_bytes * LARGER};
        gw_status st = gwi_fit_start(fit, &wanted, &ignored, err);
        if (st != GW_OK)
            return st;
    }
    return GW_OK;
}

/* Memory is about linear near the smallest number: what twice as much needs more is what the number needs. */
static void take_need(gwi_fit *fit, size_t combination)
{
    gwi_fit_case *one = &fit->one[combination];
    const gwi_fit_trial *first = gwi_fit_trial_of(fit, combination, one->answer.next, GWI_FIT_LARGER);
    const gwi_fit_trial *twice = gwi_fit_trial_of(fit, combination, one->answer.next * 2, GWI_FIT_LARGER);
    if (first == NULL || first->fit != GW_FIT_YES)
        return;
    one->need_bytes = first->peak_bytes;
    if (twice == NULL || twice->fit != GW_FIT_YES || twice->peak_bytes < first->peak_bytes)
        return;
    uint64_t more = twice->peak_bytes - first->peak_bytes;
    one->fixed_bytes = more < first->peak_bytes ? first->peak_bytes - more : 0;
}

static gw_status see_need(gwi_fit *fit, gw_error *err)
{
    gw_status st = GW_OK;
    for (size_t i = 0; i < fit->plan.combination_count && st == GW_OK && fit->stop_signal == 0; i++) {
        if (fit->one[i].answer.end != GW_FIT_END_NONE)
            continue;
        st = start_larger(fit, i, err);
        while (gwi_fit_wait(fit) != NULL)
            ;
        take_need(fit, i);
    }
    return st;
}

/* ---- all ---- */

gw_status gwi_fit_find(gwi_fit *fit, gw_error *err)
{
    gw_status st = GW_OK;
    for (size_t i = 0; i < fit->plan.combination_count && st == GW_OK; i++)
        st = gw_fit_search_begin(&fit->one[i].search, fit->from, fit->max, fit->step, err);
    if (st == GW_OK)
        st = search_all(fit, fit->jobs, err);
    if (st == GW_OK)
        st = check_alone(fit, err);
    for (size_t i = 0; i < fit->plan.combination_count && st == GW_OK; i++) {
        gwi_fit_case *one = &fit->one[i];
        one->answer = gw_fit_search_answer(&one->search);
        one->rehearsed = one->answer.largest;
        const gwi_fit_trial *next = gwi_fit_trial_of(fit, i, one->answer.next, GWI_FIT_REHEARSAL);
        if (one->answer.end == GW_FIT_END_UNKNOWN && next != NULL && !gw_str_copy(next->why, &one->not_rehearsed))
            st = gw_fail(err, GW_NOMEM, "read a trial");
    }
    return st == GW_OK ? see_need(fit, err) : st;
}

/* Short real runs of `gpuwhy fit`: they confirm an answer, measure its speed, and search where rehearsals do not serve.
 * One at a time, because they share the card. */

/* Largest difference between rehearsals and real runs, in steps. Beyond it, search again (down) or stop (up). */
enum { STEPS_MAX = 8 };

/* ---- runs ---- */

/* Run a number for a while. *ret_trial: NULL if a signal has stopped it. */
static gw_status run(gwi_fit *fit, size_t combination, uint64_t number, gwi_fit_trial **ret_trial, gw_error *err)
{
    gwi_fit_trial wanted = {.combination = combination, .number = number, .kind = GWI_FIT_REAL};
    wanted.enough_launches = gwi_fit_launches_each(fit, combination, number) * fit->real_iterations;
    gw_status st = gwi_fit_start(fit, &wanted, ret_trial, err);
    if (st == GW_OK)
        *ret_trial = gwi_fit_wait(fit);
    return st;
}

/* Search with real runs, upwards from what is known to fit. */
static gw_status search(gwi_fit *fit, size_t combination, gw_error *err)
{
    gwi_fit_case *one = &fit->one[combination];
    uint64_t number, from = one->answer.largest == 0 ? fit->from : one->answer.largest;
    gw_status st = gw_fit_search_begin(&one->search, from, fit->max, fit->step, err);
    one->by_real_runs = true;
    while (st == GW_OK && fit->stop_signal == 0 && gw_fit_search_next(&one->search, &number)) {
        gwi_fit_trial *trial = NULL;
        st = run(fit, combination, number, &trial, err);
        if (st == GW_OK && trial != NULL)
            gw_fit_search_result(&one->search, number, trial->fit);
    }
    one->answer = gw_fit_search_answer(&one->search);
    return st;
}

/* The real run of `largest` had not enough memory: go down, one step at a time. */
static gw_status go_down(gwi_fit *fit, size_t combination, gw_error *err)
{
    gw_fit_answer *answer = &fit->one[combination].answer;
    gw_status st = GW_OK;
    for (int i = 0; i < STEPS_MAX && st == GW_OK && fit->stop_signal == 0; i++) {
        if (answer->largest < fit->from + fit->step) {
            *answer = (gw_fit_answer){.end = GW_FIT_END_NONE, .next = answer->largest};
            return GW_OK;
        }
        gwi_fit_trial *trial = NULL;
        *answer =
            (gw_fit_answer){.end = GW_FIT_END_FOUND, .largest = answer->largest - fit->step, .next = answer->largest};
        st = run(fit, combination, answer->largest, &trial, err);
        if (trial != NULL && trial->fit == GW_FIT_UNKNOWN)
            *answer = (gw_fit_answer){.end = GW_FIT_END_UNKNOWN, .next = answer->largest};
        if (trial == NULL || trial->fit != GW_FIT_NO)
            return st;
    }
    answer->largest = 0; /* far off: search from the beginning */
    return st == GW_OK && fit->stop_signal == 0 ? search(fit, combination, err) : st;
}

/* Take the result of a real run of `next`. Returns true if the number after it should run, too. */
static bool take_next(const gwi_fit *fit, const gwi_fit_trial *trial, bool is_last, gw_fit_answer *answer)
{
    if (trial->fit == GW_FIT_UNKNOWN &&
        gwi_fit_trial_of(fit, trial->combination, trial->number, GWI_FIT_REHEARSAL) == NULL)
        answer->end = GW_FIT_END_UNKNOWN;
    if (trial->fit != GW_FIT_YES)
        return false;
    uint64_t next = trial->number + fit->step;
    *answer = (gw_fit_answer){.end = next > fit->max ? GW_FIT_END_MAX : GW_FIT_END_FOUND, .largest = trial->number};
    if (is_last && answer->end == GW_FIT_END_FOUND)
        answer->end = GW_FIT_END_FULL;
    answer->next = answer->end == GW_FIT_END_FOUND ? next : 0;
    return answer->next != 0;
}

/* Real runs of `next`, as long as it runs. */
static gw_status go_up(gwi_fit *fit, size_t combination, gw_error *err)
{
    gw_fit_answer *answer = &fit->one[combination].answer;
    gw_status st = GW_OK;
    bool goes_on = answer->next != 0;
    for (int i = 0; i < STEPS_MAX && st == GW_OK && goes_on && fit->stop_signal == 0; i++) {
        gwi_fit_trial *trial = NULL;
        st = run(fit, combination, answer->next, &trial, err);
        goes_on = trial != NULL && take_next(fit, trial, i + 1 == STEPS_MAX, answer);
    }
    return st;
}

/* Run the answer and the next number for real, and follow the real runs if they differ from the rehearsals: where
 * requests are refused, PyTorch drops its cache and cuDNN takes another algorithm, so two runs with the same number may
 * end differently. */
static gw_status confirm(gwi_fit *fit, size_t combination, gw_error *err)
{
    gwi_fit_case *one = &fit->one[combination];
    gwi_fit_trial *trial = NULL;
    gw_status st = GW_OK;
    if (one->answer.largest != 0)
        st = run(fit, combination, one->answer.largest, &trial, err);
    if (st == GW_OK && trial != NULL && trial->fit == GW_FIT_NO && fit->real)
        st = go_down(fit, combination, err);
    else if (st == GW_OK && fit->real && fit->stop_signal == 0)
        st = go_up(fit, combination, err);
    one->by_real_runs = one->by_real_runs || one->answer.largest != one->rehearsed;
    return st;
}

/* The size of the real card, if it is smaller than the card that was asked for; otherwise 0. */
static uint64_t too_small(const gwi_fit *fit)
{
    for (size_t i = 0; i < fit->trial_count; i++)
        if (fit->trial[i]->real_bytes != 0)
            return fit->trial[i]->real_bytes < fit->memory_bytes ? fit->trial[i]->real_bytes : 0;
    return 0;
}

gw_status gwi_fit_real(gwi_fit *fit, gw_error *err)
{
    gw_status st = GW_OK;
    if (fit->real || fit->speed)
        fit->too_small_bytes = too_small(fit);
    if (fit->too_small_bytes != 0)
        return GW_OK;
    for (size_t i = 0; i < fit->plan.combination_count && st == GW_OK && fit->stop_signal == 0; i++) {
        if (fit->one[i].answer.end == GW_FIT_END_UNKNOWN && fit->real)
            st = search(fit, i, err);
        else if (fit->real || fit->speed)
            st = confirm(fit, i, err);
    }
    return st;
}

size_t gwi_fit_fastest(const gwi_fit *fit)
{
    size_t fastest = fit->plan.combination_count;
    double most = 0;
    for (size_t i = 0; i < fit->plan.combination_count; i++) {
        const gwi_fit_trial *trial = gwi_fit_trial_of(fit, i, fit->one[i].answer.largest, GWI_FIT_REAL);
        if (trial == NULL || trial->items_per_second <= most)
            continue;
        most = trial->items_per_second;
        fastest = i;
    }
    return fastest;
}
