/* Run one device of a training, from open() to close(): see worker.h. */
#include "worker.h"

#include "watch.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

static bool is_first(const struct worker *worker)
{
    return worker->device == 0;
}

static const struct train_options *options_of(const struct worker *worker)
{
    return worker->training->options;
}

static const struct backend *backend_of(const struct worker *worker)
{
    return worker->training->options->backend;
}

/* Wait until all devices have called this. Returns false if a device has failed. */
static bool meet(struct worker *worker, struct reason *reason)
{
    return team_meet(&worker->training->team) || because(reason, "another device failed");
}

/* ---- before the first step ---- */

static void say_backend_line(void *user, const char *line)
{
    fprintf(user, "%s\n", line);
}

static bool open_state(struct worker *worker, struct reason *reason)
{
    const struct train_options *options = options_of(worker);
    struct backend_options backend_options = {.device = worker->device,
                                              .memory_bytes = options->fit.memory_bytes,
                                              .deterministic = options->deterministic,
                                              .tune = options->tunes,
                                              .name = options->name,
                                              .log = options->says_all ? say_backend_line : NULL,
                                              .log_user = stderr};
    return options->backend->open(&backend_options, &worker->state, reason);
}

static bool join(struct worker *worker, struct reason *reason)
{
    struct training *training = worker->training;
    const struct backend *backend = backend_of(worker);
    int devices = options_of(worker)->devices;
    if (devices == 1)
        return true;
    if (is_first(worker) && !backend->invite(worker->state, &training->id, reason))
        return false;
    return meet(worker, reason) && backend->join(worker->state, devices, worker->device, &training->id, reason);
}

static void say_choice(void *user, const char *line)
{
    struct training *training = user;
    char text[1100];
    report_say(training->report, "%s", line);
    report_log(training->report, "{\"choice\":%s}", json_text(line, text, sizeof text));
}

/* Print a note if the loaded checkpoint was made with another micro-batch size or precision. Then store the chosen
 * values in `start`. */
static void note_choice(struct training *training)
{
    struct checkpoint *start = &training->start;
    const struct schedule_options *chosen = &training->fit.schedule;
    const char *precision = precision_text(chosen->precision);
    if (start->step > 0 && (start->micro_batch != chosen->images || strcmp(start->precision, precision) != 0))
        report_say(training->report,
                   "note: the checkpoint was made with micro-batches of %" PRIu64
                   " in %s: the results will differ from those of an uninterrupted run",
                   start->micro_batch, start->precision);
    start->micro_batch = chosen->images;
    snprintf(start->precision, sizeof start->precision, "%s", precision);
}

/* Choose one configuration for all devices. It must fit on the device with the least memory. */
static bool choose(struct worker *worker, struct reason *reason)
{
    struct training *training = worker->training;
    const struct train_options *options = options_of(worker);
    struct fit_request request = {.options = options->fit,
                                  .model = &training->model,
                                  .backend = options->backend,
                                  .state = worker->state,
                                  .images = options->batch / (size_t)options->devices,
                                  .optimizer = options->optimizer,
                                  .averages = options->average > 0,
                                  .selects_decay = train_selects_decay(options),
                                  .clips = options->clip > 0,
                                  .has_card = has_card(options->backend),
                                  .taken_bytes = training->taken_bytes[0],
                                  .free_bytes = training->free_bytes[0],
                                  .say = say_choice,
                                  .user = training};
    for (int i = 1; i < options->devices; i++) {
        if (training->taken_bytes[i] > request.taken_bytes)
            request.taken_bytes = training->taken_bytes[i];
        if (training->free_bytes[i] < request.free_bytes)
            request.free_bytes = training->free_bytes[i];
    }
    if (!fit_choose(&request, &training->fit, reason))
        return false;
    training->way.micro_batch = training->fit.schedule.images;
    note_choice(training);
    return true;
}

