/* Test models and schedules. They are plain data, so no back end is needed.
 *
 * The test runs a schedule on marks instead of numbers. Writing a block gives its granules a new mark, and reading
 * it must find this mark. So the test detects live blocks that overlap, and data that is read before it was
 * computed. */
#include "backend.h"
#include "schedule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct model read_model(const char *name)
{
    char path[512];
    struct model model;
    struct reason reason;
    snprintf(path, sizeof path, "%s/%s.net", TRAINER_MODELS, name);
    if (!model_read(path, &model, &reason))
        fail_msg("%s", reason.text);
    return model;
}

/* ---- models ---- */

static void models_have_the_parameters_of_their_papers(void **unused)
{
    (void)unused;
    const struct {
        const char *name;
        size_t parameters, layers;
    } rows[] = {{"small", 138378, 6},          {"vgg11", 132863336, 17},         {"vgg16", 138357544, 24},
                {"resnet18", 11689512, 52},    {"resnet34", 21797672, 92},       {"resnet50", 25557032, 126},
                {"mobilenetv2", 3504872, 153}, {"efficientnet-b0", 5288548, 249}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct model model = read_model(rows[i].name);
        size_t parameters = model_parameters(&model);
        assert_string_equal(model.name, rows[i].name);
        assert_int_equal(parameters, rows[i].parameters);
        assert_int_equal(model.layer_count, rows[i].layers);
        assert_true(model.parameter_count >= parameters);
        model_clear(&model);
    }
}

static bool read_text(const char *text, struct model *model, struct reason *reason)
{
    char path[] = "/tmp/model-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    bool is_good = model_read(path, model, reason);
    unlink(path);
    return is_good;
}

