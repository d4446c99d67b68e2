/* Run a training: prepare the state that all devices share, and run one thread per device. */
#include "train.h"

#include "watch.h"
#include "worker.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t stop_wanted;

void train_stop(void)
{
    stop_wanted = 1;
}

bool is_stop_wanted(void)
{
    return stop_wanted != 0;
}

/* ---- the shared state ---- */

bool train_has_parts(const struct train_options *options, struct reason *reason)
{
    if (options->devices < 1 || options->devices > TRAIN_DEVICES_MAX)
        return because(reason, "%d devices; 1 to %d are allowed", options->devices, TRAIN_DEVICES_MAX);
    if (options->batch > DATA_IMAGES_MAX)
        return because(reason, "a batch of %zu images; a data set has at most %d", options->batch, DATA_IMAGES_MAX);
    if (options->batch == 0 || options->batch % (size_t)options->devices != 0)
        return because(reason, "a batch of %zu images cannot be divided equally among %d devices", options->batch,
                       options->devices);
    return true;
}

static bool is_possible(const struct train_options *options, struct reason *reason)
{
    if (!train_has_parts(options, reason))
        return false;
    if (options->devices > 1 && options->backend->join == NULL)
        return because(reason, "the back end %s supports only one device", options->backend->name);
    if (options->steps == 0 && options->epochs == 0)
        return because(reason, "neither steps nor epochs are given");
    if (options->patience != 0 &&
        (!options->evaluates || (options->evaluate_every == 0 && options->evaluate_epochs == 0)))
        return because(reason, "patience needs evaluations during the training");
    if (options->resumes && options->checkpoint_path == NULL)
        return because(reason, "no checkpoint is given to continue from");
    if (options->backend == &backend_dry && exchange_writes(&options->exchange))
        return because(reason, "the back end dry computes nothing, so there are no weights to write");
    return true;
}

void say_notes(struct training *training)
{
    char line[600], text[1300];
    while (data_next_note(training->data, line, sizeof line)) {
        report_say(training->report, "%s", line);
        report_log(training->report, "{\"note\":%s}", json_text(line, text, sizeof text));
    }
}

bool train_open_data(const struct train_options *options, const struct model *model, struct data **ret_data,
                     struct reason *reason)
{
    struct data_options data_options = {.source = options->data,
                                        .test_source = options->test_data,
                                        .shape = model->layers[0].out,
                                        .class_count = model->class_count,
                                        .seed = options->seed,
                                        .image_count = options->image_count,
                                        .augment = options->augment,
                                        .resize = options->resize,
                                        .skips_damaged = options->skips_damaged,
                                        .threads = options->loader_threads,
                                        .labels_are_lot = options->labels_are_lot};
    return data_open(&data_options, ret_data, reason);
}

/* Return the number of steps in some epochs, at most UINT64_MAX. */
static uint64_t steps_of(uint64_t epochs, const struct way *way)
{
    uint64_t steps;
    return __builtin_mul_overflow(epochs, way_steps(way), &steps) ? UINT64_MAX : steps;
}

static bool open_data(struct training *training, struct reason *reason)
{
    const struct train_options *options = training->options;
    if (!train_open_data(options, &training->model, &training->data, reason))
        return false;
    say_notes(training);
    size_t count = data_count(training->data, PART_TRAIN);
    if (count < options->batch)
        return because(reason, "%s: %zu training images, but a batch has %zu", options->data, count, options->batch);
    if (options->evaluates && data_count(training->data, PART_TEST) == 0)
        return because(reason, "%s: there are no test images; give some with --test-data", options->data);
    training->way = (struct way){.train_count = count,
                                 .test_count = data_count(training->data, PART_TEST),
                                 .batch = options->batch,
                                 .devices = (size_t)options->devices,
                                 .evaluates = options->evaluates,
                                 .evaluate_every = options->evaluate_every};
    training->way.last_step = options->steps != 0 ? options->steps : steps_of(options->epochs, &training->way);
    if (options->evaluate_every == 0)
        training->way.evaluate_every = steps_of(options->evaluate_epochs, &training->way);
    struct rate_options schedule = options->schedule;
    schedule.rate = options->rate;
    training->rate = rate_make(&schedule, way_steps(&training->way), training->way.last_step);
    return true;
}

/* Copy text to `out`. If the text is too long, copy its end, which is more useful than its beginning. */
static void put_end(char out[CHECKPOINT_TEXT_BYTES], const char *text)
{
    size_t bytes = strlen(text);
    snprintf(out, CHECKPOINT_TEXT_BYTES, "%s",
             text + (bytes < CHECKPOINT_TEXT_BYTES ? 0 : bytes - CHECKPOINT_TEXT_BYTES + 1));
}

