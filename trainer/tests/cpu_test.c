/* Compare the gradients of the back end `cpu` with central differences of the loss, computed in double by exact.c.
 * Every kind of layer follows a convolution, whose gradients depend on the layer's input gradient. */
#include "exact.h"
#include "rig.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MIB = 1 << 20, SAMPLES = 5 };

/* Largest allowed error of a gradient, relative to the largest gradient of its layer. Measured: at most 2e-6. fp32
 * rounds by 6e-8, and the sums have some thousand terms. */
static const double gradient_tolerance = 1e-5;

static const struct {
    const char *name, *text;
    size_t images;
} models[] = {
    {"conv", "input 2 6 5\nconv 3 3\nconv 5 3 pad 1\nsegment\nlinear 4\n", 3},
    {"conv, 16 channels", "input 3 9 9\nconv 16 3 pad 1 relu\nsegment\nconv 32 3 pad 1 relu\nlinear 4\n", 2},
    {"conv, strides", "input 3 11 8\nconv 8 5 stride 2 pad 2 relu\nsegment\nconv 7 3 stride 3\nlinear 3\n", 4},
    {"conv, 1x1", "input 3 6 6\nconv 16 1 nobias relu\nconv 16 1 stride 2 nobias\nsegment\nlinear 3\n", 4},
    {"conv, 7x7", "input 3 14 14\nconv 16 7 stride 2 pad 3 nobias relu\nsegment\nlinear 3 nobias\n", 3},
    {"batchnorm", "input 3 5 4\nconv 5 3 nobias\nbatchnorm\nsegment\nlinear 4\n", 4},
    {"batchnorm relu", "input 3 5 4\nconv 18 3 nobias\nbatchnorm relu\nsegment\nconv 4 1\nlinear 4\n", 4},
    {"batchnorm first", "input 3 5 4\nbatchnorm relu\nlinear 4\n", 4},
    {"maxpool", "input 2 8 8\nconv 6 3 pad 1\nmaxpool 2\nsegment\nlinear 4\n", 3},
    {"maxpool, overlapping", "input 2 9 8\nconv 16 3 pad 1 relu\nmaxpool 3 stride 2 pad 1\nsegment\nlinear 4\n", 3},
    {"averagepool", "input 2 6 7\nconv 9 3 pad 1 relu\naveragepool\nsegment\nlinear 4\n", 3},
    {"linear", "input 5 3 2\nconv 6 1\nlinear 9 relu\nsegment\nlinear 7 nobias relu\nlinear 3\n", 5},
    {"add", "input 2 5 5\na = conv 4 3 pad 1 relu\nsegment\nconv 4 3 pad 1\nadd a relu\nlinear 3\n", 3},
    {"add, many",
     "input 2 4 4\na = conv 2 3 pad 1 relu\nb = conv 2 3 pad 1 relu\nadd a\nsegment\nc = add b relu\nadd c\nadd a\n"
     "linear 2\n",
     3},
    {"add, pools",
     "input 2 6 6\na = conv 4 3 pad 1\nb = maxpool 2\naveragepool from a\nc = conv 4 1\nmaxpool 3 stride 3 from b\n"
     "add c\nd = conv 3 1\nsegment\nlinear 3 from c\ne = conv 3 1\nadd d\nadd e\n",
     3},
    {"second readers",
     "input 2 6 6\na = conv 4 3 pad 1\nb = batchnorm relu\nconv 4 1 from a\nc = add b\nsegment\n"
     "d = linear 3 from c\nconv 2 3 from c\nlinear 3\nadd d\n",
     4},
    {"conv, groups", "input 4 7 6\nconv 8 3 pad 1 groups 2\nsegment\nconv 12 3 stride 2 groups 4 relu\nlinear 4\n", 3},
    {"depthwise",
     "input 3 9 8\nconv 5 1\nconv 5 3 pad 1 groups 5\nsegment\nconv 5 5 stride 2 pad 2 groups 5 nobias\nconv 5 2 "
     "groups 5\n"
     "linear 4\n",
     3},
    {"depthwise, wide",
     "input 3 9 7\na = conv 16 1\nconv 16 3 stride 2 pad 1 groups 16\nsegment\nconv 16 5 pad 2 groups 16 nobias relu\n"
     "b = averagepool\nconv 16 3 pad 1 groups 16 from a\nconv 16 7 pad 3 groups 16\naveragepool\nadd b\nlinear 4\n",
     3},
    {"relu6", "input 2 6 5\na = conv 5 3 pad 1\nb = add a\nc = add b\nadd c relu6\nsegment\nconv 8 3 relu6\nlinear 3\n",
     3},
    {"sigmoid", "input 2 6 5\nconv 5 3 sigmoid\nsegment\nconv 8 3 nobias\nbatchnorm sigmoid\nlinear 3\n", 3},
    {"silu",
     "input 2 6 5\na = conv 5 3 pad 1 silu\nb = add a silu\nconv 8 3\nactivation silu\nc = linear 3\nsegment\n"
     "linear 3 from b\nadd c\n",
     3},
    {"hardswish",
     "input 2 6 5\na = conv 5 3 pad 1\nadd a hardswish\nsegment\nb = conv 8 3 hardswish\np = averagepool\n"
     "linear 3 from b\nd = linear 3\nc = linear 3 from p\nadd d\n",
     3},
    {"multiply",
     "input 3 6 5\na = conv 8 3 pad 1 silu\nb = averagepool\nconv 4 1 silu\nconv 8 1 sigmoid\nsegment\nmultiply a "
     "relu\n"
     "c = averagepool\nmultiply b\nadd c\nd = linear 4\nlinear 4 from a\nadd d\n",
     3},
    {"dropout",
     "input 3 6 6\nconv 8 3 relu\ndropout 0.3\nsegment\na = conv 5 3\ndropout 0.5 images\nb = add a\ndropout 0.1 from "
     "a\nadd b\n"
     "linear 9\ndropout 0.25\nlinear 3\n",
     6},
    {"residual",
     "input 3 8 8\na = conv 16 3 pad 1 nobias\nsegment\nconv 16 3 pad 1 nobias\nbatchnorm relu\n"
     "conv 16 3 pad 1 nobias\nbatchnorm\nb = add a relu\nsegment\nconv 24 1 stride 2 nobias from b\n"
     "s = batchnorm\nconv 24 3 stride 2 pad 1 nobias from b\nbatchnorm relu\nconv 24 3 pad 1 nobias\nbatchnorm\n"
     "add s relu\naveragepool\nlinear 5\n",
     4},
    {"inverted residual",
     "input 3 9 9\na = conv 8 3 stride 2 pad 1 nobias\nsegment\nconv 24 1 nobias\nbatchnorm silu\n"
     "conv 24 3 pad 1 groups 24 nobias\ne = batchnorm silu\naveragepool\nconv 3 1 silu\nconv 24 1 sigmoid\n"
     "multiply e\nconv 8 1 nobias\nbatchnorm\ndropout 0.4 images\nb = add a\nsegment\nconv 16 1 nobias from b\n"
     "batchnorm hardswish\nconv 16 5 stride 2 pad 2 groups 16 nobias\nbatchnorm relu6\naveragepool\ndropout 0.2\n"
     "linear 5\n",
     5},
};
enum { MODELS = sizeof models / sizeof *models };