static void bad_models_are_told_by_line(void **unused)
{
    (void)unused;
    const struct {
        const char *text, *says;
    } rows[] = {
        {"", "no layers"},
        {"input 3 8 8\n", "no layers"},
        {"linear 10\n", ":1: the first line must be the input"},
        {"input 3 8 8\ninput 3 8 8\n", ":2: only the first line"},
        {"input 3 8\n", ":1: a number is missing: \"the width\""},
        {"input 3 8 0\n", ":1: the width must be a number from 1"},
        {"input 3 8 8x\n", "not \"8x\""},
        {"input 3 8 99999999999999999999\n", "the width must be a number"},
        {"input 65536 65536 65536\nlinear 2\n", ":1: more than 2^31 numbers"},
        {"input 65536 100 100\nlinear 65536\n", ":2: more than 2^31 parameters"},
        {"input 3 8 8\nfoo 3\n", ":2: no such layer: \"foo\""},
        {"input 3 8 8\nconv 4 9\n", ":2: the window is larger"},
        {"input 3 8 8\nconv 4 3 pad 3\n", ":2: the padding"},
        {"input 3 8 8\nconv 4 3 stride 0\n", "the stride must be a number from 1"},
        {"input 3 8 8\nconv 4 3 spin\n", "unknown word: \"spin\""},
        {"input 3 8 8\nconv 4 3 from\n", ":2: the name after \"from\" is missing"},
        {"input 3 8 8\nconv 4 3 from here\n", "no line above is named \"here\""},
        {"input 3 8 8\nmaxpool 2 relu\n", "unknown word: \"relu\""},
        {"input 3 8 8\nmaxpool 16\n", "at most 15 wide"},
        {"input 3 8 8\na =\n", ":2: a name without a layer"},
        {"input 3 8 8\na = conv 4 3 pad 1\nconv 8 3\nadd a\nlinear 2\n", ":4: 4x8x8 cannot be added to 8x6x6"},
        {"input 3 8 8\na = conv 4 3\nconv 4 3\nlinear 2 from a\n", ":3: no line uses"},
        {"input 3 8 8\nconv 4 3\n", ":2: the last line must give two or more classes"},
        {"input 3 8 8\nlinear 2 relu\n", "must not have a ReLU"},
        {"input 3 1 1\naveragepool\n", "no parameters to train"},
        {"input 3 8 8\nlinear 2 silu\n", ":2: the last line must not have an activation"},
        {"input 3 8 8\nconv 4 3 relu silu\n", ":2: more than one activation"},
        {"input 3 8 8\nconv 4 3 silu relu\n", ":2: more than one activation"},
        {"input 3 8 8\nconv 4 3 silu relu6\n", ":2: unknown word: \"relu6\""},
        {"input 3 8 8\nmaxpool 2 silu\n", "unknown word: \"silu\""},
        {"input 3 8 8\nactivation\n", ":2: the activation must be relu6,"},
        {"input 3 8 8\nactivation tanh\n", ":2: the activation must be relu6,"},
        {"input 4 8 8\nconv 6 3 groups 4\n", ":2: 4 groups do not divide 4 and 6 channels"},
        {"input 3 8 8\nconv 6 3 groups 2\n", ":2: 2 groups do not divide 3 and 6 channels"},
        {"input 3 8 8\nconv 6 3 groups 0\n", "the groups must be a number from 1"},
        {"input 3 8 8\nlinear 4 groups 2\n", "unknown word: \"groups\""},
        {"input 3 8 8\ndropout\n", ":2: the rate must be a number from 0 to less than 1"},
        {"input 3 8 8\ndropout 1\n", "not \"1\""},
        {"input 3 8 8\ndropout -0.5\n", "not \"-0.5\""},
        {"input 3 8 8\ndropout nan\n", "not \"nan\""},
        {"input 3 8 8\ndropout 0.5x\n", "not \"0.5x\""},
        {"input 3 8 8\ndropout 0.5 pixels\n", "unknown word: \"pixels\""},
        {"input 3 8 8\nmultiply\n", ":2: the name after \"multiply\" is missing"},
        {"input 3 8 8\na = conv 4 3\nconv 4 3 from a\nmultiply a\n",
         ":4: 4x6x6 cannot be multiplied by 4x4x4, only by 4x1x1"},
        {"input 3 8 8\na = conv 4 3\nconv 5 3\naveragepool\nmultiply a\n", ":5: 4x6x6 cannot be multiplied by 5x1x1"},
        {"input 3 8 8 # a b c d e f g h i j k l m n o p\nlinear 1 2 3 4 5 6 7 8 9 a b c d e f g h\n", "too many words"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct model model = {0};
        struct reason reason = {.text = ""};
        bool is_good = read_text(rows[i].text, &model, &reason);
        if (is_good || strstr(reason.text, rows[i].says) == NULL)
            fail_msg("%s -> %s, \"%s\" wanted", rows[i].text, is_good ? "accepted" : reason.text, rows[i].says);
    }
    struct model model = {0};
    struct reason reason = {.text = ""};
    assert_false(model_read("/nowhere/x.net", &model, &reason));
    assert_non_null(strstr(reason.text, "/nowhere/x.net: No such file"));
}

static void first_values_repeat(void **unused)
{
    (void)unused;
    struct model model = read_model("resnet18");
    size_t bytes = model.parameter_count * sizeof(float);
    float *a = malloc(bytes), *b = malloc(bytes), *s = malloc(model.statistics_count * sizeof *s);
    assert_true(a != NULL && b != NULL && s != NULL);
    model_begin(&model, 7, a, s);
    model_begin(&model, 7, b, s);
    assert_memory_equal(a, b, bytes);
    model_begin(&model, 8, b, s);
    assert_memory_not_equal(a, b, bytes);
    const struct layer *conv = &model.layers[1];
    double squares = 0;
    for (size_t i = 0; i < conv->weight_count; i++)
        squares += (double)a[conv->weight_at + i] * (double)a[conv->weight_at + i];
    /* He initialisation: the variance is 2 / inputs. */
    double variance = squares / (double)conv->weight_count, wanted = 2.0 / (7 * 7 * 3);
    assert_true(variance > wanted * 0.9 && variance < wanted * 1.1);
    free(a);
    free(b);
    free(s);
    model_clear(&model);
}

/* ---- schedules ---- */

enum { GRANULE = 512 }; /* unit of the plan: two blocks never share a granule */

struct play {
    const struct schedule *schedule;
    uint32_t *memory;  /* owned; for each granule, the number of its last write; 0: none */
    uint32_t *written; /* owned; for each block, the number of its last write */
    uint32_t writes;
    /* steps of the kind STEP_PARAMETERS that have begun and are not complete; each one reads until it is complete */
    struct running {
        const struct step *step;
        uint32_t x, dy; /* the numbers of the writes that it must read */
    } running[PARAMETERS_AHEAD + 1];
    size_t begun, complete, most;
};

static void touch(struct play *play, size_t block, bool reads, bool writes)
{
    if (block == NO_BLOCK)
        return;
    uint64_t first = schedule_offset(play->schedule, block) / GRANULE;
    uint64_t count = (play->schedule->block_bytes[block] + GRANULE - 1) / GRANULE;
    assert_true((first + count) * GRANULE <= play->schedule->size.arena_bytes);
    if (reads) {
        assert_true(play->written[block] != 0);
        for (uint64_t i = 0; i < count; i++)
            assert_int_equal(play->memory[first + i], play->written[block]);
    }
    if (writes) {
        play->written[block] = ++play->writes;
        for (uint64_t i = 0; i < count; i++)
            play->memory[first + i] = play->writes;
    }
}

/* Complete the first `count` steps of the kind STEP_PARAMETERS. Nothing that they use may have changed meanwhile. */
static void complete(struct play *play, size_t count)
{
    assert_true(count <= play->begun);
    for (; play->complete < count; play->complete++) {
        const struct running *running = &play->running[play->complete % (PARAMETERS_AHEAD + 1)];
        const struct step *step = running->step;
        touch(play, step->x, true, false);
        touch(play, step->dy, true, false);
        touch(play, step->workspace, true, false);
        assert_int_equal(play->written[step->x], running->x); /* no step has changed them in place */
        assert_int_equal(play->written[step->dy], running->dy);
    }
}

static void begin(struct play *play, const struct step *step)
{
    assert_true(play->begun - play->complete <= PARAMETERS_AHEAD);
    play->running[play->begun++ % (PARAMETERS_AHEAD + 1)] =
        (struct running){.step = step, .x = play->written[step->x], .dy = play->written[step->dy]};
    if (play->begun - play->complete > play->most)
        play->most = play->begun - play->complete;
}

static void play_step(struct play *play, const struct step *step)
{
    complete(play, step->awaited);
    bool is_backward = step->kind == STEP_BACKWARD;
    touch(play, step->workspace, false, true);
    touch(play, step->x, true, false);
    touch(play, step->x2, true, false);
    touch(play, step->dy, true,
          step->kind == STEP_RELU || (is_backward && step->layer->kind == LAYER_ADD && step->dx2 == NO_BLOCK));
    touch(play, step->y, step->kind == STEP_RELU || is_backward,
          step->kind == STEP_INPUT || step->kind == STEP_FORWARD);
    touch(play, step->saved, is_backward, !is_backward);
    touch(play, step->inner_saved[0], true, false);
    touch(play, step->inner_saved[1], true, false);
    touch(play, step->dx, step->adds, true);
    touch(play, step->dx2, false, true);
    if (step->kind == STEP_PARAMETERS)
        begin(play, step);
    /* Nothing that this step wrote has overwritten its workspace. */
    touch(play, step->workspace, step->workspace != NO_BLOCK, false);
}

/* Return the largest number of steps of the kind STEP_PARAMETERS that were incomplete at the same time. */
static size_t play_iterations(const struct schedule *schedule)
{
    struct play play = {.schedule = schedule,
                        .memory = calloc(schedule->size.arena_bytes / GRANULE + 1, sizeof *play.memory),
                        .written = calloc(schedule->block_count, sizeof *play.written)};
    assert_true(play.memory != NULL && play.written != NULL);
    for (int i = 0; i < LASTING_COUNT; i++)
        touch(&play, schedule->lasting[i], false, true);
    for (int iteration = 0; iteration < 2; iteration++) {
        for (size_t i = 0; i < schedule->step_count; i++)
            play_step(&play, &schedule->steps[i]);
        complete(&play, play.begun);
        play.begun = play.complete = 0;
        for (int i = 0; i < LASTING_COUNT; i++) /* no step has overwritten the lasting blocks */
            touch(&play, schedule->lasting[i], true, false);
    }
    free(play.memory);
    free(play.written);
    return play.most;
}

/* Check that the backward pass visits each layer with parameters once, last to first. Only checkpointing may
 * compute layers a second time. */
static void count_steps(const struct schedule *schedule, bool fuses)
{
    const struct model *model = schedule->model;
    size_t *backward = calloc(model->layer_count, sizeof *backward), again = 0, previous = model->layer_count;
    size_t steps_of_layer = 0;
    assert_non_null(backward);
    for (size_t i = 0; i < schedule->step_count; i++) {
        const struct step *step = &schedule->steps[i];
        size_t layer = (size_t)(step->layer - model->layers);
        again += step->is_again;
        if (step->kind != STEP_BACKWARD && step->kind != STEP_PARAMETERS)
            continue;
        /* a multiplication has a backward step for each input, and a convolution may have a step for its parameters */
        bool is_second = step->kind == STEP_BACKWARD && (step->layer->kind != LAYER_MULTIPLY || step->input == 1);
        assert_true(layer < previous || (layer == previous && is_second && steps_of_layer == 1));
        steps_of_layer = layer == previous ? 2 : 1;
        backward[layer] += layer != previous;
        previous = layer;
        for (int k = 0; k < 2; k++) /* the step of a sum is also that of the normalisations inside it */
            if (step->layer->kind == LAYER_ADD && step->inner[k] != NULL)
                backward[step->inner[k] - model->layers]++;
    }
    for (size_t i = 0; i < model->layer_count; i++)
        if (model->layers[i].weight_count != 0)
            assert_int_equal(backward[i], 1);
    /* The backward pass does not need the results of inner layers, so a small model may compute nothing again. */
    if (!fuses || !schedule->options.checkpointing || strncmp(model->name, "resnet", 6) == 0)
        assert_int_equal(again != 0, schedule->options.checkpointing && model->segment_count > 1);
    free(backward);
}

/* Plan some workspace for every step, of different sizes. */
static bool plan_some(void *state, const struct schedule_options *options, struct step *step, size_t budget_bytes,
                      struct reason *reason)
{
    (void)options;
    (void)reason;
    size_t *number = state;
    step->workspace_bytes = ++*number * 7919 % budget_bytes;
    return true;
}

static void steps_find_what_was_written(void **unused)
{
    (void)unused;
    const char *const names[] = {"small", "vgg11", "resnet18", "resnet50", "mobilenetv2", "efficientnet-b0"};
    const struct backend some = {.plan = plan_some}, overlapping = {.plan = plan_some, .overlaps = true};
    const struct backend fusing = {.plan = plan_some, .fuses = true, .overlaps = true};
    const struct backend *const backends[] = {NULL, &some, &overlapping, &fusing};
    size_t most = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct model model = read_model(names[i]);
        uint64_t sizes[2] = {0};
        for (unsigned way = 0; way < 2 * PRECISION_COUNT * OPTIMIZER_COUNT; way++) {
            struct schedule_options options = {.images = 3,
                                               .checkpointing = way % 2,
                                               .overlaps = way % 5 != 0,
                                               .precision = (enum precision)(way / 2 % PRECISION_COUNT),
                                               .optimizer = (enum optimizer)(way / 2 / PRECISION_COUNT)};
            struct schedule schedule;
            struct reason reason;
            size_t number = way;
            const struct backend *backend = backends[way / 2 % 4];
            if (!schedule_make(&model, &options, backend, &number, 100000, &schedule, &reason))
                fail_msg("%s", reason.text);
            size_t running = play_iterations(&schedule);
            if (backend == &overlapping || backend == &fusing)
                assert_true(options.overlaps ? running > 1 : running == 1);
            else
                assert_int_equal(running, 0);
            most = running > most ? running : most;
            count_steps(&schedule, backend == &fusing);
            assert_int_equal(schedule.lasting[LASTING_MOMENT_2] != NO_BLOCK, options.optimizer != OPTIMIZER_SGD);
            assert_int_equal(schedule.lasting[LASTING_LOW] != NO_BLOCK, options.precision != PRECISION_FP32);
            if (way < 2)
                sizes[way] = schedule.size.arena_bytes;
            schedule_clear(&schedule);
        }
        assert_true(sizes[1] <= sizes[0] + 200000); /* with checkpointing, only workspaces may make the plan larger */
        model_clear(&model);
    }
    assert_int_equal(most, PARAMETERS_AHEAD + 1);
}

