/* Train a small convolutional network, or print its plan. Exit status:
 * - 0: all runs finished, and every run after the second used the same memory as the second
 * - 1: a run failed, or used different memory
 * - 2: wrong options
 * - 3: a device did not stop after a failure
 * - 4: stopped by a signal, after writing a checkpoint if a checkpoint file was given */
#include "csv.h"
#include "data.h"
#include "options.h"
#include "outputs.h"
#include "predict.h"
#include "report.h"
#include "train.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EXIT_FAILED = 1, EXIT_OPTIONS = 2, EXIT_STOPPED = 4, PATH_BYTES = 4096 };

/* Settings as given on the command line. */
struct settings {
    struct exchange exchange;
    int convert;
    const char *model, *backend, *data, *test_data, *augment, *damaged, *precision, *optimizer, *rate, *momentum,
        *weight_decay, *loss_scale, *checkpointing, *checkpoint, *log;
    long long batch, resize, micro_batch, steps, epochs, memory, workspace, gpus, runs, every, seed, images,
        evaluate_every, results_every, loaders, queue, scale_after, progress_every, warn_memory, warn_temperature;
    int resume, plan, measure_data, deterministic, in_order, tune, evaluate, random_labels, verbose, quiet;
    /* how it is trained */
    const char *schedule, *warmup, *warmup_from, *rate_end, *rate_factor, *decay, *clip, *label_smoothing, *average,
        *tensorboard, *predict;
    long long evaluate_epochs, patience, device_wait;
    int nesterov;
};

static struct settings defaults(void)
{
    return (struct settings){.model = "small",
                             .backend = "cuda",
                             .data = "synthetic",
                             .damaged = "refuse",
                             .precision = "fp32",
                             .optimizer = "sgd",
                             .rate = "0.01",
                             .momentum = "0.9",
                             .weight_decay = "0",
                             .loss_scale = "none",
                             .checkpointing = "auto",
                             .batch = 256,
                             .gpus = 1,
                             .runs = 1,
                             .seed = 1,
                             .images = 51200,
                             .results_every = 1,
                             .progress_every = 100,
                             .warn_temperature = 85,
                             .schedule = "constant",
                             .warmup = "0",
                             .warmup_from = "0.01",
                             .rate_end = "0",
                             .rate_factor = "0.1",
                             .decay = "all",
                             .clip = "0",
                             .label_smoothing = "0",
                             .average = "0"};
}

