/* `gpuwhy fit`: finds the largest batch that fits a card, by rehearsals of the program with one batch after another. */
#include "gwi_cmd.h"
#include "gwi_fit_state.h"
#include "gwi_judge.h"
#include "gwi_manual.h"
#include "gwi_options.h"
#include "gwi_output.h"
#include "gwi_past_runs.h"
#include "gwi_terminal.h"

#include "gw_clock.h"
#include "gw_say.h"
#include "gw_virt_spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIT_OPTIONS(X)                                                                                                 \
    X(LIST, gw_option_list, values, "--values", "NAME=A,B,..", NULL,                                                   \
      "search with each of these values for {NAME} in the command; may be repeated: every combination is searched")    \
    X(BYTES, uint64_t, memory_bytes, "--memory", "SIZE", NULL,                                                         \
      "the card that the program sees, smaller or larger than the real one [the real one]")                            \
    X(STRING, const char *, card, "--card", "CARD", NULL, "a card with the memory of this one, such as t4")            \
    X(STRING, const char *, gpu, "--gpu", "real|virtual:CARD[,..]", "real",                                            \
      "the GPU in front of which it is searched")                                                                      \
    X(NUMBER, uint64_t, from, "--from", "N", "1", "the smallest batch to try")                                         \
    X(NUMBER, uint64_t, max, "--max", "N", "1048576", "the largest batch to try")                                      \
    X(NUMBER, uint64_t, step, "--step", "N", "1", "try multiples of N only")                                           \
    X(NUMBER, uint64_t, jobs, "--jobs", "N", NULL, "rehearsals at a time [a quarter of the processors, at most 8]")    \
    X(STRING, const char *, until, "--until", "steady|end|N|Ns", "steady", "when a rehearsal ends, as for rehearse")   \
    X(MAYBE, const char *, real, "--real", "N|Ns", NULL,                                                               \
      "confirm the answer: run it and the next batch for real under --memory, for N iterations or N seconds [20, at "  \
      "most 60 s]; also search with such runs if a rehearsal fails for another reason than memory")                    \
    X(FLAG, bool, speed, "--speed", NULL, NULL,                                                                        \
      "measure the items per second of each answer with a short real run, and name the fastest combination")           \
    X(STRING, const char *, json, "--json", "FILE", NULL, "also write the answer as JSON; -: to standard output")      \
    X(FLAG, bool, no_attach, "--no-attach", NULL, NULL, "do not collect evidence inside Python and frameworks")        \
    X(FLAG, bool, no_history, "--no-history", NULL, NULL, "do not list the answer in gpuwhy history")

GWI_OPTIONS(fit_options, FIT_OPTIONS);
enum { JOBS_MAX = 8, JOBS_ALLOWED = 64, REAL_ITERATIONS = 20 };
static const double real_seconds = 60, real_seconds_max = 600;

const gwi_manual gwi_manual_fit = {
    .usage = "gpuwhy fit [options] -- program [arguments with {batch}]\n",
    .about = "Finds the largest batch that fits the card: rehearses the program, as gpuwhy rehearse does, with one "
             "batch after another in place of {batch}. No memory of the card is taken and nothing is computed, "
             "except with --real and --speed.",
    .words = "PROGRAM",
    .group = {{.options = options_table, .count = OPTION_COUNT}},
    .exits = {{GW_EXIT_OK, "the answer was found"},
              {GW_EXIT_UNDETERMINED, "no batch fits, or the answer is not known"},
              {GW_EXIT_USAGE, "usage error; the program was not started"},
              {GW_EXIT_CANNOT_RUN, "the program cannot be executed"},
              {GW_EXIT_NOT_FOUND, "there is no such program"}},
    .environment = {{GWI_MANUAL_STATE_HOME}},
    .files = {{GWI_MANUAL_RUNS}},
    .examples = {{"gpuwhy fit -- python train.py --batch-size {batch}", "find the largest batch for this card"},
                 {"gpuwhy fit --card t4 --values p=fp32,bf16 -- python train.py {batch} {p}",
                  "for another card, with each of two values"}},
    .see_also = "rehearse"};