/* ---- compared with double ---- */

static struct exact exact_of(const struct rig *rig)
{
    return (struct exact){.model = &rig->model,
                          .images = rig->options.images,
                          .counted = rig->options.images,
                          .input = rig->images,
                          .labels = rig->labels,
                          .seed = rig->options.seed};
}

static double *widen(const float *from, size_t count)
{
    double *to = calloc(count + 1, sizeof *to);
    assert_non_null(to);
    for (size_t i = 0; i < count; i++)
        to[i] = (double)from[i];
    return to;
}

/* Try seeds until no value is close to the bend of a ReLU or of a maximum. Rounding could move it across the bend. */
static void open_smooth(struct rig *rig, const char *text, struct rig_options options)
{
    for (options.seed = 1;; options.seed++) {
        rig_open(rig, &backend_cpu, text, &options);
        struct exact exact = exact_of(rig);
        double *parameters = widen(rig->parameters, rig->model.parameter_count);
        exact_loss(&exact, parameters);
        free(parameters);
        if (exact.closest > 1e-5)
            return;
        rig_close(rig);
        assert_true(options.seed < 100);
    }
}

static double slope(struct exact *exact, double *parameters, size_t i)
{
    const double step = 1e-6;
    double value = parameters[i];
    parameters[i] = value + step;
    double above = exact_loss(exact, parameters);
    parameters[i] = value - step;
    double below = exact_loss(exact, parameters);
    parameters[i] = value;
    return (above - below) / (2 * step) / (double)exact->counted;
}

