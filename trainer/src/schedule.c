/* Make a schedule: create the steps and a separate block for each result. layout.c then lets blocks that are never
 * alive at the same time share memory. */
#include "schedule.h"

#include "backend.h"
#include "layout.h"

#include <stdlib.h>
#include <string.h>

struct maker {
    struct schedule *schedule;
    const struct model *model;
    const struct backend *backend;
    void *state;
    size_t budget_bytes;
    struct reason *reason;
    size_t step_room, block_room;
    /* Arrays with one entry per layer: */
    size_t *y;                        /* block of the layer's result; with checkpointing, of the recomputed result */
    size_t *saved;                    /* block that the forward step saves for the backward step */
    size_t *gradient;                 /* block with the gradient of the layer's result; NO_BLOCK: none yet */
    bool *is_trained;                 /* the layer or a layer that it depends on has parameters */
    bool *is_kept;                    /* the layer's result is kept until the backward pass */
    bool *is_needed;                  /* the backward pass needs the layer's result */
    bool *is_inner;                   /* the layer is computed inside its reader */
    const struct layer **activations; /* the activation that the layer also computes; NULL: none */
    const struct layer **pools;       /* the max pooling that the layer's backward step also computes; NULL: none */
    size_t *owners;                   /* number of layers that share the block as their gradient; one entry per block */
};

const char *step_kind_text(enum step_kind kind)
{
    static const char *const texts[] = {"input",    "forward",    "statistics", "loss", "relu",
                                        "backward", "parameters", "copy",       "sum"};
    _Static_assert(sizeof texts / sizeof *texts == STEP_KIND_COUNT, "a text for each");
    return texts[kind];
}

/* ---- growing ---- */

static bool no_memory(struct reason *reason)
{
    because(reason, "the host has no memory for a schedule");
    reason->is_memory = true;
    return false;
}

/* Add a block for `count` numbers of `each` bytes. Sets *ret to NO_BLOCK if the size is 0. */
static bool new_block(struct maker *maker, size_t count, size_t each, size_t *ret)
{
    struct schedule *schedule = maker->schedule;
    size_t bytes;
    *ret = NO_BLOCK;
    if (__builtin_mul_overflow(count, each, &bytes) || bytes > (size_t)1 << 50) {
        because(maker->reason, "a block of more than 2^50 bytes");
        maker->reason->is_memory = true;
        return false;
    }
    if (bytes == 0)
        return true;
    if (schedule->block_count == maker->block_room) {
        size_t room = maker->block_room == 0 ? 256 : maker->block_room * 2;
        size_t *sizes = reallocarray(schedule->block_bytes, room, sizeof *sizes);
        if (sizes != NULL)
            schedule->block_bytes = sizes;
        size_t *owners = reallocarray(maker->owners, room, sizeof *owners);
        if (owners != NULL)
            maker->owners = owners;
        if (sizes == NULL || owners == NULL)
            return no_memory(maker->reason);
        maker->block_room = room;
    }
    schedule->block_bytes[schedule->block_count] = bytes;
    maker->owners[schedule->block_count] = 0;
    *ret = schedule->block_count++;
    return true;
}

/* Add a block for the result of a layer or for the gradient of a result. */
static bool new_result(struct maker *maker, const struct layer *layer, size_t *ret)
{
    const struct folding *folding = &maker->schedule->folding;
    struct shape shape = layer->out;
    size_t numbers;
    if (layer->kind == LAYER_INPUT && folding->channels != 0)
        shape = (struct shape){folding->folded_channels, folding->folded_height, folding->folded_width};
    if (__builtin_mul_overflow(shape_count(shape), maker->schedule->options.images, &numbers))
        numbers = SIZE_MAX;
    return new_block(maker, numbers, precision_bytes(maker->schedule->options.precision), ret);
}

static struct step empty_step(enum step_kind kind, const struct layer *layer)
{
    return (struct step){.kind = kind,
                         .layer = layer,
                         .x = NO_BLOCK,
                         .x2 = NO_BLOCK,
                         .y = NO_BLOCK,
                         .dx = NO_BLOCK,
                         .dy = NO_BLOCK,
                         .saved = NO_BLOCK,
                         .inner_saved = {NO_BLOCK, NO_BLOCK},
                         .dx2 = NO_BLOCK,
                         .workspace = NO_BLOCK};
}

