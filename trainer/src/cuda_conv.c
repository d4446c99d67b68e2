/* Find the algorithms for a convolution, choose one, and run it. There are four sources:
 * - Our own kernels, first for a depthwise convolution. They can add to their result.
 * - cuBLAS, for a 1x1 filter with stride 1, which is a matrix product. It can add to its result.
 * - cuDNN's older interface, first for fp32, because it allows us to disable TF32. It can add to its result in fp32.
 * - cuDNN's graph interface, first for bf16 and fp16, because only it has kernels for newer GPUs.
 *
 * The others write to scratch memory, and our own kernel adds the result.
 *
 * Before training begins, each chosen algorithm is run once. If the GPU refuses it, the next one (of cuDNN's other
 * interface) replaces it. TRAINER_CUDNN=legacy|graph selects one interface where possible, also for depthwise
 * convolutions. */
#include "cuda_conv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPEATS = 3 };
#define BLAS_BYTES_MIN ((size_t)64 << 10)
#define BLAS_BYTES_MAX ((size_t)32 << 20)
#define SPARE_BYTES    ((size_t)1 << 20)

int conv_type(enum precision precision)
{
    static const int types[] = {CUDNN_DATA_FLOAT, CUDNN_DATA_BFLOAT16, CUDNN_DATA_HALF};
    _Static_assert(sizeof types / sizeof *types == PRECISION_COUNT, "a type for each");
    return types[precision];
}

static size_t weight_count(const struct conv_problem *problem)
{
    return problem->out.channels * problem->kernel * problem->kernel_width * (problem->in.channels / problem->groups);
}

size_t conv_result_count(const struct conv_problem *problem)
{
    switch (problem->kind) {
    case CONV_FORWARD:
        return problem->images * shape_count(problem->out);
    case CONV_DATA:
        return problem->images * shape_count(problem->in);
    case CONV_FILTER:
        break;
    }
    return weight_count(problem);
}

static bool is_int(size_t count)
{
    return count <= INT32_MAX;
}

static bool is_folded(const struct conv_problem *problem)
{
    return problem->folding.channels != 0;
}

/* Return the number of the layer's output channels. */
static size_t outputs(const struct conv_problem *problem)
{
    return is_folded(problem) ? problem->out.channels / problem->folding.across : problem->out.channels;
}

static bool is_gemm(const struct conv_problem *problem)
{
    return problem->kernel == 1 && problem->stride == 1 && problem->pad == 0 && problem->groups == 1 &&
           !is_folded(problem);
}

static bool is_sampled(const struct conv_problem *problem)
{
    return problem->kind == CONV_DATA && problem->kernel == 1 && problem->stride > 1 && problem->pad == 0 &&
           problem->groups == 1;
}

size_t conv_weight_scratch(const struct conv_problem *problem)
{
    return problem->kind == CONV_FORWARD && is_folded(problem)
               ? conv_round(weight_count(problem) * precision_bytes(problem->precision))
               : 0;
}

/* ---- matrix products ---- */

/* Return the workspace for cuBLAS: the budget, but at least 64 KiB (cuBLAS needs 16 KiB) and at most 32 MiB (its
 * default on Hopper). */
size_t gemm_workspace_bytes(size_t budget_bytes)
{
    return budget_bytes < BLAS_BYTES_MIN   ? BLAS_BYTES_MIN
           : budget_bytes < BLAS_BYTES_MAX ? budget_bytes & ~(size_t)511
                                           : BLAS_BYTES_MAX;
}

static gs_status set_workspace(struct cuda *cuda, CUdeviceptr workspace, size_t bytes)
{
    const struct cuda_calls *api = &cuda->api;
    struct lane *lane = cuda->lane;
    if (workspace == lane->blas_workspace && bytes == lane->blas_bytes)
        return GS_OK;
    gs_status status =
        GS_TRY_OF(GS_FROM_CUBLAS, api->cublasSetWorkspace_v2(lane->cublas, (void *)(uintptr_t)workspace, bytes));
    lane->blas_workspace = status == GS_OK ? workspace : 0;
    lane->blas_bytes = bytes;
    return status;
}

/* Multiply matrices. cuBLAS stores matrices column by column, so it reads our matrices, stored row by row, as their
 * transposes. */