static double largest(const float *values, size_t count)
{
    double found = 0;
    for (size_t i = 0; i < count; i++)
        found = fabs((double)values[i]) > found ? fabs((double)values[i]) : found;
    return found;
}

/* Check up to SAMPLES of the gradients of `count` weights or biases. Returns the largest error, relative to the largest
 * of the `count` gradients. */
static double check_part(struct exact *exact, double *parameters, const float *gradients, size_t begin, size_t count)
{
    double scale = largest(gradients + begin, count), worst = 0;
    for (size_t k = 0; k < count && k < SAMPLES; k++) {
        size_t i = begin + (count <= SAMPLES ? k : k * (count - 1) / (SAMPLES - 1));
        double error = fabs((double)gradients[i] - slope(exact, parameters, i));
        worst = error > worst ? error : worst;
    }
    return count == 0 ? 0 : worst / (scale + 1e-3);
}

static void gradients_are_slopes(void **unused)
{
    (void)unused;
    for (size_t m = 0; m < MODELS; m++) {
        struct rig rig;
        open_smooth(&rig, models[m].text, (struct rig_options){.images = models[m].images, .budget_bytes = 64 * MIB});
        struct exact exact = exact_of(&rig);
        double *parameters = widen(rig.parameters, rig.model.parameter_count);
        float *gradients = rig_gradients(&rig);
        double worst = 0;
        for (size_t i = 0; i < rig.model.layer_count; i++) {
            const struct layer *layer = &rig.model.layers[i];
            double weights = check_part(&exact, parameters, gradients, layer->weight_at, layer->weight_count);
            double biases = check_part(&exact, parameters, gradients, layer->bias_at, layer->bias_count);
            double of_layer = weights > biases ? weights : biases;
            if (of_layer > gradient_tolerance)
                fail_msg("%s, line %d, %s: off by %.2g of the largest gradient", models[m].name, layer->line,
                         layer_kind_text(layer->kind), of_layer);
            worst = of_layer > worst ? of_layer : worst;
        }
        double loss = exact_loss(&exact, parameters);
        struct results results = rig_settle(&rig);
        printf("  %-22s gradients off by %.1e at most, loss by %.1e\n", models[m].name, worst,
               fabs((double)results.loss - loss) / loss);
        assert_true(fabs((double)results.loss - loss) < 1e-6 * loss);
        assert_int_equal(results.correct, exact.correct);
        assert_int_equal(results.broken, 0);
        free(parameters);
        free(gradients);
        rig_close(&rig);
    }
}

/* Training updates the running statistics, evaluation uses them, and only the first images of a short batch count. */
static void evaluation_uses_running_statistics(void **unused)
{
    (void)unused;
    struct rig rig;
    open_smooth(&rig, models[MODELS - 1].text, (struct rig_options){.images = 4, .budget_bytes = 64 * MIB});
    double *parameters = widen(rig.parameters, rig.model.parameter_count);
    free(rig_gradients(&rig));
    float *moved = rig_get(&rig, LASTING_STATISTICS), *gradients = rig_get(&rig, LASTING_GRADIENTS);
    assert_memory_not_equal(moved, rig.statistics, rig.model.statistics_count * sizeof *moved);
    struct iteration iteration = rig_iteration(&rig, 0);
    iteration.is_evaluation = true;
    iteration.images = 3;
    rig.labels[3] = -1; /* must not be read */
    rig_iterate(&rig, 0, &iteration);
    struct results results = rig_settle(&rig);
    struct exact exact = exact_of(&rig);
    exact.counted = 3;
    exact.statistics = moved;
    double loss = exact_loss(&exact, parameters);
    assert_true(fabs((double)results.loss - loss) < 1e-5 * loss);
    assert_int_equal(results.correct, exact.correct);
    float *after = rig_get(&rig, LASTING_STATISTICS), *gradients_after = rig_get(&rig, LASTING_GRADIENTS);
    assert_memory_equal(after, moved, rig.model.statistics_count * sizeof *moved);
    assert_memory_equal(gradients_after, gradients, rig.model.parameter_count * sizeof *gradients);
    free(parameters);
    free(moved);
    free(after);
    free(gradients);
    free(gradients_after);
    rig_close(&rig);
}

