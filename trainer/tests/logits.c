/* Compute the logits of a model with given weights, in evaluation mode.
 *
 *    trainer_logits BACKEND MODEL.net WEIGHTS.safetensors COUNT IMAGES LOGITS
 *
 * IMAGES has COUNT images in fp32, each as rows, columns, channels; LOGITS becomes an fp32 array of COUNT x classes.
 * Both have this machine's byte order and no header. */
#include "rig.h"
#include "weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(bool is_good, const char *what)
{
    if (!is_good) {
        fprintf(stderr, "trainer_logits: %s\n", what);
        exit(1);
    }
}

static void put_block(struct rig *rig, enum lasting which, const float *values)
{
    size_t block = rig->schedule.lasting[which];
    struct reason reason;
    if (block != NO_BLOCK)
        must(rig->backend->put(rig->state, block, values, rig->schedule.block_bytes[block], &reason), reason.text);
}

static void read_images(const char *path, struct rig *rig)
{
    size_t count = rig->options.images * shape_count(rig->model.layers[0].out);
    FILE *file = fopen(path, "re");
    must(file != NULL && fread(rig->images, sizeof(float), count, file) == count, path);
    fclose(file);
}

static const struct step *loss_step(const struct schedule *schedule)
{
    size_t i = 0;
    while (schedule->steps[i].kind != STEP_LOSS)
        i++;
    return &schedule->steps[i];
}

static void write_logits(const char *path, struct rig *rig)
{
    struct reason reason;
    size_t bytes = rig->options.images * rig->model.class_count * sizeof(float);
    void *logits = malloc(bytes);
    FILE *file = fopen(path, "we");
    must(logits != NULL && file != NULL, path);
    must(rig->backend->get(rig->state, loss_step(&rig->schedule)->x, logits, bytes, &reason), reason.text);
    must(fwrite(logits, 1, bytes, file) == bytes && fclose(file) == 0, path);
    free(logits);
}

static const char *read_text(const char *path)
{
    static char text[1 << 16];
    FILE *file = fopen(path, "re");
    must(file != NULL, path);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

int main(int argc, char **argv)
{
    struct rig rig;
    struct reason reason;
    must(argc == 7, "BACKEND MODEL.net WEIGHTS.safetensors COUNT IMAGES LOGITS");
    const struct backend *backend = backend_find(argv[1]);
    must(backend != NULL, argv[1]);
    struct rig_options options = {.images = strtoul(argv[4], NULL, 10), .budget_bytes = 64 << 20, .seed = 1};
    rig_open(&rig, backend, read_text(argv[2]), &options);
    must(weights_read(argv[3], &rig.model, NULL, rig.parameters, rig.statistics, &reason), reason.text);
    put_block(&rig, LASTING_PARAMETERS, rig.parameters);
    put_block(&rig, LASTING_STATISTICS, rig.statistics);
    read_images(argv[5], &rig);
    struct iteration iteration = rig_iteration(&rig, 0);
    iteration.is_evaluation = true;
    rig_iterate(&rig, 0, &iteration);
    rig_settle(&rig);
    write_logits(argv[6], &rig);
    rig_close(&rig);
    return 0;
}
