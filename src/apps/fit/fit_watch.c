/* Looks at trials of `gpuwhy fit`: finds one, and follows how far a real run is. */
#include "gwi_fit_state.h"

#include "gw_array.h"
#include "gw_clock.h"
#include "gw_recording.h"

#include <stdio.h>

/* A speed needs so many iterations in the measured half. */
static const double iterations_least = 3;
/* Time that a speed is measured, at least. */
static const uint64_t measured_ns = 3000000000u;

const gwi_fit_trial *gwi_fit_trial_of(const gwi_fit *fit, size_t combination, uint64_t number, gwi_fit_kind kind)
{
    for (size_t i = fit->trial_count; i-- > 0;) {
        const gwi_fit_trial *trial = fit->trial[i];
        if (trial->combination == combination && trial->number == number && trial->kind == kind)
            return trial;
    }
    return NULL;
}

uint64_t gwi_fit_launches_each(const gwi_fit *fit, size_t combination, uint64_t number)
{
    uint64_t launches = 0, nearest = UINT64_MAX;
    for (size_t i = 0; i < fit->trial_count; i++) {
        const gwi_fit_trial *trial = fit->trial[i];
        uint64_t apart = trial->number > number ? trial->number - number : number - trial->number;
        if (trial->combination != combination || trial->launches_each == 0 || apart >= nearest)
            continue;
        nearest = apart;
        launches = trial->launches_each;
    }
    return launches;
}

/* ---- how far is a real run? ---- */

static void look_into(void *user, const char *folder)
{
    gwi_fit_trial *trial = user;
    gw_path recording;
    pid_t supervisor = 0;
    if (gw_run_meta_read(folder, recording, &supervisor) && supervisor == trial->pid)
        snprintf(trial->run_folder, sizeof trial->run_folder, "%s", folder);
}

static void count_launches(void *user, const gw_thread_look *look)
{
    *(uint64_t *)user += look->launches;
}

static void ask_to_end(gwi_fit_trial *trial)
{
    trial->asked_ns = gw_monotonic_ns();
    kill(trial->pid, SIGTERM);
}

/* The iterations in the second half of the run so far, and its time: what is slow at the beginning is not measured.
 * 0: unknown. */
static double iterations_of_half(const gwi_fit *fit, const gwi_fit_trial *trial, uint64_t *ret_ns)
{
    uint64_t launches_each = gwi_fit_launches_each(fit, trial->combination, trial->number);
    if (launches_each == 0 || trial->sample_count < 2)
        return 0;
    const gwi_fit_sample *last = &trial->sample[trial->sample_count - 1], *half = &trial->sample[0];
    while (half[1].t_ns <= trial->sample[0].t_ns + (last->t_ns - trial->sample[0].t_ns) / 2)
        half++;
    *ret_ns = last->t_ns - half->t_ns;
    return (double)(last->launches - half->launches) / (double)launches_each;
}

/* A busy machine may look at a run too rarely for a speed after the usual time: then it needs more time. */
static bool is_measured(const gwi_fit *fit, const gwi_fit_trial *trial, uint64_t now_ns)
{
    uint64_t ns = 0;
    return now_ns - trial->sample[0].t_ns >= measured_ns && iterations_of_half(fit, trial, &ns) >= iterations_least;
}

void gwi_fit_watch(const gwi_fit *fit, gwi_fit_trial *trial)
{
    uint64_t launches = 0, now_ns = gw_monotonic_ns();
    if (trial->asked_ns != 0)
        return;
    if (trial->run_folder[0] == '\0')
        gw_run_folders_visit(look_into, trial);
    if (trial->run_folder[0] != '\0' && gw_drain_peek(trial->run_folder, 0, count_launches, &launches, NULL) == GW_OK &&
        launches > trial->launches &&
        gw_array_room(&trial->sample, trial->sample_count, &trial->sample_capacity, sizeof *trial->sample)) {
        trial->sample[trial->sample_count++] = (gwi_fit_sample){now_ns, launches};
        trial->launches = launches;
    }
    bool is_enough = trial->enough_launches != 0 && trial->launches >= trial->enough_launches &&
                     (!fit->speed || is_measured(fit, trial, now_ns));
    if (is_enough || (double)(now_ns - trial->started_ns) / 1e9 > fit->real_seconds)
        ask_to_end(trial);
}

void gwi_fit_measure(const gwi_fit *fit, gwi_fit_trial *trial)
{
    uint64_t ns = 0;
    if (trial->kind != GWI_FIT_REAL || trial->fit != GW_FIT_YES)
        return;
    double iterations = iterations_of_half(fit, trial, &ns);
    if (iterations >= iterations_least)
        trial->items_per_second = iterations * (double)trial->number / ((double)ns / 1e9);
}