/* Let the back end choose the step's algorithm and workspace, then append the step. */
static bool add_step(struct maker *maker, struct step step)
{
    struct schedule *schedule = maker->schedule;
    if (schedule->step_count == maker->step_room) {
        size_t room = maker->step_room == 0 ? 256 : maker->step_room * 2;
        struct step *steps = reallocarray(schedule->steps, room, sizeof *steps);
        if (steps == NULL)
            return no_memory(maker->reason);
        schedule->steps = steps;
        maker->step_room = room;
    }
    if (maker->backend != NULL &&
        !maker->backend->plan(maker->state, &schedule->options, &step, maker->budget_bytes, maker->reason))
        return false;
    if (!new_block(maker, step.workspace_bytes, 1, &step.workspace))
        return false;
    schedule->steps[schedule->step_count++] = step;
    return true;
}

/* ---- forward ---- */

/* Return the layer inside `layer` that computes its input number k; NULL: none. */
static const struct layer *inner_of(const struct maker *maker, const struct layer *layer, int k)
{
    bool has_inner = (layer->kind == LAYER_ADD || (layer->kind == LAYER_MAXPOOL && k == 0));
    return has_inner && maker->is_inner[layer->from[k]] ? &maker->model->layers[layer->from[k]] : NULL;
}

/* Return true if the reader of this layer, a max pooling, applies the layer's bias and ReLU. */
static bool is_raw(const struct maker *maker, size_t index)
{
    return maker->is_inner[index] && maker->model->layers[index].kind == LAYER_CONV;
}

/* Return true if the sum saves where its ReLU passed values. */
static bool has_mask(const struct maker *maker, const struct layer *layer)
{
    return layer->kind == LAYER_ADD && layer->has_relu &&
           (inner_of(maker, layer, 0) != NULL || inner_of(maker, layer, 1) != NULL);
}

static bool save_block(struct maker *maker, const struct layer *layer, size_t *ret)
{
    if (has_mask(maker, layer))
        return new_block(
            maker, shape_count(layer->out) * maker->schedule->options.images / (layer->out.channels % 8 == 0 ? 8 : 1),
            1, ret);
    if (layer->kind == LAYER_BATCHNORM)
        return new_block(maker, 2 * layer->out.channels, sizeof(float), ret);
    if (layer->kind == LAYER_MAXPOOL) /* cannot overflow: new_result() has already checked this number of elements */
        return new_block(maker, shape_count(layer->out) * maker->schedule->options.images, 1, ret);
    *ret = NO_BLOCK;
    return true;
}

/* Return true if the backward step of the batch normalisation inside this max pooling also does the pooling's work. */
static bool is_pool_of_norm(const struct maker *maker, const struct layer *layer)
{
    const struct layer *inner = inner_of(maker, layer, 0);
    return inner_is_pairs(layer) && inner != NULL && inner->kind == LAYER_BATCHNORM;
}

/* Return the block that a layer reads as its input number k. If a batch normalisation is inside the layer, this is the
 * normalisation's input. */
static size_t input_block(const struct maker *maker, const struct layer *layer, int k)
{
    const struct layer *inner = inner_of(maker, layer, k);
    return maker->y[inner != NULL && inner->kind == LAYER_BATCHNORM ? inner->from[0] : layer->from[k]];
}

static void set_inner(const struct maker *maker, const struct layer *layer, struct step *step)
{
    for (int k = 0; k < 2; k++) {
        step->inner[k] = inner_of(maker, layer, k);
        if (step->inner[k] != NULL && step->inner[k]->kind == LAYER_BATCHNORM)
            step->inner_saved[k] = maker->saved[layer->from[k]];
    }
}

/* Return true if the batch normalisation before it computes this layer. */
static bool is_absorbed(const struct maker *maker, const struct layer *layer)
{
    return layer->kind == LAYER_ACTIVATION && maker->activations[layer->from[0]] == layer;
}

static bool forward(struct maker *maker, size_t index, bool is_again)
{
    const struct layer *layer = &maker->model->layers[index];
    if (is_absorbed(maker, layer)) {
        maker->y[index] = maker->y[layer->from[0]];
        maker->saved[index] = NO_BLOCK;
        return true;
    }
    bool is_inner = maker->is_inner[index], is_norm = is_inner && layer->kind == LAYER_BATCHNORM;
    struct step step = empty_step(index == 0 ? STEP_INPUT : is_norm ? STEP_STATISTICS : STEP_FORWARD, layer);
    step.is_again = is_again;
    if (layer->kind == LAYER_CONV && layer->from[0] == 0)
        step.folding = maker->schedule->folding;
    step.is_raw = is_raw(maker, index);
    step.activation = maker->activations[index];
    step.x = index == 0 ? maker->schedule->lasting[LASTING_INPUT_0] : input_block(maker, layer, 0);
    if (layer_has_two_inputs(layer))
        step.x2 = input_block(maker, layer, 1);
    set_inner(maker, layer, &step);
    if ((!is_norm && !new_result(maker, layer, &step.y)) || !save_block(maker, layer, &step.saved))
        return false;
    maker->y[index] = step.y;
    maker->saved[index] = step.saved;
    return add_step(maker, step);
}