/* Describe the settings that change the results and have no field of their own in a checkpoint. */
static void put_recipe(char out[CHECKPOINT_RECIPE_BYTES], const struct training *training)
{
    const struct train_options *options = training->options;
    char rate[RATE_TEXT_BYTES], number[REAL_TEXT_BYTES], clip[64] = "", smoothing[64] = "", average[64] = "";
    if (options->clip > 0)
        snprintf(clip, sizeof clip, ", clipped at %s", real_text(options->clip, number));
    if (options->smoothing > 0)
        snprintf(smoothing, sizeof smoothing, ", label smoothing %s", real_text(options->smoothing, number));
    if (options->average > 0)
        snprintf(average, sizeof average, ", average %s", real_text(options->average, number));
    _Static_assert(sizeof rate + sizeof clip + sizeof smoothing + sizeof average + 64 < CHECKPOINT_RECIPE_BYTES,
                   "no text is cut, because two different recipes could then be equal");
    snprintf(out, CHECKPOINT_RECIPE_BYTES, "%s%s%s%s%s%s", rate_text(&training->rate, rate, sizeof rate),
             options->is_nesterov ? ", Nesterov" : "", train_selects_decay(options) ? ", decay of weights only" : "",
             clip, smoothing, average);
}

static struct checkpoint describe(const struct training *training)
{
    const struct train_options *options = training->options;
    struct checkpoint is = {.model_sum = checkpoint_model_sum(&training->model),
                            .parameter_count = training->model.parameter_count,
                            .statistics_count = training->model.statistics_count,
                            .moment_count = optimizer_moments(options->optimizer),
                            .average_count = options->average > 0,
                            .image_count = training->way.train_count,
                            .batch = options->batch,
                            .seed = options->seed,
                            .devices = (uint64_t)options->devices,
                            .rate = options->rate,
                            .momentum = options->momentum,
                            .weight_decay = options->weight_decay};
    put_end(is.model, training->model.name);
    put_end(is.optimizer, optimizer_text(options->optimizer));
    put_end(is.data, data_identity(training->data));
    put_recipe(is.recipe, training);
    return is;
}

static bool begin_anew(struct training *training, struct reason *reason)
{
    struct scale scale = scale_begin(training->options->scaling, (float)training->options->loss_scale);
    training->start = describe(training);
    training->start.loss_scale = scale.now;
    if (!checkpoint_alloc(&training->start, reason))
        return false;
    model_begin(&training->model, training->options->seed, training->start.parameters, training->start.statistics);
    if (!exchange_begin(&training->options->exchange, &training->model, training->start.parameters,
                        training->start.statistics, reason))
        return false;
    if (training->start.average_count != 0)
        memcpy(training->start.average, training->start.parameters,
               training->model.parameter_count * sizeof *training->start.average);
    return true;
}

static bool go_on(struct training *training, struct reason *reason)
{
    struct checkpoint wants = describe(training);
    const char *path = training->options->checkpoint_path;
    char note[CHECKPOINT_RECIPE_BYTES + 400];
    uint64_t most = checkpoint_bytes_max(wants.parameter_count, wants.statistics_count);
    if (!checkpoint_read(path, most, &training->start, reason))
        return false;
    /* Accept any precision and micro-batch here. They are chosen later, and note_choice() then compares them with the
     * checkpoint. */
    put_end(wants.precision, training->start.precision);
    wants.micro_batch = training->start.micro_batch;
    if (!checkpoint_fits(&training->start, &wants, note, sizeof note, reason)) {
        struct reason why = *reason;
        return because(reason, "%s: %s", path, why.text);
    }
    report_say(training->report, "continuing from %s: step %" PRIu64, path, training->start.step);
    report_log(training->report, "{\"resumed\":%" PRIu64 "}", training->start.step);
    if (*note != '\0')
        report_say(training->report, "note: %s", note);
    wants = describe(training);
    training->start.devices = wants.devices;
    training->start.rate = wants.rate;
    training->start.momentum = wants.momentum;
    training->start.weight_decay = wants.weight_decay;
    snprintf(training->start.recipe, sizeof training->start.recipe, "%s", wants.recipe);
    training->is_over = is_out_of_patience(training);
    return true;
}

static bool find_start(struct training *training, struct reason *reason)
{
    const struct train_options *options = training->options;
    if (!options->resumes)
        return begin_anew(training, reason);
    if (access(options->checkpoint_path, F_OK) == 0 || errno != ENOENT)
        return go_on(training, reason);
    report_say(training->report, "%s does not exist: starting from the beginning", options->checkpoint_path);
    return begin_anew(training, reason);
}

static bool open_training(struct training *training, struct reason *reason)
{
    return is_possible(training->options, reason) &&
           model_read(training->options->model_path, &training->model, reason) &&
           exchange_check(&training->options->exchange, &training->model, reason) &&
           (training->options->checkpoint_path == NULL ||
            file_can_replace(training->options->checkpoint_path, reason)) &&
           open_data(training, reason) && find_start(training, reason);
}

static void close_training(struct training *training)
{
    checkpoint_clear(&training->start);
    data_close(training->data);
    model_clear(&training->model);
}

/* ---- threads ---- */