static void running_statistics_are_pytorchs(void **unused)
{
    (void)unused;
    struct rig rig;
    rig_open(&rig, &backend_cpu, "input 2 3 3\nbatchnorm\nlinear 2\n", &(struct rig_options){.images = 3, .seed = 5});
    free(rig_gradients(&rig));
    float *after = rig_get(&rig, LASTING_STATISTICS);
    for (size_t c = 0; c < 2; c++) {
        double mean = 0, variance = 0;
        for (size_t i = 0; i < 27; i++)
            mean += (double)rig.images[i * 2 + c] / 27;
        for (size_t i = 0; i < 27; i++)
            variance += pow((double)rig.images[i * 2 + c] - mean, 2) / 26; /* unbiased: divided by 27 - 1 */
        assert_true(fabs((double)after[c] - (0.9 * (double)rig.statistics[c] + 0.1 * mean)) < 1e-6);
        assert_true(fabs((double)after[2 + c] - (0.9 * (double)rig.statistics[2 + c] + 0.1 * variance)) < 1e-6);
    }
    free(after);
    rig_close(&rig);
}

/* Use a variance as small as the epsilon that is added to it, so that a wrong epsilon changes the loss. */
static void epsilon_is_pytorchs(void **unused)
{
    (void)unused;
    struct rig rig;
    rig_open(&rig, &backend_cpu, "input 2 3 3\nbatchnorm\nlinear 2\n", &(struct rig_options){.images = 3, .seed = 5});
    for (size_t i = 0; i < 54; i++)
        rig.images[i] *= 0.003F;
    double *parameters = widen(rig.parameters, rig.model.parameter_count);
    struct exact exact = exact_of(&rig);
    double loss = exact_loss(&exact, parameters);
    free(rig_gradients(&rig));
    assert_true(fabs((double)rig_settle(&rig).loss - loss) < 1e-6 * loss);
    free(parameters);
    rig_close(&rig);
}

/* ---- compared with itself ---- */

static void checkpointing_gives_the_same_bits(void **unused)
{
    (void)unused;
    for (size_t m = 0; m < MODELS; m++) {
        struct rig kept, again;
        struct rig_options options = {.images = models[m].images, .seed = 3, .budget_bytes = 64 * MIB};
        rig_open(&kept, &backend_cpu, models[m].text, &options);
        options.checkpointing = true;
        rig_open(&again, &backend_cpu, models[m].text, &options);
        float *a = rig_gradients(&kept), *b = rig_gradients(&again), *c = rig_gradients(&kept);
        assert_memory_equal(a, b, kept.model.parameter_count * sizeof *a);
        assert_memory_equal(a, c, kept.model.parameter_count * sizeof *a); /* the same run again gives the same bits */
        void *s = rig_get(&kept, LASTING_STATISTICS), *t = rig_get(&again, LASTING_STATISTICS);
        free(rig_gradients(&again));
        free(t);
        t = rig_get(&again, LASTING_STATISTICS);
        assert_memory_equal(s, t, kept.model.statistics_count * sizeof(float));
        free(a);
        free(b);
        free(c);
        free(s);
        free(t);
        rig_close(&kept);
        rig_close(&again);
    }
}

static void nothing_else_is_written(void **unused)
{
    (void)unused;
    for (size_t m = 0; m < MODELS; m++) {
        struct rig rig;
        rig_open(&rig, &backend_cpu, models[m].text,
                 &(struct rig_options){
                     .images = models[m].images, .seed = 3, .optimizer = OPTIMIZER_ADAM, .budget_bytes = 64 * MIB});
        free(rig_gradients(&rig));
        size_t bytes = rig.model.parameter_count * sizeof(float);
        float *parameters = rig_get(&rig, LASTING_PARAMETERS), *images = rig_get(&rig, LASTING_INPUT_0);
        float *mean = rig_get(&rig, LASTING_MOMENT_1), *square = rig_get(&rig, LASTING_MOMENT_2);
        int32_t *labels = rig_get(&rig, LASTING_LABELS_0);
        float *nothing = calloc(1, bytes);
        assert_memory_equal(parameters, rig.parameters, bytes);
        assert_memory_equal(mean, nothing, bytes);
        assert_memory_equal(square, nothing, bytes);
        assert_memory_equal(images, rig.images,
                            rig.options.images * shape_count(rig.model.layers[0].out) * sizeof *images);
        assert_memory_equal(labels, rig.labels, rig.options.images * sizeof *labels);
        free(parameters);
        free(images);
        free(mean);
        free(square);
        free(labels);
        free(nothing);
        rig_close(&rig);
    }
}