static bool loss(struct maker *maker)
{
    size_t last = maker->model->layer_count - 1;
    struct step step = empty_step(STEP_LOSS, &maker->model->layers[last]);
    step.x = maker->y[last];
    step.x2 = maker->schedule->lasting[LASTING_LABELS_0];
    if (!new_result(maker, step.layer, &step.dx))
        return false;
    maker->gradient[last] = step.dx;
    maker->owners[step.dx] = 1;
    return add_step(maker, step);
}

/* ---- backward ---- */

static bool reads_input(const struct layer *layer)
{
    return layer->kind == LAYER_CONV || layer->kind == LAYER_BATCHNORM || layer->kind == LAYER_LINEAR ||
           layer->kind == LAYER_MULTIPLY ||
           (layer->kind == LAYER_ACTIVATION && activation_reads_input(layer->activation));
}

/* True if the backward step, or the step of the ReLU before it, reads the result of the layer. */
static bool reads_output(const struct layer *layer)
{
    return layer->has_relu || (layer->kind == LAYER_ACTIVATION && !activation_reads_input(layer->activation));
}

/* Mark the layers that need a gradient, the results that the backward pass reads, and the results that are kept. */
static void mark(struct maker *maker)
{
    const struct model *model = maker->model;
    for (size_t i = 1; i < model->layer_count; i++) {
        const struct layer *layer = &model->layers[i];
        maker->is_trained[i] = layer->weight_count + layer->bias_count != 0 || maker->is_trained[layer->from[0]] ||
                               (layer_has_two_inputs(layer) && maker->is_trained[layer->from[1]]);
        if (is_absorbed(maker, layer))
            continue; /* the normalisation's backward step does not read its result */
        if (reads_output(layer) && !has_mask(maker, layer) && !maker->is_inner[i])
            maker->is_needed[i] = true;
        if (layer->kind == LAYER_MAXPOOL && is_raw(maker, layer->from[0]))
            maker->is_needed[i] = true; /* for the ReLU inside it */
        if (reads_input(layer))
            maker->is_needed[layer->from[0]] = true;
        if (layer->kind == LAYER_MULTIPLY)
            maker->is_needed[layer->from[1]] = true;
    }
    for (size_t i = 0; i < model->layer_count; i++) {
        maker->is_kept[i] =
            !maker->schedule->options.checkpointing || i == 0 || model->layers[i].segment + 1 == model->segment_count;
        /* Keep a result that another segment reads. */
        for (size_t j = i + 1; j < model->layer_count && !maker->is_kept[i]; j++)
            maker->is_kept[i] = model->layers[j].segment != model->layers[i].segment &&
                                (model->layers[j].from[0] == i ||
                                 (layer_has_two_inputs(&model->layers[j]) && model->layers[j].from[1] == i));
    }
    /* A needed result that is not kept is computed again from the layer's inputs, so mark these inputs as well. */
    for (size_t i = model->layer_count; i-- > 1;)
        if (maker->is_needed[i] && !maker->is_kept[i]) {
            maker->is_needed[model->layers[i].from[0]] = true;
            if (layer_has_two_inputs(&model->layers[i]))
                maker->is_needed[model->layers[i].from[1]] = true;
        }
}

/* Add the steps that compute the missing results of a segment again, before its backward steps. `last` is its last
 * layer. */
static bool compute_again(struct maker *maker, size_t last)
{
    const struct model *model = maker->model;
    size_t first = last;
    while (first > 0 && model->layers[first - 1].segment == model->layers[last].segment)
        first--;
    for (size_t i = first; i <= last; i++)
        if (maker->is_needed[i] && !maker->is_kept[i] && !forward(maker, i, true))
            return false;
    return true;
}