static void parse(int argc, char **argv, struct settings *s)
{
    const struct option_row rows[] = {
        {"model", OPTION_TEXT, &s->model, "a description file, or one of examples/models, such as resnet50"},
        {"backend", OPTION_TEXT, &s->backend, "cuda, cpu, or dry: allocates memory, computes nothing"},
        {"data", OPTION_TEXT, &s->data, data_sources()},
        {"test-data", OPTION_TEXT, &s->test_data, "where the test images are, if not at the same place"},
        {"augment", OPTION_TEXT, &s->augment, augment_names()},
        {"resize", OPTION_NUMBER, &s->resize, "image files: shorter side before the cut (8/7 of the model's input)"},
        {"damaged", OPTION_TEXT, &s->damaged, "damaged image files: refuse (the data set) or skip"},
        {"images", OPTION_NUMBER, &s->images, "synthetic training images"},
        {"loaders", OPTION_NUMBER, &s->loaders, "threads that fill a GPU's inputs (4, or fewer with few processors)"},
        {"queue", OPTION_NUMBER, &s->queue, "micro-batches that may be in host memory, filled or being filled (2)"},
        {"batch", OPTION_NUMBER, &s->batch, "images per step, on all GPUs"},
        {"micro-batch", OPTION_NUMBER, &s->micro_batch, "images at once on a GPU; 0: as many as fit"},
        {"steps", OPTION_NUMBER, &s->steps, "total number of steps (100)"},
        {"epochs", OPTION_NUMBER, &s->epochs, "number of epochs, instead of steps"},
        {"precision", OPTION_TEXT, &s->precision, "fp32, bf16, fp16, or auto: fp32, or bf16 if that does not fit"},
        {"optimizer", OPTION_TEXT, &s->optimizer, "sgd, adam, or adamw: weight decay reduces the weights directly"},
        {"rate", OPTION_TEXT, &s->rate, "learning rate"},
        {"momentum", OPTION_TEXT, &s->momentum, "momentum of sgd"},
        {"weight-decay", OPTION_TEXT, &s->weight_decay, "fraction of the weights that is added to the gradients"},
        {"schedule", OPTION_TEXT, &s->schedule,
         "constant, cosine, step:N or steps:N,N...: how the rate changes; N is in steps, or in epochs: 30e"},
        {"rate-end", OPTION_TEXT, &s->rate_end, "rate at the end of a cosine (0)"},
        {"rate-factor", OPTION_TEXT, &s->rate_factor, "factor of the rate at each step of a schedule (0.1)"},
        {"warmup", OPTION_TEXT, &s->warmup, "steps, or epochs (5e), in which the rate rises linearly"},
        {"warmup-from", OPTION_TEXT, &s->warmup_from, "fraction of the rate at the first step of a warm-up (0.01)"},
        {"nesterov", OPTION_FLAG, &s->nesterov, "Nesterov's momentum, for sgd"},
        {"decay", OPTION_TEXT, &s->decay, "what decays: all, or weights: not biases and batch normalisation"},
        {"clip", OPTION_TEXT, &s->clip, "maximum norm of all gradients; 0: no limit"},
        {"label-smoothing", OPTION_TEXT, &s->label_smoothing, "part of each label that all classes share"},
        {"average", OPTION_TEXT, &s->average, "decay of a moving average of the weights, which is evaluated; 0: none"},
        {"evaluate-epochs", OPTION_NUMBER, &s->evaluate_epochs,
         "also evaluate after each multiple of this many epochs"},
        {"patience", OPTION_NUMBER, &s->patience,
         "end after this many evaluations (of each epoch, unless given) without a better accuracy"},
        {"loss-scale", OPTION_TEXT, &s->loss_scale, "none, dynamic, or a number"},
        {"scale-after", OPTION_NUMBER, &s->scale_after,
         "number of good steps after which a dynamic loss scale doubles (2000)"},
        {"in-order", OPTION_FLAG, &s->in_order, "compute one step after the other, which needs less memory"},
        {"checkpointing", OPTION_TEXT, &s->checkpointing, "on, off or auto: recompute activations to save memory"},
        {"memory", OPTION_NUMBER, &s->memory, "limit on each GPU, including the context"},
        {"workspace", OPTION_NUMBER, &s->workspace, "maximum workspace of one step (1 GiB)"},
        {"gpus", OPTION_NUMBER, &s->gpus, "number of GPUs that share each step"},
        {"device-wait", OPTION_NUMBER, &s->device_wait,
         "seconds after which a failure of one GPU ends the process if another GPU still waits for it (60)"},
        {"runs", OPTION_NUMBER, &s->runs, "number of complete trainings in this process, one after the other"},
        {"seed", OPTION_NUMBER, &s->seed, "seed of initial values, data and order"},
        {"deterministic", OPTION_FLAG, &s->deterministic, "compute the same sums in the same order each time"},
        {"tune", OPTION_FLAG, &s->tune, "time algorithms first, and use the fastest"},
        {"evaluate", OPTION_FLAG, &s->evaluate, "evaluate with the test images at the end"},
        {"evaluate-every", OPTION_NUMBER, &s->evaluate_every, "also evaluate after each multiple of this many steps"},
        {"random-labels", OPTION_FLAG, &s->random_labels, "random labels, from which nothing can be learned"},
        {"weights", OPTION_TEXT, &s->exchange.weights,
         "safetensors file with the initial weights, in PyTorch's layout"},
        {"weights-except", OPTION_TEXT, &s->exchange.except,
         "layers that do not get their initial weights from the file, for example fc,layer4"},
        {"save-weights", OPTION_TEXT, &s->exchange.save_weights,
         "safetensors file to which the trained weights are written"},
        {"export", OPTION_TEXT, &s->exchange.onnx, "ONNX file to which the trained network is written"},
        {"convert", OPTION_FLAG, &s->convert,
         "do not train: write --save-weights and --export from --checkpoint, --weights or initial values"},
        {"checkpoint", OPTION_TEXT, &s->checkpoint, "file, written at the end and on a signal"},
        {"every", OPTION_NUMBER, &s->every, "steps between checkpoints"},
        {"resume", OPTION_FLAG, &s->resume, "continue from the checkpoint, if there is one"},
        {"log", OPTION_TEXT, &s->log,
         "file to which a JSON line is added for each step, or a CSV row if its name ends with .csv"},
        {"tensorboard", OPTION_TEXT, &s->tensorboard, "folder to which an event file for TensorBoard is added"},
        {"results-every", OPTION_NUMBER, &s->results_every, "number of steps between reads of the GPU's results"},
        {"progress-every", OPTION_NUMBER, &s->progress_every,
         "number of steps between progress lines if stderr is not a terminal"},
        {"warn-memory", OPTION_NUMBER, &s->warn_memory,
         "warn if this process uses more memory on a GPU; 0: no warning"},
        {"warn-temperature", OPTION_NUMBER, &s->warn_temperature,
         "warn above this many degrees Celsius; 0: no warning"},
        {"plan", OPTION_FLAG, &s->plan, "print the memory plan, and do not train"},
        {"predict", OPTION_TEXT, &s->predict,
         "classify the images of one or more files, or test or train, with the checkpoint; do not train"},
        {"measure-data", OPTION_FLAG, &s->measure_data, "print how fast images can be made, and do not train"},
        {"verbose", OPTION_FLAG, &s->verbose, "also print the log of the library"},
        {"quiet", OPTION_FLAG, &s->quiet, "print only results"},
        {NULL, OPTION_FLAG, NULL, NULL}};
    options_parse(argc, argv, rows, "Trains a convolutional network (see trainer/docs/trainer.md).");
}

