/* Run convolutions with cuDNN's graph interface: a graph of one operation, and an execution plan for each engine that
 * is tried. cuDNN's heuristics propose the engines. Running a plan costs the host no more time than a kernel launch.
 *
 * If an engine refuses the operation, the next engine is tried, and the scope records no failure. */
#include "cuda_conv.h"

#include <stdlib.h>

enum { ID_X = 'x', ID_W = 'w', ID_Y = 'y', CONFIGS_MAX = 16, NOTES_MAX = 32, ALIGNMENT = 16 };

/* ---- descriptors: the conv keeps all of them, because plans refer to them ---- */

static void *new_descriptor(struct cuda *cuda, struct conv *conv, int kind)
{
    void *descriptor = NULL;
    if (conv->descriptor_count == conv->descriptor_room) {
        size_t room = conv->descriptor_room == 0 ? 32 : conv->descriptor_room * 2;
        void **grown = realloc(conv->descriptors, room * sizeof *grown);
        if (grown == NULL)
            return NULL;
        conv->descriptors = grown;
        conv->descriptor_room = room;
    }
    if (cuda->api.cudnnBackendCreateDescriptor(kind, &descriptor) != 0 || descriptor == NULL)
        return NULL;
    conv->descriptors[conv->descriptor_count++] = descriptor;
    return descriptor;
}

struct attribute {
    int name, type;
    int64_t count;
    const void *values;
};

/* Set the attributes of a descriptor and finalize it. An entry without values ends the list. */
static bool fill(struct cuda *cuda, void *descriptor, const struct attribute *attributes)
{
    if (descriptor == NULL)
        return false;
    for (; attributes->values != NULL; attributes++)
        if (cuda->api.cudnnBackendSetAttribute(descriptor, attributes->name, attributes->type, attributes->count,
                                               attributes->values) != 0)
            return false;
    return cuda->api.cudnnBackendFinalize(descriptor) == 0;
}

