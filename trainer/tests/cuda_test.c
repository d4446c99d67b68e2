/* Test the back end `cuda` without a GPU: emulated_card.c emulates the GPU, and fake_nvidia.c replaces NVIDIA's
 * libraries with plain loops. The gradients, steps and results must equal those of the back end `cpu`, which cpu_test.c
 * checks. */
#include "fake_nvidia.h"
#include "rig.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MIB = 1 << 20 };

/* Some models have channels in multiples of 8 and others do not, so that both widths of the kernels run. Each kind of
 * layer follows another one, so that its input gradient is tested. */
static const struct {
    const char *name, *text;
    size_t images;
} models[] = {
    {"conv", "input 2 6 5\nconv 3 3\nconv 5 3 pad 1 relu\nsegment\nlinear 4\n", 3},
    {"conv, wide", "input 3 9 9\nconv 16 3 pad 1 relu\nsegment\nconv 32 3 stride 2 pad 1 relu\nlinear 4\n", 2},
    {"conv, 1x1", "input 3 6 6\nconv 16 1 nobias relu\nconv 16 1 stride 2 nobias\nsegment\nconv 8 1\nlinear 3\n", 4},
    {"conv, folded", "input 3 13 12\nconv 16 7 stride 2 pad 3 relu\nlinear 4\n", 3},
    {"conv, folded, four results at once", "input 3 13 16\nconv 16 7 stride 2 pad 3 relu\nlinear 4\n", 3},
    {"conv, folded, four results at once, small", "input 3 9 7\nconv 5 3 stride 2 pad 1\nlinear 4\n", 3},
    {"conv, folded, four results at once, no padding", "input 1 12 18\nconv 3 4 stride 2\nlinear 4\n", 3},
    {"conv, folded by 3", "input 2 11 14\nconv 8 5 stride 3 pad 1 relu\nmaxpool 2\nlinear 4\n", 3},
    {"batchnorm", "input 3 5 4\nconv 5 3 nobias\nbatchnorm\nsegment\nbatchnorm relu\nlinear 4\n", 4},
    {"batchnorm, wide", "input 3 13 11\nconv 16 3 nobias\nbatchnorm relu\nsegment\nconv 24 1\nbatchnorm\nlinear 4\n",
     5},
    {"maxpool", "input 2 8 8\nconv 6 3 pad 1\nmaxpool 2\nsegment\nlinear 4\n", 3},
    {"batchnorm, maxpool", "input 2 9 8\nconv 6 3 pad 1 nobias\nbatchnorm relu\nmaxpool 3 stride 2 pad 1\nlinear 4\n",
     3},
    {"batchnorm, maxpool, wide",
     "input 3 8 8\nconv 16 3 nobias\nbatchnorm relu\nmaxpool 3 stride 2 pad 1\nsegment\nconv 8 1\nlinear 4\n", 3},
    {"batchnorm, maxpool of pairs",
     "input 2 9 7\nconv 9 3 pad 1 nobias\nbatchnorm relu\nmaxpool 2\nconv 9 1 nobias\nbatchnorm relu\n"
     "maxpool 3 stride 2 pad 2\nlinear 4\n",
     5},
    {"batchnorm, maxpool of pairs, wide",
     "input 3 7 8\nconv 16 3 pad 1 nobias\nbatchnorm relu\nmaxpool 2 pad 1\nsegment\nconv 40 1 nobias\n"
     "batchnorm relu\nmaxpool 2\nlinear 4\n",
     5},
    {"batchnorm, maxpool, shared",
     "input 2 11 9\na = conv 8 3 pad 1 nobias\nbatchnorm relu\nb = maxpool 3 stride 2\nconv 8 1 relu\n"
     "d = add b relu\nsegment\nconv 8 1 from d\nadd b\naveragepool\ne = linear 4\nconv 8 3 from a\nlinear 4\n"
     "add e\n",
     6},
    {"batchnorm, maxpool, shared, not wide",
     "input 2 8 7\na = conv 5 3 pad 1 nobias\nbatchnorm relu\nb = maxpool 3 stride 2 pad 1\nsegment\nconv 5 1\n"
     "add b relu\ne = linear 4\nlinear 4 from a\nadd e\n",
     6},
    {"batchnorm, maxpool, images", "input 9 7 6\nbatchnorm relu\nmaxpool 3 stride 2\nlinear 4\n", 5},
    {"batchnorm, maxpool, other windows",
     "input 2 12 11\nconv 6 3 nobias\nbatchnorm relu\nmaxpool 4 stride 2 pad 1\nconv 8 3 pad 1 nobias\n"
     "batchnorm relu\nmaxpool 3\nlinear 4\n",
     3},
    {"sum of two",
     "input 3 6 6\nconv 12 3 pad 1 nobias\na = maxpool 2\nconv 9 1 nobias from a\ns = batchnorm\n"
     "conv 9 1 nobias from a\nbatchnorm\nadd s relu\nlinear 4\n",
     3},
    {"sum without relu",
     "input 3 6 6\na = conv 8 3 pad 1 nobias\nconv 8 1 nobias from a\ns = batchnorm\nconv 8 1 nobias from a\n"
     "batchnorm\nt = add s\nconv 8 3 pad 1 nobias\nbatchnorm\nadd t\nlinear 4\n",
     3},
    {"sum with the second",
     "input 3 6 6\na = conv 4 3 pad 1\nconv 9 1 nobias\ns = batchnorm\nconv 9 1 from a\nadd s relu\nlinear 4\n", 3},
    {"sum with the second, wide",
     "input 3 6 6\na = conv 8 3 pad 1\nconv 16 1 nobias\ns = batchnorm\nconv 16 1 from a\nadd s\nlinear 4\n", 3},
    {"maxpool, no bias", "input 2 8 8\nconv 6 3 pad 1\nconv 12 3 nobias relu\nmaxpool 2\nlinear 4\n", 5},
    {"maxpool, wide", "input 2 9 8\nconv 16 3 pad 1 relu\nmaxpool 3 stride 2 pad 1\nsegment\nlinear 4\n", 3},
    {"averagepool", "input 2 6 7\na = conv 9 3 pad 1 relu\naveragepool\nlinear 4\n", 3},
    {"averagepool, many pixels",
     "input 2 12 13\na = conv 9 3 pad 1\naveragepool\nb = linear 4\nconv 16 3 pad 1 from a\naveragepool\nlinear 4\n"
     "add b\n",
     3},
    {"linear", "input 5 3 2\nconv 6 1\nlinear 9 relu\nsegment\nlinear 8 nobias relu\nlinear 3\n", 5},
    {"classes", "input 3 4 4\nconv 8 3\nlinear 200\n", 9},
    {"add, pools",
     "input 2 6 6\na = conv 8 3 pad 1\nb = maxpool 2\naveragepool from a\nc = conv 8 1\nmaxpool 3 stride 3 from b\n"
     "add c\nd = conv 3 1\nsegment\nlinear 3 from c\ne = conv 3 1\nadd d\nadd e\n",
     3},
    {"add, gradients change in place",
     "input 2 5 4\na = conv 3 3 pad 1\nconv 3 3 pad 1\nconv 3 3 pad 1\nd = add a\ne = conv 3 3 pad 1 relu\n"
     "conv 3 3 pad 1 from d\nadd e\nlinear 4\n",
     3},
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
    {"batchnorm, activations",
     "input 2 7 6\nconv 5 3 pad 1 nobias\nbatchnorm relu6\nconv 7 1 nobias\nbatchnorm silu\nsegment\n"
     "conv 5 3 nobias\nbatchnorm hardswish\nconv 3 1\nbatchnorm sigmoid\nlinear 4\n",
     3},
    {"batchnorm, activations, shared",
     "input 2 7 6\nconv 8 3 pad 1 nobias\na = batchnorm relu6\nconv 8 1 nobias\nbatchnorm silu\ns = add a\nsegment\n"
     "conv 8 3 pad 1 from a\nbatchnorm hardswish\nt = add s relu\nconv 8 1 from a\nadd t\nlinear 4\n",
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
    {"inverted residual",
     "input 3 9 9\na = conv 8 3 stride 2 pad 1 nobias\nsegment\nconv 24 1 nobias\nbatchnorm silu\n"
     "conv 24 3 pad 1 groups 24 nobias\ne = batchnorm silu\naveragepool\nconv 3 1 silu\nconv 24 1 sigmoid\n"
     "multiply e\nconv 8 1 nobias\nbatchnorm\ndropout 0.4 images\nb = add a\nsegment\nconv 16 1 nobias from b\n"
     "batchnorm hardswish\nconv 16 5 stride 2 pad 2 groups 16 nobias\nbatchnorm relu6\naveragepool\ndropout 0.2\n"
     "linear 5\n",
     5},
    {"residual",
     "input 3 8 8\na = conv 16 3 pad 1 nobias\nsegment\nconv 16 3 pad 1 nobias\nbatchnorm relu\n"
     "conv 16 3 pad 1 nobias\nbatchnorm\nb = add a relu\nsegment\nconv 24 1 stride 2 nobias from b\n"
     "s = batchnorm\nconv 24 1 nobias from b\nbatchnorm relu\nconv 24 3 stride 2 pad 1 nobias\nbatchnorm\n"
     "add s relu\naveragepool\nlinear 5\n",
     4},
};
enum { MODELS = sizeof models / sizeof *models, MOBILE = MODELS - 2, DEEP = MODELS - 1 };

/* Allowed differences between the back ends for fp32, bf16 and fp16, relative to the norm of all values. Measured:
 * 4e-7, 1.4e-2 and 1.4e-3. These are rounding errors of several layers (24, 8 and 11 binary digits). In the deepest
 * network, rounding switches some ReLUs for a few images, and the difference is 8e-2. */
static const double tolerance[PRECISION_COUNT] = {1e-5, 6e-2, 8e-3};
static const double deep_tolerance[PRECISION_COUNT] = {1e-5, 0.3, 0.3};

static double distance(const float *a, const float *b, size_t count)
{
    double square = 0, length = 0;
    for (size_t i = 0; i < count; i++) {
        square += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        length += (double)b[i] * (double)b[i];
    }
    return sqrt(square / (length + 1e-12));
}

static void use(const char *interface)
{
    setenv("TRAINER_CUDNN", interface, 1);
}

/* Compare gradients, results and statistics of the two back ends. */
static void compare(const char *name, const char *text, struct rig_options options)
{
    struct rig cpu, cuda;
    struct rig_options of_cpu = options;
    of_cpu.precision = PRECISION_FP32;
    rig_open(&cpu, &backend_cpu, text, &of_cpu);
    rig_open(&cuda, &backend_cuda, text, &options);
    float *expected = rig_gradients(&cpu), *found = rig_gradients(&cuda);
    float *mean = rig_get(&cpu, LASTING_STATISTICS), *own_mean = rig_get(&cuda, LASTING_STATISTICS);
    struct results want = rig_settle(&cpu), have = rig_settle(&cuda);
    double limit = tolerance[options.precision];
    bool is_deep = text == models[DEEP].text || text == models[MOBILE].text;
    double off = distance(found, expected, cpu.model.parameter_count);
    double off_mean = distance(own_mean, mean, cpu.model.statistics_count);
    double off_loss = fabs((double)have.loss - (double)want.loss) / (double)want.loss;
    if (!(off < (is_deep ? deep_tolerance[options.precision] : limit) && off_mean < limit && off_loss < limit)) {
        print_message("%s, %s: gradients %g, statistics %g, loss %g off\n", name, precision_text(options.precision),
                      off, off_mean, off_loss);
        fail();
    }
    if (options.precision == PRECISION_FP32)
        assert_int_equal(have.correct, want.correct);
    assert_int_equal(have.broken, 0);
    free(expected);
    free(found);
    free(mean);
    free(own_mean);
    rig_close(&cuda);
    rig_close(&cpu);
    assert_int_equal(fake_alive, 0);
}

static void gradients_are_those_of_the_cpu(void **unused)
{
    (void)unused;
    for (size_t m = 0; m < MODELS; m++)
        for (enum precision precision = 0; precision < PRECISION_COUNT; precision++) {
            struct rig_options options = {
                .images = models[m].images, .precision = precision, .budget_bytes = MIB, .seed = 3};
            use("");
            compare(models[m].name, models[m].text, options);
        }
}

/* Depthwise convolutions can use them, too. */
static void both_interfaces_of_cudnn_do(void **unused)
{
    (void)unused;
    for (unsigned way = 0; way <= PRECISION_COUNT; way++) {
        const char *text = models[way == PRECISION_COUNT ? MOBILE : DEEP].text;
        enum precision precision = way == PRECISION_COUNT ? PRECISION_BF16 : (enum precision)way;
        struct rig_options options = {.images = 2, .precision = precision, .budget_bytes = MIB, .seed = 4};
        fake_legacy_runs = fake_graph_runs = 0;
        use("legacy");
        compare("legacy", text, options);
        assert_true(fake_legacy_runs > 0 && fake_graph_runs == 0);
        fake_legacy_runs = 0;
        use("graph");
        compare("graph", text, options);
        assert_true(fake_legacy_runs == 0 && fake_graph_runs > 0);
    }
    use("");
}

/* For each problem, every algorithm is run, and the one measured as the fastest is kept. */
static void whatever_is_quickest_does(void **unused)
{
    (void)unused;
    for (unsigned way = 0; way <= PRECISION_COUNT; way++) {
        enum precision precision = way == PRECISION_COUNT ? PRECISION_BF16 : (enum precision)way;
        struct rig_options options = {
            .images = 2, .precision = precision, .tune = true, .budget_bytes = MIB, .seed = 5};
        fake_gemm_runs = fake_legacy_runs = fake_graph_runs = 0;
        compare("tuned", models[way == PRECISION_COUNT ? MOBILE : DEEP].text, options);
        assert_true(fake_legacy_runs > 0 && fake_gemm_runs > 0);
        assert_true((fake_graph_runs > 0) == (precision != PRECISION_FP32));
    }
}

static void what_a_card_refuses_gives_way(void **unused)
{
    (void)unused;
    for (enum precision precision = PRECISION_BF16; precision < PRECISION_COUNT; precision++) {
        struct rig_options options = {.images = 2, .precision = precision, .budget_bytes = MIB, .seed = 5};
        fake_legacy_runs = fake_graph_runs = 0;
        fake_refuses_graphs = 1;
        compare("refused", models[DEEP].text, options);
        fake_refuses_graphs = 0;
        assert_true(fake_legacy_runs > 0 && fake_graph_runs == 0);
    }
}

static void parts_and_segments_are_one_batch(void **unused)
{
    (void)unused;
    for (enum precision precision = 0; precision < PRECISION_COUNT; precision++)
        for (int checkpointing = 0; checkpointing < 2; checkpointing++) {
            struct rig_options options = {.images = 2,
                                          .parts = 3,
                                          .checkpointing = checkpointing,
                                          .precision = precision,
                                          .budget_bytes = MIB,
                                          .seed = 6};
            compare("parts", models[DEEP].text, options);
        }
}

static void compare_bits(const char *text, struct rig_options options)
{
    struct rig kept, again;
    rig_open(&kept, &backend_cuda, text, &options);
    float *a = rig_gradients(&kept), *s = rig_get(&kept, LASTING_STATISTICS);
    rig_close(&kept);
    options.checkpointing = true;
    rig_open(&again, &backend_cuda, text, &options);
    float *b = rig_gradients(&again), *t = rig_get(&again, LASTING_STATISTICS);
    assert_memory_equal(a, b, again.model.parameter_count * sizeof *a);
    assert_memory_equal(s, t, again.model.statistics_count * sizeof *s);
    rig_close(&again);
    free(a);
    free(b);
    free(s);
    free(t);
}

static void checkpointing_gives_the_same_bits(void **unused)
{
    (void)unused;
    for (enum precision precision = 0; precision < PRECISION_COUNT; precision++)
        for (size_t m = precision == PRECISION_BF16 ? 0 : MODELS - 1; m < MODELS; m++) {
            struct rig_options options = {.images = 3, .precision = precision, .budget_bytes = MIB, .seed = 7};
            compare_bits(models[m].text, options);
        }
}

static void step(struct rig *rig, uint64_t number, float scale)
{
    struct update update = {.optimizer = rig->options.optimizer,
                            .rate = 0.01F,
                            .momentum = 0.9F,
                            .weight_decay = 0.001F,
                            .beta_1 = 0.9F,
                            .beta_2 = 0.999F,
                            .epsilon = 1e-8F,
                            .number = number,
                            .scale = scale};
    struct reason reason = {.text = ""};
    if (!rig->backend->update(rig->state, &update, &reason))
        fail_msg("%s", reason.text);
}

static void steps_are_those_of_the_cpu(void **unused)
{
    (void)unused;
    for (enum optimizer optimizer = 0; optimizer < OPTIMIZER_COUNT; optimizer++) {
        struct rig cpu, cuda;
        struct rig_options options = {.images = 3, .optimizer = optimizer, .budget_bytes = MIB, .seed = 8};
        rig_open(&cpu, &backend_cpu, models[1].text, &options);
        rig_open(&cuda, &backend_cuda, models[1].text, &options);
        for (uint64_t number = 1; number <= 3; number++) {
            free(rig_gradients(&cpu));
            free(rig_gradients(&cuda));
            step(&cpu, number, 1);
            step(&cuda, number, 1);
        }
        float *want = rig_get(&cpu, LASTING_PARAMETERS), *have = rig_get(&cuda, LASTING_PARAMETERS);
        for (size_t i = 0; i < cpu.model.parameter_count; i++)
            /* Allow 0.1 % of a step (about 0.01), and the rounding of the parameter. */
            if (fabsf(want[i] - have[i]) > 1e-3F * 0.01F + 1e-5F * fabsf(want[i]))
                fail_msg("%s: parameter %zu is %g, not %g", optimizer_text(optimizer), i, (double)have[i],
                         (double)want[i]);
        free(want);
        free(have);
        rig_close(&cuda);
        rig_close(&cpu);
    }
}

/* Two different orders of the same sums. */
static void near(const char *what, enum optimizer optimizer, const float *have, const float *want, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!(fabsf(want[i] - have[i]) <= 1e-3F * 0.01F + 1e-5F * fabsf(want[i])))
            fail_msg("%s, %s: number %zu is %g, not %g", optimizer_text(optimizer), what, i, (double)have[i],
                     (double)want[i]);
}

