/* Prints the answer of `gpuwhy fit`: the answer first, then a table of the trials and a chart. */
#include "gwi_fit_state.h"

#include "gw_say.h"
#include "gw_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { LABEL_COLUMNS = 9, INDENT = 11, WIDTH = 80, WHY_BYTES = 160 };

/* Paint what was added since `from` bytes and begins with `what`. */
static void paint(const gwi_fit *fit, gw_text *text, size_t from, const char *what, gw_role role)
{
    if (fit->colour)
        gw_paint_begin(text, from, what, strlen(what), role);
}

/* Add a paragraph with its body in the colour of `role`, and free the body. Reasons and names come from the program, so
 * replace control characters. */
static void paragraph_in(const gwi_fit *fit, gw_text *text, const char *label, gw_text *body, gw_role role)
{
    gw_text clean = {0};
    size_t from = text->bytes;
    gw_text_addf(text, "%-*s", LABEL_COLUMNS, label);
    paint(fit, text, from, label, GW_ROLE_STRONG);
    from = text->bytes;
    gw_add_printable(&clean, gw_text_str(body));
    gw_add_wrapped(text, gw_text_str(&clean), LABEL_COLUMNS, INDENT, WIDTH);
    paint(fit, text, from, gw_text_str(&clean), role);
    gw_text_free(&clean);
    gw_text_free(body);
}

static void paragraph(const gwi_fit *fit, gw_text *text, const char *label, gw_text *body)
{
    paragraph_in(fit, text, label, body, GW_ROLE_PLAIN);
}

void gwi_fit_values_text(const gwi_fit *fit, size_t combination, gw_text *text)
{
    for (size_t i = 0; i < fit->plan.name_count; i++) {
        gw_text_addf(text, "%s%s=", i == 0 ? "" : " ", fit->plan.name[i].name);
        gw_add_printable(text, gw_fit_plan_value(&fit->plan, combination, i));
    }
}

/* The trial that decided about a number: a real run if the search was made with real runs. */
static const gwi_fit_trial *deciding(const gwi_fit *fit, size_t combination, uint64_t number)
{
    bool is_real = fit->one[combination].by_real_runs;
    return gwi_fit_trial_of(fit, combination, number, is_real ? GWI_FIT_REAL : GWI_FIT_REHEARSAL);
}

static const char *reason(const char *why)
{
    return why == NULL ? "the reason is unknown" : why;
}

/* ---- the answer ---- */

/* The card's size as text: that of --memory, otherwise of a rehearsal. */
static const char *card_text(const gwi_fit *fit, char out[GW_BYTES_TEXT_MAX])
{
    uint64_t bytes = fit->memory_bytes;
    for (size_t i = 0; i < fit->trial_count && bytes == 0; i++)
        if (fit->trial[i]->kind == GWI_FIT_REHEARSAL)
            bytes = fit->trial[i]->limit_bytes;
    return bytes == 0 ? "the card" : gw_bytes_text(out, bytes);
}

static void add_none(const gwi_fit *fit, size_t combination, gw_text *body)
{
    const gwi_fit_case *one = &fit->one[combination];
    char size[GW_BYTES_TEXT_MAX], need[GW_BYTES_TEXT_MAX], fixed[GW_BYTES_TEXT_MAX];
    const char *card = card_text(fit, size);
    const gwi_fit_trial *first = deciding(fit, combination, one->answer.next);
    uint64_t limit = first == NULL ? 0 : first->limit_bytes;
    if (one->answer.next == fit->step)
        gw_text_add_str(body, "no batch fits");
    else
        gw_text_addf(body, "batch %" PRIu64 ", the smallest that was asked for, does not fit", one->answer.next);
    if (limit != 0 && one->fixed_bytes > limit)
        gw_text_addf(body,
                     ", because what does not depend on the batch (weights, optimizer, code) alone needs about %s"
                     " of %s; batch %" PRIu64 " needs %s",
                     gw_bytes_text(fixed, one->fixed_bytes), card, one->answer.next,
                     gw_bytes_text(need, one->need_bytes));
    else if (one->need_bytes > limit)
        gw_text_addf(body, ": batch %" PRIu64 " needs %s of %s", one->answer.next, gw_bytes_text(need, one->need_bytes),
                     card);
    else if (one->need_bytes != 0)
        gw_text_addf(body,
                     " %s: batch %" PRIu64 " needs %s on a larger card, and the driver's own memory and fragments"
                     " need the rest",
                     card, one->answer.next, gw_bytes_text(need, one->need_bytes));
    else
        gw_text_addf(body, " %s; how much it needs is not known", card);
}

