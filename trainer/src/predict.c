/* Classify images with the parameters of a checkpoint: see predict.h. */
#include "predict.h"

#include "checkpoint.h"
#include "data.h"
#include "watch.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct predictor {
    const struct train_options *options;
    struct model model;
    struct data *data;
    struct checkpoint checkpoint;
    void *state; /* of the back end; NULL: not open */
    struct schedule schedule;
    size_t logits; /* the block with the output of the last layer */
    float *images; /* host_alloc() */
    int32_t *labels;
    void *raw;       /* owned; the logits of a batch as they are on the device */
    float *of_image; /* owned; the probabilities of one image */
    FILE *out;
};

/* ---- preparing ---- */

static bool read_checkpoint(struct predictor *p, struct reason *reason)
{
    const char *path = p->options->checkpoint_path;
    uint64_t most = checkpoint_bytes_max(p->model.parameter_count, p->model.statistics_count);
    if (!checkpoint_read(path, most, &p->checkpoint, reason))
        return false;
    if (p->checkpoint.model_sum != checkpoint_model_sum(&p->model) ||
        p->checkpoint.parameter_count != p->model.parameter_count ||
        p->checkpoint.statistics_count != p->model.statistics_count)
        return because(reason, "%s: the checkpoint is for model %.100s, whose layers differ from those of %s", path,
                       p->checkpoint.model, p->model.name);
    return true;
}

/* Open the data set. Images are classified as they are, not as a training changes them. */
static bool open_data(struct predictor *p, struct reason *reason)
{
    struct train_options options = *p->options;
    options.augment = NULL;
    return train_open_data(&options, &p->model, &p->data, reason);
}

/* Open the back end, and choose micro-batches that fit. The plan is that of a training, without an average. */
static bool load_schedule(struct predictor *p, struct reason *reason)
{
    const struct backend *backend = p->options->backend;
    struct backend_options backend_options = {.memory_bytes = p->options->fit.memory_bytes,
                                              .deterministic = p->options->deterministic};
    struct backend_watch before, after;
    struct fit fit;
    backend->watch(0, &before);
    if (!backend->open(&backend_options, &p->state, reason))
        return false;
    backend->watch(0, &after);
    struct fit_request request = {.options = p->options->fit,
                                  .model = &p->model,
                                  .backend = backend,
                                  .state = p->state,
                                  .images = p->options->batch,
                                  .optimizer = OPTIMIZER_SGD,
                                  .has_card = has_card(backend),
                                  .taken_bytes = fit_taken(&before, &after),
                                  .free_bytes = after.free_bytes};
    return fit_choose(&request, &fit, reason) &&
           schedule_make(&p->model, &fit.schedule, backend, p->state, (size_t)fit.workspace_bytes, &p->schedule,
                         reason) &&
           backend->load(p->state, &p->schedule, reason);
}

static bool put(struct predictor *p, enum lasting which, const float *values, struct reason *reason)
{
    size_t block = p->schedule.lasting[which];
    return block == NO_BLOCK ||
           p->options->backend->put(p->state, block, values, p->schedule.block_bytes[block], reason);
}

static bool alloc_buffers(struct predictor *p, struct reason *reason)
{
    const struct backend *backend = p->options->backend;
    size_t images = p->schedule.options.images, inputs = shape_count(p->model.layers[0].out);
    void *memory = NULL;
    if (!backend->host_alloc(p->state, images * inputs * sizeof *p->images, &memory, reason))
        return false;
    p->images = memory;
    if (!backend->host_alloc(p->state, images * sizeof *p->labels, &memory, reason))
        return false;
    p->labels = memory;
    memset(p->images, 0, images * inputs * sizeof *p->images);
    memset(p->labels, 0, images * sizeof *p->labels);
    p->raw = malloc(p->schedule.block_bytes[p->logits]);
    p->of_image = malloc(p->model.class_count * sizeof *p->of_image);
    return (p->raw != NULL && p->of_image != NULL) || because(reason, "no host memory for the predictions");
}

