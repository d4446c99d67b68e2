/* Runs training steps on a back end and writes all inputs and outputs to OUT. reference.py reads OUT and repeats the
 * computation.
 *
 *    trainer_steps BACKEND MODEL.net OPTIMIZER IMAGES PARTS STEPS OUT [checkpointing | recipe SCHEDULE CLIP]
 *
 * Each step has PARTS micro-batches of IMAGES made-up images. After the last step, the first batch is evaluated. OUT
 * has a line "name type count" before each array (fp32 or int32, this machine's byte order). */
#include "rate.h"
#include "rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct update updates[] = {
    [OPTIMIZER_SGD] = {.optimizer = OPTIMIZER_SGD, .rate = 5e-3F, .momentum = 0.9F, .weight_decay = 1e-3F, .scale = 1},
    [OPTIMIZER_ADAMW] = {.optimizer = OPTIMIZER_ADAMW,
                         .rate = 1e-3F,
                         .weight_decay = 1e-2F,
                         .beta_1 = 0.9F,
                         .beta_2 = 0.999F,
                         .epsilon = 1e-8F,
                         .scale = 1},
    [OPTIMIZER_ADAM] = {.optimizer = OPTIMIZER_ADAM,
                        .rate = 1e-3F,
                        .weight_decay = 1e-2F,
                        .beta_1 = 0.9F,
                        .beta_2 = 0.999F,
                        .epsilon = 1e-8F,
                        .scale = 1},
};

/* With "recipe SCHEDULE CLIP", everything is on: a warm-up and a schedule, Nesterov's momentum (SGD), decay of the
 * weights only, clipping, label smoothing, a loss scale and a moving average. */
enum { WARMUP_STEPS = 3, LOSS_SCALE = 128 };
static float clip_norm; /* given as CLIP */
static const float smoothing = 0.1F, average_decay = 0.75F, warmup_from = 0.25F, rate_end = 1e-4F, rate_factor = 0.5F,
                   recipe_decay = 0.1F;

static void must(bool is_good, const char *what)
{
    if (!is_good) {
        fprintf(stderr, "trainer_steps: %s\n", what);
        exit(1);
    }
}

static void write_array(FILE *out, const char *name, const char *type, const void *data, size_t count)
{
    fprintf(out, "%s %s %zu\n", name, type, count);
    must(fwrite(data, 4, count, out) == count, "cannot write");
}

static void write_block(FILE *out, const char *name, struct rig *rig, enum lasting which)
{
    size_t block = rig->schedule.lasting[which];
    void *data = rig_get(rig, which);
    write_array(out, name, "float32", data, block == NO_BLOCK ? 0 : rig->schedule.block_bytes[block] / 4);
    free(data);
}