gs_status gemm_run(struct cuda *cuda, enum conv_kind kind, enum precision precision, size_t rows, size_t in, size_t out,
                   bool adds, const struct conv_data *data, CUdeviceptr workspace, size_t workspace_bytes)
{
    static const int types[] = {CUDA_R_32F, CUDA_R_16BF, CUDA_R_16F};
    const struct cuda_calls *api = &cuda->api;
    const float one = 1, beta = adds ? 1 : 0;
    void *handle = cuda->lane->cublas;
    int type = types[precision], n = (int)rows, i = (int)in, o = (int)out;
    const void *x = (const void *)(uintptr_t)data->x, *w = (const void *)(uintptr_t)data->w;
    const void *y = (const void *)(uintptr_t)data->y;
    gs_status status = set_workspace(cuda, workspace, workspace_bytes);
    if (status != GS_OK)
        return status;
    switch (kind) {
    case CONV_FORWARD:
        return GS_TRY_OF(GS_FROM_CUBLAS, api->cublasGemmEx(handle, CUBLAS_OP_T, CUBLAS_OP_N, o, n, i, &one, w, type, i,
                                                           x, type, i, &beta, (void *)(uintptr_t)data->y, type, o,
                                                           CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    case CONV_DATA:
        return GS_TRY_OF(GS_FROM_CUBLAS, api->cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, i, n, o, &one, w, type, i,
                                                           y, type, o, &beta, (void *)(uintptr_t)data->x, type, i,
                                                           CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    case CONV_FILTER:
        break;
    }
    return GS_TRY_OF(GS_FROM_CUBLAS, api->cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_T, i, o, n, &one, x, type, i, y,
                                                       type, o, &one, (void *)(uintptr_t)data->gradient, CUDA_R_32F, i,
                                                       CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

/* ---- the older interface ---- */

static gs_status legacy_tensor(struct cuda *cuda, const struct conv_problem *problem, struct shape shape, void **ret)
{
    const struct cuda_calls *api = &cuda->api;
    gs_status status = GS_TRY_OF(GS_FROM_CUDNN, api->cudnnCreateTensorDescriptor(ret));
    if (status == GS_OK)
        status = GS_TRY_OF(GS_FROM_CUDNN,
                           api->cudnnSetTensor4dDescriptor(*ret, CUDNN_TENSOR_NHWC, conv_type(problem->precision),
                                                           (int)problem->images, (int)shape.channels, (int)shape.height,
                                                           (int)shape.width));
    return status;
}

static gs_status legacy_filter(struct cuda *cuda, const struct conv_problem *problem, void **ret)
{
    const struct cuda_calls *api = &cuda->api;
    gs_status status = GS_TRY_OF(GS_FROM_CUDNN, api->cudnnCreateFilterDescriptor(ret));
    if (status == GS_OK)
        status = GS_TRY_OF(GS_FROM_CUDNN, api->cudnnSetFilter4dDescriptor(
                                              *ret, conv_type(problem->precision), CUDNN_TENSOR_NHWC,
                                              (int)problem->out.channels, (int)(problem->in.channels / problem->groups),
                                              (int)problem->kernel, (int)problem->kernel_width));
    return status;
}

static gs_status legacy_convolution(struct cuda *cuda, const struct conv_problem *problem, void **ret)
{
    const struct cuda_calls *api = &cuda->api;
    int pad = (int)problem->pad, stride = (int)problem->stride;
    int math = problem->precision == PRECISION_FP32 ? CUDNN_FMA_MATH : CUDNN_TENSOR_OP_MATH;
    gs_status status = GS_TRY_OF(GS_FROM_CUDNN, api->cudnnCreateConvolutionDescriptor(ret));
    if (status == GS_OK)
        status =
            GS_TRY_OF(GS_FROM_CUDNN, api->cudnnSetConvolution2dDescriptor(*ret, pad, pad, stride, stride, 1, 1,
                                                                          CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
    if (status == GS_OK)
        status = GS_TRY_OF(GS_FROM_CUDNN, api->cudnnSetConvolutionMathType(*ret, math));
    if (status == GS_OK && problem->groups != 1)
        status = GS_TRY_OF(GS_FROM_CUDNN, api->cudnnSetConvolutionGroupCount(*ret, (int)problem->groups));
    return status;
}

static gs_status legacy_describe(struct cuda *cuda, struct conv *conv)
{
    const struct conv_problem *problem = &conv->problem;
    gs_status status = legacy_tensor(cuda, problem, problem->in, &conv->x);
    if (status == GS_OK)
        status = legacy_tensor(cuda, problem, problem->out, &conv->y);
    if (status == GS_OK)
        status = legacy_filter(cuda, problem, &conv->w);
    return status == GS_OK ? legacy_convolution(cuda, problem, &conv->convolution) : status;
}

/* Get the algorithms that cuDNN's heuristics propose, best first. */
static gs_status legacy_propose(struct cuda *cuda, const struct conv *conv, int *ret_count, struct cudnn_algorithm *ret)
{
    const struct cuda_calls *api = &cuda->api;
    void *handle = cuda->lane->cudnn, *x = conv->x, *w = conv->w, *y = conv->y, *how = conv->convolution;
    const int room = ALGORITHMS_MAX;
    switch (conv->problem.kind) {
    case CONV_FORWARD:
        return GS_TRY_OF(GS_FROM_CUDNN,
                         api->cudnnGetConvolutionForwardAlgorithm_v7(handle, x, w, how, y, room, ret_count, ret));
    case CONV_DATA:
        return GS_TRY_OF(GS_FROM_CUDNN,
                         api->cudnnGetConvolutionBackwardDataAlgorithm_v7(handle, w, y, how, x, room, ret_count, ret));
    case CONV_FILTER:
        break;
    }
    return GS_TRY_OF(GS_FROM_CUDNN,
                     api->cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle, x, y, how, w, room, ret_count, ret));
}

/* Compute the workspace of an algorithm. Returns false if it does not support the problem. The scope does not record
 * this as a failure. */
static bool legacy_bytes(struct cuda *cuda, const struct conv *conv, int algorithm, size_t *ret_bytes)
{
    const struct cuda_calls *api = &cuda->api;
    void *handle = cuda->lane->cudnn, *x = conv->x, *w = conv->w, *y = conv->y, *how = conv->convolution;
    switch (conv->problem.kind) {
    case CONV_FORWARD:
        return api->cudnnGetConvolutionForwardWorkspaceSize(handle, x, w, how, y, algorithm, ret_bytes) == 0;
    case CONV_DATA:
        return api->cudnnGetConvolutionBackwardDataWorkspaceSize(handle, w, y, how, x, algorithm, ret_bytes) == 0;
    case CONV_FILTER:
        break;
    }
    return api->cudnnGetConvolutionBackwardFilterWorkspaceSize(handle, x, y, how, w, algorithm, ret_bytes) == 0;
}

static gs_status legacy_find(struct cuda *cuda, struct conv *conv, size_t way_limit)
{
    const struct conv_problem *problem = &conv->problem;
    struct cudnn_algorithm found[ALGORITHMS_MAX];
    int count = 0, math = problem->precision == PRECISION_FP32 ? CUDNN_FMA_MATH : CUDNN_TENSOR_OP_MATH;
    size_t scratch = problem->kind == CONV_FILTER && problem->precision != PRECISION_FP32
                         ? conv_round(weight_count(problem) * precision_bytes(problem->precision))
                         : conv_weight_scratch(problem);
    /* This interface requires tensors with less than 2^31 elements. If no other algorithm exists, the caller reports a
     * lack of memory, and a smaller batch can be tried. */
    if (!is_int(problem->images * shape_count(problem->in)) || !is_int(problem->images * shape_count(problem->out)))
        return GS_OK;
    gs_status status = legacy_describe(cuda, conv);
    if (status == GS_OK)
        status = legacy_propose(cuda, conv, &count, found);
    for (int i = 0; status == GS_OK && i < count && i < ALGORITHMS_MAX && conv->way_count < way_limit; i++) {
        struct conv_way way = {.kind = WAY_LEGACY, .algorithm = found[i].algorithm, .scratch_bytes = scratch};
        /* Skip algorithms that do not work, that use tensor cores in fp32, or that are not deterministic although the
         * options require it. */
        if (found[i].status != 0 || (math == CUDNN_FMA_MATH && found[i].math_type == CUDNN_TENSOR_OP_MATH) ||
            (cuda->options.deterministic && found[i].determinism != CUDNN_DETERMINISTIC))
            continue;
        if (legacy_bytes(cuda, conv, way.algorithm, &way.library_bytes) && way.library_bytes <= problem->budget_bytes)
            conv->ways[conv->way_count++] = way;
    }
    return status;
}

static gs_status legacy_run(struct cuda *cuda, struct conv *conv, const struct conv_way *way,
                            const struct conv_data *data)
{
    const struct cuda_calls *api = &cuda->api;
    const float one = 1, zero = 0, *beta = conv->problem.adds ? &one : &zero;
    void *handle = cuda->lane->cudnn, *how = conv->convolution, *space = (void *)(uintptr_t)data->workspace;
    void *x = (void *)(uintptr_t)data->x, *w = (void *)(uintptr_t)data->w, *y = (void *)(uintptr_t)data->y;
    size_t bytes = way->library_bytes;
    int algorithm = way->algorithm;
    switch (conv->problem.kind) {
    case CONV_FORWARD:
        return GS_TRY_OF(GS_FROM_CUDNN, api->cudnnConvolutionForward(handle, &one, conv->x, x, conv->w, w, how,
                                                                     algorithm, space, bytes, &zero, conv->y, y));
    case CONV_DATA:
        return GS_TRY_OF(GS_FROM_CUDNN, api->cudnnConvolutionBackwardData(handle, &one, conv->w, w, conv->y, y, how,
                                                                          algorithm, space, bytes, beta, conv->x, x));
    case CONV_FILTER:
        break;
    }
    if (way->scratch_bytes == 0) { /* fp32: the algorithm itself adds to the gradient */
        w = (void *)(uintptr_t)data->gradient;
        beta = &one;
    }
    return GS_TRY_OF(GS_FROM_CUDNN, api->cudnnConvolutionBackwardFilter(handle, &one, conv->x, x, conv->y, y, how,
                                                                        algorithm, space, bytes, beta, conv->w, w));
}

/* ---- finding the algorithms ---- */

static bool wants(const char *interface, bool unless_said)
{
    const char *said = getenv("TRAINER_CUDNN");
    return said == NULL || said[0] == '\0' ? unless_said : strcmp(said, interface) == 0;
}

bool conv_knows_interface(struct reason *reason)
{
    return wants("legacy", true) || wants("graph", true) ||
           because(reason, "TRAINER_CUDNN is \"%.40s\"; use legacy or graph, or leave it empty for both",
                   getenv("TRAINER_CUDNN"));
}

/* Forget the failure of an algorithm that will not be used. Otherwise the scope would report it instead of the next
 * real failure. */
static void forgive(struct cuda *cuda)
{
    gs_forgive(cuda->card.scope);
    if (cuda->card.memory != NULL)
        gs_forgive(cuda->card.memory);
}

static void add_gemm(struct conv *conv)
{
    conv->ways[conv->way_count++] =
        (struct conv_way){.kind = WAY_GEMM, .library_bytes = gemm_workspace_bytes(conv->problem.budget_bytes)};
}

/* ---- 1x1 filters with a stride ---- */

static size_t sampled_pixels(const struct conv_problem *problem)
{
    return problem->images * problem->out.height * problem->out.width;
}

static void add_sampled(struct conv *conv)
{
    const struct conv_problem *problem = &conv->problem;
    size_t count = sampled_pixels(problem) * problem->in.channels;
    conv->ways[conv->way_count++] =
        (struct conv_way){.kind = WAY_SAMPLED,
                          .library_bytes = gemm_workspace_bytes(problem->budget_bytes),
                          .scratch_bytes = conv_round(count * precision_bytes(problem->precision))};
}

/* The result in data->x is not complete until the gradients of the pixels are in their places. */
static gs_status sampled_run(struct cuda *cuda, const struct conv_problem *problem, const struct conv_way *way,
                             const struct conv_data *data, CUdeviceptr dx)
{
    gs_status status = gemm_run(cuda, CONV_DATA, problem->precision, sampled_pixels(problem), problem->in.channels,
                                problem->out.channels, false, data, data->workspace, way->library_bytes);
    return status == GS_OK ? cuda_spread(cuda, dx, data->x, problem) : status;
}

static void add_depth(const struct cuda *cuda, struct conv *conv)
{
    conv->ways[conv->way_count++] =
        (struct conv_way){.kind = WAY_DEPTH, .library_bytes = depth_workspace_bytes(cuda, &conv->problem)};
}

/* Find a second algorithm in case the GPU refuses the first one. Its workspace must be within the budget, and at most
 * the larger of 1 MiB and the first one's. */
static gs_status find_spare(struct cuda *cuda, struct conv *conv)
{
    size_t budget = conv->problem.budget_bytes, most = conv->ways[0].library_bytes;
    most = most < SPARE_BYTES ? SPARE_BYTES : most;
    conv->problem.budget_bytes = most < budget ? most : budget;
    gs_status status = GS_OK;
    if (conv->ways[0].kind != WAY_GRAPH && wants("graph", true))
        graph_find(cuda, conv, 2);
    /* If conv->x is set, the older interface was already tried. */
    if (conv->way_count < 2 && conv->x == NULL && wants("legacy", true))
        status = legacy_find(cuda, conv, 2);
    conv->problem.budget_bytes = budget;
    return status;
}

static gs_status find_ways(struct cuda *cuda, struct conv *conv)
{
    const struct conv_problem *problem = &conv->problem;
    bool is_low = problem->precision != PRECISION_FP32, is_timed = cuda->options.tune;
    /* For the weight gradient in bf16 and fp16, try cuBLAS first only if all algorithms are timed: its matrices are
     * long and thin, which may be slow. */
    bool is_gemm_first = is_gemm(problem) && (!is_low || problem->kind != CONV_FILTER || is_timed);
    size_t limit = is_timed ? CONV_WAYS_MAX : 1;
    gs_status status = GS_OK;
    if (is_gemm_first)
        add_gemm(conv);
    if (is_sampled(problem))
        add_sampled(conv);
    if (depth_suits(problem) && wants("own", true))
        add_depth(cuda, conv);
    if (conv->way_count < limit && wants("graph", is_low))
        graph_find(cuda, conv, is_timed ? limit - 2 : limit);
    if (conv->way_count < limit && (conv->way_count == 0 || is_timed) && wants("legacy", true))
        status = legacy_find(cuda, conv, limit);
    if (conv->way_count == 0 && status == GS_OK && is_gemm(problem))
        add_gemm(conv);
    if (conv->way_count == 1 && status == GS_OK && conv->ways[0].kind != WAY_DEPTH)
        status = find_spare(cuda, conv);
    if (status == GS_FAILED && conv->way_count != 0) { /* not an error, because another algorithm was found */
        forgive(cuda);
        status = GS_OK;
    }
    return status;
}

static void describe(const struct conv_problem *problem, char *out, size_t out_bytes)
{
    static const char *const kinds[] = {"convolution", "input gradient", "weight gradient"};
    int length =
        snprintf(out, out_bytes, "%s of %zu x %zux%zux%zu to %zu channels by %zux%zu, %s", kinds[problem->kind],
                 problem->images, problem->in.channels, problem->in.height, problem->in.width, problem->out.channels,
                 problem->kernel, problem->kernel_width, precision_text(problem->precision));
    if (problem->groups != 1 && (size_t)length < out_bytes)
        snprintf(out + length, out_bytes - (size_t)length, ", %zu groups", problem->groups);
}

static void tell(struct cuda *cuda, const struct conv *conv)
{
    char line[300], what[160], scratch[EXACT_TEXT_BYTES], library[EXACT_TEXT_BYTES];
    const struct conv_way *way = &conv->ways[conv->chosen];
    static const char *const names[] = {"a matrix product of cuBLAS", "cuDNN's older interface", "cuDNN's graph",
                                        "a matrix product of the pixels that the filter reads", "our own kernels"};
    if (cuda->options.log == NULL || getenv("TRAINER_TELL_CONVOLUTIONS") == NULL)
        return;
    describe(&conv->problem, what, sizeof what);
    snprintf(line, sizeof line, "%s: %s, algorithm %zu of %zu, workspace %s + %s", what, names[way->kind],
             conv->chosen + 1, conv->way_count, exact_text(way->scratch_bytes, scratch),
             exact_text(way->library_bytes, library));
    cuda->options.log(cuda->options.log_user, line);
}

static bool fits(const struct conv_problem *problem, struct reason *reason)
{
    char what[160];
    if (is_int(problem->images * problem->in.height * problem->in.width) && is_int(problem->images) &&
        is_int(problem->images * problem->out.height * problem->out.width) && is_int(weight_count(problem)))
        return true;
    describe(problem, what, sizeof what);
    because(reason, "%s: too large for the libraries", what);
    reason->is_memory = true; /* a smaller batch may help */
    return false;
}

static void conv_free(struct cuda *cuda, struct conv *conv)
{
    if (conv == NULL)
        return;
    if (conv->x != NULL)
        cuda->api.cudnnDestroyTensorDescriptor(conv->x);
    if (conv->y != NULL)
        cuda->api.cudnnDestroyTensorDescriptor(conv->y);
    if (conv->w != NULL)
        cuda->api.cudnnDestroyFilterDescriptor(conv->w);
    if (conv->convolution != NULL)
        cuda->api.cudnnDestroyConvolutionDescriptor(conv->convolution);
    while (conv->descriptor_count > 0)
        cuda->api.cudnnBackendDestroyDescriptor(conv->descriptors[--conv->descriptor_count]);
    free(conv->descriptors);
    free(conv);
}

static bool conv_new(struct cuda *cuda, const struct conv_problem *problem, struct conv **ret, struct reason *reason)
{
    char what[160];
    if (!fits(problem, reason))
        return false;
    struct conv *conv = calloc(1, sizeof *conv);
    if (conv == NULL)
        return because(reason, "the host has no memory for a convolution");
    conv->problem = *problem;
    gs_status status = find_ways(cuda, conv);
    describe(problem, what, sizeof what);
    if (status != GS_OK && conv->way_count == 0) {
        card_well(&cuda->card, status, what, reason);
    } else if (conv->way_count == 0) {
        char budget[EXACT_TEXT_BYTES];
        because(reason, "%s: no algorithm with a workspace of at most %s", what,
                exact_text(problem->budget_bytes, budget));
        reason->is_memory = true;
    }
    if (conv->way_count == 0) {
        conv_free(cuda, conv);
        return false;
    }
    for (size_t i = 0; i < conv->way_count; i++) {
        size_t bytes = conv->ways[i].scratch_bytes + conv->ways[i].library_bytes;
        conv->workspace_bytes = bytes > conv->workspace_bytes ? bytes : conv->workspace_bytes;
    }
    tell(cuda, conv);
    *ret = conv;
    return true;
}

bool conv_find(struct cuda *cuda, const struct conv_problem *problem, size_t *ret_index, struct reason *reason)
{
    for (size_t i = 0; i < cuda->conv_count; i++)
        if (memcmp(&cuda->convs[i]->problem, problem, sizeof *problem) == 0) {
            *ret_index = i;
            return true;
        }
    if (cuda->conv_count == cuda->conv_room) {
        size_t room = cuda->conv_room == 0 ? 64 : cuda->conv_room * 2;
        struct conv **grown = realloc(cuda->convs, room * sizeof(struct conv *));
        if (grown == NULL)
            return because(reason, "the host has no memory for a convolution");
        cuda->convs = grown;
        cuda->conv_room = room;
    }
    if (!conv_new(cuda, problem, &cuda->convs[cuda->conv_count], reason))
        return false;
    *ret_index = cuda->conv_count++;
    return true;
}

void conv_free_all(struct cuda *cuda)
{
    for (size_t i = 0; i < cuda->conv_count; i++)
        conv_free(cuda, cuda->convs[i]);
    free(cuda->convs);
    cuda->convs = NULL;
    cuda->conv_count = cuda->conv_room = 0;
}

/* ---- running ---- */

static gs_status add_result(struct cuda *cuda, const struct conv *conv, const struct conv_data *data)
{
    const struct conv_problem *problem = &conv->problem;
    size_t count = conv_result_count(problem);
    if (problem->kind != CONV_FILTER)
        return cuda_add(cuda, data->x, data->x, data->workspace, count, false);
    if (is_folded(problem))
        return cuda_add_folded(cuda, data->gradient, data->workspace, outputs(problem), &problem->folding);
    return cuda_add_gradient(cuda, data->gradient, data->workspace, count);
}

gs_status conv_run(struct cuda *cuda, struct conv *conv, size_t index, const struct conv_data *data, void **pack)
{
    const struct conv_way *way = &conv->ways[index];
    const struct conv_problem *problem = &conv->problem;
    struct conv_data inner = *data;
    gs_status status = GS_OK;
    inner.workspace = data->workspace + way->scratch_bytes;
    if (way->scratch_bytes != 0 && problem->kind == CONV_FILTER)
        inner.w = data->workspace;
    if (way->scratch_bytes != 0 && problem->kind == CONV_DATA)
        inner.x = data->workspace;
    if (way->scratch_bytes != 0 && problem->kind == CONV_FORWARD) {
        inner.w = data->workspace;
        status = cuda_fold(cuda, inner.w, data->w, outputs(problem), &problem->folding);
    }
    if (status != GS_OK)
        return status;
    switch (way->kind) {
    case WAY_GEMM:
        status = gemm_run(cuda, problem->kind, problem->precision,
                          problem->images * problem->in.height * problem->in.width, problem->in.channels,
                          problem->out.channels, problem->adds, &inner, inner.workspace, way->library_bytes);
        break;
    case WAY_LEGACY:
        status = legacy_run(cuda, conv, way, &inner);
        break;
    case WAY_GRAPH:
        status = graph_run(cuda, way, &inner, pack);
        break;
    case WAY_SAMPLED:
        return sampled_run(cuda, problem, way, &inner, data->x);
    case WAY_DEPTH:
        status = depth_run(cuda, problem, &inner);
        break;
    }
    bool adds_result = way->scratch_bytes != 0 && problem->kind != CONV_FORWARD;
    return status == GS_OK && adds_result ? add_result(cuda, conv, data) : status;
}

/* Measure an algorithm: run it once to warm up, then compute the mean time of several runs. */
static gs_status time_way(struct cuda *cuda, struct conv *conv, size_t way, const struct conv_data *data, CUevent begin,
                          CUevent end, float *ret_ms)
{
    CUstream stream = cuda->lane->stream;
    void *pack = NULL;
    gs_status status = conv_run(cuda, conv, way, data, &pack);
    if (status == GS_OK)
        status = gs_record(begin, stream);
    for (int i = 0; i < REPEATS && status == GS_OK; i++)
        status = conv_run(cuda, conv, way, data, &pack);
    if (status == GS_OK)
        status = gs_record(end, stream);
    if (status == GS_OK)
        status = gs_wait_event(end);
    if (status == GS_OK)
        status = gs_elapsed(begin, end, ret_ms);
    conv_pack_free(cuda, &pack);
    return status;
}

static void tell_refused(struct cuda *cuda, const struct conv *conv)
{
    char line[300], what[160];
    describe(&conv->problem, what, sizeof what);
    snprintf(line, sizeof line, "%s: the GPU rejects algorithm %zu of %zu", what, conv->chosen + 1, conv->way_count);
    if (cuda->options.log != NULL)
        cuda->options.log(cuda->options.log_user, line);
}

gs_status conv_try(struct cuda *cuda, struct conv *conv, const struct conv_data *data)
{
    gs_status status = GS_OK;
    for (; !conv->is_tried; conv->chosen++) {
        void *pack = NULL;
        status = conv_run(cuda, conv, conv->chosen, data, &pack);
        if (status == GS_OK)
            status = gs_wait(cuda->lane->stream);
        conv_pack_free(cuda, &pack);
        if (status != GS_FAILED || conv->chosen + 1 == conv->way_count)
            break;
        tell_refused(cuda, conv);
        forgive(cuda);
    }
    conv->is_tried = status == GS_OK;
    return status;
}

gs_status conv_time(struct cuda *cuda, struct conv *conv, const struct conv_data *data)
{
    CUevent begin = NULL, end = NULL;
    float best_ms = 0, ms = 0;
    if (conv->is_tried || conv->way_count < 2)
        return GS_OK;
    gs_status status = gs_event(cuda->card.scope, 1, &begin);
    if (status == GS_OK)
        status = gs_event(cuda->card.scope, 1, &end);
    for (size_t i = 0; i < conv->way_count && status == GS_OK; i++) {
        status = time_way(cuda, conv, i, data, begin, end, &ms);
        if (status == GS_FAILED) { /* the GPU refuses this algorithm: try the next one */
            forgive(cuda);
            status = GS_OK;
        } else if (status == GS_OK && (best_ms == 0 || ms < best_ms)) {
            best_ms = ms;
            conv->chosen = i;
        }
    }
    if (end != NULL)
        gs_event_close(cuda->card.scope, end);
    if (begin != NULL)
        gs_event_close(cuda->card.scope, begin);
    conv->is_tried = status == GS_OK && best_ms > 0; /* if no algorithm worked, conv_try() will report the reason */
    if (conv->is_tried)
        tell(cuda, conv);
    return status;
}