/* Make the layer's gradient safe to change in place: if other layers share its block, copy it to a new block. */
static bool own_gradient(struct maker *maker, size_t index)
{
    size_t shared = maker->gradient[index];
    if (maker->owners[shared] == 1)
        return true;
    struct step step = empty_step(STEP_COPY, &maker->model->layers[index]);
    if (!new_result(maker, step.layer, &step.dx))
        return false;
    step.dy = shared;
    maker->owners[shared]--;
    maker->owners[step.dx] = 1;
    maker->gradient[index] = step.dx;
    return add_step(maker, step);
}

/* Choose the block where the step stores the gradient of layer `to`: a new one, or the existing one, to which the step
 * adds. If the layer needs no gradient, step->dx stays NO_BLOCK. */
static bool give_gradient(struct maker *maker, size_t to, struct step *step)
{
    if (!maker->is_trained[to])
        return true;
    if (maker->gradient[to] == NO_BLOCK) {
        if (!new_result(maker, &maker->model->layers[to], &step->dx))
            return false;
        maker->owners[step->dx] = 1;
        maker->gradient[to] = step->dx;
        return true;
    }
    if (!own_gradient(maker, to))
        return false;
    step->dx = maker->gradient[to];
    step->adds = true;
    return true;
}

/* Add the backward step of a sum with batch normalisations inside it. */
static bool backward_inner(struct maker *maker, size_t index)
{
    const struct layer *layer = &maker->model->layers[index];
    struct step step = empty_step(STEP_BACKWARD, layer);
    size_t *const blocks[2] = {&step.dx, &step.dx2};
    set_inner(maker, layer, &step);
    bool has_two = step.inner[0] != NULL && step.inner[1] != NULL;
    if (layer->has_relu && !has_two && !own_gradient(maker, index))
        return false;
    step.dy = maker->gradient[index];
    step.saved = maker->saved[index];
    for (int k = 0; k < 2; k++) {
        struct step other = empty_step(STEP_BACKWARD, layer);
        if (step.inner[k] == NULL)
            continue;
        *(k == 0 ? &step.x : &step.x2) = input_block(maker, layer, k);
        if (!give_gradient(maker, step.inner[k]->from[0], &other))
            return false;
        *blocks[k] = other.dx;
    }
    return add_step(maker, step);
}

/* Compute the gradients of both inputs of LAYER_ADD. Each is equal to the gradient of the sum. */
static bool backward_add(struct maker *maker, size_t index)
{
    const struct layer *layer = &maker->model->layers[index];
    bool has_inner = inner_of(maker, layer, 0) != NULL || inner_of(maker, layer, 1) != NULL;
    if (has_inner && !backward_inner(maker, index))
        return false;
    for (int i = 0; i < 2; i++) {
        size_t to = layer->from[i], block = maker->gradient[index];
        if (!maker->is_trained[to] || maker->is_inner[to])
            continue;
        if (maker->gradient[to] == NO_BLOCK) {
            maker->gradient[to] = block;
            maker->owners[block]++;
            continue;
        }
        struct step step = empty_step(STEP_SUM, layer);
        if (!own_gradient(maker, to))
            return false;
        step.dx = maker->gradient[to];
        step.dy = block;
        step.adds = true;
        if (!add_step(maker, step))
            return false;
    }
    return true;
}

/* Compute the gradients of both inputs of LAYER_MULTIPLY, with a step for each. */
static bool backward_multiply(struct maker *maker, size_t index)
{
    const struct layer *layer = &maker->model->layers[index];
    for (int i = 0; i < 2; i++) {
        struct step step = empty_step(STEP_BACKWARD, layer);
        step.input = i;
        step.x = maker->y[layer->from[0]];
        step.x2 = maker->y[layer->from[1]];
        step.dy = maker->gradient[index];
        if (!give_gradient(maker, layer->from[i], &step) || (step.dx != NO_BLOCK && !add_step(maker, step)))
            return false;
    }
    return true;
}

/* Return true if the layer has a step of its own for the gradients of its parameters. */
static bool overlaps(const struct maker *maker, const struct layer *layer)
{
    return maker->backend != NULL && maker->backend->overlaps &&
           (layer->kind == LAYER_CONV || layer->kind == LAYER_LINEAR);
}

/* Add the step for the gradients of the layer's parameters, if it has one. `of` is the backward step that follows it
 * and that then does not need the layer's input. */
static bool backward_parameters(struct maker *maker, struct step *of)
{
    struct step step = *of;
    if (!overlaps(maker, of->layer))
        return true;
    step.kind = STEP_PARAMETERS;
    of->x = NO_BLOCK;
    return add_step(maker, step);
}