static double difference(const float *a, const float *b, size_t count)
{
    double worst = 0;
    for (size_t i = 0; i < count; i++)
        worst = fabs((double)a[i] - (double)b[i]) > worst ? fabs((double)a[i] - (double)b[i]) : worst;
    return worst / largest(a, count);
}

/* Without batch normalisation, images are independent, so four micro-batches give the gradients of one batch. */
static void four_micro_batches_are_one_batch(void **unused)
{
    (void)unused;
    size_t compared = 0;
    for (size_t m = 0; m < MODELS; m++) {
        struct rig one, four;
        rig_open(&one, &backend_cpu, models[m].text,
                 &(struct rig_options){.images = 16, .seed = 4, .budget_bytes = 64 * MIB});
        rig_open(&four, &backend_cpu, models[m].text,
                 &(struct rig_options){.images = 4, .parts = 4, .seed = 4, .budget_bytes = 64 * MIB});
        if (one.model.statistics_count == 0) {
            float *a = rig_gradients(&one), *b = rig_gradients(&four);
            struct results x = rig_settle(&one), y = rig_settle(&four);
            assert_true(difference(a, b, one.model.parameter_count) < gradient_tolerance);
            assert_true(fabsf(x.loss - y.loss) < 1e-5F * x.loss);
            assert_int_equal(x.correct, y.correct);
            compared++;
            free(a);
            free(b);
        }
        rig_close(&one);
        rig_close(&four);
    }
    assert_true(compared >= 8);
}

static const struct update sgd = {.optimizer = OPTIMIZER_SGD, .rate = 0.1F, .momentum = 0.9F, .number = 1, .scale = 1};

/* The loss scale passes through all layers, and the step removes it again. Powers of two cause no rounding. */
static void loss_scale_scales(void **unused)
{
    (void)unused;
    struct rig plain, scaled;
    struct rig_options options = {.images = 2, .seed = 4, .budget_bytes = 64 * MIB};
    struct reason reason;
    rig_open(&plain, &backend_cpu, models[1].text, &options);
    rig_open(&scaled, &backend_cpu, models[1].text, &options);
    float *gradients = rig_gradients(&plain);
    struct iteration iteration = rig_iteration(&scaled, 0);
    iteration.loss_scale = 128;
    rig_iterate(&scaled, 0, &iteration);
    float *gradients_128 = rig_get(&scaled, LASTING_GRADIENTS);
    size_t count = plain.model.parameter_count;
    for (size_t i = 0; i < count; i++)
        gradients[i] *= 128;
    assert_memory_equal(gradients, gradients_128, count * sizeof *gradients);
    struct update update = sgd;
    assert_true(backend_cpu.update(plain.state, &update, &reason));
    update.scale = 1.0F / 128;
    assert_true(backend_cpu.update(scaled.state, &update, &reason));
    float *a = rig_get(&plain, LASTING_PARAMETERS), *b = rig_get(&scaled, LASTING_PARAMETERS);
    assert_memory_equal(a, b, count * sizeof *a);
    assert_memory_not_equal(a, plain.parameters, count * sizeof *a);
    free(gradients);
    free(gradients_128);
    free(a);
    free(b);
    rig_close(&plain);
    rig_close(&scaled);
}

static void broken_gradients_move_nothing(void **unused)
{
    (void)unused;
    struct rig rig;
    struct reason reason;
    rig_open(&rig, &backend_cpu, models[1].text,
             &(struct rig_options){.images = 2, .seed = 4, .budget_bytes = 64 * MIB});
    struct iteration iteration = rig_iteration(&rig, 0);
    iteration.loss_scale = INFINITY;
    rig_iterate(&rig, 0, &iteration);
    assert_true(backend_cpu.update(rig.state, &sgd, &reason));
    assert_true(rig_settle(&rig).broken > 0);
    float *parameters = rig_get(&rig, LASTING_PARAMETERS), *speed = rig_get(&rig, LASTING_MOMENT_1);
    assert_memory_equal(parameters, rig.parameters, rig.model.parameter_count * sizeof *parameters);
    assert_true(largest(speed, rig.model.parameter_count) == 0);
    free(parameters);
    free(rig_gradients(&rig)); /* compute finite gradients, so that the next step is not skipped */
    assert_true(backend_cpu.update(rig.state, &sgd, &reason));
    assert_int_equal(rig_settle(&rig).broken, 0);
    parameters = rig_get(&rig, LASTING_PARAMETERS);
    assert_memory_not_equal(parameters, rig.parameters, rig.model.parameter_count * sizeof *parameters);
    free(parameters);
    free(speed);
    rig_close(&rig);
}