static bool make_schedule(struct worker *worker, struct reason *reason)
{
    const struct training *training = worker->training;
    const struct fit *fit = &training->fit;
    char here[EXACT_TEXT_BYTES], first[EXACT_TEXT_BYTES];
    if (!schedule_make(&training->model, &fit->schedule, backend_of(worker), worker->state,
                       (size_t)fit->workspace_bytes, &worker->schedule, reason))
        return false;
    if (worker->schedule.size.arena_bytes > fit->plan_bytes && fit->limit_bytes != 0)
        return because(reason, "device %d: the plan needs %s here, and %s on the first device", worker->device,
                       exact_text(worker->schedule.size.arena_bytes, here), exact_text(fit->plan_bytes, first));
    return true;
}

static bool open_loader(struct worker *worker, struct reason *reason)
{
    const struct training *training = worker->training;
    worker->walk = (struct walk){.way = training->way, .place = worker->place, .device = (size_t)worker->device};
    struct loader_options loader_options = {.backend = backend_of(worker),
                                            .state = worker->state,
                                            .data = training->data,
                                            .seed = options_of(worker)->seed,
                                            .images = training->way.micro_batch,
                                            .image_count = shape_count(training->model.layers[0].out),
                                            .threads = options_of(worker)->loader_threads,
                                            .queue = options_of(worker)->loader_queue,
                                            .next = walk_next,
                                            .user = &worker->walk};
    return loader_open(&loader_options, &worker->loader, reason);
}

/* Return how many bytes of GPU memory the backend took when it opened the device; -1: unknown. If NVML does not
 * list this process, the number is the decrease of the GPU's free memory. This is correct only for the first run in
 * the process: cuDNN keeps the context alive, so later runs measure less. Therefore return the largest number
 * measured so far. */
static int64_t taken_by_open(int device, const struct backend_watch *before, const struct backend_watch *after)
{
    static _Atomic int64_t most_bytes[TRAIN_DEVICES_MAX];
    int64_t taken_bytes = fit_taken(before, after), known_bytes = atomic_load(&most_bytes[device]);
    if (after->own_bytes >= 0 || taken_bytes < 0)
        return taken_bytes;
    if (taken_bytes < known_bytes)
        return known_bytes;
    atomic_store(&most_bytes[device], taken_bytes);
    return taken_bytes;
}

/* Open this device, measure its memory, choose the configuration and load the model. All devices call this at the
 * same time. */
static bool begin(struct worker *worker, struct reason *reason)
{
    struct training *training = worker->training;
    struct backend_watch before, after;
    options_of(worker)->backend->watch(worker->device, &before);
    worker->free_begin_bytes = before.free_bytes;
    worker->own_begin_bytes = before.own_bytes;
    if (!open_state(worker, reason) || !join(worker, reason))
        return false;
    options_of(worker)->backend->watch(worker->device, &after);
    training->taken_bytes[worker->device] = taken_by_open(worker->device, &before, &after);
    training->free_bytes[worker->device] = after.free_bytes;
    if (!meet(worker, reason) || (is_first(worker) && !choose(worker, reason)) || !meet(worker, reason))
        return false;
    return make_schedule(worker, reason) && backend_of(worker)->load(worker->state, &worker->schedule, reason) &&
           worker_put(worker, reason) && open_loader(worker, reason) && meet(worker, reason);
}

/* ---- a step ---- */

static bool iterate(struct worker *worker, bool is_first_part, bool is_evaluation, size_t images_in_step,
                    struct reason *reason)
{
    const struct backend *backend = backend_of(worker);
    struct load load;
    if ((backend->expect != NULL && !backend->expect(worker->state, reason)) ||
        !loader_take(worker->loader, &load, reason))
        return false;
    struct iteration iteration = {.turn = load.turn,
                                  .is_first = is_first_part,
                                  .is_evaluation = is_evaluation,
                                  .loss_scale = is_evaluation ? 1 : worker->scale.now,
                                  .smoothing = is_evaluation ? 0 : (float)options_of(worker)->smoothing,
                                  .images_in_step = images_in_step,
                                  .images = load.count,
                                  .seed = options_of(worker)->seed,
                                  .epoch = load.epoch,
                                  .first = load.first};
    if (!backend->iterate(worker->state, &iteration, reason))
        return false;
    loader_passed(worker->loader);
    return true;
}