/* ---- names ---- */

__attribute__((noreturn)) static void refuse(const char *option, const char *value, const char *possible)
{
    fprintf(stderr, "trainer: --%s %s: %s\n", option, value, possible);
    exit(EXIT_OPTIONS);
}

static int word(const char *option, const char *value, const char *const *words, const char *possible)
{
    for (int i = 0; words[i] != NULL; i++)
        if (strcmp(words[i], value) == 0)
            return i;
    refuse(option, value, possible);
}

static double number(const char *option, const char *value)
{
    char *end;
    double real = strtod(value, &end);
    if (end == value || *end != '\0' || !(real >= 0 && real < 1e30))
        refuse(option, value, "not a number of at least 0");
    return real;
}

static void set_scaling(const struct settings *s, struct train_options *options)
{
    options->scaling = SCALING_FIXED;
    if (strcmp(s->loss_scale, "none") == 0)
        options->scaling = SCALING_NONE;
    else if (strcmp(s->loss_scale, "dynamic") == 0)
        options->scaling = SCALING_DYNAMIC;
    else
        options->loss_scale = number("loss-scale", s->loss_scale);
    if (options->scaling == SCALING_FIXED && options->loss_scale == 0)
        refuse("loss-scale", s->loss_scale, "none, dynamic, or a number above 0");
}

static double fraction(const char *option, const char *value)
{
    double real = number(option, value);
    if (real >= 1)
        refuse(option, value, "not a number from 0 to below 1");
    return real;
}