/* ---- options ---- */

static gw_status take_card(gwi_fit *fit, const fit_options *options, gw_virt_spec *spec, gw_error *err)
{
    if (options->card == NULL)
        return GW_OK;
    if (options->memory_bytes != 0)
        return gw_fail(err, GW_USAGE, "--card and --memory cannot be combined");
    if (strchr(options->card, ',') != NULL)
        return gw_fail(err, GW_USAGE, "--card %s: must be the name of a card alone", options->card);
    gw_status st = gw_virt_spec_parse(options->card, spec, err);
    if (st != GW_OK) {
        gw_wrap(err, "--card %s", options->card);
        return st;
    }
    fit->card = spec->card.name;
    fit->card_major = spec->card.attributes[75]; /* CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR */
    fit->card_minor = spec->card.attributes[76];
    fit->memory_bytes = spec->card.memory_bytes;
    return GW_OK;
}

static gw_status take_real(gwi_fit *fit, const fit_options *options, gw_error *err)
{
    if (options->speed && gw_begins(options->gpu, "virtual:"))
        return gw_fail(err, GW_USAGE, "--speed: %s computes nothing, so its speed says nothing; it needs a real GPU",
                       options->gpu);
    fit->real = options->real != NULL;
    fit->speed = options->speed;
    fit->real_iterations = REAL_ITERATIONS;
    fit->real_seconds = real_seconds;
    if (options->real == NULL || options->real[0] == '\0')
        return GW_OK;
    char *end = NULL;
    double number = strtod(options->real, &end);
    bool is_number = end != options->real && number > 0 && number <= 1e6, is_time = strcmp(end, "s") == 0;
    bool is_count = is_number && *end == '\0' && number == (double)(uint64_t)number;
    if (!is_number || (!is_time && !is_count))
        return gw_fail(err, GW_USAGE, "--real=%s: must be a number of iterations, or seconds such as 30s",
                       options->real);
    fit->real_iterations = is_time ? 0 : (uint64_t)number;
    fit->real_seconds = is_time ? number : real_seconds_max;
    return GW_OK;
}

static gw_status take_jobs(gwi_fit *fit, const fit_options *options, gw_error *err)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    fit->jobs = options->jobs;
    if (options->jobs > JOBS_ALLOWED)
        return gw_fail(err, GW_USAGE, "--jobs %llu: at most %d", (unsigned long long)options->jobs, JOBS_ALLOWED);
    if (options->jobs == 0)
        fit->jobs = cores < 8 ? 1 : cores / 4 > JOBS_MAX ? JOBS_MAX : (uint64_t)cores / 4;
    return GW_OK;
}

/* Check the limits, and make room for the answers. */
static gw_status take_limits(gwi_fit *fit, const fit_options *options, gw_error *err)
{
    gw_fit_search *check = malloc(sizeof *check);
    fit->from = options->from;
    fit->max = options->max;
    fit->step = options->step;
    gw_status st = check == NULL ? gw_fail(err, GW_NOMEM, "search")
                                 : gw_fit_search_begin(check, fit->from, fit->max, fit->step, err);
    free(check);
    fit->one = st == GW_OK ? calloc(fit->plan.combination_count, sizeof *fit->one) : NULL;
    return st == GW_OK && fit->one == NULL ? gw_fail(err, GW_NOMEM, "search") : st;
}

static gw_status take_options(gwi_fit *fit, const fit_options *options, char **program, gw_virt_spec *spec,
                              gw_error *err)
{
    fit->gpu = options->gpu;
    fit->until = options->until;
    fit->memory_bytes = options->memory_bytes;
    fit->no_attach = options->no_attach;
    gw_status st = gw_fit_plan_make(program, options->values.item, options->values.count, &fit->plan, err);
    if (st == GW_OK)
        st = take_card(fit, options, spec, err);
    if (st == GW_OK)
        st = take_real(fit, options, err);
    if (st == GW_OK)
        st = take_jobs(fit, options, err);
    return st == GW_OK ? take_limits(fit, options, err) : st;
}