static bool update(struct worker *worker, struct reason *reason)
{
    const struct train_options *options = options_of(worker);
    struct update step = {.optimizer = options->optimizer,
                          .rate = (float)rate_at(&worker->training->rate, worker->place.step),
                          .momentum = (float)options->momentum,
                          .weight_decay = (float)options->weight_decay,
                          .is_nesterov = options->is_nesterov,
                          .clip = (float)options->clip,
                          .average_weight = worker->update_number == 0 ? 1 : (float)(1 - options->average),
                          .beta_1 = 0.9f,
                          .beta_2 = 0.999f,
                          .epsilon = 1e-8f,
                          .number = worker->update_number + 1,
                          .scale = 1 / worker->scale.now};
    return backend_of(worker)->update(worker->state, &step, reason);
}

/* Submit all work of a step to the device. Does not wait for the device to finish it. */
static bool tell_step(struct worker *worker, struct reason *reason)
{
    const struct way *way = &worker->training->way;
    for (size_t part = 0; part < way_parts(way); part++)
        if (!iterate(worker, part == 0, false, way->batch, reason))
            return false;
    if (way->devices > 1 && (!meet(worker, reason) || !backend_of(worker)->sum_gradients(worker->state, reason)))
        return false;
    if (!update(worker, reason))
        return false;
    place_step(way, &worker->place);
    worker->interval_steps++;
    return true;
}

static bool is_checkpoint_due(const struct worker *worker)
{
    const struct train_options *options = options_of(worker);
    uint64_t step = worker->place.step;
    return options->checkpoint_path != NULL &&
           (step == worker->training->way.last_step ||
            (options->checkpoint_every != 0 && step % options->checkpoint_every == 0));
}

/* The average and Adam's step number begin with the first step that is not broken, so the results of all steps are read
 * up to it. */
static bool reads_results(const struct worker *worker)
{
    const struct train_options *options = options_of(worker);
    const struct way *way = &worker->training->way;
    uint64_t step = worker->place.step;
    return options->results_every <= 1 || step % options->results_every == 0 || step == way->last_step ||
           options->scaling == SCALING_DYNAMIC || !worker->is_warm || worker->update_number == 0 ||
           place_evaluates(way, &worker->place) || is_checkpoint_due(worker) ||
           (way->devices == 1 && is_stop_wanted()); /* several devices must stop at the same step: see gather() */
}

/* Wait until this device has finished the step, and sum the results of all devices. The first device decides
 * whether all stop after this step. */
static bool gather(struct worker *worker, struct results *ret_results, double *ret_loss, struct reason *reason)
{
    struct training *training = worker->training;
    int devices = options_of(worker)->devices;
    struct results *mine = &training->results[worker->device];
    if (!backend_of(worker)->settle(worker->state, mine, reason))
        return false;
    if (is_first(worker))
        training->stops = is_stop_wanted();
    if (!meet(worker, reason))
        return false;
    *ret_results = (struct results){0};
    *ret_loss = 0;
    for (int i = 0; i < devices; i++) {
        *ret_loss += training->results[i].loss;
        ret_results->correct += training->results[i].correct;
        ret_results->top += training->results[i].top;
        ret_results->broken += training->results[i].broken;
    }
    ret_results->norm = training->results[0].norm; /* of the summed gradients: the same on all devices */
    worker->is_stopped = training->stops;
    /* Wait, so that no device overwrites its results before all devices have read them. */
    return devices == 1 || meet(worker, reason);
}

/* Return for how long the device has waited for inputs so far, in s. */
static double waited(const struct worker *worker)
{
    const struct backend *backend = backend_of(worker);
    return backend->waited != NULL ? backend->waited(worker->state) : loader_waited(worker->loader);
}

/* Return which part of the time the device waited for inputs, 0 to 1. */
static double share_waited(double waited_s, double taken_s)
{
    return taken_s <= 0 || waited_s <= 0 ? 0 : waited_s < taken_s ? waited_s / taken_s : 1;
}