static void set_recipe(const struct settings *s, struct train_options *options)
{
    static const char *const decays[] = {"all", "weights", NULL};
    struct rate_options *schedule = &options->schedule;
    struct reason reason;
    if (!rate_parse(s->schedule, schedule, &reason))
        refuse("schedule", s->schedule, reason.text);
    if (!rate_parse_span(s->warmup, &schedule->warmup, &reason))
        refuse("warmup", s->warmup, reason.text);
    schedule->end = number("rate-end", s->rate_end);
    schedule->factor = number("rate-factor", s->rate_factor);
    schedule->warmup_from = number("warmup-from", s->warmup_from);
    options->is_nesterov = s->nesterov;
    if (s->nesterov && options->optimizer != OPTIMIZER_SGD)
        refuse("nesterov", "", "only possible with --optimizer sgd");
    options->selects_decay = word("decay", s->decay, decays, "all or weights") == 1;
    options->clip = number("clip", s->clip);
    options->smoothing = fraction("label-smoothing", s->label_smoothing);
    options->average = fraction("average", s->average);
    options->evaluate_epochs = (uint64_t)s->evaluate_epochs;
    options->patience = (uint64_t)s->patience;
    options->device_wait_s = s->device_wait > INT_MAX ? INT_MAX : (int)s->device_wait;
    if (s->patience != 0 && s->evaluate_every == 0 && s->evaluate_epochs == 0)
        options->evaluate_epochs = 1;
}

static void set_fit(const struct settings *s, struct fit_options *fit)
{
    static const char *const precisions[] = {"fp32", "bf16", "fp16", "auto", NULL};
    static const char *const choices[] = {"off", "on", "auto", NULL};
    int precision = word("precision", s->precision, precisions, "fp32, bf16, fp16 or auto");
    *fit = (struct fit_options){.memory_bytes = (uint64_t)s->memory,
                                .workspace_bytes = (uint64_t)s->workspace,
                                .in_order = s->in_order != 0,
                                .micro_batch = (size_t)s->micro_batch,
                                .checkpointing =
                                    (enum choice)word("checkpointing", s->checkpointing, choices, "on, off or auto"),
                                .precision = precision == PRECISION_COUNT ? PRECISION_FP32 : (enum precision)precision,
                                .chooses_precision = precision == PRECISION_COUNT};
}

/* Return the path of a model file. A name without "/" and "." stands for models/NAME.net in the folder of the
 * program. */
static const char *model_path(const char *model, char path[PATH_BYTES])
{
    char program[PATH_BYTES];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (strpbrk(model, "/.") != NULL || length <= 0)
        return model;
    program[length] = '\0';
    *strrchr(program, '/') = '\0';
    if (snprintf(path, PATH_BYTES, "%s/models/%s.net", program, model) >= PATH_BYTES)
        return model;
    return path;
}

static int loader_threads(const struct settings *s)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN), each = s->gpus > 0 ? processors / s->gpus : processors;
    if (s->loaders > 0)
        return s->loaders < 64 ? (int)s->loaders : 64;
    return each < 1 ? 1 : each > 4 ? 4 : (int)each;
}