/* Nesterov's momentum, decay of the weights only, clipping, label smoothing, a loss scale and the moving average. The
 * norm of the gradients is several times larger than `clip`, or smaller. */
static void recipes_are_those_of_the_cpu(void **unused)
{
    (void)unused;
    static const struct {
        enum optimizer optimizer;
        float clip;
    } rows[] = {{OPTIMIZER_SGD, 0.25F}, {OPTIMIZER_SGD, 1e9F}, {OPTIMIZER_ADAM, 0.25F}, {OPTIMIZER_ADAMW, 0.25F}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        enum optimizer optimizer = rows[k].optimizer;
        struct rig rigs[2];
        struct results results[2];
        struct rig_options options = {.images = 3,
                                      .optimizer = optimizer,
                                      .averages = true,
                                      .selects_decay = true,
                                      .clips = true,
                                      .smoothing = 0.1F,
                                      .loss_scale = 64,
                                      .budget_bytes = MIB,
                                      .seed = 8};
        struct update update = {.optimizer = optimizer,
                                .rate = 0.01F,
                                .momentum = 0.9F,
                                .weight_decay = 0.1F,
                                .is_nesterov = optimizer == OPTIMIZER_SGD,
                                .beta_1 = 0.9F,
                                .beta_2 = 0.999F,
                                .epsilon = 1e-8F,
                                .scale = 1.0F / 64,
                                .clip = rows[k].clip};
        struct reason reason = {.text = ""};
        for (int i = 0; i < 2; i++) {
            rig_open(&rigs[i], i == 0 ? &backend_cpu : &backend_cuda, models[1].text, &options);
            for (update.number = 1; update.number <= 3; update.number++) {
                free(rig_gradients(&rigs[i]));
                update.average_weight = update.number == 1 ? 1 : 0.25F;
                assert_true(rigs[i].backend->update(rigs[i].state, &update, &reason));
            }
            results[i] = rig_settle(&rigs[i]);
        }
        near("norm", optimizer, &results[1].norm, &results[0].norm, 1);
        near("clip", optimizer, &results[1].clip, &results[0].clip, 1);
        near("loss", optimizer, &results[1].loss, &results[0].loss, 1);
        assert_true(rows[k].clip < 1 ? results[0].clip < 0.5F : results[0].clip == 1);
        for (int swaps = 0; swaps < 3; swaps++) {
            const enum lasting blocks[] = {LASTING_PARAMETERS, LASTING_AVERAGE};
            float *values[2][2];
            for (int i = 0; i < 4; i++)
                values[i % 2][i / 2] = rig_get(&rigs[i % 2], blocks[i / 2]);
            near("parameters", optimizer, values[1][0], values[0][0], rigs[0].model.parameter_count);
            near("average", optimizer, values[1][1], values[0][1], rigs[0].model.parameter_count);
            assert_memory_not_equal(values[0][0], values[0][1], rigs[0].model.parameter_count * sizeof(float));
            for (int i = 0; i < 2; i++) {
                free(values[i][0]);
                free(values[i][1]);
                assert_true(rigs[i].backend->swap_average(rigs[i].state, &reason));
            }
        }
        rig_close(&rigs[0]);
        rig_close(&rigs[1]);
    }
}