static void tell_results(struct worker *worker, const struct results *results, double loss, float scale)
{
    struct training *training = worker->training;
    double now = seconds_now(), batch = (double)training->way.batch, taken_s = now - worker->interval_begin;
    double waited_s = waited(worker) - worker->waited_begin;
    struct step_report step = {.step = worker->place.step,
                               .last_step = training->way.last_step,
                               .epoch = (worker->place.step - 1) / way_steps(&training->way),
                               .loss = loss / batch,
                               .accuracy = results->correct / batch,
                               .top = results->top / batch,
                               .norm =
                                   options_of(worker)->clip > 0 && results->broken == 0 ? (double)results->norm : -1,
                               .rate = rate_at(&training->rate, worker->place.step - 1),
                               .images_per_s = (double)worker->interval_steps * batch / taken_s,
                               .loader_wait = share_waited(waited_s, taken_s),
                               .scale = scale,
                               .is_broken = results->broken != 0};
    report_step(training->report, &step);
    say_notes(training);
    training->result.loss = step.loss;
    training->result.accuracy = step.accuracy;
    if (training->report->watch.own_bytes > training->result.own_bytes)
        training->result.own_bytes = training->report->watch.own_bytes;
    if (worker->is_warm) {
        worker->counted_s += taken_s;
        worker->counted_waited_s += waited_s;
        worker->counted_steps += worker->interval_steps;
    }
}

/* Check that the process stayed within its memory limit, after the kernels were loaded. True if there is no limit,
 * or if the used memory is unknown. */
static bool is_promise_kept(struct worker *worker, struct reason *reason)
{
    uint64_t promised = options_of(worker)->fit.memory_bytes;
    int64_t own_bytes = worker->training->report->watch.own_bytes;
    char has[24], limit[24];
    if (promised == 0 || own_bytes < 0 || !has_card(backend_of(worker)) || (uint64_t)own_bytes <= promised)
        return true;
    return because(reason, "the process uses %s on a GPU, but the limit is %s: libraries took more than the reserve",
                   size_text((uint64_t)own_bytes, has), size_text(promised, limit));
}

/* ---- between the steps ---- */

/* Run all test images. The moving average, if there is one, takes the place of the parameters meanwhile. */
static bool run_test(struct worker *worker, struct results *ret_results, struct reason *reason)
{
    const struct way *way = &worker->training->way;
    const struct backend *backend = backend_of(worker);
    bool has_average = options_of(worker)->average > 0;
    if (has_average && !backend->swap_average(worker->state, reason))
        return false;
    for (size_t at = 0; at < way->test_count; at += way->micro_batch)
        if (!iterate(worker, at == 0, true, way->test_count, reason))
            return false;
    return backend->settle(worker->state, ret_results, reason) &&
           (!has_average || backend->swap_average(worker->state, reason));
}

/* Compare an evaluation with the best one so far. Returns true if it is better. */
static bool is_best(struct training *training, uint64_t step, double accuracy)
{
    struct checkpoint *start = &training->start;
    if (start->best_step != 0 && accuracy <= start->best_accuracy) {
        start->worse_evaluations++;
        return false;
    }
    start->best_accuracy = accuracy;
    start->best_step = step;
    start->worse_evaluations = 0;
    return true;
}

static bool evaluate(struct worker *worker, bool *ret_is_best, struct reason *reason)
{
    struct training *training = worker->training;
    struct train_result *result = &training->result;
    double count = (double)training->way.test_count;
    struct results results;
    if (!run_test(worker, &results, reason))
        return false;
    result->test_loss = (double)results.loss / count;
    result->test_accuracy = results.correct / count;
    result->test_top = results.top / count;
    /* A single evaluation at the end has nothing to be compared with. */
    *ret_is_best = training->way.evaluate_every != 0 && is_best(training, worker->place.step, result->test_accuracy);
    struct evaluation_report evaluation = {.step = worker->place.step,
                                           .loss = result->test_loss,
                                           .accuracy = result->test_accuracy,
                                           .top = result->test_top,
                                           .images = training->way.test_count,
                                           .is_best = *ret_is_best};
    report_evaluation(training->report, &evaluation);
    return true;
}