static void add_unknown(const gwi_fit *fit, size_t combination, gw_text *body)
{
    const gwi_fit_case *one = &fit->one[combination];
    const gwi_fit_trial *next = deciding(fit, combination, one->answer.next);
    const char *kind = one->by_real_runs ? "real run" : "rehearsal";
    if (one->answer.largest == 0)
        gw_text_add_str(body, "not known: ");
    else
        gw_text_addf(body, "batch %" PRIu64 " fits, but whether more fits is not known: ", one->answer.largest);
    gw_text_addf(body, "the %s of batch %" PRIu64 " failed for another reason than memory: %.*s", kind,
                 one->answer.next, WHY_BYTES, reason(next == NULL ? NULL : next->why));
    if (!fit->real && !one->by_real_runs)
        gw_text_add_str(body, "; with --real, gpuwhy searches with short real runs");
}

/* Add how much of the card the answer leaves free. */
static void add_left(const gwi_fit *fit, size_t combination, gw_text *body)
{
    const gwi_fit_trial *top =
        gwi_fit_trial_of(fit, combination, fit->one[combination].answer.largest, GWI_FIT_REHEARSAL);
    char left[GW_BYTES_TEXT_MAX];
    if (top != NULL && top->fit == GW_FIT_YES && top->peak_bytes != 0 && top->peak_bytes <= top->limit_bytes)
        gw_text_addf(body, ", with %s left", gw_bytes_text(left, top->limit_bytes - top->peak_bytes));
}

static void add_answer(const gwi_fit *fit, size_t combination, gw_text *body)
{
    const gw_fit_answer *answer = &fit->one[combination].answer;
    char size[GW_BYTES_TEXT_MAX];
    const char *card = card_text(fit, size);
    switch (answer->end) {
    case GW_FIT_END_FOUND:
        gw_text_addf(body, "batch %" PRIu64 " is the largest that fits %s", answer->largest, card);
        add_left(fit, combination, body);
        gw_text_addf(body, "; %" PRIu64 " does not fit", answer->next);
        break;
    case GW_FIT_END_MAX:
        gw_text_addf(body, "batch %" PRIu64 " fits %s", answer->largest, card);
        add_left(fit, combination, body);
        gw_text_add_str(body, ", and is the largest that --max allows");
        break;
    case GW_FIT_END_NONE:
        add_none(fit, combination, body);
        break;
    case GW_FIT_END_UNKNOWN:
        add_unknown(fit, combination, body);
        break;
    case GW_FIT_END_OPEN:
    case GW_FIT_END_FULL:
        gw_text_addf(body, "batch %" PRIu64 " fits %s; the search has ended too early to tell whether more fits",
                     answer->largest, card);
        break;
    }
}

void gwi_fit_line(const gwi_fit *fit, gw_text *text)
{
    for (size_t i = 0; i < fit->plan.combination_count; i++) {
        const gw_fit_answer *answer = &fit->one[i].answer;
        gw_text_add_str(text, i == 0 ? "" : ", ");
        gwi_fit_values_text(fit, i, text);
        gw_text_add_str(text, fit->plan.name_count == 0 ? "" : ": ");
        if (answer->end == GW_FIT_END_NONE)
            gw_text_add_str(text, "no batch fits");
        else if (answer->largest == 0)
            gw_text_add_str(text, "batch not known");
        else
            gw_text_addf(text, "batch %s%" PRIu64, answer->end == GW_FIT_END_FOUND ? "" : "at least ", answer->largest);
    }
}

/* ---- below the answer ---- */

static void add_real(const gwi_fit *fit, size_t combination, uint64_t number, gw_text *text)
{
    const gwi_fit_trial *trial = gwi_fit_trial_of(fit, combination, number, GWI_FIT_REAL);
    const gwi_fit_trial *rehearsed = gwi_fit_trial_of(fit, combination, number, GWI_FIT_REHEARSAL);
    gw_text body = {0};
    if (number == 0 || trial == NULL)
        return;
    gw_text_addf(&body, "batch %" PRIu64 " ", number);
    if (trial->fit == GW_FIT_NO)
        gw_text_addf(&body, "fails in a real run after %.1f s: %.*s", trial->seconds, WHY_BYTES, reason(trial->why));
    else if (trial->fit == GW_FIT_UNKNOWN)
        gw_text_addf(&body, "failed in a real run for another reason than memory, after %.1f s: %.*s", trial->seconds,
                     WHY_BYTES, reason(trial->why));
    else
        gw_text_addf(&body, "runs: %.1f s, %" PRIu64 " launches%s", trial->seconds, trial->launches,
                     trial->was_ended ? ", then ended by gpuwhy" : ", to its own end");
    uint64_t launches_each = gwi_fit_launches_each(fit, combination, number);
    if (trial->fit == GW_FIT_YES && launches_each != 0)
        gw_text_addf(&body, ", about %" PRIu64 " iterations", trial->launches / launches_each);
    if (trial->fit == GW_FIT_YES && rehearsed != NULL && rehearsed->fit == GW_FIT_NO)
        gw_text_add_str(&body, ", although its rehearsal did not fit");
    if (trial->items_per_second > 0)
        gw_text_addf(&body, "; %.4g items/s", trial->items_per_second);
    else if (fit->speed && trial->fit == GW_FIT_YES)
        gw_text_add_str(&body, "; items per second are not known: the run had too few equal iterations, or its "
                               "rehearsal found none");
    paragraph(fit, text, "Real", &body);
}