/* ---- after the search ---- */

static void list_answer(const gwi_fit *fit, bool good)
{
    gw_text line = {0};
    gwi_fit_line(fit, &line);
    gwi_past_add_answer(fit->plan.command, fit->started_realtime_ns, fit->seconds,
                        fit->plan.combination_count == 1 ? fit->one[0].answer.largest : 0, good, gw_text_str(&line));
    gw_text_free(&line);
}

static void tell(gwi_fit *fit, const gwi_output *output)
{
    gw_text text = {0}, json = {0};
    gw_error err;
    bool is_out = output->path != NULL && strcmp(output->path, "-") == 0;
    fit->colour = gwi_has_colour(is_out ? STDERR_FILENO : STDOUT_FILENO);
    gwi_fit_text(fit, &text);
    if (fit->shows_progress)
        fputs("\r\033[K", stderr);
    fputs(gw_text_str(&text), is_out ? stderr : stdout);
    fflush(stdout);
    if (output->path != NULL &&
        (gwi_fit_json(fit, &json, &err) != GW_OK || gwi_output_write(output, &json, 0, &err) != GW_OK))
        gw_say("fit: %s", err.text);
    gw_text_free(&text);
    gw_text_free(&json);
}

static int status_of(const gwi_fit *fit)
{
    for (size_t i = 0; i < fit->plan.combination_count; i++)
        if (fit->one[i].answer.end == GW_FIT_END_FOUND || fit->one[i].answer.end == GW_FIT_END_MAX)
            return GW_EXIT_OK;
    return GW_EXIT_UNDETERMINED;
}

static int search(gwi_fit *fit, const fit_options *options, const gwi_output *output)
{
    gw_error err = {0};
    gw_status st = gwi_fit_begin(fit, &err);
    if (st == GW_OK)
        st = gwi_fit_find(fit, &err);
    if (st == GW_OK && fit->stop_signal == 0)
        st = gwi_fit_real(fit, &err);
    fit->seconds = (double)(gw_monotonic_ns() - fit->started_ns) / 1e9;
    int status = st == GW_OK ? status_of(fit) : GW_EXIT_UNDETERMINED;
    if (fit->cannot != 0)
        status = fit->cannot;
    if (st != GW_OK)
        gw_say("fit: %s", err.text);
    else if (fit->stop_signal == 0)
        tell(fit, output);
    if (st == GW_OK && fit->stop_signal == 0 && !options->no_history)
        list_answer(fit, status == GW_EXIT_OK);
    gwi_fit_end(fit);
    return status;
}

int gwi_cmd_fit(int argc, char **argv)
{
    fit_options options = {0};
    gwi_fit fit = {.signal_fd = -1, .shows_progress = isatty(STDERR_FILENO)};
    gw_virt_spec spec = {0};
    gw_error err = {0};
    char **program = NULL;
    int status = gwi_program_take(&gwi_manual_fit, &options, &options.help, argc, argv, &program);
    if (status != GW_EXIT_OK || options.help)
        return status;
    gwi_output output = {
        .option = "--json", .path = options.json, .may_be_stdout = true, .wait_s_max = GWI_OUTPUT_WAIT_S};
    if (take_options(&fit, &options, program, &spec, &err) == GW_OK &&
        gwi_outputs_open(&output, 1, program, 1, &err) == GW_OK) {
        status = search(&fit, &options, &output);
    } else {
        status = gwi_refuse("fit", &err);
    }
    gw_fit_plan_free(&fit.plan);
    if (fit.stop_signal != 0) {
        signal(fit.stop_signal, SIG_DFL);
        raise(fit.stop_signal);
    }
    return status;
}