static bool write_checkpoint(struct worker *worker, const char *path, struct reason *reason)
{
    struct training *training = worker->training;
    struct checkpoint *checkpoint = &training->start;
    if (!worker_get(worker, reason))
        return false;
    checkpoint->step = worker->place.step;
    checkpoint->epoch = worker->place.epoch;
    checkpoint->position = worker->place.position;
    checkpoint->update_number = worker->update_number;
    checkpoint->loss_scale = worker->scale.now;
    checkpoint->good_steps = worker->scale.good_steps;
    checkpoint->broken_steps = worker->scale.broken_steps;
    checkpoint->broken_in_a_row = worker->scale.broken_in_a_row;
    return checkpoint_write(path, checkpoint, reason);
}

/* Write the checkpoint of the best evaluation beside the other one. */
static bool write_best(struct worker *worker, struct reason *reason)
{
    char path[4096];
    const char *beside = options_of(worker)->checkpoint_path;
    if (beside == NULL)
        return true;
    if (snprintf(path, sizeof path, "%s.best", beside) >= (int)sizeof path)
        return because(reason, "%.100s...: the path is too long", beside);
    if (!write_checkpoint(worker, path, reason))
        return false;
    report_log(worker->training->report, "{\"best_checkpoint\":%" PRIu64 "}", worker->place.step);
    return true;
}

static bool evaluate_and_keep(struct worker *worker, struct reason *reason)
{
    struct training *training = worker->training;
    bool is_best_one = false;
    if (!evaluate(worker, &is_best_one, reason) || (is_best_one && !write_best(worker, reason)))
        return false;
    training->is_over = is_out_of_patience(training);
    if (training->is_over)
        report_say(training->report,
                   "no better accuracy in %" PRIu64
                   " evaluations: ending the training; the best was %.4f at step %" PRIu64,
                   training->start.worse_evaluations, training->start.best_accuracy, training->start.best_step);
    return true;
}

static void begin_interval(struct worker *worker)
{
    worker->interval_begin = seconds_now();
    worker->waited_begin = waited(worker);
}

/* Evaluate the model and write a checkpoint, if due. Only the first device calls this, after a step whose results
 * it has read. The other devices wait for it at the next sum of gradients. */
static bool between_steps(struct worker *worker, struct reason *reason)
{
    const struct train_options *options = options_of(worker);
    bool is_stopped = worker->is_stopped && worker->place.step < worker->training->way.last_step;
    if (place_evaluates(&worker->training->way, &worker->place) && !evaluate_and_keep(worker, reason))
        return false;
    if (is_checkpoint_due(worker) || ((is_stopped || worker->training->is_over) && options->checkpoint_path != NULL)) {
        if (!write_checkpoint(worker, options->checkpoint_path, reason))
            return false;
        report_log(worker->training->report, "{\"checkpoint\":%" PRIu64 "}", worker->place.step);
    }
    begin_interval(worker);
    return true;
}

/* ---- all steps ---- */

static bool read_step(struct worker *worker, struct reason *reason)
{
    struct results results;
    double loss;
    float scale = worker->scale.now;
    if (!gather(worker, &results, &loss, reason))
        return false;
    bool goes_on = scale_step(&worker->scale, results.broken != 0);
    if (results.broken == 0)
        worker->update_number++;
    if (is_first(worker)) {
        tell_results(worker, &results, loss, scale);
        if (!worker->is_warm && !is_promise_kept(worker, reason))
            return false;
    }
    worker->interval_steps = 0;
    worker->is_warm = true;
    if (!goes_on)
        return because(reason, "step %" PRIu64 ": gradients were not finite for %" PRIu64 " steps in a row",
                       worker->place.step, worker->scale.broken_in_a_row);
    if (is_first(worker) && !between_steps(worker, reason))
        return false;
    /* Only an evaluation, which is on the first device, can end the training here. */
    if (options_of(worker)->patience == 0 || !place_evaluates(&worker->training->way, &worker->place))
        return true;
    if (worker->training->way.devices > 1 && !meet(worker, reason))
        return false;
    worker->is_over = worker->training->is_over;
    return true;
}

static bool all_steps(struct worker *worker, struct reason *reason)
{
    uint64_t last_step = worker->training->way.last_step;
    begin_interval(worker);
    while (worker->place.step < last_step && !worker->is_stopped && !worker->is_over) {
        if (!tell_step(worker, reason))
            return false;
        if (!reads_results(worker)) {
            worker->update_number++; /* the results were not read: assume that all gradients were finite, but do not
                                        reset broken_in_a_row */
            worker->scale.good_steps++;
            continue;
        }
        if (!read_step(worker, reason))
            return false;
    }
    return true;
}