static bool open(struct predictor *p, struct reason *reason)
{
    if (p->options->checkpoint_path == NULL)
        return because(reason, "predictions need a checkpoint");
    if (p->options->backend == &backend_dry)
        return because(reason, "the back end dry computes nothing, so it cannot predict");
    if (p->options->batch == 0 || p->options->batch > DATA_IMAGES_MAX)
        return because(reason, "a batch of %zu images", p->options->batch);
    if (!model_read(p->options->model_path, &p->model, reason) || !read_checkpoint(p, reason) ||
        !open_data(p, reason) || !load_schedule(p, reason))
        return false;
    for (size_t i = 0; i < p->schedule.step_count; i++)
        if (p->schedule.steps[i].kind == STEP_LOSS)
            p->logits = p->schedule.steps[i].x;
    return alloc_buffers(p, reason) && put(p, LASTING_PARAMETERS, checkpoint_weights(&p->checkpoint), reason) &&
           put(p, LASTING_STATISTICS, p->checkpoint.statistics, reason);
}

static bool close(struct predictor *p, struct reason *reason)
{
    const struct backend *backend = p->options->backend;
    bool is_well = true;
    if (p->images != NULL)
        backend->host_free(p->state, p->images);
    if (p->labels != NULL)
        backend->host_free(p->state, p->labels);
    if (p->state != NULL)
        is_well = backend->close(p->state, NULL, reason);
    schedule_clear(&p->schedule);
    checkpoint_clear(&p->checkpoint);
    data_close(p->data);
    model_clear(&p->model);
    free(p->raw);
    free(p->of_image);
    return is_well;
}

/* ---- predicting ---- */

static float half_value(uint16_t x)
{
    int exponent = x >> 10 & 31, digits = x & 1023;
    float size = exponent == 31
                     ? (digits != 0 ? NAN : INFINITY)
                     : ldexpf((float)(exponent == 0 ? digits : digits + 1024), (exponent == 0 ? 1 : exponent) - 25);
    return x >> 15 ? -size : size;
}