/* Return true if the backward step of the batch normalisation before this layer, an activation or max pooling, does the
 * layer's work. That step then reads the gradient of the layer's result. */
static bool leaves_to_norm(struct maker *maker, size_t index)
{
    const struct layer *layer = &maker->model->layers[index];
    if (is_pool_of_norm(maker, layer))
        maker->pools[layer->from[0]] = layer;
    else if (!is_absorbed(maker, layer))
        return false;
    maker->gradient[layer->from[0]] = maker->gradient[index];
    return true;
}

static bool backward(struct maker *maker, size_t index)
{
    const struct layer *layer = &maker->model->layers[index];
    /* batch normalisations with ReLU are inside a pooling, the others inside a sum */
    bool is_norm = maker->is_inner[index] && layer->kind == LAYER_BATCHNORM && !layer->has_relu;
    if (!maker->is_trained[index] || is_norm) /* the sum's step computes the gradients of a normalisation inside it */
        return true;
    if (leaves_to_norm(maker, index))
        return true;
    struct step step = empty_step(STEP_BACKWARD, layer);
    step.activation = maker->activations[index];
    step.pool = maker->pools[index];
    if (step.pool != NULL)
        step.inner_saved[0] = maker->saved[step.pool - maker->model->layers];
    if (layer->has_relu && layer->kind != LAYER_BATCHNORM && !has_mask(maker, layer) && !maker->is_inner[index]) {
        struct step relu = empty_step(STEP_RELU, layer);
        if (!own_gradient(maker, index))
            return false;
        relu.y = maker->y[index];
        relu.dy = maker->gradient[index];
        if (!add_step(maker, relu))
            return false;
    }
    if (layer->kind == LAYER_ADD) {
        if (!backward_add(maker, index))
            return false;
    } else if (layer->kind == LAYER_MULTIPLY) {
        if (!backward_multiply(maker, index))
            return false;
    } else {
        step.x = reads_input(layer) ? maker->y[layer->from[0]] : NO_BLOCK;
        bool needs_result = layer->kind == LAYER_BATCHNORM || layer->kind == LAYER_ACTIVATION;
        step.y = needs_result && reads_output(layer) && !maker->is_inner[index] ? maker->y[index] : NO_BLOCK;
        step.saved = maker->saved[index];
        if (layer->from[0] == 0)
            step.folding = maker->schedule->folding;
        step.is_raw = is_raw(maker, index);
        const struct layer *inner = inner_of(maker, layer, 0);
        if (inner != NULL && inner->kind == LAYER_CONV) {
            step.inner[0] = inner;
            step.y = maker->y[index];
        }
        step.dy = maker->gradient[index];
        if (!backward_parameters(maker, &step) || !give_gradient(maker, layer->from[0], &step))
            return false;
        bool is_done = overlaps(maker, layer) && step.dx == NO_BLOCK;
        if (!is_done && !add_step(maker, step))
            return false;
    }
    maker->owners[maker->gradient[index]]--;
    return true;
}

static bool tell_steps(struct maker *maker)
{
    const struct model *model = maker->model;
    if (maker->backend != NULL && maker->backend->fuses) {
        if (!inner_find(model, maker->is_inner, maker->activations))
            return no_memory(maker->reason);
        if (maker->schedule->options.precision != PRECISION_FP32)
            maker->schedule->folding = inner_folding(model);
    }
    mark(maker);
    for (size_t i = 0; i < model->layer_count; i++)
        if (!forward(maker, i, false))
            return false;
    if (!loss(maker))
        return false;
    for (size_t i = model->layer_count; i-- > 1;) {
        bool ends_segment = i + 1 == model->layer_count || model->layers[i + 1].segment != model->layers[i].segment;
        if (ends_segment && !compute_again(maker, i))
            return false;
        if (!backward(maker, i))
            return false;
    }
    return true;
}

/* ---- blocks that live as long as the run ---- */