static float low_value(uint16_t x, enum precision precision);

/* Return the output of the last layer after an evaluation, as predictions read it. The caller frees it. */
static float *logits_of(struct rig *rig)
{
    struct iteration iteration = rig_iteration(rig, 0);
    struct reason reason = {.text = ""};
    size_t block = NO_BLOCK, count = rig->options.images * rig->model.class_count;
    enum precision precision = rig->options.precision;
    iteration.is_evaluation = true;
    rig_iterate(rig, 0, &iteration);
    rig_settle(rig);
    for (size_t i = 0; i < rig->schedule.step_count; i++)
        if (rig->schedule.steps[i].kind == STEP_LOSS)
            block = rig->schedule.steps[i].x;
    float *values = calloc(count, sizeof *values);
    uint16_t *low = calloc(count, sizeof *low);
    void *raw = precision == PRECISION_FP32 ? (void *)values : low;
    assert_true(rig->backend->get(rig->state, block, raw, count * precision_bytes(precision), &reason));
    for (size_t i = 0; precision != PRECISION_FP32 && i < count; i++)
        values[i] = low_value(low[i], precision);
    free(low);
    return values;
}

static void logits_are_those_of_the_cpu(void **unused)
{
    (void)unused;
    for (enum precision precision = 0; precision < PRECISION_COUNT; precision++) {
        struct rig cpu, cuda;
        struct rig_options options = {.images = 4, .budget_bytes = MIB, .seed = 12};
        rig_open(&cpu, &backend_cpu, models[MODELS - 1].text, &options);
        options.precision = precision;
        rig_open(&cuda, &backend_cuda, models[MODELS - 1].text, &options);
        float *want = logits_of(&cpu), *have = logits_of(&cuda);
        assert_true(distance(have, want, options.images * cpu.model.class_count) < tolerance[precision]);
        free(want);
        free(have);
        rig_close(&cuda);
        rig_close(&cpu);
    }
}

