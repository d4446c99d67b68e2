/* Builds the back end, model and values that the tests of back ends share: see rig.h. */
#include "rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void must(bool is_good, const char *what)
{
    if (!is_good) {
        fprintf(stderr, "rig: %s\n", what);
        abort();
    }
}

static void *room(size_t bytes)
{
    void *memory = calloc(1, bytes + 1);
    must(memory != NULL, "no memory");
    return memory;
}

struct model rig_model(const char *text)
{
    char path[] = "/tmp/model-XXXXXX";
    struct model model;
    struct reason reason = {.text = "written in part"};
    int fd = mkstemp(path);
    must(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text), path);
    close(fd);
    bool is_good = model_read(path, &model, &reason);
    unlink(path);
    must(is_good, reason.text);
    return model;
}

static void shake(float *values, size_t count, float by, uint64_t *state)
{
    for (size_t i = 0; i < count; i++)
        values[i] += by * random_normal(state);
}

static void make_values(struct rig *rig)
{
    const struct model *model = &rig->model;
    uint64_t state = rig->options.seed;
    rig->parameters = room(model->parameter_count * sizeof *rig->parameters);
    rig->statistics = room(model->statistics_count * sizeof *rig->statistics);
    model_begin(model, rig->options.seed, rig->parameters, rig->statistics);
    for (size_t i = 0; i < model->layer_count; i++) {
        const struct layer *layer = &model->layers[i];
        shake(rig->parameters + layer->bias_at, layer->bias_count, 0.3F, &state);
        if (layer->kind != LAYER_BATCHNORM)
            continue;
        shake(rig->parameters + layer->weight_at, layer->weight_count, 0.3F, &state);
        shake(rig->statistics + layer->statistics_at, layer->out.channels, 0.3F, &state);
        for (size_t c = 0; c < layer->out.channels; c++)
            rig->statistics[layer->statistics_at + layer->out.channels + c] = 0.5F + random_unit(&state);
    }
}

static void make_batch(struct rig *rig)
{
    uint64_t state = rig->options.seed + 1;
    size_t count = rig->options.images * rig->options.parts, each = shape_count(rig->model.layers[0].out);
    rig->images = room(count * each * sizeof *rig->images);
    rig->labels = room(count * sizeof *rig->labels);
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < each; k++)
            rig->images[i * each + k] = random_normal(&state);
        rig->labels[i] = (int32_t)(random_next(&state) % rig->model.class_count);
    }
}

static void put(struct rig *rig, enum lasting which, const void *data)
{
    size_t block = rig->schedule.lasting[which];
    struct reason reason;
    if (block != NO_BLOCK)
        must(rig->backend->put(rig->state, block, data, rig->schedule.block_bytes[block], &reason), reason.text);
}

void rig_open(struct rig *rig, const struct backend *backend, const char *text, const struct rig_options *options)
{
    *rig = (struct rig){.options = *options, .model = rig_model(text), .backend = backend};
    rig->options.parts = options->parts != 0 ? options->parts : 1;
    struct backend_options of_backend = {.deterministic = true, .tune = options->tune};
    struct schedule_options of_schedule = {.images = options->images,
                                           .precision = options->precision,
                                           .optimizer = options->optimizer,
                                           .checkpointing = options->checkpointing,
                                           .overlaps = true,
                                           .averages = options->averages,
                                           .selects_decay = options->selects_decay,
                                           .clips = options->clips};
    struct reason reason;
    must(backend->open(&of_backend, &rig->state, &reason), reason.text);
    must(schedule_make(&rig->model, &of_schedule, backend, rig->state, options->budget_bytes, &rig->schedule, &reason),
         reason.text);
    must(backend->load(rig->state, &rig->schedule, &reason), reason.text);
    make_values(rig);
    make_batch(rig);
    put(rig, LASTING_PARAMETERS, rig->parameters);
    put(rig, LASTING_STATISTICS, rig->statistics);
    put(rig, LASTING_AVERAGE, rig->parameters);
    uint8_t *decayed = room(model_decayed_count(&rig->model));
    model_decayed(&rig->model, decayed);
    put(rig, LASTING_DECAYED, decayed);
    free(decayed);
}

void rig_close(struct rig *rig)
{
    struct reason reason;
    gs_report *report = NULL;
    must(rig->backend->close(rig->state, &report, &reason), reason.text);
    gs_report_free(report);
    schedule_clear(&rig->schedule);
    model_clear(&rig->model);
    free(rig->parameters);
    free(rig->statistics);
    free(rig->images);
    free(rig->labels);
}

struct iteration rig_iteration(const struct rig *rig, size_t part)
{
    return (struct iteration){.turn = part % 2,
                              .is_first = part == 0,
                              .loss_scale = rig->options.loss_scale > 0 ? rig->options.loss_scale : 1,
                              .smoothing = rig->options.smoothing,
                              .images_in_step = rig->options.images * rig->options.parts,
                              .images = rig->options.images,
                              .seed = rig->options.seed,
                              .first = part * rig->options.images};
}

void rig_iterate(struct rig *rig, size_t part, const struct iteration *iteration)
{
    size_t first = part * rig->options.images, each = shape_count(rig->model.layers[0].out);
    struct reason reason;
    must(rig->backend->feed(rig->state, iteration->turn, rig->images + first * each, rig->labels + first, &reason) &&
             rig->backend->fed(rig->state, iteration->turn, &reason) &&
             rig->backend->iterate(rig->state, iteration, &reason),
         reason.text);
}

void *rig_get(struct rig *rig, enum lasting which)
{
    size_t block = rig->schedule.lasting[which];
    size_t bytes = block == NO_BLOCK ? 0 : rig->schedule.block_bytes[block];
    void *data = room(bytes);
    struct reason reason;
    must(block == NO_BLOCK || rig->backend->get(rig->state, block, data, bytes, &reason), reason.text);
    return data;
}

struct results rig_settle(struct rig *rig)
{
    struct results results;
    struct reason reason;
    must(rig->backend->settle(rig->state, &results, &reason), reason.text);
    return results;
}

float *rig_gradients(struct rig *rig)
{
    for (size_t part = 0; part < rig->options.parts; part++) {
        struct iteration iteration = rig_iteration(rig, part);
        rig_iterate(rig, part, &iteration);
    }
    rig_settle(rig);
    return rig_get(rig, LASTING_GRADIENTS);
}