static char *read_text(const char *path)
{
    static char text[1 << 16];
    FILE *file = fopen(path, "re");
    must(file != NULL, path);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

struct losses {
    float *loss;      /* owned; mean loss of each step */
    int32_t *correct; /* owned */
    int32_t *top;     /* owned */
    float *norm;      /* owned; norm of the gradients before they are clipped; 0: they are not */
};

static struct rate_plan plan_rates(const char *schedule, double rate, size_t steps)
{
    struct rate_options options = {.rate = rate,
                                   .end = (double)rate_end,
                                   .factor = (double)rate_factor,
                                   .warmup = {.count = WARMUP_STEPS},
                                   .warmup_from = (double)warmup_from};
    struct reason reason;
    must(rate_parse(schedule, &options, &reason), reason.text);
    return rate_make(&options, 1, steps);
}

static struct update update_of(const struct rig *rig, const struct rate_plan *rates, uint64_t step)
{
    struct update update = updates[rig->options.optimizer];
    update.number = step + 1;
    if (rates == NULL)
        return update;
    update.rate = (float)rate_at(rates, step);
    update.weight_decay = recipe_decay;
    update.is_nesterov = update.optimizer == OPTIMIZER_SGD;
    update.clip = clip_norm;
    update.scale = 1.0F / LOSS_SCALE;
    update.average_weight = step == 0 ? 1 : 1 - average_decay;
    return update;
}

static void train(struct rig *rig, size_t parts, size_t steps, const struct rate_plan *rates, struct losses *ret)
{
    size_t images = rig->options.images * parts;
    for (size_t i = 0; i < parts * steps; i++) {
        struct iteration iteration = rig_iteration(rig, i);
        iteration.is_first = i % parts == 0;
        iteration.images_in_step = images;
        rig_iterate(rig, i, &iteration);
        if (i % parts + 1 != parts)
            continue;
        struct update update = update_of(rig, rates, i / parts);
        struct reason reason;
        must(rig->backend->update(rig->state, &update, &reason), reason.text);
        struct results results = rig_settle(rig);
        must(results.broken == 0, "broken gradients");
        ret->loss[i / parts] = results.loss / (float)images;
        ret->correct[i / parts] = (int32_t)results.correct;
        ret->top[i / parts] = (int32_t)results.top;
        ret->norm[i / parts] = results.norm;
    }
}

static void write_evaluation(FILE *out, struct rig *rig)
{
    struct iteration iteration = rig_iteration(rig, 0);
    iteration.is_evaluation = true;
    iteration.smoothing = 0;
    struct reason reason;
    if (rig->options.averages)
        must(rig->backend->swap_average(rig->state, &reason), reason.text);
    rig_iterate(rig, 0, &iteration);
    struct results results = rig_settle(rig);
    float loss = results.loss / (float)rig->options.images;
    write_array(out, "evaluation_loss", "float32", &loss, 1);
    write_array(out, "evaluation_correct", "int32", &results.correct, 1);
}

int main(int argc, char **argv)
{
    struct rig rig;
    must(argc >= 8, "BACKEND MODEL.net OPTIMIZER IMAGES PARTS STEPS OUT [checkpointing]");
    const struct backend *backend = backend_find(argv[1]);
    must(backend != NULL, argv[1]);
    enum optimizer optimizer = OPTIMIZER_SGD;
    while (optimizer + 1 < OPTIMIZER_COUNT && strcmp(argv[3], optimizer_text(optimizer)) != 0)
        optimizer++;
    bool has_recipe = argc > 10 && strcmp(argv[8], "recipe") == 0;
    clip_norm = has_recipe ? strtof(argv[10], NULL) : 0;
    size_t images = strtoul(argv[4], NULL, 10), parts = strtoul(argv[5], NULL, 10), steps = strtoul(argv[6], NULL, 10),
           count = images * parts * steps;
    must(count > 0, "no images");
    struct rig_options options = {.images = images,
                                  .parts = parts * steps,
                                  .optimizer = optimizer,
                                  .checkpointing = argc == 9,
                                  .averages = has_recipe,
                                  .selects_decay = has_recipe,
                                  .clips = has_recipe,
                                  .smoothing = has_recipe ? smoothing : 0,
                                  .loss_scale = has_recipe ? LOSS_SCALE : 1,
                                  .budget_bytes = 64 << 20,
                                  .seed = 11};
    struct losses losses = {calloc(steps, sizeof(float)), calloc(steps, sizeof(int32_t)),
                            calloc(steps, sizeof(int32_t)), calloc(steps, sizeof(float))};
    FILE *out = fopen(argv[7], "we");
    must(losses.loss != NULL && losses.correct != NULL && losses.top != NULL && losses.norm != NULL, "no memory");
    must(out != NULL, argv[7]);
    rig_open(&rig, backend, read_text(argv[2]), &options);
    const struct update *update = &updates[optimizer];
    const float settings[] = {update->rate,   update->momentum, update->weight_decay,
                              update->beta_1, update->beta_2,   update->epsilon};
    write_array(out, "settings", "float32", settings, sizeof settings / sizeof *settings);
    write_array(out, "parameters", "float32", rig.parameters, rig.model.parameter_count);
    write_array(out, "statistics", "float32", rig.statistics, rig.model.statistics_count);
    write_array(out, "images", "float32", rig.images, count * shape_count(rig.model.layers[0].out));
    write_array(out, "labels", "int32", rig.labels, count);
    struct rate_plan rates;
    if (has_recipe) {
        const float recipe[] = {clip_norm,   smoothing, average_decay, recipe_decay, WARMUP_STEPS,
                                warmup_from, rate_end,  rate_factor,   LOSS_SCALE};
        write_array(out, "recipe", "float32", recipe, sizeof recipe / sizeof *recipe);
        rates = plan_rates(argv[9], (double)update->rate, steps);
    }
    train(&rig, parts, steps, has_recipe ? &rates : NULL, &losses);
    write_array(out, "losses", "float32", losses.loss, steps);
    write_array(out, "correct", "int32", losses.correct, steps);
    write_array(out, "top", "int32", losses.top, steps);
    write_array(out, "norm", "float32", losses.norm, steps);
    write_block(out, "parameters_after", &rig, LASTING_PARAMETERS);
    write_block(out, "statistics_after", &rig, LASTING_STATISTICS);
    write_block(out, "average_after", &rig, LASTING_AVERAGE);
    write_evaluation(out, &rig);
    must(fclose(out) == 0, "cannot write");
    rig_close(&rig);
    free(losses.loss);
    free(losses.correct);
    free(losses.top);
    free(losses.norm);
    return 0;
}