/* The norm is that of the gradients without the loss scale, in every precision: nothing of the scale may remain. */
static void norms_do_not_depend_on_the_loss_scale(void **unused)
{
    (void)unused;
    for (enum precision precision = 0; precision < PRECISION_COUNT; precision++) {
        struct results results[2];
        for (int i = 0; i < 2; i++) {
            struct rig rig;
            float loss_scale = i == 0 ? 1 : 256;
            struct rig_options options = {.images = 3,
                                          .precision = precision,
                                          .clips = true,
                                          .loss_scale = loss_scale,
                                          .budget_bytes = MIB,
                                          .seed = 8};
            struct update update = {.rate = 0.01F, .number = 1, .scale = 1 / loss_scale, .clip = 0.25F};
            struct reason reason = {.text = ""};
            rig_open(&rig, &backend_cuda, models[1].text, &options);
            free(rig_gradients(&rig));
            assert_true(rig.backend->update(rig.state, &update, &reason));
            results[i] = rig_settle(&rig);
            float *after = rig_get(&rig, LASTING_PARAMETERS);
            double square = 0;
            for (size_t k = 0; k < rig.model.parameter_count; k++)
                square += pow((double)(after[k] - rig.parameters[k]), 2);
            assert_true(fabs(sqrt(square) / (0.01 * 0.25) - 1) < 1e-3); /* the step has the length rate * clip */
            free(after);
            rig_close(&rig);
        }
        assert_true(results[0].norm > 0.5F);
        assert_true(fabsf(results[1].norm / results[0].norm - 1) < (float)tolerance[precision]);
    }
}