static struct train_options make_options(const struct settings *s, char path[PATH_BYTES])
{
    static const char *const optimizers[] = {"sgd", "adam", "adamw", NULL};
    struct train_options options = {.model_path = model_path(s->model, path),
                                    .backend = backend_find(s->backend),
                                    .devices = s->gpus > TRAIN_DEVICES_MAX ? TRAIN_DEVICES_MAX + 1 : (int)s->gpus,
                                    .data = s->data,
                                    .test_data = s->test_data,
                                    .augment = s->augment,
                                    .resize = (size_t)s->resize,
                                    .image_count = (size_t)s->images,
                                    .labels_are_lot = s->random_labels,
                                    .loader_threads = loader_threads(s),
                                    .loader_queue = s->queue > INT_MAX ? INT_MAX : (int)s->queue,
                                    .seed = (uint64_t)s->seed,
                                    .deterministic = s->deterministic,
                                    .tunes = s->tune,
                                    .batch = (size_t)s->batch,
                                    .steps = s->steps == 0 && s->epochs == 0 ? 100 : (uint64_t)s->steps,
                                    .epochs = (uint64_t)s->epochs,
                                    .rate = number("rate", s->rate),
                                    .momentum = number("momentum", s->momentum),
                                    .weight_decay = number("weight-decay", s->weight_decay),
                                    .scale_after = (uint64_t)s->scale_after,
                                    .evaluates = s->evaluate || s->evaluate_every != 0 || s->evaluate_epochs != 0 ||
                                                 s->patience != 0,
                                    .evaluate_every = (uint64_t)s->evaluate_every,
                                    .results_every = (uint64_t)s->results_every,
                                    .checkpoint_path = s->checkpoint,
                                    .checkpoint_every = (uint64_t)s->every,
                                    .resumes = s->resume,
                                    .exchange = s->exchange,
                                    .progress = s->quiet ? NULL : stderr,
                                    .progress_every = (uint64_t)s->progress_every,
                                    .memory_warn_bytes = (uint64_t)s->warn_memory,
                                    .temperature_warn = s->warn_temperature > 1000 ? 0 : (int)s->warn_temperature,
                                    .says_all = s->verbose};
    if (options.backend == NULL)
        refuse("backend", s->backend, "not part of this build; the back ends are cuda, cpu and dry");
    if (s->tune && s->deterministic)
        refuse("tune", "--deterministic", "timing may choose other algorithms each time");
    static const char *const damaged[] = {"refuse", "skip", NULL};
    options.skips_damaged = word("damaged", s->damaged, damaged, "refuse or skip") == 1;
    options.optimizer = (enum optimizer)word("optimizer", s->optimizer, optimizers, "sgd, adam or adamw");
    set_recipe(s, &options);
    set_scaling(s, &options);
    set_fit(s, &options.fit);
    return options;
}

static void refuse_equal_outputs(const struct settings *s, const struct train_options *options)
{
    char best[PATH_BYTES];
    bool keeps_best = s->checkpoint != NULL && (options->evaluate_every != 0 || options->evaluate_epochs != 0) &&
                      snprintf(best, sizeof best, "%s.best", s->checkpoint) < PATH_BYTES;
    const struct exchange *exchange = &s->exchange;
    const struct output outputs[] = {
        {.what = "--model", .path = options->model_path, .is_input = true},
        {.what = "--weights", .path = exchange->weights, .is_input = true, .instead = "--save-weights"},
        {.what = "--log", .path = s->log},
        {.what = "--tensorboard", .path = s->tensorboard},
        {.what = "--checkpoint", .path = s->checkpoint, .is_replaced = true},
        {.what = "the best state of --checkpoint", .path = keeps_best ? best : NULL, .is_replaced = true},
        {.what = "--save-weights", .path = exchange->save_weights, .is_replaced = true},
        {.what = "--export", .path = exchange->onnx, .is_replaced = true}};
    struct reason reason;
    if (outputs_differ(outputs, sizeof outputs / sizeof *outputs, &reason))
        return;
    fprintf(stderr, "trainer: %s\n", reason.text);
    exit(EXIT_OPTIONS);
}

/* ---- without a training ---- */

static int convert(const struct train_options *options)
{
    struct reason reason = {0};
    if (exchange_convert(&options->exchange, options->model_path, options->checkpoint_path, options->seed, &reason))
        return 0;
    fprintf(stderr, "trainer: %s\n", reason.text);
    return EXIT_FAILED;
}

/* ---- runs ---- */

/* Return the number of bytes of the heap that are in use. */
static size_t heap_bytes(void)
{
    struct mallinfo2 heap = mallinfo2();
    return heap.uordblks + heap.hblkhd;
}