static bool tell_lasting(struct maker *maker)
{
    struct schedule *schedule = maker->schedule;
    const struct schedule_options *options = &schedule->options;
    size_t parameters = maker->model->parameter_count, numbers;
    if (__builtin_mul_overflow(shape_count(maker->model->layers[0].out), options->images, &numbers))
        numbers = SIZE_MAX;
    const struct {
        size_t count, each;
    } sizes[] = {
        [LASTING_PARAMETERS] = {parameters, sizeof(float)},
        [LASTING_GRADIENTS] = {parameters, sizeof(float)},
        [LASTING_MOMENT_1] = {parameters, sizeof(float)},
        [LASTING_MOMENT_2] = {optimizer_moments(options->optimizer) > 1 ? parameters : 0, sizeof(float)},
        [LASTING_LOW] = {options->precision != PRECISION_FP32 ? parameters : 0, precision_bytes(options->precision)},
        [LASTING_STATISTICS] = {maker->model->statistics_count, sizeof(float)},
        [LASTING_INPUT_0] = {numbers, sizeof(float)},
        [LASTING_INPUT_1] = {numbers, sizeof(float)},
        [LASTING_LABELS_0] = {options->images, sizeof(int32_t)},
        [LASTING_LABELS_1] = {options->images, sizeof(int32_t)},
        [LASTING_RESULTS] = {1, sizeof(struct results)},
        [LASTING_AVERAGE] = {options->averages ? parameters : 0, sizeof(float)},
        [LASTING_DECAYED] = {options->selects_decay ? model_decayed_count(maker->model) : 0, 1},
        [LASTING_SQUARES] = {options->clips ? NORM_PARTS : 0, sizeof(double)},
    };
    _Static_assert(sizeof sizes / sizeof *sizes == LASTING_COUNT, "a size for each");
    for (int i = 0; i < LASTING_COUNT; i++)
        if (!new_block(maker, sizes[i].count, sizes[i].each, &schedule->lasting[i]))
            return false;
    return true;
}

/* ---- the whole schedule ---- */

static bool open_maker(struct maker *maker)
{
    size_t count = maker->model->layer_count;
    maker->y = calloc(count, sizeof *maker->y);
    maker->saved = calloc(count, sizeof *maker->saved);
    maker->gradient = calloc(count, sizeof *maker->gradient);
    maker->is_trained = calloc(count, sizeof *maker->is_trained);
    maker->is_kept = calloc(count, sizeof *maker->is_kept);
    maker->is_needed = calloc(count, sizeof *maker->is_needed);
    maker->is_inner = calloc(count, sizeof *maker->is_inner);
    maker->activations = calloc(count, sizeof *maker->activations);
    maker->pools = calloc(count, sizeof *maker->pools);
    if (maker->y == NULL || maker->saved == NULL || maker->gradient == NULL || maker->is_trained == NULL ||
        maker->is_kept == NULL || maker->is_needed == NULL || maker->is_inner == NULL || maker->activations == NULL ||
        maker->pools == NULL)
        return no_memory(maker->reason);
    memset(maker->gradient, 0xff, count * sizeof *maker->gradient);
    return true;
}

static void close_maker(struct maker *maker)
{
    free(maker->y);
    free(maker->saved);
    free(maker->gradient);
    free(maker->is_trained);
    free(maker->is_kept);
    free(maker->is_needed);
    free(maker->is_inner);
    free(maker->activations);
    free(maker->pools);
    free(maker->owners);
}

bool schedule_make(const struct model *model, const struct schedule_options *options, const struct backend *backend,
                   void *state, size_t workspace_budget_bytes, struct schedule *ret_schedule, struct reason *reason)
{
    struct schedule schedule = {.options = *options, .model = model};
    struct maker maker = {.schedule = &schedule,
                          .model = model,
                          .backend = backend,
                          .state = state,
                          .budget_bytes = workspace_budget_bytes,
                          .reason = reason};
    if (options->images == 0)
        return because(reason, "no images in a micro-batch");
    bool is_made = open_maker(&maker) && tell_lasting(&maker) && tell_steps(&maker) && layout_find(&schedule, reason);
    close_maker(&maker);
    if (is_made)
        *ret_schedule = schedule;
    else
        schedule_clear(&schedule);
    return is_made;
}

void schedule_clear(struct schedule *schedule)
{
    gs_plan_delete(schedule->plan);
    free(schedule->steps);
    free(schedule->block_bytes);
    *schedule = (struct schedule){0};
}

uint64_t schedule_offset(const struct schedule *schedule, size_t block)
{
    uint64_t offset = 0;
    gs_plan_offset(schedule->plan, block, &offset);
    return offset;
}

size_t schedule_input(const struct schedule *schedule, unsigned turn)
{
    return schedule->lasting[turn % 2 == 0 ? LASTING_INPUT_0 : LASTING_INPUT_1];
}

size_t schedule_labels(const struct schedule *schedule, unsigned turn)
{
    return schedule->lasting[turn % 2 == 0 ? LASTING_LABELS_0 : LASTING_LABELS_1];
}