static void add_notes(const gwi_fit *fit, size_t combination, gw_text *text)
{
    const gwi_fit_case *one = &fit->one[combination];
    gw_text body = {0};
    char rehearsed[64] = "no batch fits";
    if (one->rehearsed != 0)
        snprintf(rehearsed, sizeof rehearsed, "batch %" PRIu64 " is the largest", one->rehearsed);
    if (one->answer.largest != one->rehearsed && one->not_rehearsed == NULL)
        gw_text_addf(&body,
                     "by rehearsals %s; the answer is what real runs showed. Near the limit some requests are refused, "
                     "and the program tries again with less, so two runs may end differently",
                     rehearsed);
    else if (one->by_real_runs)
        gw_text_addf(&body, "searched with real runs, because a rehearsal failed for another reason than memory: %.*s",
                     WHY_BYTES, reason(one->not_rehearsed));
    if (body.bytes > 0)
        paragraph(fit, text, "Note", &body);
    body = (gw_text){0};
    if (one->answer.hole != 0) {
        gw_text_addf(&body, "not monotonic: batch %" PRIu64 " does not fit, although %" PRIu64 " does",
                     one->answer.hole, one->answer.largest);
        paragraph(fit, text, "Note", &body);
    }
    add_real(fit, combination, one->answer.largest, text);
    if (fit->real)
        add_real(fit, combination, one->answer.next, text);
}

static const char *real_card(const gwi_fit *fit)
{
    for (size_t i = 0; i < fit->trial_count; i++)
        if (fit->trial[i]->card != NULL)
            return fit->trial[i]->card;
    return "this machine's card";
}

static void add_card_note(const gwi_fit *fit, gw_text *text)
{
    gw_text body = {0};
    if (fit->card == NULL || strcmp(fit->card, real_card(fit)) == 0)
        return;
    gw_text_addf(&body,
                 "only the memory is that of a %s. Kernels, workspaces and the context are those of %s: on "
                 "compute capability %d.%d, libraries may choose others",
                 fit->card, real_card(fit), fit->card_major, fit->card_minor);
    paragraph(fit, text, "Note", &body);
}

static void add_no_real_note(const gwi_fit *fit, gw_text *text)
{
    gw_text body = {0};
    char real[GW_BYTES_TEXT_MAX], wanted[GW_BYTES_TEXT_MAX];
    if (fit->too_small_bytes == 0)
        return;
    gw_text_addf(&body, "no real runs, because the real card has %s, less than %s",
                 gw_bytes_text(real, fit->too_small_bytes), gw_bytes_text(wanted, fit->memory_bytes));
    paragraph(fit, text, "Note", &body);
}

static void add_cost(const gwi_fit *fit, gw_text *text)
{
    size_t rehearsals = 0, real_runs = 0;
    gw_text body = {0};
    for (size_t i = 0; i < fit->trial_count; i++)
        if (fit->trial[i]->kind == GWI_FIT_REAL)
            real_runs++;
        else
            rehearsals++;
    gw_text_addf(&body, "%.1f s for %zu rehearsal%s, at most %" PRIu64 " at a time", fit->seconds, rehearsals,
                 rehearsals == 1 ? "" : "s", fit->jobs);
    if (real_runs > 0)
        gw_text_addf(&body, ", and %zu real run%s", real_runs, real_runs == 1 ? "" : "s");
    paragraph(fit, text, "Took", &body);
}

/* ---- the table of trials ---- */

static int by_number(const void *left, const void *right)
{
    const gwi_fit_trial *a = *(const gwi_fit_trial *const *)left, *b = *(const gwi_fit_trial *const *)right;
    if (a->number != b->number)
        return (a->number > b->number) - (a->number < b->number);
    return (a->kind > b->kind) - (a->kind < b->kind);
}

