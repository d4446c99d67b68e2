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
