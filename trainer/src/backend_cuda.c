/* The back end `cuda` for NVIDIA GPUs: cuDNN for convolutions, cuBLAS for matrix products, its own kernels for all
 * other steps.
 *
 * An iteration runs on two streams (lanes), at addresses that never change: the gradients of parameters are computed on
 * the second one, beside the steps that follow. Meanwhile, the copy stream transfers the next inputs. No GPU memory is
 * allocated after load(). During training, only settle(), put(), get() and, in the loader's thread, fed() wait for the
 * GPU.
 *
 * Environment variables for debugging; --verbose prints the log:
 * - TRAINER_CUDNN=legacy|graph selects one of cuDNN's interfaces for all convolutions that it supports.
 * - TRAINER_TELL_CONVOLUTIONS=1 logs the algorithm of each convolution.
 * - TRAINER_TELL_TIMES=N logs the time of each kind of step in the N-th training iteration.
 * - TRAINER_TELL_LAYERS=1 logs the time of each step in that iteration, too, with the bytes and operations it needs.
 * - TRAINER_NVRTC is the file name of the NVRTC library. */
#include "cuda_conv.h"
#include "watch.h"

#include <stdlib.h>
#include <string.h>

static bool can(enum precision precision)
{
    (void)precision;
    return true; /* the GPU is not known yet; if it is older than Ampere, cuDNN rejects bf16 later, in plan() */
}

/* ---- opening and closing ---- */

static bool open_libraries(struct cuda *cuda, struct reason *reason)
{
    int device = 0, major = 0, minor = 0;
    gs_status status = lanes_open(cuda);
    if (!card_well(&cuda->card, status, "cuDNN and cuBLAS", reason) || !cuda_find(cuda, reason))
        return false;
    const struct cuda_calls *api = &cuda->api;
    status = GS_TRY(api->cuDeviceGet(&device, cuda->options.device));
    if (status == GS_OK)
        status = GS_TRY(api->cuDeviceGetAttribute(&major, CU_ATTRIBUTE_MAJOR, device));
    if (status == GS_OK)
        status = GS_TRY(api->cuDeviceGetAttribute(&minor, CU_ATTRIBUTE_MINOR, device));
    if (status == GS_OK)
        status = GS_TRY(api->cuDeviceGetAttribute(&cuda->multiprocessors, CU_ATTRIBUTE_MULTIPROCESSORS, device));
    cuda->architecture = major * 10 + minor;
    return card_well(&cuda->card, status, "reading the GPU's properties", reason);
}

static void free_packs(struct cuda *cuda)
{
    for (size_t i = 0; i < cuda->pack_count; i++)
        conv_pack_free(cuda, &cuda->packs[i]);
    free(cuda->packs);
    cuda->packs = NULL;
    cuda->pack_count = 0;
}

/* The first device cannot be opened, so there may be no GPU. Always returns false. */
static bool suggest_cpu(const struct backend_options *options, struct reason *reason)
{
#ifdef TRAINER_CPU
    struct reason why = *reason;
    if (options->device == 0 && !why.is_memory)
        because(reason, "%.500s; --backend cpu trains without a GPU", why.text);
#else
    (void)options;
    (void)reason;
#endif
    return false;
}

static bool open(const struct backend_options *options, void **ret_state, struct reason *reason)
{
    if (!conv_knows_interface(reason))
        return false;
    struct cuda *cuda = calloc(1, sizeof *cuda);
    struct reason ignored;
    if (cuda == NULL)
        return because(reason, "no memory for a back end");
    if (!card_open(&cuda->card, options, reason)) {
        free(cuda);
        return suggest_cpu(options, reason);
    }
    cuda->options = *options;
    if (!open_libraries(cuda, reason)) {
        card_close(&cuda->card, NULL, &ignored);
        free(cuda);
        return suggest_cpu(options, reason);
    }
    *ret_state = cuda;
    return true;
}

static bool close(void *state, gs_report **ret_report, struct reason *reason)
{
    struct cuda *cuda = state;
    lanes_wait(cuda); /* ignore the result, because card_close() reports the failure, too */
    free_packs(cuda);
    conv_free_all(cuda);
    bool is_well = card_close(&cuda->card, ret_report, reason);
    free(cuda);
    return is_well;
}

/* ---- planning ---- */