static void print_run(long long run, const struct train_result *result)
{
    char speed[32];
    printf("run %lld: %" PRIu64 " steps", run, result->steps);
    if (result->own_steps > 0) /* otherwise, the checkpoint was that of the last step */
        printf(", loss %.9g, accuracy %.4f", result->loss, result->accuracy);
    if (result->test_accuracy >= 0)
        printf(", test loss %.9g, test accuracy %.4f", result->test_loss, result->test_accuracy);
    if (result->test_top >= 0)
        printf(", test top-5 accuracy %.4f", result->test_top);
    if (result->best_step != 0)
        printf(", best accuracy %.4f at step %" PRIu64, result->best_accuracy, result->best_step);
    if (result->images_per_s >= 0)
        printf(", %s images/s, loader wait %.1f %%", speed_text(result->images_per_s, speed),
               100 * result->loader_wait);
    if (result->damaged_images > 0)
        printf(", %zu damaged images left out or replaced", result->damaged_images);
    char one[EXACT_TEXT_BYTES], other[EXACT_TEXT_BYTES];
    printf("; plan %s", exact_text(result->fit.plan_bytes, one));
    if (result->has_scope)
        printf(", peak %s, pinned %s", exact_text(result->peak_bytes, one),
               exact_text(result->pinned_peak_bytes, other));
    if (result->has_free)
        printf(", card free before %s, after %s", exact_text(result->free_begin_bytes, one),
               exact_text(result->free_end_bytes, other));
    if (result->own_begin_bytes >= 0 && result->own_end_bytes >= 0)
        printf(", own before %s, after %s", exact_text((uint64_t)result->own_begin_bytes, one),
               exact_text((uint64_t)result->own_end_bytes, other));
    printf(", heap %s", exact_text(heap_bytes(), one));
    printf("%s\n", result->was_stopped ? "; stopped" : result->ended_early ? "; ended early" : "");
    fflush(stdout);
}

/* True if this process used the same memory in both runs. Libraries keep some memory after the first run, but from the
 * second run on nothing may change. The card's free memory does not count, because other processes change it, too. */
static bool is_alike(const struct train_result *one, const struct train_result *other)
{
    return one->fit.plan_bytes == other->fit.plan_bytes && one->peak_bytes == other->peak_bytes &&
           one->pinned_peak_bytes == other->pinned_peak_bytes && one->own_begin_bytes == other->own_begin_bytes &&
           one->own_end_bytes == other->own_end_bytes;
}

/* Report a change of the card's free memory that this process has not caused, or may not have caused. */
static void say_card_change(long long run, const struct train_result *second, const struct train_result *result)
{
    int64_t change = (int64_t)result->free_end_bytes - (int64_t)second->free_end_bytes;
    if (!result->has_free || !second->has_free || change == 0)
        return;
    fprintf(stderr, "trainer: run %lld: the card has %" PRId64 " bytes %s than after run 2; %s\n", run,
            change < 0 ? -change : change, change < 0 ? "less free" : "more free",
            result->own_end_bytes >= 0
                ? "this process has as many as then, so other processes changed it"
                : "NVML does not list this process, so it is not known which process changed it");
}

static int run_all(struct train_options *options, long long runs)
{
    struct train_result second = {0}, result;
    int status = 0;
    for (long long run = 1; run <= runs; run++) {
        char name[32];
        struct reason reason = {0};
        snprintf(name, sizeof name, "run %lld", run);
        options->name = name;
        if (!train(options, &result, &reason)) {
            fprintf(stderr, "trainer: run %lld: %s\n", run, reason.text);
            return EXIT_FAILED;
        }
        print_run(run, &result);
        if (result.was_stopped)
            return EXIT_STOPPED;
        if (run == 2)
            second = result;
        if (run > 2 && !is_alike(&second, &result)) {
            fprintf(stderr, "trainer: run %lld used a different amount of memory than run 2\n", run);
            status = EXIT_FAILED;
        } else if (run > 2) {
            say_card_change(run, &second, &result);
        }
    }
    return status;
}

/* Stop the training cleanly on the first signal. A second one, of either kind, ends the process. */
static void on_signal(int number)
{
    (void)number;
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    train_stop();
}