/* ---- the end ---- */

/* Write the files for other programs, unless the training was stopped before its last step. */
static bool write_results(struct worker *worker, struct reason *reason)
{
    struct training *training = worker->training;
    const struct exchange *exchange = &options_of(worker)->exchange;
    if (!is_first(worker) || !exchange_writes(exchange))
        return true;
    if (worker->is_stopped && worker->place.step < training->way.last_step) {
        report_say(training->report, "stopped before the last step: no weights are written");
        return true;
    }
    return worker_get(worker, reason) && exchange_end(exchange, &training->model, checkpoint_weights(&training->start),
                                                      training->start.statistics, reason);
}

static bool close_state(struct worker *worker, struct reason *reason)
{
    struct train_result *result = &worker->training->result;
    struct backend_watch after;
    gs_report *report = NULL;
    bool is_well = backend_of(worker)->close(worker->state, &report, reason);
    worker->state = NULL;
    if (report == NULL)
        return is_well;
    if (is_first(worker)) {
        result->has_scope = true;
        result->peak_bytes = report->peak_bytes;
        result->pinned_peak_bytes = report->pinned_peak_bytes;
        backend_of(worker)->watch(worker->device, &after);
        result->has_free = worker->free_begin_bytes >= 0 && after.free_bytes >= 0;
        result->free_begin_bytes = (uint64_t)worker->free_begin_bytes;
        result->free_end_bytes = (uint64_t)after.free_bytes;
        result->own_begin_bytes = worker->own_begin_bytes;
        result->own_end_bytes = after.own_bytes;
    }
    /* Report memory that is missing after the training run, but do not treat it as a failure. cuDNN and cuBLAS keep
     * the context and kernels until the process ends (14 MiB on an H200). Other programs use the GPU, too. */
    if (report->context != GS_CONTEXT_RELEASED && report->has_memory &&
        report->missing_bytes > (int64_t)report->allowed_bytes)
        worker->training->missing_bytes[worker->device] = report->missing_bytes;
    if (is_well && (report->kept_count != 0 || report->is_dead))
        is_well = because(reason, "device %d: %zu objects could not be released", worker->device, report->kept_count);
    gs_report_free(report);
    return is_well;
}

static void tell_end(struct worker *worker)
{
    struct train_result *result = &worker->training->result;
    result->steps = worker->place.step;
    const struct checkpoint *start = &worker->training->start;
    bool is_early = worker->place.step < worker->training->way.last_step;
    result->ended_early = worker->is_over && is_early;
    result->was_stopped = worker->is_stopped && !worker->is_over && is_early;
    result->best_step = start->best_step;
    if (start->best_step != 0)
        result->best_accuracy = start->best_accuracy;
    result->fit = worker->training->fit;
    if (worker->counted_steps > 0 && worker->counted_s > 0) {
        result->loader_wait = share_waited(worker->counted_waited_s, worker->counted_s);
        report_say(worker->training->report, "the loader kept the GPU waiting %.1f %% of the time",
                   100 * result->loader_wait);
    }
    if (worker->counted_steps > 0 && worker->counted_s > 0)
        result->images_per_s = (double)worker->counted_steps * (double)worker->training->way.batch / worker->counted_s;
}

void worker_run(struct worker *worker)
{
    struct reason reason = {0};
    struct team *team = &worker->training->team;
    bool is_well = begin(worker, &reason) && all_steps(worker, &reason) && write_results(worker, &reason);
    if (!is_well)
        team_fail(team, &reason); /* report the failure at once, so that no other device waits for this one */
    if (is_first(worker))
        tell_end(worker);
    loader_close(worker->loader);
    if (worker->state != NULL && !close_state(worker, &reason) && is_well)
        team_fail(team, &reason);
    schedule_clear(&worker->schedule);
    int wait_s = options_of(worker)->device_wait_s;
    team_leave(team, wait_s > 0 ? wait_s : TRAIN_WAIT_S);
}