static bool is_newest(const gwi_fit *fit, const gwi_fit_trial *trial)
{
    return gwi_fit_trial_of(fit, trial->combination, trial->number, trial->kind) == trial;
}

/* The trials of a combination by number, without those on a larger card and those that were repeated. NULL: no
 * memory. */
static const gwi_fit_trial **sorted(const gwi_fit *fit, size_t combination, size_t *ret_count)
{
    const gwi_fit_trial **list = malloc((fit->trial_count + 1) * sizeof(gwi_fit_trial *));
    *ret_count = 0;
    for (size_t i = 0; list != NULL && i < fit->trial_count; i++)
        if (fit->trial[i]->combination == combination && fit->trial[i]->kind != GWI_FIT_LARGER &&
            is_newest(fit, fit->trial[i]))
            list[(*ret_count)++] = fit->trial[i];
    if (list != NULL)
        qsort(list, *ret_count, sizeof *list, by_number);
    return list;
}

static const char *fits_text(gw_fit fit)
{
    static const char *const texts[] = {
        [GW_FIT_RUNNING] = "?", [GW_FIT_YES] = "yes", [GW_FIT_NO] = "no", [GW_FIT_UNKNOWN] = "unknown"};
    return texts[fit];
}

static gw_role role_of_fit(gw_fit fit)
{
    static const gw_role roles[] = {[GW_FIT_RUNNING] = GW_ROLE_DIM,
                                    [GW_FIT_YES] = GW_ROLE_GOOD,
                                    [GW_FIT_NO] = GW_ROLE_FAILED,
                                    [GW_FIT_UNKNOWN] = GW_ROLE_WARNING};
    return roles[fit];
}

static void add_row(const gwi_fit *fit, const gwi_fit_trial *trial, gw_text *text)
{
    char peak[GW_BYTES_TEXT_MAX] = "-";
    if (trial->fit == GW_FIT_YES && trial->peak_bytes != 0)
        gw_bytes_text(peak, trial->peak_bytes);
    gw_text_addf(text, "  %10" PRIu64 "  %12s  ", trial->number, peak);
    size_t from = text->bytes;
    gw_text_addf(text, "%-8s", fits_text(trial->fit));
    paint(fit, text, from, fits_text(trial->fit), role_of_fit(trial->fit));
    gw_text_addf(text, "%8.1f%s\n", trial->seconds, trial->kind == GWI_FIT_REAL ? "  real run" : "");
}

static void add_trials(const gwi_fit *fit, size_t combination, gw_text *text)
{
    size_t count;
    const gwi_fit_trial **list = sorted(fit, combination, &count);
    gw_text_addf(text, "\n  %10s  %12s  %-8s%8s", "batch", "peak", "fits", "seconds");
    if (fit->plan.name_count > 0)
        gw_text_add_str(text, "  ");
    gwi_fit_values_text(fit, combination, text);
    gw_text_add(text, "\n", 1);
    for (size_t i = 0; list != NULL && i < count; i++)
        add_row(fit, list[i], text);
    free(list);
}

/* ---- the chart ---- */

enum { CHART_ROWS = 9, CHART_COLUMNS = 60, SCALE_COLUMNS = 12 };

typedef struct chart {
    char cell[CHART_ROWS][CHART_COLUMNS + 1];
    uint64_t numbers, bytes; /* at the right and at the upper end */
} chart;

static void draw(chart *it, const gwi_fit_trial *trial)
{
    if (trial->kind != GWI_FIT_REHEARSAL || trial->number > it->numbers)
        return;
    size_t column = (size_t)((double)trial->number / (double)it->numbers * (CHART_COLUMNS - 1));
    double height = (double)trial->peak_bytes / (double)it->bytes * (CHART_ROWS - 1);
    if (trial->fit == GW_FIT_YES && trial->peak_bytes <= it->bytes)
        it->cell[CHART_ROWS - 1 - (size_t)(height + 0.5)][column] = '*';
    else if (trial->fit == GW_FIT_NO && it->cell[0][column] == '-')
        it->cell[0][column] = 'x';
}