/* With broken gradients, neither the average nor the norm is written. */
static void broken_gradients_leave_the_average(void **unused)
{
    (void)unused;
    const struct backend *const backends[] = {&backend_cpu, &backend_cuda};
    for (int i = 0; i < 2; i++) {
        struct rig rig;
        struct rig_options options = {
            .images = 3, .averages = true, .clips = true, .loss_scale = INFINITY, .budget_bytes = MIB, .seed = 8};
        struct update update = {.rate = 1, .number = 1, .scale = 1, .clip = 1, .average_weight = 1};
        struct reason reason = {.text = ""};
        rig_open(&rig, backends[i], models[1].text, &options);
        size_t count = rig.model.parameter_count;
        float *before = calloc(count, sizeof *before); /* differs from the parameters */
        assert_true(rig.backend->put(rig.state, rig.schedule.lasting[LASTING_AVERAGE], before, count * sizeof *before,
                                     &reason));
        free(rig_gradients(&rig));
        assert_true(rig.backend->update(rig.state, &update, &reason));
        struct results results = rig_settle(&rig);
        assert_true(results.broken > 0 && results.norm == 0 && results.clip == 0);
        float *average = rig_get(&rig, LASTING_AVERAGE);
        assert_memory_equal(average, before, count * sizeof *average);
        free(average);
        free(before);
        rig_close(&rig);
    }
}