/* With many images, checkpointing saves memory: in a deep network, more than half. */
static void checkpointing_needs_less(void **unused)
{
    (void)unused;
    struct model model = read_model("resnet50");
    uint64_t sizes[2];
    for (unsigned i = 0; i < 2; i++) {
        struct schedule_options options = {.images = 64, .checkpointing = i};
        struct schedule schedule;
        struct reason reason;
        assert_true(schedule_make(&model, &options, NULL, NULL, 0, &schedule, &reason));
        sizes[i] = schedule.size.arena_bytes;
        schedule_clear(&schedule);
    }
    assert_true(sizes[1] * 2 < sizes[0]);
    model_clear(&model);
}

/* A sum passes one gradient to two layers. If one of them changes it in place, the other must not see the change. */
static void shared_gradients_are_copied(void **unused)
{
    (void)unused;
    const char text[] =
        "input 2 4 4\na = conv 2 3 pad 1 relu\nb = conv 2 3 pad 1 relu\nadd a\nc = add b relu\nadd c\nlinear 2\n";
    struct model model;
    struct reason reason;
    struct schedule schedule;
    struct schedule_options options = {.images = 2};
    if (!read_text(text, &model, &reason))
        fail_msg("%s", reason.text);
    assert_true(schedule_make(&model, &options, NULL, NULL, 0, &schedule, &reason));
    play_iterations(&schedule);
    size_t copies = 0, sums = 0;
    for (size_t i = 0; i < schedule.step_count; i++) {
        copies += schedule.steps[i].kind == STEP_COPY;
        sums += schedule.steps[i].kind == STEP_SUM;
    }
    assert_true(copies >= 1 && sums >= 1);
    schedule_clear(&schedule);
    model_clear(&model);
}

