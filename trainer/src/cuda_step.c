/* Launches the kernels of the optimizer's step: check that all gradients are finite, clip them, update the parameters
 * and their moving average. */
#include "cuda_state.h"

#include <math.h>

/* Must match the struct of the same name in cuda_kernels.cu. */
struct step_size {
    float rate, momentum, weight_decay, beta_1, beta_2, epsilon, scale, root_correction, correction;
    int clips, is_nesterov, is_decoupled;
};

static struct step_size size_of(const struct update *update)
{
    double steps = (double)update->number;
    return (struct step_size){.rate = update->rate,
                              .momentum = update->momentum,
                              .weight_decay = update->weight_decay,
                              .beta_1 = update->beta_1,
                              .beta_2 = update->beta_2,
                              .epsilon = update->epsilon,
                              .scale = update->scale,
                              .root_correction = (float)sqrt(1 - pow((double)update->beta_2, steps)),
                              .correction = (float)(1 - pow((double)update->beta_1, steps)),
                              .clips = update->clip > 0,
                              .is_nesterov = update->is_nesterov,
                              .is_decoupled = update->optimizer == OPTIMIZER_ADAMW};
}

/* The lasting blocks that a step uses; 0 if the schedule does not have one. */
struct step_blocks {
    CUdeviceptr parameters, gradients, first, second, low, results, average, decayed, squares;
    unsigned long long count;
};

static struct step_blocks blocks_of(const struct cuda *cuda)
{
    const struct schedule *schedule = cuda->card.schedule;
    const size_t *blocks = schedule->lasting;
    return (struct step_blocks){.parameters = card_at(&cuda->card, blocks[LASTING_PARAMETERS]),
                                .gradients = card_at(&cuda->card, blocks[LASTING_GRADIENTS]),
                                .first = card_at(&cuda->card, blocks[LASTING_MOMENT_1]),
                                .second = card_at(&cuda->card, blocks[LASTING_MOMENT_2]),
                                .low = card_at(&cuda->card, blocks[LASTING_LOW]),
                                .results = card_at(&cuda->card, blocks[LASTING_RESULTS]),
                                .average = card_at(&cuda->card, blocks[LASTING_AVERAGE]),
                                .decayed = card_at(&cuda->card, blocks[LASTING_DECAYED]),
                                .squares = card_at(&cuda->card, blocks[LASTING_SQUARES]),
                                .count = schedule->model->parameter_count};
}

static gs_status clip(struct cuda *cuda, const struct update *update, struct step_blocks *of)
{
    /* The number of parts does not depend on the GPU. */
    unsigned parts = (unsigned)at_most((of->count + THREADS - 1) / THREADS, NORM_PARTS);
    float scale = update->scale, most = update->clip;
    gs_status status = GS_LAUNCH(cuda->kernels.squares, gs_dim(parts, 1, 1), gs_dim(THREADS, 1, 1), 0,
                                 cuda->lane->stream, &of->squares, &of->gradients, &of->count);
    if (status == GS_OK)
        status = GS_LAUNCH(cuda->kernels.clip, gs_dim(1, 1, 1), gs_dim(THREADS, 1, 1), 0, cuda->lane->stream,
                           &of->results, &of->squares, &parts, &scale, &most);
    return status;
}

static gs_status take_step(struct cuda *cuda, const struct update *update, struct step_blocks *of)
{
    struct step_size size = size_of(update);
    if (update->optimizer == OPTIMIZER_SGD)
        return GS_LAUNCH(cuda->kernels.sgd, cuda_blocks_for(of->count), gs_dim(THREADS, 1, 1), 0, cuda->lane->stream,
                         &of->parameters, &of->first, &of->low, &of->gradients, &of->decayed, &of->results, &size,
                         &of->count);
    return GS_LAUNCH(cuda->kernels.adam, cuda_blocks_for(of->count), gs_dim(THREADS, 1, 1), 0, cuda->lane->stream,
                     &of->parameters, &of->first, &of->second, &of->low, &of->gradients, &of->decayed, &of->results,
                     &size, &of->count);
}

gs_status cuda_check_and_step(struct cuda *cuda, const struct update *update)
{
    struct step_blocks of = blocks_of(cuda);
    CUstream stream = cuda->lane->stream;
    float weight = update->average_weight;
    size_t blocks = at_most((of.count + THREADS - 1) / THREADS, (size_t)cuda->multiprocessors * 8);
    gs_status status = GS_LAUNCH(cuda->kernels.check, gs_dim((unsigned)blocks, 1, 1), gs_dim(THREADS, 1, 1), 0, stream,
                                 &of.results, &of.gradients, &of.count);
    if (status == GS_OK && update->clip > 0)
        status = clip(cuda, update, &of);
    if (status == GS_OK)
        status = take_step(cuda, update, &of);
    if (status == GS_OK && of.average != 0)
        status = GS_LAUNCH(cuda->kernels.average, cuda_blocks_for(of.count), gs_dim(THREADS, 1, 1), 0, stream,
                           &of.average, &of.parameters, &of.results, &weight, &of.count);
    return status;
}

gs_status cuda_swap_average(struct cuda *cuda)
{
    struct step_blocks of = blocks_of(cuda);
    return GS_LAUNCH(cuda->kernels.swap_average, cuda_blocks_for(of.count), gs_dim(THREADS, 1, 1), 0,
                     cuda->lane->stream, &of.parameters, &of.average, &of.low, &of.count);
}