static void a_moved_average_is_copied_to_low_precision(void **unused)
{
    (void)unused;
    struct rig rig;
    struct reason reason = {.text = ""};
    struct rig_options options = {
        .images = 3, .precision = PRECISION_BF16, .averages = true, .budget_bytes = MIB, .seed = 8};
    rig_open(&rig, &backend_cuda, models[1].text, &options);
    size_t count = rig.model.parameter_count;
    float *half = calloc(count, sizeof *half);
    for (size_t i = 0; i < count; i++)
        half[i] = (float)(i % 100) / 2;
    assert_true(
        rig.backend->put(rig.state, rig.schedule.lasting[LASTING_AVERAGE], half, count * sizeof *half, &reason));
    assert_true(rig.backend->swap_average(rig.state, &reason));
    uint16_t *low = rig_get(&rig, LASTING_LOW);
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = (uint32_t)low[i] << 16;
        assert_memory_equal(&bits, &half[i], sizeof bits); /* these numbers have at most 8 significant bits */
    }
    free(low);
    free(half);
    rig_close(&rig);
}

/* The number of images whose class is among the five best, with ties and with numbers that are not finite. Without a
 * layer before it, the output of "linear" is the image times the weights, which are the identity here. */
static void top_classes_are_counted(void **unused)
{
    (void)unused;
    enum { CLASSES = 8, IMAGES = 9 };
    static const struct {
        float logits[CLASSES];
        int32_t label;
        bool is_top, is_best;
    } rows[IMAGES] = {{{8, 7, 6, 5, 4, 3, 2, 1}, 0, true, true},
                      {{8, 7, 6, 5, 4, 3, 2, 1}, 4, true, false},
                      {{8, 7, 6, 5, 4, 3, 2, 1}, 5, false, false},
                      {{1, 1, 1, 1, 1, 1, 1, 1}, 4, true, false},
                      {{1, 1, 1, 1, 1, 1, 1, 1}, 5, false, false},
                      {{0, 9, 9, 9, 9, 1, 0, 0}, 5, true, false},
                      /* the products with the zeros of the weights are not numbers, either */
                      {{NAN, 1, 1, 1, 1, 1, 1, 1}, 0, false, false},
                      {{INFINITY, 1, 1, 1, 1, 1, 1, 1}, 0, false, false},
                      {{0, INFINITY, 1, 1, 1, 1, 1, 1}, 0, false, false}};
    const struct backend *const backends[] = {&backend_cpu, &backend_cuda};
    for (int b = 0; b < 2; b++)
        for (int is_evaluation = 0; is_evaluation < 2; is_evaluation++) {
            struct rig rig;
            struct rig_options options = {.images = IMAGES, .budget_bytes = MIB, .seed = 8};
            struct reason reason = {.text = ""};
            rig_open(&rig, backends[b], "input 8 1 1\nlinear 8 nobias\n", &options);
            memset(rig.parameters, 0, rig.model.parameter_count * sizeof *rig.parameters);
            for (int i = 0; i < CLASSES; i++)
                rig.parameters[i * CLASSES + i] = 1;
            assert_true(rig.backend->put(rig.state, rig.schedule.lasting[LASTING_PARAMETERS], rig.parameters,
                                         rig.model.parameter_count * sizeof *rig.parameters, &reason));
            uint32_t top = 0, best = 0;
            for (int i = 0; i < IMAGES; i++) {
                memcpy(rig.images + i * CLASSES, rows[i].logits, sizeof rows[i].logits);
                rig.labels[i] = rows[i].label;
                top += rows[i].is_top;
                best += rows[i].is_best;
            }
            struct iteration iteration = rig_iteration(&rig, 0);
            iteration.is_evaluation = is_evaluation;
            rig_iterate(&rig, 0, &iteration);
            struct results results = rig_settle(&rig);
            assert_int_equal(results.top, top);
            assert_int_equal(results.correct, best);
            rig_close(&rig);
        }
}