/* A step that changes a gradient in place waits for the step of the kind STEP_PARAMETERS that still reads it. */
static void changed_gradients_are_awaited(void **unused)
{
    (void)unused;
    const struct backend overlapping = {.plan = plan_some, .overlaps = true};
    const struct {
        enum step_kind kind; /* of the step that changes the gradient */
        const char *text;
    } rows[] = {{STEP_RELU, "input 2 4 4\na = conv 2 3 pad 1\nb = conv 2 3 pad 1 relu\nconv 2 3 pad 1 from a\nadd b\n"
                            "linear 2\n"},
                {STEP_BACKWARD, "input 2 4 4\na = conv 2 3 pad 1\nconv 2 3 pad 1\nconv 2 3 pad 1\nadd a\nlinear 2\n"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct model model;
        struct reason reason;
        struct schedule schedule;
        struct schedule_options options = {.images = 2, .overlaps = true};
        size_t number = 0, begun = 0, found = 0;
        if (!read_text(rows[i].text, &model, &reason))
            fail_msg("%s", reason.text);
        assert_true(schedule_make(&model, &options, &overlapping, &number, 100000, &schedule, &reason));
        assert_int_equal(play_iterations(&schedule), PARAMETERS_AHEAD + 1);
        size_t dy =
            NO_BLOCK; /* of the last convolution, whose step for parameters is number 1, after that of `linear` */
        for (size_t k = 0; k < schedule.step_count; k++) {
            const struct step *step = &schedule.steps[k];
            size_t changed = step->kind == STEP_RELU ? step->dy : step->dx;
            begun += step->kind == STEP_PARAMETERS;
            dy = step->kind == STEP_PARAMETERS && begun == 2 ? step->dy : dy;
            if (begun < 2 || step->kind != rows[i].kind || changed != dy)
                continue;
            assert_int_equal(step->awaited, 2);
            found++;
        }
        assert_int_equal(found, 1);
        schedule_clear(&schedule);
        model_clear(&model);
    }
}

static struct folding folding_of(const char *text)
{
    struct model model;
    struct reason reason;
    if (!read_text(text, &model, &reason))
        fail_msg("%s", reason.text);
    struct folding folding = inner_folding(&model);
    model_clear(&model);
    return folding;
}

static void images_are_folded_for_one_convolution(void **unused)
{
    (void)unused;
    struct folding folding = folding_of("input 3 224 224\nconv 64 7 stride 2 pad 3\nlinear 2\n");
    assert_int_equal(folding.folded_channels, 16);
    assert_int_equal(folding.folded_height, 115);
    assert_int_equal(folding.folded_width, 116);
    assert_int_equal(folding.folded_kernel, 4);
    assert_int_equal(folding.across, 4);
    assert_int_equal(folding.filter_width, 2);
    folding = folding_of("input 3 224 222\nconv 64 7 stride 2 pad 3\nlinear 2\n"); /* 111 results are not 4 n */
    assert_int_equal(folding.folded_width, 114);
    assert_int_equal(folding.across, 1);
    assert_int_equal(folding.filter_width, 4);
    folding = folding_of("input 3 28 20\nconv 64 3 pad 1\nlinear 2\n");
    assert_int_equal(folding.folded_channels, 8);
    assert_int_equal(folding.folded_height, 28);
    assert_int_equal(folding.folded_width, 20);
    assert_int_equal(folding.folded_kernel, 3);
    assert_int_equal(folding.across, 1);
    assert_int_equal(folding.filter_width, 3);
    /* another reader; another kind of layer; too many channels; a large stride */
    assert_int_equal(folding_of("i = input 3 8 8\na = conv 4 1\nconv 4 1 from i\nadd a\nlinear 2\n").channels, 0);
    assert_int_equal(folding_of("input 3 8 8\nmaxpool 2\nlinear 2\n").channels, 0);
    assert_int_equal(folding_of("input 9 8 8\nconv 4 3 stride 2\nlinear 2\n").channels, 0);
    assert_int_equal(folding_of("input 1 8 8\nconv 4 3 stride 65536\nlinear 2\n").channels, 0);
}

/* What inner_find() finds in a model. */
struct found {
    size_t inner, activations; /* numbers of layers */
};

static struct found find(const char *text)
{
    struct model model;
    struct reason reason;
    struct found found = {0};
    if (!read_text(text, &model, &reason))
        fail_msg("%s", reason.text);
    bool *is_inner = calloc(model.layer_count, sizeof *is_inner);
    const struct layer **activations = calloc(model.layer_count, sizeof *activations);
    assert_true(is_inner != NULL && activations != NULL && inner_find(&model, is_inner, activations));
    for (size_t i = 0; i < model.layer_count; i++) {
        assert_true(activations[i] == NULL || activations[i]->from[0] == i);
        found.inner += is_inner[i];
        found.activations += activations[i] != NULL;
    }
    free(is_inner);
    free(activations);
    model_clear(&model);
    return found;
}

static void inner_layers_have_one_reader(void **unused)
{
    (void)unused;
    assert_int_equal(find("input 3 8 8\na = conv 4 1\nconv 4 1\nbatchnorm\nadd a relu\nlinear 2\n").inner, 1);
    assert_int_equal(find("input 3 8 8\nconv 4 1\na = batchnorm\nconv 4 1\nbatchnorm\nadd a\nlinear 2\n").inner, 1);
    assert_int_equal(find("input 3 8 8\na = conv 4 1\nconv 4 1\nbatchnorm relu\nadd a\nlinear 2\n").inner, 0);
    assert_int_equal(find("input 3 8 8\na = conv 4 1\nconv 4 1\nb = batchnorm\nadd a\nadd b\nlinear 2\n").inner, 0);
    assert_int_equal(find("input 3 8 8\na = conv 4 1\nb = batchnorm\nadd a\nlinear 2\n").inner, 0);
    assert_int_equal(find("input 3 8 8\nconv 4 1 relu\nmaxpool 2\nlinear 2\n").inner, 1);
    assert_int_equal(find("input 3 8 8\nconv 4 1\nmaxpool 2\nlinear 2\n").inner, 0);
    assert_int_equal(find("input 3 8 8\nconv 4 1 relu\nsegment\nmaxpool 2\nlinear 2\n").inner, 0);
    assert_int_equal(find("input 3 8 8\nconv 4 1\nbatchnorm relu\nmaxpool 2\nlinear 2\n").inner, 1);
}

static void activations_belong_to_their_normalisation(void **unused)
{
    (void)unused;
    assert_int_equal(find("input 3 8 8\nconv 4 1\nbatchnorm relu6\nconv 4 1 silu\nlinear 2\n").activations, 1);
    assert_int_equal(find("input 3 8 8\nconv 4 1\na = batchnorm\nactivation silu\nadd a\nlinear 2\n").activations, 0);
    assert_int_equal(find("input 3 8 8\nconv 4 1\nbatchnorm\nsegment\nactivation silu\nlinear 2\n").activations, 0);
    assert_int_equal(find("input 3 8 8\nconv 4 1\nbatchnorm relu\nactivation silu\nlinear 2\n").activations, 0);
}

/* Check the backward steps of the only max pooling of a model: whether the batch normalisation before it does its work,
 * and that it then reads what the pooling saved. */
static void check_pool(const char *text, bool fuses, bool is_of_norm)
{
    const struct backend backend = {.plan = plan_some, .fuses = fuses};
    for (unsigned checkpointing = 0; checkpointing < 2; checkpointing++) {
        struct schedule_options options = {.images = 2, .checkpointing = checkpointing};
        struct model model;
        struct reason reason;
        struct schedule schedule;
        size_t number = 0, own = 0, of_norm = 0, saved = NO_BLOCK;
        if (!read_text(text, &model, &reason))
            fail_msg("%s", reason.text);
        assert_true(schedule_make(&model, &options, &backend, &number, 100000, &schedule, &reason));
        play_iterations(&schedule);
        for (size_t i = 0; i < schedule.step_count; i++) {
            const struct step *step = &schedule.steps[i];
            bool is_backward = step->kind == STEP_BACKWARD;
            if (step->layer->kind == LAYER_MAXPOOL && step->kind == STEP_FORWARD)
                saved = step->saved; /* the last one, if the step is repeated */
            own += is_backward && step->layer->kind == LAYER_MAXPOOL;
            if (step->pool == NULL)
                continue;
            of_norm++;
            assert_true(is_backward && step->layer == &model.layers[step->pool->from[0]]);
            assert_true(step->inner_saved[0] == saved && saved != NO_BLOCK && step->y == NO_BLOCK);
            assert_int_equal(schedule.block_bytes[step->dy],
                             options.images * shape_count(step->pool->out) * sizeof(float));
        }
        assert_int_equal(own, !is_of_norm);
        assert_int_equal(of_norm, is_of_norm);
        schedule_clear(&schedule);
        model_clear(&model);
    }
}

static void poolings_belong_to_their_normalisation(void **unused)
{
    (void)unused;
    check_pool("input 3 9 8\nconv 4 1\nbatchnorm relu\nmaxpool 3 stride 2 pad 1\nlinear 2\n", true, true);
    check_pool("input 3 9 8\nbatchnorm relu\nmaxpool 2\nlinear 2\n", true, true);
    check_pool("input 3 9 8\nconv 4 1\nbatchnorm relu\na = maxpool 2\nconv 4 1\nadd a relu\nsegment\nconv 4 1\nadd "
               "a\nlinear 2\n",
               true, true);
    check_pool("input 3 9 8\nconv 4 1\nbatchnorm relu\nmaxpool 2\nlinear 2\n", false, false);
    /* another window, no ReLU, another segment, a second reader, another kind of layer */
    check_pool("input 3 9 8\nconv 4 1\nbatchnorm relu\nmaxpool 3\nlinear 2\n", true, false);
    check_pool("input 3 9 8\nconv 4 1\nbatchnorm relu\nmaxpool 4 stride 2\nlinear 2\n", true, false);
    check_pool("input 3 9 8\nconv 4 1\nbatchnorm\nmaxpool 2\nlinear 2\n", true, false);
    check_pool("input 3 9 8\nconv 4 1\nbatchnorm relu\nsegment\nmaxpool 2\nlinear 2\n", true, false);
    check_pool("input 3 9 8\nconv 4 1\na = batchnorm relu\nmaxpool 2\naveragepool\nb = linear 2\nlinear 2 from a\n"
               "add b\n",
               true, false);
    check_pool("input 3 9 8\nconv 4 1 relu\nmaxpool 2\nlinear 2\n", true, false);
}

static void impossible_sizes_are_refused(void **unused)
{
    (void)unused;
    struct model model = read_model("resnet50");
    const size_t images[] = {0, SIZE_MAX, SIZE_MAX / 8, (size_t)1 << 40};
    for (size_t i = 0; i < sizeof images / sizeof *images; i++) {
        struct schedule_options options = {.images = images[i]};
        struct schedule schedule;
        struct reason reason = {.text = ""};
        assert_false(schedule_make(&model, &options, NULL, NULL, 0, &schedule, &reason));
        assert_true(reason.text[0] != '\0');
        assert_int_equal(reason.is_memory, images[i] != 0);
    }
    model_clear(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_have_the_parameters_of_their_papers),
        cmocka_unit_test(bad_models_are_told_by_line),
        cmocka_unit_test(first_values_repeat),
        cmocka_unit_test(steps_find_what_was_written),
        cmocka_unit_test(checkpointing_needs_less),
        cmocka_unit_test(shared_gradients_are_copied),
        cmocka_unit_test(changed_gradients_are_awaited),
        cmocka_unit_test(images_are_folded_for_one_convolution),
        cmocka_unit_test(inner_layers_have_one_reader),
        cmocka_unit_test(activations_belong_to_their_normalisation),
        cmocka_unit_test(poolings_belong_to_their_normalisation),
        cmocka_unit_test(impossible_sizes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