static void add_chart_rows(const chart *it, gw_text *text)
{
    char size[GW_BYTES_TEXT_MAX], right[24];
    for (size_t row = 0; row < CHART_ROWS; row++) {
        size_t used = CHART_COLUMNS;
        while (used > 0 && it->cell[row][used - 1] == ' ')
            used--;
        const char *scale = row == 0 ? gw_bytes_text(size, it->bytes) : row == CHART_ROWS - 1 ? "0" : "";
        gw_text_addf(text, "  %*s |%.*s\n", SCALE_COLUMNS, scale, (int)used, it->cell[row]);
    }
    snprintf(right, sizeof right, "%" PRIu64, it->numbers);
    gw_text_addf(text, "  %*s 0%*s\n", SCALE_COLUMNS, "batch", CHART_COLUMNS - 1, right);
}

/* Draw the peaks against the numbers. The upper line is the card's size; x: does not fit. */
static void add_chart(const gwi_fit *fit, size_t combination, gw_text *text)
{
    const gw_fit_answer *answer = &fit->one[combination].answer;
    const gwi_fit_trial *top = gwi_fit_trial_of(fit, combination, answer->largest, GWI_FIT_REHEARSAL);
    chart it;
    if (top == NULL || top->limit_bytes == 0 || top->number < 2)
        return;
    it.numbers = answer->largest + answer->largest / 4;
    it.bytes = top->limit_bytes;
    memset(it.cell, ' ', sizeof it.cell);
    memset(it.cell[0], '-', CHART_COLUMNS);
    for (size_t i = 0; i < fit->trial_count; i++)
        if (fit->trial[i]->combination == combination)
            draw(&it, fit->trial[i]);
    gw_text_add(text, "\n", 1);
    add_chart_rows(&it, text);
}

/* ---- several combinations ---- */

static void add_comparison(const gwi_fit *fit, gw_text *text)
{
    size_t fastest = gwi_fit_fastest(fit);
    gw_text_addf(text, "\n  %10s  %12s  %10s\n", "batch", "peak", fit->speed ? "items/s" : "");
    for (size_t i = 0; i < fit->plan.combination_count; i++) {
        const gw_fit_answer *answer = &fit->one[i].answer;
        const gwi_fit_trial *top = gwi_fit_trial_of(fit, i, answer->largest, GWI_FIT_REHEARSAL);
        const gwi_fit_trial *real = gwi_fit_trial_of(fit, i, answer->largest, GWI_FIT_REAL);
        char peak[GW_BYTES_TEXT_MAX] = "-", number[24] = "none", speed[24] = "";
        if (answer->largest != 0)
            snprintf(number, sizeof number, "%" PRIu64, answer->largest);
        else if (answer->end != GW_FIT_END_NONE)
            snprintf(number, sizeof number, "not known");
        if (top != NULL && top->fit == GW_FIT_YES && top->peak_bytes != 0)
            gw_bytes_text(peak, top->peak_bytes);
        if (fit->speed && real != NULL && real->items_per_second > 0)
            snprintf(speed, sizeof speed, "%.4g", real->items_per_second);
        gw_text_addf(text, "  %10s  %12s  %10s  ", number, peak, speed);
        gwi_fit_values_text(fit, i, text);
        gw_text_add_str(text, i == fastest ? "  <- fastest\n" : "\n");
    }
}

static gw_role role_of_answer(const gw_fit_answer *answer)
{
    if (answer->end == GW_FIT_END_NONE)
        return GW_ROLE_FAILED;
    return answer->end == GW_FIT_END_FOUND || answer->end == GW_FIT_END_MAX ? GW_ROLE_GOOD : GW_ROLE_WARNING;
}

static void add_one(const gwi_fit *fit, size_t combination, const char *label, gw_text *text)
{
    gw_text body = {0};
    gwi_fit_values_text(fit, combination, &body);
    gw_text_add_str(&body, body.bytes > 0 ? ": " : "");
    add_answer(fit, combination, &body);
    paragraph_in(fit, text, label, &body, role_of_answer(&fit->one[combination].answer));
    add_notes(fit, combination, text);
}

void gwi_fit_text(const gwi_fit *fit, gw_text *text)
{
    size_t count = fit->plan.combination_count, fastest = gwi_fit_fastest(fit);
    gw_text body = {0};
    for (size_t i = 0; i < count; i++)
        add_one(fit, i, i == 0 ? "Answer" : "", text);
    if (count > 1 && fastest < count) {
        gwi_fit_values_text(fit, fastest, &body);
        gw_text_addf(&body, " with batch %" PRIu64, fit->one[fastest].answer.largest);
        paragraph(fit, text, "Fastest", &body);
    }
    add_card_note(fit, text);
    add_no_real_note(fit, text);
    add_cost(fit, text);
    if (count > 1)
        add_comparison(fit, text);
    for (size_t i = 0; i < count; i++)
        add_trials(fit, i, text);
    if (count == 1)
        add_chart(fit, 0, text);
}