static float low_value(uint16_t x, enum precision precision)
{
    if (precision == PRECISION_BF16) {
        uint32_t bits = (uint32_t)x << 16;
        float value;
        memcpy(&value, &bits, sizeof value);
        return value;
    }
    int exponent = x >> 10 & 31, digits = (x & 1023) + (exponent == 0 ? 0 : 1024);
    float value = ldexpf((float)digits, (exponent == 0 ? 1 : exponent) - 25);
    return x >> 15 ? -value : value;
}

/* The copy of the parameters in low precision is updated by put() and by a step. */
static void low_parameters_follow(void **unused)
{
    (void)unused;
    for (enum precision precision = PRECISION_BF16; precision < PRECISION_COUNT; precision++) {
        struct rig rig;
        struct rig_options options = {.images = 3, .precision = precision, .budget_bytes = MIB, .seed = 9};
        rig_open(&rig, &backend_cuda, models[1].text, &options);
        for (uint64_t number = 0; number < 2; number++) {
            if (number > 0) {
                free(rig_gradients(&rig));
                step(&rig, number, 1);
            }
            float *full = rig_get(&rig, LASTING_PARAMETERS);
            uint16_t *low = rig_get(&rig, LASTING_LOW);
            for (size_t i = 0; i < rig.model.parameter_count; i++)
                assert_true(fabsf(low_value(low[i], precision) - full[i]) <= fabsf(full[i]) / 256 + 1e-7F);
            free(full);
            free(low);
        }
        rig_close(&rig);
    }
}

static void loss_scale_scales(void **unused)
{
    (void)unused;
    struct rig rig;
    struct rig_options options = {.images = 3, .precision = PRECISION_FP16, .budget_bytes = MIB, .seed = 10};
    rig_open(&rig, &backend_cuda, models[1].text, &options);
    float *plain = rig_gradients(&rig);
    struct iteration iteration = rig_iteration(&rig, 0);
    iteration.loss_scale = 128;
    rig_iterate(&rig, 0, &iteration);
    float *scaled = rig_get(&rig, LASTING_GRADIENTS);
    for (size_t i = 0; i < rig.model.parameter_count; i++)
        scaled[i] /= 128;
    assert_true(distance(scaled, plain, rig.model.parameter_count) < tolerance[PRECISION_FP16]);
    free(plain);
    free(scaled);
    rig_close(&rig);
}

