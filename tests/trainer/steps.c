/* Runs training steps on a back end and writes all inputs and outputs to OUT. reference.py reads OUT and repeats the
 * computation.
 *
 *    trainer_steps BACKEND MODEL.net OPTIMIZER IMAGES PARTS STEPS OUT [checkpointing]
 *
 * Each step has PARTS micro-batches of IMAGES made-up images. After the last step, the first batch is evaluated. OUT
 * has a line "name type count" before each array (fp32 or int32, this machine's byte order). */
#include "rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct update updates[] = {
    [OPTIMIZER_SGD] = {.optimizer = OPTIMIZER_SGD, .rate = 5e-3F, .momentum = 0.9F, .weight_decay = 1e-3F, .scale = 1},
    [OPTIMIZER_ADAM] = {.optimizer = OPTIMIZER_ADAM,
                        .rate = 1e-3F,
                        .weight_decay = 1e-2F,
                        .beta_1 = 0.9F,
                        .beta_2 = 0.999F,
                        .epsilon = 1e-8F,
                        .scale = 1},
};

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
};

static void train(struct rig *rig, size_t parts, size_t steps, struct losses *ret)
{
    size_t images = rig->options.images * parts;
    for (size_t i = 0; i < parts * steps; i++) {
        struct iteration iteration = rig_iteration(rig, i);
        iteration.is_first = i % parts == 0;
        iteration.images_in_step = images;
        rig_iterate(rig, i, &iteration);
        if (i % parts + 1 != parts)
            continue;
        struct update update = updates[rig->options.optimizer];
        struct reason reason;
        update.number = i / parts + 1;
        must(rig->backend->update(rig->state, &update, &reason), reason.text);
        struct results results = rig_settle(rig);
        must(results.broken == 0, "broken gradients");
        ret->loss[i / parts] = results.loss / (float)images;
        ret->correct[i / parts] = (int32_t)results.correct;
    }
}

static void write_evaluation(FILE *out, struct rig *rig)
{
    struct iteration iteration = rig_iteration(rig, 0);
    iteration.is_evaluation = true;
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
    enum optimizer optimizer = strcmp(argv[3], optimizer_text(OPTIMIZER_ADAM)) == 0 ? OPTIMIZER_ADAM : OPTIMIZER_SGD;
    size_t images = strtoul(argv[4], NULL, 10), parts = strtoul(argv[5], NULL, 10), steps = strtoul(argv[6], NULL, 10),
           count = images * parts * steps;
    must(count > 0, "no images");
    struct rig_options options = {.images = images,
                                  .parts = parts * steps,
                                  .optimizer = optimizer,
                                  .checkpointing = argc > 8,
                                  .budget_bytes = 64 << 20,
                                  .seed = 11};
    struct losses losses = {calloc(steps, sizeof(float)), calloc(steps, sizeof(int32_t))};
    FILE *out = fopen(argv[7], "we");
    must(losses.loss != NULL && losses.correct != NULL, "no memory");
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
    train(&rig, parts, steps, &losses);
    write_array(out, "losses", "float32", losses.loss, steps);
    write_array(out, "correct", "int32", losses.correct, steps);
    write_block(out, "parameters_after", &rig, LASTING_PARAMETERS);
    write_block(out, "statistics_after", &rig, LASTING_STATISTICS);
    write_evaluation(out, &rig);
    must(fclose(out) == 0, "cannot write");
    rig_close(&rig);
    free(losses.loss);
    free(losses.correct);
    return 0;
}