/* ---- memory ---- */

/* With a small budget, a layer uses another algorithm, or only the smallest workspace that it needs. The gradients must
 * be the same. */
static void less_workspace_gives_the_same_gradients(void **unused)
{
    (void)unused;
    const char text[] = "input 16 14 14\nconv 64 3 pad 1\nconv 64 3 pad 1 nobias\nlinear 4\n";
    struct rig plenty;
    struct rig_options options = {.images = 4, .seed = 6, .budget_bytes = 64 * MIB};
    rig_open(&plenty, &backend_cpu, text, &options);
    float *wanted = rig_gradients(&plenty);
    size_t count = plenty.model.parameter_count, least = 0;
    for (options.budget_bytes = 1; options.budget_bytes < 4 * MIB; options.budget_bytes *= 8) {
        struct rig rig;
        size_t most = 0;
        rig_open(&rig, &backend_cpu, text, &options);
        for (size_t i = 0; i < rig.schedule.step_count; i++)
            most = rig.schedule.steps[i].workspace_bytes > most ? rig.schedule.steps[i].workspace_bytes : most;

        float *gradients = rig_gradients(&rig);
        assert_true(difference(wanted, gradients, count) < gradient_tolerance);
        least = options.budget_bytes == 1 ? most : least;
        assert_true(most <= options.budget_bytes || most == least);
        free(gradients);
        rig_close(&rig);
    }
    free(wanted);
    rig_close(&plenty);
}

static void refusals_say_why(void **unused)
{
    (void)unused;
    struct rig rig;
    struct reason reason = {.text = ""};
    rig_open(&rig, &backend_cpu, models[0].text,
             &(struct rig_options){.images = 3, .seed = 4, .budget_bytes = 64 * MIB});
    struct iteration iteration = rig_iteration(&rig, 0);
    rig.labels[1] = 4;
    assert_true(backend_cpu.feed(rig.state, 0, rig.images, rig.labels, &reason));
    assert_false(backend_cpu.iterate(rig.state, &iteration, &reason));
    assert_non_null(strstr(reason.text, "image 1 of the batch has class 4, but the model has 0 to 3"));
    assert_false(backend_cpu.put(rig.state, NO_BLOCK, rig.images, 4, &reason));
    assert_false(backend_cpu.get(rig.state, rig.schedule.lasting[LASTING_RESULTS], rig.images, 4096, &reason));
    struct update adam = sgd;
    adam.optimizer = OPTIMIZER_ADAM;
    assert_false(backend_cpu.update(rig.state, &adam, &reason));
    assert_non_null(strstr(reason.text, "adam"));
    assert_true(backend_cpu.can(PRECISION_FP32) && !backend_cpu.can(PRECISION_BF16));
    struct backend_options little = {.memory_bytes = rig.schedule.size.arena_bytes / 2};
    void *other;
    assert_true(backend_cpu.open(&little, &other, &reason));
    reason.is_memory = false;
    assert_false(backend_cpu.load(other, &rig.schedule, &reason));
    assert_true(reason.is_memory);
    assert_false(backend_cpu.iterate(other, &iteration, &reason)); /* nothing is loaded */
    assert_true(backend_cpu.close(other, NULL, &reason));
    rig_close(&rig);
}

static void the_host_is_watched(void **unused)
{
    (void)unused;
    struct backend_watch watch;
    backend_cpu.watch(0, &watch);
    assert_true(watch.own_bytes > 0 && watch.own_bytes < watch.total_bytes);
    assert_true(watch.free_bytes > 0 && watch.free_bytes < watch.total_bytes);
    assert_int_equal(watch.temperature, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_slopes),
        cmocka_unit_test(evaluation_uses_running_statistics),
        cmocka_unit_test(running_statistics_are_pytorchs),
        cmocka_unit_test(epsilon_is_pytorchs),
        cmocka_unit_test(checkpointing_gives_the_same_bits),
        cmocka_unit_test(nothing_else_is_written),
        cmocka_unit_test(four_micro_batches_are_one_batch),
        cmocka_unit_test(loss_scale_scales),
        cmocka_unit_test(broken_gradients_move_nothing),
        cmocka_unit_test(less_workspace_gives_the_same_gradients),
        cmocka_unit_test(refusals_say_why),
        cmocka_unit_test(the_host_is_watched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