static void broken_gradients_move_nothing(void **unused)
{
    (void)unused;
    for (enum optimizer optimizer = 0; optimizer < OPTIMIZER_COUNT; optimizer++)
        for (enum precision precision = 0; precision < PRECISION_COUNT; precision++) {
            struct rig rig;
            struct rig_options options = {
                .images = 3, .optimizer = optimizer, .precision = precision, .budget_bytes = MIB, .seed = 11};
            rig_open(&rig, &backend_cuda, models[1].text, &options);
            struct iteration iteration = rig_iteration(&rig, 0);
            iteration.loss_scale = INFINITY;
            rig_iterate(&rig, 0, &iteration);
            step(&rig, 1, 1);
            assert_true(rig_settle(&rig).broken > 0);
            float *parameters = rig_get(&rig, LASTING_PARAMETERS);
            assert_memory_equal(parameters, rig.parameters, rig.model.parameter_count * sizeof *parameters);
            free(parameters);
            free(rig_gradients(&rig));
            assert_int_equal(rig_settle(&rig).broken, 0);
            step(&rig, 1, 1);
            parameters = rig_get(&rig, LASTING_PARAMETERS);
            assert_memory_not_equal(parameters, rig.parameters, rig.model.parameter_count * sizeof *parameters);
            free(parameters);
            rig_close(&rig);
        }
}

/* Evaluate a short batch: this uses the running statistics, and changes nothing but the results. */
static void evaluations_are_those_of_the_cpu(void **unused)
{
    (void)unused;
    struct rig rigs[2];
    struct results results[2];
    const struct backend *const backends[] = {&backend_cpu, &backend_cuda};
    for (int i = 0; i < 2; i++) {
        struct rig_options options = {.images = 5, .budget_bytes = MIB, .seed = 12};
        rig_open(&rigs[i], backends[i], models[MOBILE].text, &options);
        float *before = rig_gradients(&rigs[i]);
        float *statistics = rig_get(&rigs[i], LASTING_STATISTICS);
        struct iteration iteration = rig_iteration(&rigs[i], 0);
        iteration.is_evaluation = true;
        iteration.images = 3;
        rig_iterate(&rigs[i], 0, &iteration);
        results[i] = rig_settle(&rigs[i]);
        float *after = rig_get(&rigs[i], LASTING_GRADIENTS), *still = rig_get(&rigs[i], LASTING_STATISTICS);
        assert_memory_equal(before, after, rigs[i].model.parameter_count * sizeof *before);
        assert_memory_equal(statistics, still, rigs[i].model.statistics_count * sizeof *still);
        free(before);
        free(after);
        free(statistics);
        free(still);
    }
    assert_true(fabsf(results[0].loss - results[1].loss) < 1e-5F * results[0].loss);
    assert_int_equal(results[0].correct, results[1].correct);
    rig_close(&rigs[1]);
    rig_close(&rigs[0]);
}

static void devices_are_joined(void **unused)
{
    (void)unused;
    struct rig rig;
    struct rig_options options = {.images = 2, .budget_bytes = MIB, .seed = 13};
    struct reason reason = {.text = ""};
    gs_nccl_id id;
    rig_open(&rig, &backend_cuda, models[0].text, &options);
    assert_false(backend_cuda.sum_gradients(rig.state, &reason));
    assert_non_null(strstr(reason.text, "joined"));
    assert_true(backend_cuda.invite(rig.state, &id, &reason) && backend_cuda.join(rig.state, 2, 1, &id, &reason));
    fake_sums = 0;
    assert_true(backend_cuda.sum_gradients(rig.state, &reason));
    assert_int_equal(fake_sums, 1);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_those_of_the_cpu),
        cmocka_unit_test(both_interfaces_of_cudnn_do),
        cmocka_unit_test(whatever_is_quickest_does),
        cmocka_unit_test(what_a_card_refuses_gives_way),
        cmocka_unit_test(parts_and_segments_are_one_batch),
        cmocka_unit_test(checkpointing_gives_the_same_bits),
        cmocka_unit_test(steps_are_those_of_the_cpu),
        cmocka_unit_test(recipes_are_those_of_the_cpu),
        cmocka_unit_test(norms_do_not_depend_on_the_loss_scale),
        cmocka_unit_test(logits_are_those_of_the_cpu),
        cmocka_unit_test(broken_gradients_leave_the_average),
        cmocka_unit_test(a_moved_average_is_copied_to_low_precision),
        cmocka_unit_test(top_classes_are_counted),
        cmocka_unit_test(low_parameters_follow),
        cmocka_unit_test(loss_scale_scales),
        cmocka_unit_test(broken_gradients_move_nothing),
        cmocka_unit_test(evaluations_are_those_of_the_cpu),
        cmocka_unit_test(devices_are_joined),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