static float logit_at(const struct predictor *p, size_t index)
{
    if (p->schedule.options.precision == PRECISION_FP32)
        return ((const float *)p->raw)[index];
    uint16_t x = ((const uint16_t *)p->raw)[index];
    if (p->schedule.options.precision == PRECISION_FP16)
        return half_value(x);
    uint32_t bits = (uint32_t)x << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Compute the probabilities of one image. Returns false if a logit is infinite or NaN: there is no class then. */
static bool softmax(const struct predictor *p, size_t image, size_t *ret_class)
{
    size_t best = 0, classes = p->model.class_count;
    double sum = 0;
    for (size_t c = 0; c < classes; c++) {
        p->of_image[c] = logit_at(p, image * classes + c);
        if (!isfinite(p->of_image[c]))
            return false;
        best = p->of_image[c] > p->of_image[best] ? c : best;
    }
    float largest = p->of_image[best];
    for (size_t c = 0; c < classes; c++)
        sum += exp((double)(p->of_image[c] - largest));
    for (size_t c = 0; c < classes; c++)
        p->of_image[c] = (float)(exp((double)(p->of_image[c] - largest)) / sum);
    *ret_class = best;
    return true;
}

/* Run the first `count` images of the buffers, and read their logits. */
static bool run(struct predictor *p, size_t count, struct reason *reason)
{
    const struct backend *backend = p->options->backend;
    struct iteration iteration = {
        .is_first = true, .is_evaluation = true, .loss_scale = 1, .images_in_step = count, .images = count};
    struct results results;
    return backend->feed(p->state, 0, p->images, p->labels, reason) && backend->fed(p->state, 0, reason) &&
           backend->iterate(p->state, &iteration, reason) && backend->settle(p->state, &results, reason) &&
           backend->get(p->state, p->logits, p->raw, p->schedule.block_bytes[p->logits], reason);
}

/* What is classified: a part of the data set, or the images of a file. */
struct source {
    const char *name;
    enum part part;
    struct pictures pictures; /* owned; used if is_file */
    bool is_file, has_labels;
    size_t count;
};

static bool open_source(struct predictor *p, const char *name, struct source *ret, struct reason *reason)
{
    bool is_train = strcmp(name, "train") == 0;
    *ret = (struct source){.name = name, .part = is_train ? PART_TRAIN : PART_TEST, .has_labels = true};
    if (is_train || strcmp(name, "test") == 0) {
        ret->count = data_count(p->data, ret->part);
        return ret->count != 0 || because(reason, "%s: there are no %s images", p->options->data, name);
    }
    ret->is_file = true;
    if (!data_read_file(p->data, name, &ret->pictures, reason))
        return false;
    ret->count = ret->pictures.count;
    ret->has_labels = ret->pictures.labels != NULL;
    return true;
}

static bool get_image(struct predictor *p, const struct source *source, size_t index, float *ret, int32_t *ret_label,
                      struct reason *reason)
{
    struct pick pick = {.part = source->part, .index = index};
    *ret_label = 0;
    if (!source->is_file)
        return data_image(p->data, &pick, ret, ret_label, reason);
    data_file_image(p->data, &source->pictures, index, ret, ret_label);
    return true;
}

/* Print what was predicted for an image; `class` is NULL if the result is not a number. */
static void print_image(const struct predictor *p, const struct source *source, size_t index, const size_t *class,
                        int32_t label)
{
    fprintf(p->out, "%s %zu: ", source->name, index);
    if (class == NULL) {
        fprintf(p->out, "no class: the result is not a number");
    } else {
        const char *name = data_class_name(p->data, *class);
        fprintf(p->out, "class %zu", *class);
        if (name != NULL)
            fprintf(p->out, " (%s)", name);
        fprintf(p->out, ", probability %.6f", (double)p->of_image[*class]);
    }
    if (source->has_labels)
        fprintf(p->out, ", label %" PRId32, label);
    fputc('\n', p->out);
}

static bool classify(struct predictor *p, const struct source *source, struct reason *reason)
{
    size_t batch = p->schedule.options.images, inputs = shape_count(p->model.layers[0].out), correct = 0, failed = 0;
    for (size_t first = 0; first < source->count; first += batch) {
        size_t count = source->count - first < batch ? source->count - first : batch;
        for (size_t i = 0; i < count; i++)
            if (!get_image(p, source, first + i, p->images + i * inputs, &p->labels[i], reason))
                return false;
        if (!run(p, count, reason))
            return false;
        for (size_t i = 0; i < count; i++) {
            size_t class;
            bool has_class = softmax(p, i, &class);
            failed += !has_class;
            correct += has_class && (int32_t) class == p->labels[i];
            print_image(p, source, first + i, has_class ? &class : NULL, p->labels[i]);
        }
    }
    if (source->has_labels)
        fprintf(p->out, "%s: %zu of %zu are right: accuracy %.4f\n", source->name, correct, source->count,
                (double)correct / (double)source->count);
    if (failed > 0)
        fprintf(p->out, "%s: %zu of %zu results are not numbers\n", source->name, failed, source->count);
    return fflush(p->out) == 0 || because(reason, "cannot write the predictions");
}

/* Print what the data set has to report, such as files that were left out. */
static void print_notes(const struct predictor *p)
{
    char line[600];
    while (data_next_note(p->data, line, sizeof line))
        if (p->options->progress != NULL)
            fprintf(p->options->progress, "%s\n", line);
}

bool predict(const struct train_options *options, const char *const *sources, size_t count, FILE *out,
             struct reason *reason)
{
    struct predictor p = {.options = options, .out = out};
    struct reason ignored;
    bool is_well = open(&p, reason);
    if (is_well)
        print_notes(&p);
    for (size_t i = 0; i < count && is_well; i++) {
        struct source source = {0};
        is_well = open_source(&p, sources[i], &source, reason) && classify(&p, &source, reason);
        print_notes(&p);
        pictures_clear(&source.pictures);
    }
    return close(&p, is_well ? reason : &ignored) && is_well;
}