/* Describe a tensor to cuDNN. The dimensions are in cuDNN's order (n, c, h, w), but the memory layout is n, h, w, c. */
static void *tensor(struct cuda *cuda, struct conv *conv, int64_t id, size_t count, size_t channels, size_t height,
                    size_t width)
{
    const int64_t sizes[] = {(int64_t)count, (int64_t)channels, (int64_t)height, (int64_t)width};
    const int64_t strides[] = {sizes[1] * sizes[2] * sizes[3], 1, sizes[1] * sizes[3], sizes[1]};
    const int64_t alignment = ALIGNMENT;
    const int type = conv_type(conv->problem.precision);
    const struct attribute attributes[] = {{CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type},
                                           {CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, sizes},
                                           {CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides},
                                           {CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id},
                                           {CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment},
                                           {0}};
    void *descriptor = new_descriptor(cuda, conv, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    return fill(cuda, descriptor, attributes) ? descriptor : NULL;
}

static void *convolution(struct cuda *cuda, struct conv *conv)
{
    const int compute = CUDNN_DATA_FLOAT, mode = CUDNN_CROSS_CORRELATION;
    const int64_t dimensions = 2, ones[] = {1, 1};
    const int64_t strides[] = {(int64_t)conv->problem.stride, (int64_t)conv->problem.stride};
    const int64_t pads[] = {(int64_t)conv->problem.pad, (int64_t)conv->problem.pad};
    const struct attribute attributes[] = {{CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute},
                                           {CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode},
                                           {CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &dimensions},
                                           {CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, ones},
                                           {CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, strides},
                                           {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, pads},
                                           {CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, pads},
                                           {0}};
    void *descriptor = new_descriptor(cuda, conv, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    return fill(cuda, descriptor, attributes) ? descriptor : NULL;
}

/* The descriptor type and the attribute names of each kind of convolution. */
static const struct operation {
    int kind, convolution, x, w, y, alpha, beta;
} operations[] = {
    [CONV_FORWARD] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    [CONV_DATA] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    [CONV_FILTER] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
};

static void *operation(struct cuda *cuda, struct conv *conv)
{
    const struct conv_problem *problem = &conv->problem;
    const struct operation *names = &operations[problem->kind];
    const float one = 1, zero = 0;
    void *x = tensor(cuda, conv, ID_X, problem->images, problem->in.channels, problem->in.height, problem->in.width);
    /* cuDNN computes the number of groups from the channels of x and w. */
    void *w = tensor(cuda, conv, ID_W, problem->out.channels, problem->in.channels / problem->groups, problem->kernel,
                     problem->kernel_width);
    void *y = tensor(cuda, conv, ID_Y, problem->images, problem->out.channels, problem->out.height, problem->out.width);
    void *how = convolution(cuda, conv);
    const struct attribute attributes[] = {{names->convolution, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &how},
                                           {names->x, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &x},
                                           {names->w, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &w},
                                           {names->y, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &y},
                                           {names->alpha, CUDNN_TYPE_FLOAT, 1, &one},
                                           {names->beta, CUDNN_TYPE_FLOAT, 1, &zero},
                                           {0}};
    if (x == NULL || w == NULL || y == NULL || how == NULL)
        return NULL;
    void *descriptor = new_descriptor(cuda, conv, names->kind);
    return fill(cuda, descriptor, attributes) ? descriptor : NULL;
}

static void *graph(struct cuda *cuda, struct conv *conv)
{
    void *only = operation(cuda, conv);
    const struct attribute attributes[] = {{CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &cuda->lane->cudnn},
                                           {CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &only},
                                           {0}};
    if (only == NULL)
        return NULL;
    void *descriptor = new_descriptor(cuda, conv, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    return fill(cuda, descriptor, attributes) ? descriptor : NULL;
}

/* ---- engines ---- */

/* Get the engines that the heuristics propose, best first. Returns their number. */
static int64_t propose(struct cuda *cuda, struct conv *conv, void *of_graph, int mode, void *ret_configs[CONFIGS_MAX])
{
    int64_t count = 0;
    const struct attribute attributes[] = {
        {CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &of_graph},
        {CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode},
        {0}};
    void *heuristics = new_descriptor(cuda, conv, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    if (!fill(cuda, heuristics, attributes))
        return 0;
    for (int i = 0; i < CONFIGS_MAX; i++) {
        ret_configs[i] = new_descriptor(cuda, conv, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
        if (ret_configs[i] == NULL)
            return 0;
    }
    if (cuda->api.cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                           CONFIGS_MAX, &count, ret_configs) != 0)
        return 0;
    return count < CONFIGS_MAX ? count : CONFIGS_MAX;
}

static bool has_note(const int *notes, int64_t count, int note)
{
    for (int64_t i = 0; i < count && i < NOTES_MAX; i++)
        if (notes[i] == note)
            return true;
    return false;
}

/* True if the engine is as deterministic and as precise as requested. */
static bool suits(struct cuda *cuda, struct conv *conv, void *config)
{
    int notes[NOTES_MAX];
    int64_t count = 0;
    void *engine = new_descriptor(cuda, conv, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    if (engine == NULL ||
        cuda->api.cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                           &count, &engine) != 0 ||
        cuda->api.cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                           NOTES_MAX, &count, notes) != 0)
        return false;
    if (cuda->options.deterministic && has_note(notes, count, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC))
        return false;
    if (has_note(notes, count, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION))
        return false;
    return conv->problem.precision != PRECISION_FP32 ||
           (!has_note(notes, count, CUDNN_NUMERICAL_NOTE_TENSOR_CORE) &&
            !has_note(notes, count, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS));
}

static void *plan(struct cuda *cuda, struct conv *conv, void *config, size_t *ret_bytes)
{
    int64_t bytes = 0, count = 0;
    const struct attribute attributes[] = {
        {CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &cuda->lane->cudnn},
        {CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &config},
        {0}};
    void *descriptor = new_descriptor(cuda, conv, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    if (!fill(cuda, descriptor, attributes) ||
        cuda->api.cudnnBackendGetAttribute(descriptor, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                                           &count, &bytes) != 0 ||
        bytes < 0)
        return NULL;
    *ret_bytes = (size_t)bytes;
    return descriptor;
}

void graph_find(struct cuda *cuda, struct conv *conv, size_t way_limit)
{
    static const int modes[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK};
    size_t scratch = conv_round(conv_result_count(&conv->problem) * precision_bytes(conv->problem.precision));
    size_t before = conv->way_count;
    void *configs[CONFIGS_MAX], *of = graph(cuda, conv);
    if (conv->problem.kind == CONV_FORWARD)
        scratch = conv_weight_scratch(&conv->problem);
    else if (conv->problem.kind == CONV_DATA && !conv->problem.adds)
        scratch = 0;
    for (size_t mode = 0; of != NULL && mode < 2 && conv->way_count == before; mode++) {
        int64_t count = propose(cuda, conv, of, modes[mode], configs);
        for (int64_t i = 0; i < count && conv->way_count < way_limit; i++) {
            struct conv_way way = {.kind = WAY_GRAPH, .scratch_bytes = scratch};
            if (!suits(cuda, conv, configs[i]))
                continue;
            way.plan = plan(cuda, conv, configs[i], &way.library_bytes);
            if (way.plan != NULL && way.library_bytes <= conv->problem.budget_bytes)
                conv->ways[conv->way_count++] = way;
        }
    }
}

/* ---- running ---- */

static gs_status make_pack(struct cuda *cuda, const struct conv_way *way, const struct conv_data *data, void **ret_pack)
{
    const struct cuda_calls *api = &cuda->api;
    const int64_t ids[] = {ID_X, ID_W, ID_Y};
    const uint64_t blocks[] = {data->x, data->w, data->y};
    const uint64_t workspace = way->library_bytes == 0 ? 0 : data->workspace;
    void *pack = NULL;
    gs_status status =
        GS_TRY_OF(GS_FROM_CUDNN, api->cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack));
    if (status != GS_OK)
        return status;
    status = GS_TRY_OF(GS_FROM_CUDNN, api->cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                                                                    CUDNN_TYPE_VOID_PTR, 3, blocks));
    if (status == GS_OK)
        status = GS_TRY_OF(GS_FROM_CUDNN, api->cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
                                                                        CUDNN_TYPE_INT64, 3, ids));
    if (status == GS_OK)
        status = GS_TRY_OF(GS_FROM_CUDNN, api->cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE,
                                                                        CUDNN_TYPE_VOID_PTR, 1, &workspace));
    if (status == GS_OK)
        status = GS_TRY_OF(GS_FROM_CUDNN, api->cudnnBackendFinalize(pack));
    if (status != GS_OK)
        conv_pack_free(cuda, &pack);
    *ret_pack = pack;
    return status;
}

void conv_pack_free(struct cuda *cuda, void **pack)
{
    if (*pack != NULL)
        cuda->api.cudnnBackendDestroyDescriptor(*pack);
    *pack = NULL;
}

gs_status graph_run(struct cuda *cuda, const struct conv_way *way, const struct conv_data *data, void **pack)
{
    const struct cuda_calls *api = &cuda->api;
    gs_status status = *pack != NULL ? GS_OK : make_pack(cuda, way, data, pack);
    if (status == GS_OK)
        status = GS_TRY_OF(GS_FROM_CUDNN, api->cudnnBackendExecute(cuda->lane->cudnn, way->plan, *pack));
    return status;
}