static bool is_conv(const struct step *step)
{
    return step->layer->kind == LAYER_CONV &&
           (step->kind == STEP_FORWARD || step->kind == STEP_BACKWARD || step->kind == STEP_PARAMETERS);
}

static size_t rows_of(const struct schedule_options *options, const struct layer *layer)
{
    return options->images * layer->out.height * layer->out.width;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Describe the convolution of folded images. */
static void fold(struct conv_problem *problem, const struct folding *folding)
{
    problem->folding = *folding;
    size_t across = folding->across;
    problem->in =
        (struct shape){folding->folded_channels * across, folding->folded_height, folding->folded_width / across};
    problem->out.channels *= across;
    problem->out.width /= across;
    problem->kernel = folding->folded_kernel;
    problem->kernel_width = folding->filter_width;
    if (folding->stride > 1) {
        problem->stride = 1;
        problem->pad = 0;
    }
}

static struct conv_problem problem_of(enum conv_kind kind, const struct schedule_options *options,
                                      const struct step *step, size_t budget_bytes)
{
    const struct layer *layer = step->layer;
    struct conv_problem problem;
    memset(&problem, 0, sizeof problem);
    problem.kind = kind;
    problem.precision = options->precision;
    problem.images = options->images;
    problem.in = layer->in;
    problem.out = layer->out;
    problem.kernel = problem.kernel_width = layer->kernel;
    problem.stride = layer->stride;
    problem.pad = layer->pad;
    problem.groups = layer->groups;
    if (step->folding.channels != 0)
        fold(&problem, &step->folding);
    problem.budget_bytes = budget_bytes;
    problem.adds = kind == CONV_DATA && step->adds;
    return problem;
}

static size_t bias_bytes(struct cuda *cuda, const struct schedule_options *options, const struct layer *layer)
{
    return layer->has_bias ? cuda_bias_bytes(cuda, rows_of(options, layer), layer->out.channels) : 0;
}

/* step->algorithm is an index of cuda->convs. */
static bool plan_conv(struct cuda *cuda, const struct schedule_options *options, struct step *step, size_t budget_bytes,
                      struct reason *reason)
{
    enum conv_kind kind = step->kind == STEP_FORWARD      ? CONV_FORWARD
                          : step->kind == STEP_PARAMETERS ? CONV_FILTER
                                                          : CONV_DATA;
    struct conv_problem problem = problem_of(kind, options, step, budget_bytes);
    lanes_use(cuda, step);
    bool is_found = conv_find(cuda, &problem, &step->algorithm, reason);
    cuda->lane = &cuda->lanes[LANE_MAIN];
    if (!is_found)
        return false;
    step->workspace_bytes = cuda->convs[step->algorithm]->workspace_bytes;
    if (kind == CONV_FILTER)
        step->workspace_bytes = larger(step->workspace_bytes, bias_bytes(cuda, options, step->layer));
    return true;
}

static size_t plan_own(struct cuda *cuda, const struct schedule_options *options, const struct step *step,
                       size_t budget_bytes)
{
    const struct layer *layer = step->layer;
    size_t sums = cuda_norm_bytes(cuda, cuda_norm_rows(step, layer, options->images), layer->out.channels, 2);
    bool is_pass = step->kind == STEP_FORWARD || step->kind == STEP_BACKWARD, is_backward = step->kind == STEP_BACKWARD;
    if (step->kind == STEP_LOSS)
        return options->images * 2 * sizeof(float);
    if (step->kind == STEP_STATISTICS)
        return sums;
    if (is_backward && layer->kind == LAYER_MAXPOOL && step->inner[0] != NULL && step->inner[0]->has_bias)
        return cuda_bias_bytes(cuda, rows_of(options, layer), layer->out.channels);
    if (is_backward && layer->kind == LAYER_ADD && step->inner[0] != NULL && step->inner[1] != NULL)
        return cuda_norm_bytes(cuda, rows_of(options, layer), layer->out.channels, 3) +
               4 * layer->out.channels * sizeof(float);
    if ((is_pass && layer->kind == LAYER_BATCHNORM) || (is_backward && layer->kind == LAYER_ADD))
        return sums + (step->kind == STEP_BACKWARD ? 2 * layer->out.channels * sizeof(float) : 0);
    if (is_pass && layer->kind == LAYER_LINEAR)
        return gemm_workspace_bytes(budget_bytes);
    if (step->kind == STEP_PARAMETERS)
        return larger(gemm_workspace_bytes(budget_bytes), bias_bytes(cuda, options, layer));
    return 0;
}

static bool plan(void *state, const struct schedule_options *options, struct step *step, size_t budget_bytes,
                 struct reason *reason)
{
    struct cuda *cuda = state;
    if (is_conv(step))
        return plan_conv(cuda, options, step, budget_bytes, reason);
    step->workspace_bytes = plan_own(cuda, options, step, budget_bytes);
    return true;
}

/* ---- steps ---- */

/* Return the address of a layer's weights in the precision that matrix products and convolutions read. */
static CUdeviceptr weights(const struct cuda *cuda, const struct layer *layer)
{
    const struct schedule *schedule = cuda->card.schedule;
    size_t low = schedule->lasting[LASTING_LOW];
    return card_at(&cuda->card, low != NO_BLOCK ? low : schedule->lasting[LASTING_PARAMETERS]) +
           layer->weight_at * precision_bytes(schedule->options.precision);
}

static CUdeviceptr fp32_at(const struct cuda *cuda, enum lasting which, size_t at)
{
    return card_at(&cuda->card, cuda->card.schedule->lasting[which]) + at * sizeof(float);
}

static struct conv_data data_of(const struct cuda *cuda, const struct step *step)
{
    bool is_forward = step->kind == STEP_FORWARD;
    return (struct conv_data){.x = card_at(&cuda->card, step->kind == STEP_BACKWARD ? step->dx : step->x),
                              .w = weights(cuda, step->layer),
                              .y = card_at(&cuda->card, is_forward ? step->y : step->dy),
                              .gradient = fp32_at(cuda, LASTING_GRADIENTS, step->layer->weight_at),
                              .workspace = card_at(&cuda->card, step->workspace)};
}

static gs_status run_conv(struct cuda *cuda, const struct step *step, void **pack)
{
    struct conv *conv = cuda->convs[step->algorithm];
    struct conv_data data = data_of(cuda, step);
    return conv_run(cuda, conv, conv->chosen, &data, pack);
}

static gs_status linear(struct cuda *cuda, const struct step *step, enum conv_kind kind)
{
    const struct layer *layer = step->layer;
    const struct schedule_options *options = &cuda->card.schedule->options;
    struct conv_data data = data_of(cuda, step);
    size_t bytes = cuda->card.schedule->block_bytes[step->workspace];
    return gemm_run(cuda, kind, options->precision, options->images, shape_count(layer->in), shape_count(layer->out),
                    kind == CONV_DATA && step->adds, &data, data.workspace, bytes);
}

/* Add bias and ReLU to the result of a convolution or matrix product. */
static gs_status finish(struct cuda *cuda, const struct step *step)
{
    const struct layer *layer = step->layer;
    size_t rows = rows_of(&cuda->card.schedule->options, layer);
    CUdeviceptr y = card_at(&cuda->card, step->y);
    if (step->is_raw)
        return GS_OK;
    if (layer->has_bias)
        return cuda_bias(cuda, y, fp32_at(cuda, LASTING_PARAMETERS, layer->bias_at), rows, layer->out.channels,
                         layer->has_relu);
    return layer->has_relu ? cuda_relu(cuda, y, rows * layer->out.channels) : GS_OK;
}

static gs_status forward(struct cuda *cuda, const struct step *step, const struct iteration *iteration, void **pack)
{
    const struct layer *layer = step->layer;
    size_t count = rows_of(&cuda->card.schedule->options, layer) * layer->out.channels;
    gs_status status;
    switch (layer->kind) {
    case LAYER_CONV:
        status = run_conv(cuda, step, pack);
        return status == GS_OK ? finish(cuda, step) : status;
    case LAYER_LINEAR:
        status = linear(cuda, step, CONV_FORWARD);
        return status == GS_OK ? finish(cuda, step) : status;
    case LAYER_BATCHNORM:
        return cuda_norm(cuda, step, iteration->is_evaluation);
    case LAYER_MAXPOOL:
        return cuda_max(cuda, step);
    case LAYER_AVERAGEPOOL:
        return cuda_mean(cuda, step);
    case LAYER_ADD:
        if (step->inner[0] != NULL || step->inner[1] != NULL)
            return cuda_norm_add(cuda, step);
        return cuda_add(cuda, card_at(&cuda->card, step->y), card_at(&cuda->card, step->x),
                        card_at(&cuda->card, step->x2), count, layer->has_relu);
    case LAYER_ACTIVATION:
        return cuda_activation(cuda, step);
    case LAYER_MULTIPLY:
        return cuda_multiply(cuda, step);
    case LAYER_DROPOUT:
        return cuda_dropout(cuda, step, iteration);
    case LAYER_INPUT:
    case LAYER_KIND_COUNT:
        break;
    }
    return GS_OK;
}

static gs_status bias_gradient(struct cuda *cuda, const struct step *step)
{
    const struct layer *layer = step->layer;
    if (!layer->has_bias || step->is_raw)
        return GS_OK;
    return cuda_bias_gradient(cuda, fp32_at(cuda, LASTING_GRADIENTS, layer->bias_at), card_at(&cuda->card, step->dy), 0,
                              card_at(&cuda->card, step->workspace), rows_of(&cuda->card.schedule->options, layer),
                              layer->out.channels);
}

static gs_status parameters(struct cuda *cuda, const struct step *step, void **pack)
{
    gs_status status = bias_gradient(cuda, step);
    if (status != GS_OK)
        return status;
    return step->layer->kind == LAYER_CONV ? run_conv(cuda, step, pack) : linear(cuda, step, CONV_FILTER);
}

static gs_status backward(struct cuda *cuda, const struct step *step, const struct iteration *iteration, void **pack)
{
    switch (step->layer->kind) {
    case LAYER_CONV:
        return run_conv(cuda, step, pack);
    case LAYER_LINEAR:
        return linear(cuda, step, CONV_DATA);
    case LAYER_BATCHNORM:
        return step->pool != NULL ? cuda_norm_max_backward(cuda, step) : cuda_norm_backward(cuda, step);
    case LAYER_MAXPOOL:
        return cuda_max_backward(cuda, step);
    case LAYER_AVERAGEPOOL:
        return cuda_mean_backward(cuda, step);
    case LAYER_ADD: /* only sums with inner layers have a backward step */
        return cuda_norm_add_backward(cuda, step);
    case LAYER_ACTIVATION:
        return cuda_activation_backward(cuda, step);
    case LAYER_MULTIPLY:
        return cuda_multiply_backward(cuda, step);
    case LAYER_DROPOUT:
        return cuda_dropout(cuda, step, iteration);
    case LAYER_INPUT:
    case LAYER_KIND_COUNT:
        break; /* no schedule contains a backward step of these layers */
    }
    return GS_OK;
}

static gs_status run_step(struct cuda *cuda, size_t index, const struct iteration *iteration)
{
    const struct schedule *schedule = cuda->card.schedule;
    const struct step *step = &schedule->steps[index];
    const struct layer *layer = step->layer;
    CUstream stream = cuda->card.compute;
    size_t count = rows_of(&schedule->options, layer) * layer->out.channels;
    CUdeviceptr dx = card_at(&cuda->card, step->dx), dy = card_at(&cuda->card, step->dy);
    void **pack = &cuda->packs[index];
    switch (step->kind) {
    case STEP_INPUT:
        if (schedule->folding.channels != 0)
            return cuda_input_folded(cuda, card_at(&cuda->card, step->y),
                                     card_at(&cuda->card, schedule_input(schedule, iteration->turn)),
                                     &schedule->folding);
        return cuda_input(cuda, card_at(&cuda->card, step->y),
                          card_at(&cuda->card, schedule_input(schedule, iteration->turn)), count);
    case STEP_FORWARD:
        return forward(cuda, step, iteration, pack);
    case STEP_STATISTICS:
        return cuda_norm_statistics(cuda, step, iteration->is_evaluation);
    case STEP_LOSS:
        return cuda_loss(cuda, step, iteration);
    case STEP_RELU:
        return cuda_relu_backward(cuda, dy, card_at(&cuda->card, step->y), count);
    case STEP_BACKWARD:
        return backward(cuda, step, iteration, pack);
    case STEP_PARAMETERS:
        return parameters(cuda, step, pack);
    case STEP_COPY:
        return gs_copy(dx, dy, count * precision_bytes(schedule->options.precision), stream);
    case STEP_SUM:
        return cuda_add(cuda, dx, dx, dy, count, false);
    case STEP_KIND_COUNT:
        break;
    }
    return GS_OK;
}

/* Run a step in its lane, when the steps that it waits for are complete. */
static gs_status run_in_lane(struct cuda *cuda, size_t index, const struct iteration *iteration)
{
    const struct step *step = &cuda->card.schedule->steps[index];
    gs_status status = lanes_await(cuda, step->awaited);
    if (step->kind != STEP_PARAMETERS)
        return status == GS_OK ? run_step(cuda, index, iteration) : status;
    if (status == GS_OK)
        status = lanes_begin_side(cuda);
    lanes_use(cuda, step);
    if (status == GS_OK)
        status = run_step(cuda, index, iteration);
    cuda->lane = &cuda->lanes[LANE_MAIN];
    return status == GS_OK ? lanes_end_side(cuda) : status;
}

/* ---- memory ---- */

static gs_status clear(struct cuda *cuda, enum lasting which)
{
    const struct schedule *schedule = cuda->card.schedule;
    size_t block = schedule->lasting[which];
    return block == NO_BLOCK
               ? GS_OK
               : gs_fill(card_at(&cuda->card, block), 0, schedule->block_bytes[block], cuda->card.compute);
}

static gs_status try_step(struct cuda *cuda, const struct step *step)
{
    struct conv *conv = cuda->convs[step->algorithm];
    struct conv_data data = data_of(cuda, step);
    lanes_use(cuda, step);
    gs_status status = cuda->options.tune ? conv_time(cuda, conv, &data) : GS_OK;
    if (status == GS_OK)
        status = conv_try(cuda, conv, &data);
    cuda->lane = &cuda->lanes[LANE_MAIN];
    return status;
}

/* Run each convolution once, to load the kernels and to replace algorithms that the GPU refuses. The run's own memory
 * serves as data. */
static gs_status try_all(struct cuda *cuda)
{
    const struct schedule *schedule = cuda->card.schedule;
    gs_status status = GS_OK;
    for (size_t i = 0; i < schedule->step_count && status == GS_OK; i++) {
        const struct step *step = &schedule->steps[i];
        if (is_conv(step))
            status = try_step(cuda, step);
    }
    return status;
}

static bool load(void *state, const struct schedule *schedule, struct reason *reason)
{
    struct cuda *cuda = state;
    gs_status status = lanes_wait(cuda);
    free_packs(cuda);
    if (!card_well(&cuda->card, status, "waiting for the GPU", reason) ||
        !cuda_kernels_load(cuda, schedule->options.precision, reason) || !card_load(cuda, schedule, reason))
        return false;
    for (int i = 0; i < LANE_COUNT; i++)
        cuda->lanes[i].blas_workspace = 0;
    cuda->iterations = 0;
    cuda->packs = calloc(schedule->step_count, sizeof *cuda->packs);
    if (cuda->packs == NULL)
        return because(reason, "the host has no memory for a schedule");
    cuda->pack_count = schedule->step_count;
    status = try_all(cuda);
    for (int i = 0; i < LASTING_COUNT && status == GS_OK; i++)
        status = clear(cuda, (enum lasting)i);
    if (status == GS_OK)
        /* Nothing may still write to the blocks when training begins, and the blocks must be cleared before another
         * stream copies inputs to them. */
        status = lanes_wait(cuda);
    return card_well(&cuda->card, status, "the run's memory", reason);
}

static bool put(void *state, size_t block, const void *data, size_t bytes, struct reason *reason)
{
    struct cuda *cuda = state;
    const struct schedule *schedule = cuda->card.schedule;
    if (!card_put(cuda, block, data, bytes, reason))
        return false;
    if (block != schedule->lasting[LASTING_PARAMETERS] || schedule->lasting[LASTING_LOW] == NO_BLOCK)
        return true;
    gs_status status = cuda_input(cuda, card_at(&cuda->card, schedule->lasting[LASTING_LOW]),
                                  card_at(&cuda->card, block), schedule->model->parameter_count);
    return card_well(&cuda->card, status, "parameters in low precision", reason);
}

/* ---- training ---- */

static gs_status run_steps(struct cuda *cuda, const struct iteration *iteration)
{
    const struct schedule *schedule = cuda->card.schedule;
    struct cuda_times times = {0};
    gs_status status = iteration->is_first ? clear(cuda, LASTING_RESULTS) : GS_OK, timed = GS_OK;
    if (status == GS_OK && iteration->is_first && !iteration->is_evaluation)
        status = clear(cuda, LASTING_GRADIENTS);
    if (status == GS_OK && !iteration->is_evaluation)
        status = times_begin(cuda, &times);
    cuda->begun = cuda->awaited = 0;
    for (size_t i = 0; i < schedule->step_count && status == GS_OK; i++) {
        status = times_mark(cuda, i);
        if (status == GS_OK)
            status = run_in_lane(cuda, i, iteration);
        if (iteration->is_evaluation && schedule->steps[i].kind == STEP_LOSS)
            break;
    }
    if (status == GS_OK)
        status = lanes_await(cuda, cuda->begun);
    if (times.events != NULL)
        timed = times_end(cuda, &times);
    return status == GS_OK ? timed : status;
}

static bool iterate(void *state, const struct iteration *iteration, struct reason *reason)
{
    struct cuda *cuda = state;
    return card_begin(&cuda->card, iteration->turn, reason) &&
           card_well(&cuda->card, run_steps(cuda, iteration), "an iteration", reason) &&
           card_end(&cuda->card, iteration->turn, reason);
}

static bool invite(void *state, gs_nccl_id *ret_id, struct reason *reason)
{
    struct cuda *cuda = state;
    return card_well(&cuda->card, gs_nccl_new_id(cuda->card.scope, ret_id), "NCCL", reason);
}

static bool join(void *state, int ranks, int rank, const gs_nccl_id *id, struct reason *reason)
{
    struct cuda *cuda = state;
    gs_status status = gs_nccl(cuda->card.scope, ranks, id, rank, &cuda->nccl);
    return card_well(&cuda->card, status, "NCCL", reason) && cuda_find_nccl(cuda, reason);
}

static bool sum_gradients(void *state, struct reason *reason)
{
    struct cuda *cuda = state;
    const struct cuda_calls *api = &cuda->api;
    const struct schedule *schedule = cuda->card.schedule;
    void *gradients = (void *)(uintptr_t)card_at(&cuda->card, schedule->lasting[LASTING_GRADIENTS]);
    if (cuda->nccl == NULL)
        return because(reason, "no devices were joined");
    gs_status status =
        GS_TRY_OF(GS_FROM_NCCL, api->ncclAllReduce(gradients, gradients, schedule->model->parameter_count, NCCL_FLOAT,
                                                   NCCL_SUM, cuda->nccl, cuda->card.compute));
    return card_well(&cuda->card, status, "the sum over devices", reason);
}

static bool update(void *state, const struct update *update, struct reason *reason)
{
    struct cuda *cuda = state;
    if (update->clip > 0 && !cuda->card.schedule->options.clips)
        return because(reason, "cuda: clipping was not planned");
    return card_well(&cuda->card, cuda_check_and_step(cuda, update), "the optimizer's step", reason);
}

static bool swap_average(void *state, struct reason *reason)
{
    struct cuda *cuda = state;
    if (cuda->card.schedule->lasting[LASTING_AVERAGE] == NO_BLOCK)
        return because(reason, "cuda: no average was planned");
    return card_well(&cuda->card, cuda_swap_average(cuda), "the average of the parameters", reason);
}

static bool settle(void *state, struct results *ret_results, struct reason *reason)
{
    struct cuda *cuda = state;
    return card_get(cuda, cuda->card.schedule->lasting[LASTING_RESULTS], ret_results, sizeof *ret_results, reason);
}

const struct backend backend_cuda = {
    .name = "cuda",
    .fuses = true,
    .overlaps = true,
    .can = can,
    .open = open,
    .close = close,
    .plan = plan,
    .load = load,
    .put = put,
    .get = card_get,
    .host_alloc = card_host_alloc,
    .host_free = card_host_free,
    .feed = card_feed,
    .fed = card_fed,
    .expect = card_expect,
    .waited = card_waited,
    .iterate = iterate,
    .invite = invite,
    .join = join,
    .sum_gradients = sum_gradients,
    .update = update,
    .swap_average = swap_average,
    .settle = settle,
    .watch = card_watch,
};