static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

/* ---- logs ---- */

static void open_logs(const struct settings *s, struct train_options *options)
{
    struct reason reason;
    bool is_csv = s->log != NULL && csv_is_path(s->log);
    if (is_csv && !csv_open(s->log, &options->csv, &reason))
        refuse("log", s->log, reason.text);
    if (s->log != NULL && !is_csv && !report_open_log(s->log, &options->log, &reason))
        refuse("log", s->log, reason.text);
    if (s->tensorboard != NULL && !events_open(s->tensorboard, &options->events, &reason))
        refuse("tensorboard", s->tensorboard, reason.text);
}

/* Returns false, after a message, if something could not be written. */
static bool close_logs(const struct settings *s, struct train_options *options)
{
    FILE *log = options->csv != NULL ? options->csv : options->log;
    struct reason reason;
    bool is_well = true;
    if (log != NULL) {
        bool has_error = ferror(log) != 0;
        errno = 0; /* that of an earlier write is not known any more */
        if (fclose(log) != 0 || has_error) {
            fprintf(stderr, "trainer: %s: %s\n", s->log, errno != 0 ? strerror(errno) : "cannot write");
            is_well = false;
        }
    }
    if (!events_close(options->events, &reason)) {
        fprintf(stderr, "trainer: %s\n", reason.text);
        is_well = false;
    }
    return is_well;
}

/* ---- predictions ---- */

struct sources {
    const char **names; /* owned array of borrowed strings; NULL: there is no --predict */
    size_t count;
};

/* Return the names after --predict, up to the next option, and remove all but the first one from argv. */
static struct sources take_sources(int *argc, char **argv)
{
    int first = 1, end;
    struct sources sources = {NULL, 0};
    while (first < *argc && strcmp(argv[first], "--predict") != 0)
        first++;
    for (end = ++first; end < *argc && strncmp(argv[end], "--", 2) != 0; end++)
        sources.count++;
    if (sources.count == 0)
        return sources; /* options_parse() reports a missing name */
    sources.names = malloc(sources.count * sizeof *sources.names);
    if (sources.names == NULL)
        refuse("predict", argv[first], "no host memory");
    for (size_t i = 0; i < sources.count; i++)
        sources.names[i] = argv[first + (int)i];
    memmove(argv + first + 1, argv + end, (size_t)(*argc - end) * sizeof *argv);
    *argc -= end - first - 1;
    for (int i = first + 2; i < *argc; i++)
        if (strcmp(argv[i], "--predict") == 0)
            refuse("predict", i + 1 < *argc ? argv[i + 1] : "", "given twice; name all files after one --predict");
    return sources;
}

int main(int argc, char **argv)
{
    static const gs_child_entry entries[] = {{NULL, NULL}};
    char path[PATH_BYTES];
    gs_child_main(argc, argv, entries);
    struct settings settings = defaults();
    struct sources sources = take_sources(&argc, argv);
    parse(argc, argv, &settings);
    struct train_options options = make_options(&settings, path);
    refuse_equal_outputs(&settings, &options);
    if (settings.convert)
        return convert(&options);
    struct reason reason = {0};
    if (settings.plan || settings.measure_data) {
        if (settings.plan ? train_plan(&options, stdout, &reason) : train_measure_data(&options, stdout, &reason))
            return 0;
        fprintf(stderr, "trainer: %s\n", reason.text);
        return EXIT_FAILED;
    }
    if (settings.predict != NULL) {
        bool is_predicted = predict(&options, sources.names, sources.count, stdout, &reason);
        free(sources.names);
        if (is_predicted)
            return 0;
        fprintf(stderr, "trainer: %s\n", reason.text);
        return EXIT_FAILED;
    }
    open_logs(&settings, &options);
    catch_signals();
    int status = run_all(&options, settings.runs);
    if (!close_logs(&settings, &options) && status == 0)
        status = EXIT_FAILED;
    return status;
}
