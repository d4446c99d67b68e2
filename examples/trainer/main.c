/* Train a small convolutional network, or print its plan. Exit status:
 * - 0: all runs finished, and every run after the second used the same memory as the second
 * - 1: a run failed, or used different memory
 * - 2: wrong options
 * - 3: a device did not stop after a failure
 * - 4: stopped by a signal, after writing a checkpoint if a checkpoint file was given */
#include "options.h"
#include "train.h"

#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EXIT_FAILED = 1, EXIT_OPTIONS = 2, EXIT_STOPPED = 4, PATH_BYTES = 4096 };

/* Settings as given on the command line. */
struct settings {
    const char *model, *backend, *data, *precision, *optimizer, *rate, *momentum, *weight_decay, *loss_scale,
        *checkpointing, *checkpoint, *log;
    long long batch, micro_batch, steps, epochs, memory, workspace, gpus, runs, every, seed, images, evaluate_every,
        results_every, loaders, scale_after, progress_every, warn_memory, warn_temperature;
    int resume, plan, deterministic, tune, evaluate, random_labels, verbose, quiet;
};

static struct settings defaults(void)
{
    return (struct settings){.model = "small",
                             .backend = "cuda",
                             .data = "synthetic",
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
                             .warn_temperature = 85};
}

static void parse(int argc, char **argv, struct settings *s)
{
    const struct option_row rows[] = {
        {"model", OPTION_TEXT, &s->model, "a description file, or one of examples/models, such as resnet50"},
        {"backend", OPTION_TEXT, &s->backend, "cuda, cpu, or dry: allocates memory, computes nothing"},
        {"data", OPTION_TEXT, &s->data, "synthetic, mnist:FOLDER (or Fashion-MNIST), cifar10:FOLDER"},
        {"images", OPTION_NUMBER, &s->images, "synthetic training images"},
        {"loaders", OPTION_NUMBER, &s->loaders, "threads that fill a GPU's inputs (4, or fewer with few processors)"},
        {"batch", OPTION_NUMBER, &s->batch, "images per step, on all GPUs"},
        {"micro-batch", OPTION_NUMBER, &s->micro_batch, "images at once on a GPU; 0: as many as fit"},
        {"steps", OPTION_NUMBER, &s->steps, "total number of steps (100)"},
        {"epochs", OPTION_NUMBER, &s->epochs, "number of epochs, instead of steps"},
        {"precision", OPTION_TEXT, &s->precision, "fp32, bf16, fp16, or auto: fp32, or bf16 if that does not fit"},
        {"optimizer", OPTION_TEXT, &s->optimizer, "sgd or adam"},
        {"rate", OPTION_TEXT, &s->rate, "learning rate"},
        {"momentum", OPTION_TEXT, &s->momentum, "momentum of sgd"},
        {"weight-decay", OPTION_TEXT, &s->weight_decay, "fraction of the weights that is added to the gradients"},
        {"loss-scale", OPTION_TEXT, &s->loss_scale, "none, dynamic, or a number"},
        {"scale-after", OPTION_NUMBER, &s->scale_after,
         "number of good steps after which a dynamic loss scale doubles (2000)"},
        {"checkpointing", OPTION_TEXT, &s->checkpointing, "on, off or auto: recompute activations to save memory"},
        {"memory", OPTION_NUMBER, &s->memory, "limit on each GPU, including the context"},
        {"workspace", OPTION_NUMBER, &s->workspace, "maximum workspace of one step (1 GiB)"},
        {"gpus", OPTION_NUMBER, &s->gpus, "number of GPUs that share each step"},
        {"runs", OPTION_NUMBER, &s->runs, "number of complete trainings in this process, one after the other"},
        {"seed", OPTION_NUMBER, &s->seed, "seed of initial values, data and order"},
        {"deterministic", OPTION_FLAG, &s->deterministic, "compute the same sums in the same order each time"},
        {"tune", OPTION_FLAG, &s->tune, "time algorithms first, and use the fastest"},
        {"evaluate", OPTION_FLAG, &s->evaluate, "evaluate with the test images at the end"},
        {"evaluate-every", OPTION_NUMBER, &s->evaluate_every, "also evaluate after each multiple of this many steps"},
        {"random-labels", OPTION_FLAG, &s->random_labels, "random labels, from which nothing can be learned"},
        {"checkpoint", OPTION_TEXT, &s->checkpoint, "file, written at the end and on a signal"},
        {"every", OPTION_NUMBER, &s->every, "steps between checkpoints"},
        {"resume", OPTION_FLAG, &s->resume, "continue from the checkpoint, if there is one"},
        {"log", OPTION_TEXT, &s->log, "file to which a JSON line is added for each step"},
        {"results-every", OPTION_NUMBER, &s->results_every, "number of steps between reads of the GPU's results"},
        {"progress-every", OPTION_NUMBER, &s->progress_every,
         "number of steps between progress lines if stderr is not a terminal"},
        {"warn-memory", OPTION_NUMBER, &s->warn_memory,
         "warn if this process uses more memory on a GPU; 0: no warning"},
        {"warn-temperature", OPTION_NUMBER, &s->warn_temperature,
         "warn above this many degrees Celsius; 0: no warning"},
        {"plan", OPTION_FLAG, &s->plan, "print the memory plan, and do not train"},
        {"verbose", OPTION_FLAG, &s->verbose, "also print the log of the library"},
        {"quiet", OPTION_FLAG, &s->quiet, "print only results"},
        {NULL, OPTION_FLAG, NULL, NULL}};
    options_parse(argc, argv, rows, "Trains a convolutional network (see docs/trainer.md).");
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

static void set_fit(const struct settings *s, struct fit_options *fit)
{
    static const char *const precisions[] = {"fp32", "bf16", "fp16", "auto", NULL};
    static const char *const choices[] = {"off", "on", "auto", NULL};
    int precision = word("precision", s->precision, precisions, "fp32, bf16, fp16 or auto");
    *fit = (struct fit_options){.memory_bytes = (uint64_t)s->memory,
                                .workspace_bytes = (uint64_t)s->workspace,
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
    static const char *const optimizers[] = {"sgd", "adam", NULL};
    struct train_options options = {.model_path = model_path(s->model, path),
                                    .backend = backend_find(s->backend),
                                    .devices = s->gpus > TRAIN_DEVICES_MAX ? TRAIN_DEVICES_MAX + 1 : (int)s->gpus,
                                    .data = s->data,
                                    .image_count = (size_t)s->images,
                                    .labels_are_lot = s->random_labels,
                                    .loader_threads = loader_threads(s),
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
                                    .evaluates = s->evaluate || s->evaluate_every != 0,
                                    .evaluate_every = (uint64_t)s->evaluate_every,
                                    .results_every = (uint64_t)s->results_every,
                                    .checkpoint_path = s->checkpoint,
                                    .checkpoint_every = (uint64_t)s->every,
                                    .resumes = s->resume,
                                    .progress = s->quiet ? NULL : stderr,
                                    .progress_every = (uint64_t)s->progress_every,
                                    .memory_warn_bytes = (uint64_t)s->warn_memory,
                                    .temperature_warn = s->warn_temperature > 1000 ? 0 : (int)s->warn_temperature,
                                    .says_all = s->verbose};
    if (options.backend == NULL)
        refuse("backend", s->backend, "not part of this build; the back ends are cuda, cpu and dry");
    if (s->tune && s->deterministic)
        refuse("tune", "--deterministic", "timing may choose other algorithms each time");
    options.optimizer = (enum optimizer)word("optimizer", s->optimizer, optimizers, "sgd or adam");
    set_scaling(s, &options);
    set_fit(s, &options.fit);
    return options;
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
    printf("run %lld: %" PRIu64 " steps, loss %.9g, accuracy %.4f", run, result->steps, result->loss, result->accuracy);
    if (result->test_accuracy >= 0)
        printf(", test loss %.9g, test accuracy %.4f", result->test_loss, result->test_accuracy);
    if (result->images_per_s >= 0)
        printf(", %.0f images/s", result->images_per_s);
    printf("; plan %" PRIu64 " bytes", result->fit.plan_bytes);
    if (result->has_scope)
        printf(", peak %" PRIu64 " bytes, pinned %" PRIu64 " bytes", result->peak_bytes, result->pinned_peak_bytes);
    if (result->has_free)
        printf(", card free %" PRIu64 " before, %" PRIu64 " after", result->free_begin_bytes, result->free_end_bytes);
    printf(", heap %zu bytes", heap_bytes());
    printf("%s\n", result->was_stopped ? "; stopped" : "");
    fflush(stdout);
}

/* True if both runs used the same memory. Libraries keep some memory after the first run, but from the second run on
 * nothing may change. */
static bool is_alike(const struct train_result *one, const struct train_result *other)
{
    return one->fit.plan_bytes == other->fit.plan_bytes && one->peak_bytes == other->peak_bytes &&
           one->pinned_peak_bytes == other->pinned_peak_bytes && one->free_begin_bytes == other->free_begin_bytes &&
           one->free_end_bytes == other->free_end_bytes;
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
        }
    }
    return status;
}

/* Stop the training cleanly on the first signal. A second signal kills the process. */
static void on_signal(int number)
{
    (void)number;
    train_stop();
}

static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

int main(int argc, char **argv)
{
    static const gs_child_entry entries[] = {{NULL, NULL}};
    char path[PATH_BYTES];
    gs_child_main(argc, argv, entries);
    struct settings settings = defaults();
    parse(argc, argv, &settings);
    struct train_options options = make_options(&settings, path);
    struct reason reason = {0};
    if (settings.plan) {
        if (train_plan(&options, stdout, &reason))
            return 0;
        fprintf(stderr, "trainer: %s\n", reason.text);
        return EXIT_FAILED;
    }
    if (settings.log != NULL && (options.log = fopen(settings.log, "ae")) == NULL)
        refuse("log", settings.log, strerror(errno));
    catch_signals();
    int status = run_all(&options, settings.runs);
    if (options.log != NULL && fclose(options.log) != 0) {
        fprintf(stderr, "trainer: %s: %s\n", settings.log, strerror(errno));
        status = status == 0 ? EXIT_FAILED : status;
    }
    return status;
}