static struct worker make_worker(struct training *training, int device)
{
    const struct checkpoint *start = &training->start;
    struct worker worker = {.training = training,
                            .device = device,
                            .is_over = training->is_over,
                            .place = {.step = start->step, .epoch = start->epoch, .position = start->position},
                            .update_number = start->update_number,
                            .scale = scale_begin(training->options->scaling, (float)training->options->loss_scale)};
    if (training->options->scale_after != 0)
        worker.scale.after = training->options->scale_after;
    if (training->options->scaling == SCALING_DYNAMIC)
        worker.scale.now = (float)start->loss_scale;
    worker.scale.good_steps = start->good_steps;
    worker.scale.broken_steps = start->broken_steps;
    worker.scale.broken_in_a_row = start->broken_in_a_row;
    return worker;
}

static void *run_thread(void *worker)
{
    worker_run(worker);
    return NULL;
}

static void run_workers(struct training *training)
{
    int count = training->options->devices;
    struct worker workers[TRAIN_DEVICES_MAX];
    pthread_t threads[TRAIN_DEVICES_MAX];
    bool is_running[TRAIN_DEVICES_MAX] = {false};
    struct reason reason;
    for (int i = 0; i < count; i++)
        workers[i] = make_worker(training, i);
    for (int i = 1; i < count; i++) {
        int error = pthread_create(&threads[i], NULL, run_thread, &workers[i]);
        is_running[i] = error == 0;
        if (error != 0) {
            because(&reason, "device %d: cannot create a thread: %s", i, strerror(error));
            team_miss(&training->team, &reason);
        }
    }
    worker_run(&workers[0]);
    for (int i = 1; i < count; i++)
        if (is_running[i])
            pthread_join(threads[i], NULL);
    char missing[EXACT_TEXT_BYTES];
    for (int i = 0; i < count; i++)
        if (training->missing_bytes[i] != 0)
            report_say(training->report, "device %d: %s of the GPU are still in use after the end", i,
                       exact_text((uint64_t)training->missing_bytes[i], missing));
}

static void log_begin(struct training *training)
{
    const struct train_options *options = training->options;
    char name[300], model[300], data[600];
    report_log(training->report,
               "{\"run\":%s,\"model\":%s,\"backend\":\"%s\",\"data\":%s,\"batch\":%zu,\"devices\":%d,"
               "\"optimizer\":\"%s\",\"seed\":%" PRIu64 ",\"last_step\":%" PRIu64 "}",
               json_text(options->name == NULL ? "" : options->name, name, sizeof name),
               json_text(training->model.name, model, sizeof model), options->backend->name,
               json_text(options->data, data, sizeof data), options->batch, options->devices,
               optimizer_text(options->optimizer), options->seed, training->way.last_step);
}

static void log_end(struct training *training, bool is_well, const struct reason *reason)
{
    const struct train_result *result = &training->result;
    char text[1300], wait[32];
    report_log(training->report,
               "{\"ended\":%s,\"reason\":%s,\"steps\":%" PRIu64 ",\"peak_bytes\":%" PRIu64 ",\"plan_bytes\":%" PRIu64
               ",\"loader_wait\":%s,\"damaged_images\":%zu}",
               is_well ? "true" : "false", json_text(is_well ? "" : reason->text, text, sizeof text), result->steps,
               result->peak_bytes, result->fit.plan_bytes, json_number(result->loader_wait, wait),
               result->damaged_images);
}

bool train(const struct train_options *options, struct train_result *ret_result, struct reason *reason)
{
    struct report_options report_options = {.log = options->log,
                                            .csv = options->csv,
                                            .events = options->events,
                                            .progress = options->progress,
                                            .progress_every = options->progress_every,
                                            .watch = options->backend->watch,
                                            .devices = options->devices,
                                            .memory_warn_bytes = options->memory_warn_bytes,
                                            .temperature_warn = options->temperature_warn};
    struct report report = report_begin(&report_options);
    struct training *training = calloc(1, sizeof *training);
    if (training == NULL)
        return because(reason, "no host memory for a training");
    training->options = options;
    training->report = &report;
    training->result = (struct train_result){.loss = -1,
                                             .accuracy = -1,
                                             .test_loss = -1,
                                             .test_accuracy = -1,
                                             .test_top = -1,
                                             .best_accuracy = -1,
                                             .images_per_s = -1,
                                             .loader_wait = -1,
                                             .own_begin_bytes = -1,
                                             .own_end_bytes = -1,
                                             .own_bytes = -1};
    bool is_well = open_training(training, reason);
    if (is_well) {
        uint64_t first = training->start.step;
        log_begin(training);
        if (options->events != NULL)
            events_begin(options->events, first + 1);
        team_begin(&training->team, options->devices);
        run_workers(training);
        is_well = !training->team.has_failed;
        if (!is_well)
            *reason = training->team.reason;
        team_end(&training->team);
        say_notes(training);
        training->result.damaged_images = data_damaged(training->data);
        training->result.own_steps = training->result.steps - first;
    }
    log_end(training, is_well, reason);
    report_end(&report);
    *ret_result = training->result;
    close_training(training);
    free(training);
    return is_well;
}
