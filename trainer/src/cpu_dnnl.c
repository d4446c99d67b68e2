/* Compute convolutions, pooling and matrix products with oneDNN.
 *
 * A step is one or two primitives of oneDNN. Our tensors are plain (channels last). Some primitives cannot use them
 * directly:
 * - The implementation needs another layout, such as blocked weights.
 * - The implementation overwrites a result that must be added to other data (gradients).
 * Such a primitive uses a copy in the step's workspace. A reorder before or after it converts or adds the copy.
 *
 * The same code plans a step and creates its primitives. During planning it only computes the size of the
 * workspace. oneDNN lists the implementations best first. We use the first one whose workspace is within the
 * budget. step->algorithm stores its number, one byte for each primitive. */
#include "cpu.h"

#include <string.h>

enum {
    ARGUMENTS = 5,  /* maximum number of arguments of a primitive */
    ALIGNMENT = 64, /* alignment of the parts of a workspace, in bytes */
    IMPLEMENTATIONS = 64
};

static bool is_good(dnnl_status_t status, const char *what, struct reason *reason)
{
    static const char *const texts[] = {"",
                                        "no memory",
                                        "invalid arguments",
                                        "unimplemented",
                                        "no further implementation",
                                        "runtime error",
                                        "not required"};
    return status == dnnl_success ||
           because(reason, "oneDNN: %s: %s (%d)", what,
                   (size_t)status < sizeof texts / sizeof *texts ? texts[status] : "?", (int)status);
}

static bool add_post_ops(dnnl_primitive_attr_t attributes, bool has_relu, bool adds, struct reason *reason)
{
    dnnl_post_ops_t operations;
    if (!is_good(dnnl_post_ops_create(&operations), "post-operations", reason))
        return false;
    dnnl_status_t status = dnnl_success;
    if (adds)
        status = dnnl_post_ops_append_sum(operations, 1);
    if (has_relu && status == dnnl_success)
        status = dnnl_post_ops_append_eltwise(operations, 1, dnnl_eltwise_relu, 0, 0);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_post_ops(attributes, operations);
    dnnl_post_ops_destroy(operations);
    return is_good(status, "post-operations", reason);
}

static bool make_attributes(dnnl_primitive_attr_t *ret, bool has_relu, bool adds, struct reason *reason)
{
    return is_good(dnnl_primitive_attr_create(ret), "attributes", reason) &&
           is_good(dnnl_primitive_attr_set_scratchpad_mode(*ret, dnnl_scratchpad_mode_user), "scratchpad", reason) &&
           add_post_ops(*ret, has_relu, adds, reason);
}

bool cpu_dnnl_open(struct cpu_state *state, struct reason *reason)
{
    return is_good(dnnl_engine_create(&state->engine, dnnl_cpu, 0), "the engine", reason) &&
           is_good(dnnl_stream_create(&state->stream, state->engine, dnnl_stream_default_flags), "the stream",
                   reason) &&
           make_attributes(&state->plain, false, false, reason) && make_attributes(&state->relu, true, false, reason) &&
           make_attributes(&state->adding, false, true, reason);
}

void cpu_dnnl_close(struct cpu_state *state)
{
    dnnl_primitive_attr_t attributes[] = {state->plain, state->relu, state->adding};
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
        if (attributes[i] != NULL)
            dnnl_primitive_attr_destroy(attributes[i]);
    if (state->stream != NULL)
        dnnl_stream_destroy(state->stream);
    if (state->engine != NULL)
        dnnl_engine_destroy(state->engine);
}

/* ---- one primitive and its arguments ---- */

enum way { WAY_READ, WAY_WRITE, WAY_ADD };

struct argument {
    int number; /* one of oneDNN's DNNL_ARG_ constants */
    enum way way;
    const dnnl_memory_desc_t *layout; /* layout of the tensor in our block; NULL: the layout that the primitive needs */
    size_t block, offset_bytes, room_bytes;
};

struct job {
    const_dnnl_op_desc_t description;
    const_dnnl_primitive_attr_t attributes;
    const_dnnl_primitive_desc_t hint; /* the forward primitive; set only for a backward primitive */
    struct argument arguments[ARGUMENTS];
    size_t argument_count;
};

struct builder {
    struct cpu_state *state;
    const struct step *step;
    size_t images;
    struct cpu_work *work; /* NULL: only compute the size of the workspace */
    size_t workspace_used, workspace_most;
    struct reason *reason;
};

static size_t bytes_of(const dnnl_memory_desc_t *layout)
{
    return dnnl_memory_desc_get_size(layout);
}

/* Create the memory object of an argument. While only sizes are computed, the result is NULL. */
static bool make_memory(struct builder *builder, const dnnl_memory_desc_t *layout, size_t block, size_t offset_bytes,
                        dnnl_memory_t *ret)
{
    struct cpu_work *work = builder->work;
    *ret = NULL;
    if (work == NULL)
        return true;
    if (work->memory_count == CPU_MEMORIES)
        return because(builder->reason, "cpu: a step has too many arguments");
    char *at = (char *)cpu_block(builder->state, block) + offset_bytes;
    if (!is_good(dnnl_memory_create(ret, layout, builder->state->engine, at), "memory", builder->reason))
        return false;
    work->memories[work->memory_count++] = *ret;
    return true;
}

static bool make_piece(struct builder *builder, const dnnl_memory_desc_t *layout, dnnl_memory_t *ret)
{
    size_t at = builder->workspace_used, bytes = (bytes_of(layout) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    builder->workspace_used += bytes;
    if (builder->work != NULL &&
        (builder->step->workspace == NO_BLOCK || builder->workspace_used > builder->step->workspace_bytes))
        return because(builder->reason, "cpu: a step's workspace is smaller than planned");
    return make_memory(builder, layout, builder->step->workspace, at, ret);
}

static bool make_call(struct builder *builder, const_dnnl_primitive_desc_t primitive, const dnnl_exec_arg_t *arguments,
                      int argument_count)
{
    struct cpu_work *work = builder->work;
    const dnnl_memory_desc_t *scratch = dnnl_primitive_desc_query_md(primitive, dnnl_query_scratchpad_md, 0);
    dnnl_memory_t memory = NULL;
    bool has_scratch = scratch != NULL && bytes_of(scratch) != 0;
    if (has_scratch && !make_piece(builder, scratch, &memory))
        return false;
    if (work == NULL)
        return true;
    if (work->call_count == CPU_CALLS || argument_count + 1 > CPU_ARGUMENTS)
        return because(builder->reason, "cpu: a step has too many calls");
    struct cpu_call *call = &work->calls[work->call_count];
    memcpy(call->arguments, arguments, (size_t)argument_count * sizeof *arguments);
    call->argument_count = argument_count;
    if (has_scratch)
        call->arguments[call->argument_count++] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, memory};
    if (!is_good(dnnl_primitive_create(&call->primitive, primitive), "a primitive", builder->reason))
        return false;
    work->call_count++;
    return true;
}

static bool make_reorder(struct builder *builder, const dnnl_memory_desc_t *from_layout, dnnl_memory_t from,
                         const dnnl_memory_desc_t *to_layout, dnnl_memory_t to, bool adds)
{
    struct cpu_state *state = builder->state;
    dnnl_primitive_desc_t primitive;
    dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
    if (!is_good(dnnl_reorder_primitive_desc_create(&primitive, from_layout, state->engine, to_layout, state->engine,
                                                    adds ? state->adding : state->plain),
                 "a reorder", builder->reason))
        return false;
    bool is_made = make_call(builder, primitive, arguments, 2);
    dnnl_primitive_desc_destroy(primitive);
    return is_made;
}

/* An argument of a primitive, in the layout that the primitive needs. `memory` is our block (`ours`) if is_ours,
 * otherwise a copy in the workspace. */
struct bound {
    const dnnl_memory_desc_t *layout;
    dnnl_memory_t ours, memory;
    bool is_ours;
};

static bool bind_argument(struct builder *builder, const_dnnl_primitive_desc_t primitive,
                          const struct argument *argument, struct bound *ret)
{
    ret->layout = dnnl_primitive_desc_query_md(primitive, dnnl_query_exec_arg_md, argument->number);
    const dnnl_memory_desc_t *ours = argument->layout != NULL ? argument->layout : ret->layout;
    ret->is_ours = argument->way != WAY_ADD && dnnl_memory_desc_equal(ours, ret->layout);
    if (bytes_of(ours) > argument->room_bytes)
        return because(builder->reason, "cpu: oneDNN needs %zu bytes, but there are %zu", bytes_of(ours),
                       argument->room_bytes);
    if (argument->way == WAY_WRITE && !ret->is_ours)
        return because(builder->reason, "cpu: oneDNN writes an unexpected layout");
    if (!make_memory(builder, ours, argument->block, argument->offset_bytes, &ret->ours))
        return false;
    ret->memory = ret->ours;
    if (ret->is_ours)
        return true;
    if (!make_piece(builder, ret->layout, &ret->memory))
        return false;
    return argument->way == WAY_ADD || make_reorder(builder, ours, ret->ours, ret->layout, ret->memory, false);
}

static bool make_job(struct builder *builder, const_dnnl_primitive_desc_t primitive, const struct job *job)
{
    struct bound bound[ARGUMENTS];
    dnnl_exec_arg_t arguments[ARGUMENTS];
    builder->workspace_used = 0; /* the primitives of a step run one after the other, so they share the workspace */
    for (size_t i = 0; i < job->argument_count; i++) {
        if (!bind_argument(builder, primitive, &job->arguments[i], &bound[i]))
            return false;
        arguments[i] = (dnnl_exec_arg_t){job->arguments[i].number, bound[i].memory};
    }
    if (!make_call(builder, primitive, arguments, (int)job->argument_count))
        return false;
    for (size_t i = 0; i < job->argument_count; i++)
        if (job->arguments[i].way == WAY_ADD &&
            !make_reorder(builder, bound[i].layout, bound[i].memory, job->arguments[i].layout, bound[i].ours, true))
            return false;
    return true;
}

/* ---- choosing the implementation ---- */

static bool begin_search(const struct builder *builder, const struct job *job, dnnl_primitive_desc_iterator_t *ret)
{
    return is_good(
        dnnl_primitive_desc_iterator_create(ret, job->description, job->attributes, builder->state->engine, job->hint),
        layer_kind_text(builder->step->layer->kind), builder->reason);
}

/* Choose the first implementation whose workspace is within the budget. If there is none, choose the one with the
 * smallest workspace. */
static bool plan_job(struct builder *builder, const struct job *job, size_t budget_bytes, size_t *ret_number)
{
    dnnl_primitive_desc_iterator_t search;
    size_t least_bytes = SIZE_MAX;
    if (!begin_search(builder, job, &search))
        return false;
    for (size_t number = 0; number < IMPLEMENTATIONS && (number == 0 || least_bytes > budget_bytes); number++) {
        dnnl_primitive_desc_t primitive = dnnl_primitive_desc_iterator_fetch(search);
        if (make_job(builder, primitive, job) && builder->workspace_used < least_bytes) {
            least_bytes = builder->workspace_used;
            *ret_number = number;
        }
        dnnl_primitive_desc_destroy(primitive);
        if (dnnl_primitive_desc_iterator_next(search) != dnnl_success)
            break;
    }
    dnnl_primitive_desc_iterator_destroy(search);
    if (least_bytes == SIZE_MAX) /* no implementation was found; the reason is already set */
        return false;
    builder->workspace_most = least_bytes > builder->workspace_most ? least_bytes : builder->workspace_most;
    return true;
}

static bool build_job(struct builder *builder, const struct job *job, size_t number)
{
    dnnl_primitive_desc_iterator_t search;
    bool is_there = begin_search(builder, job, &search);
    if (!is_there)
        return false;
    for (size_t i = 0; i < number && is_there; i++)
        is_there = dnnl_primitive_desc_iterator_next(search) == dnnl_success;
    if (is_there) {
        dnnl_primitive_desc_t primitive = dnnl_primitive_desc_iterator_fetch(search);
        is_there = make_job(builder, primitive, job);
        dnnl_primitive_desc_destroy(primitive);
    } else {
        because(builder->reason, "cpu: oneDNN's list of implementations has changed");
    }
    dnnl_primitive_desc_iterator_destroy(search);
    return is_there;
}

/* ---- layers ---- */

/* The layouts of a layer's tensors, and the geometry of its window. */
struct layouts {
    dnnl_memory_desc_t x, y, weights, weights_any, bias;
    dnnl_dims_t window, strides, padding;
};

static bool image_layout(dnnl_memory_desc_t *ret, size_t images, struct shape shape, struct reason *reason)
{
    dnnl_dims_t dims = {(dnnl_dim_t)images, (dnnl_dim_t)shape.channels, (dnnl_dim_t)shape.height,
                        (dnnl_dim_t)shape.width};
    return is_good(dnnl_memory_desc_init_by_tag(ret, 4, dims, dnnl_f32, dnnl_nhwc), "a layout", reason);
}

/* Describe the weights of a convolution. With groups, oneDNN counts the channels within a group. */
static dnnl_status_t weight_layout(dnnl_memory_desc_t *ret, const struct layer *layer, bool is_any)
{
    dnnl_dim_t kernel = (dnnl_dim_t)layer->kernel, groups = (dnnl_dim_t)layer->groups;
    dnnl_dim_t out = (dnnl_dim_t)layer->out.channels, in = (dnnl_dim_t)layer->in.channels;
    dnnl_dims_t whole = {out, in, kernel, kernel}, grouped = {groups, out / groups, in / groups, kernel, kernel};
    if (groups == 1)
        return dnnl_memory_desc_init_by_tag(ret, 4, whole, dnnl_f32, is_any ? dnnl_format_tag_any : dnnl_ohwi);
    return dnnl_memory_desc_init_by_tag(ret, 5, grouped, dnnl_f32, is_any ? dnnl_format_tag_any : dnnl_gohwi);
}

static bool make_layouts(const struct builder *builder, struct layouts *ret)
{
    const struct layer *layer = builder->step->layer;
    struct reason *reason = builder->reason;
    bool is_average = layer->kind == LAYER_AVERAGEPOOL;
    dnnl_dim_t kernel = (dnnl_dim_t)layer->kernel, channels = (dnnl_dim_t)layer->out.channels;
    dnnl_dims_t bias = {channels};
    ret->window[0] = is_average ? (dnnl_dim_t)layer->in.height : kernel;
    ret->window[1] = is_average ? (dnnl_dim_t)layer->in.width : kernel;
    ret->strides[0] = ret->strides[1] = is_average ? 1 : (dnnl_dim_t)layer->stride;
    ret->padding[0] = ret->padding[1] = is_average ? 0 : (dnnl_dim_t)layer->pad;
    if (!image_layout(&ret->x, builder->images, layer->in, reason) ||
        !image_layout(&ret->y, builder->images, layer->out, reason))
        return false;
    return layer->kind != LAYER_CONV ||
           (is_good(weight_layout(&ret->weights, layer, false), "a layout", reason) &&
            is_good(weight_layout(&ret->weights_any, layer, true), "a layout", reason) &&
            is_good(dnnl_memory_desc_init_by_tag(&ret->bias, 1, bias, dnnl_f32, dnnl_x), "a layout", reason));
}

static struct argument whole(int number, enum way way, const dnnl_memory_desc_t *layout, size_t block)
{
    return (struct argument){
        .number = number, .way = way, .layout = layout, .block = block, .room_bytes = bytes_of(layout)};
}

/* Return the argument for one layer's parameters or gradients. They begin at index `at` of the block. */
static struct argument part(int number, enum way way, const dnnl_memory_desc_t *layout, size_t block, size_t at)
{
    struct argument argument = whole(number, way, layout, block);
    argument.offset_bytes = at * sizeof(float);
    return argument;
}

static void add_argument(struct job *job, struct argument argument)
{
    job->arguments[job->argument_count++] = argument;
}

static struct argument gradient_by_x(const struct step *step, const struct layouts *layouts)
{
    return whole(DNNL_ARG_DIFF_SRC, step->adds ? WAY_ADD : WAY_WRITE, &layouts->x, step->dx);
}

/* Return the argument for the positions of the maxima of a max pooling. Implementations that need more than one
 * byte per output are skipped. */
static struct argument winners(enum way way, const struct builder *builder)
{
    return (struct argument){.number = DNNL_ARG_WORKSPACE,
                             .way = way,
                             .block = builder->step->saved,
                             .room_bytes = builder->images * shape_count(builder->step->layer->out)};
}

/* The one or two jobs of a step (a job is a primitive with its arguments), together with the layouts that they use. */
struct jobs {
    struct layouts layouts;
    dnnl_convolution_desc_t convolution[2];
    dnnl_convolution_desc_t forward_convolution;
    dnnl_pooling_desc_t pooling, forward_pooling;
    dnnl_primitive_desc_t hint; /* owned; forward primitive that a backward primitive needs; NULL: none */
    struct job list[2];
    size_t count;
};

static void clear_jobs(struct jobs *jobs)
{
    if (jobs->hint != NULL)
        dnnl_primitive_desc_destroy(jobs->hint);
}

static struct job *add_job(struct jobs *jobs, const struct builder *builder, const_dnnl_op_desc_t description)
{
    struct job *job = &jobs->list[jobs->count++];
    *job = (struct job){.description = description, .attributes = builder->state->plain, .hint = jobs->hint};
    return job;
}

static bool make_hint(struct jobs *jobs, const struct builder *builder, const_dnnl_op_desc_t description)
{
    return is_good(
        dnnl_primitive_desc_create(&jobs->hint, description, builder->state->plain, builder->state->engine, NULL),
        "a forward description", builder->reason);
}

static size_t lasting(const struct builder *builder, enum lasting which)
{
    return builder->work == NULL ? NO_BLOCK : builder->state->schedule->lasting[which];
}

static bool convolution_forward(struct jobs *jobs, const struct builder *builder, dnnl_convolution_desc_t *ret)
{
    struct layouts *layouts = &jobs->layouts;
    return is_good(dnnl_convolution_forward_desc_init(
                       ret, dnnl_forward_training, dnnl_convolution_direct, &layouts->x, &layouts->weights_any,
                       builder->step->layer->bias_count != 0 ? &layouts->bias : NULL, &layouts->y, layouts->strides,
                       layouts->padding, layouts->padding),
                   "a convolution", builder->reason);
}

static bool jobs_of_convolution(struct jobs *jobs, const struct builder *builder)
{
    const struct step *step = builder->step;
    const struct layer *layer = step->layer;
    struct layouts *layouts = &jobs->layouts;
    size_t parameters = lasting(builder, LASTING_PARAMETERS);
    if (!convolution_forward(jobs, builder, &jobs->convolution[0]))
        return false;
    struct job *job = add_job(jobs, builder, &jobs->convolution[0]);
    if (layer->has_relu)
        job->attributes = builder->state->relu;
    add_argument(job, whole(DNNL_ARG_SRC, WAY_READ, &layouts->x, step->x));
    add_argument(job, part(DNNL_ARG_WEIGHTS, WAY_READ, &layouts->weights, parameters, layer->weight_at));
    if (layer->bias_count != 0)
        add_argument(job, part(DNNL_ARG_BIAS, WAY_READ, &layouts->bias, parameters, layer->bias_at));
    add_argument(job, whole(DNNL_ARG_DST, WAY_WRITE, &layouts->y, step->y));
    return true;
}

static bool job_of_data(struct jobs *jobs, const struct builder *builder)
{
    const struct step *step = builder->step;
    struct layouts *layouts = &jobs->layouts;
    if (!is_good(dnnl_convolution_backward_data_desc_init(&jobs->convolution[1], dnnl_convolution_direct, &layouts->x,
                                                          &layouts->weights_any, &layouts->y, layouts->strides,
                                                          layouts->padding, layouts->padding),
                 "a convolution's input gradient", builder->reason))
        return false;
    struct job *job = add_job(jobs, builder, &jobs->convolution[1]);
    add_argument(job, whole(DNNL_ARG_DIFF_DST, WAY_READ, &layouts->y, step->dy));
    add_argument(job, part(DNNL_ARG_WEIGHTS, WAY_READ, &layouts->weights, lasting(builder, LASTING_PARAMETERS),
                           step->layer->weight_at));
    add_argument(job, gradient_by_x(step, layouts));
    return true;
}

static bool jobs_of_convolution_backward(struct jobs *jobs, const struct builder *builder)
{
    const struct step *step = builder->step;
    const struct layer *layer = step->layer;
    struct layouts *layouts = &jobs->layouts;
    size_t gradients = lasting(builder, LASTING_GRADIENTS);
    if (!convolution_forward(jobs, builder, &jobs->forward_convolution) ||
        !make_hint(jobs, builder, &jobs->forward_convolution) ||
        !is_good(dnnl_convolution_backward_weights_desc_init(
                     &jobs->convolution[0], dnnl_convolution_direct, &layouts->x, &layouts->weights_any,
                     layer->bias_count != 0 ? &layouts->bias : NULL, &layouts->y, layouts->strides, layouts->padding,
                     layouts->padding),
                 "a convolution's weight gradient", builder->reason))
        return false;
    struct job *job = add_job(jobs, builder, &jobs->convolution[0]);
    add_argument(job, whole(DNNL_ARG_SRC, WAY_READ, &layouts->x, step->x));
    add_argument(job, whole(DNNL_ARG_DIFF_DST, WAY_READ, &layouts->y, step->dy));
    add_argument(job, part(DNNL_ARG_DIFF_WEIGHTS, WAY_ADD, &layouts->weights, gradients, layer->weight_at));
    if (layer->bias_count != 0)
        add_argument(job, part(DNNL_ARG_DIFF_BIAS, WAY_ADD, &layouts->bias, gradients, layer->bias_at));
    return step->dx == NO_BLOCK || job_of_data(jobs, builder);
}

static bool pooling_forward(struct jobs *jobs, const struct builder *builder, dnnl_pooling_desc_t *ret)
{
    struct layouts *layouts = &jobs->layouts;
    bool is_average = builder->step->layer->kind == LAYER_AVERAGEPOOL;
    return is_good(dnnl_pooling_forward_desc_init(
                       ret, dnnl_forward_training, is_average ? dnnl_pooling_avg_exclude_padding : dnnl_pooling_max,
                       &layouts->x, &layouts->y, layouts->strides, layouts->window, layouts->padding, layouts->padding),
                   "pooling", builder->reason);
}

static bool jobs_of_pooling(struct jobs *jobs, const struct builder *builder)
{
    const struct step *step = builder->step;
    if (!pooling_forward(jobs, builder, &jobs->pooling))
        return false;
    struct job *job = add_job(jobs, builder, &jobs->pooling);
    add_argument(job, whole(DNNL_ARG_SRC, WAY_READ, &jobs->layouts.x, step->x));
    add_argument(job, whole(DNNL_ARG_DST, WAY_WRITE, &jobs->layouts.y, step->y));
    if (step->layer->kind == LAYER_MAXPOOL)
        add_argument(job, winners(WAY_WRITE, builder));
    return true;
}

static bool jobs_of_pooling_backward(struct jobs *jobs, const struct builder *builder)
{
    const struct step *step = builder->step;
    struct layouts *layouts = &jobs->layouts;
    bool is_average = step->layer->kind == LAYER_AVERAGEPOOL;
    if (step->dx == NO_BLOCK)
        return true;
    if (!pooling_forward(jobs, builder, &jobs->forward_pooling) || !make_hint(jobs, builder, &jobs->forward_pooling) ||
        !is_good(dnnl_pooling_backward_desc_init(
                     &jobs->pooling, is_average ? dnnl_pooling_avg_exclude_padding : dnnl_pooling_max, &layouts->x,
                     &layouts->y, layouts->strides, layouts->window, layouts->padding, layouts->padding),
                 "pooling's gradient", builder->reason))
        return false;
    struct job *job = add_job(jobs, builder, &jobs->pooling);
    add_argument(job, whole(DNNL_ARG_DIFF_DST, WAY_READ, &layouts->y, step->dy));
    add_argument(job, gradient_by_x(step, layouts));
    if (!is_average)
        add_argument(job, winners(WAY_READ, builder));
    return true;
}

/* List the jobs of a step. The caller zeroes `jobs` before the call and clears it afterwards, even on failure. */
static bool jobs_of_step(struct jobs *jobs, const struct builder *builder)
{
    bool is_convolution = builder->step->layer->kind == LAYER_CONV;
    if (!make_layouts(builder, &jobs->layouts))
        return false;
    if (builder->step->kind == STEP_FORWARD)
        return is_convolution ? jobs_of_convolution(jobs, builder) : jobs_of_pooling(jobs, builder);
    return is_convolution ? jobs_of_convolution_backward(jobs, builder) : jobs_of_pooling_backward(jobs, builder);
}

/* ---- steps ---- */

bool cpu_dnnl_plan(struct cpu_state *state, const struct schedule_options *options, struct step *step,
                   size_t budget_bytes, struct reason *reason)
{
    struct builder builder = {.state = state, .step = step, .images = options->images, .reason = reason};
    struct jobs jobs = {0};
    bool is_planned = jobs_of_step(&jobs, &builder);
    for (size_t i = 0; i < jobs.count && is_planned; i++) {
        size_t number;
        is_planned = plan_job(&builder, &jobs.list[i], budget_bytes, &number);
        if (is_planned)
            step->algorithm |= number << (8 * i);
    }
    clear_jobs(&jobs);
    step->workspace_bytes = builder.workspace_most;
    return is_planned;
}

bool cpu_dnnl_build(struct cpu_state *state, const struct step *step, struct cpu_work *work, struct reason *reason)
{
    struct builder builder = {
        .state = state, .step = step, .images = state->schedule->options.images, .work = work, .reason = reason};
    struct jobs jobs = {0};
    bool is_built = jobs_of_step(&jobs, &builder);
    for (size_t i = 0; i < jobs.count && is_built; i++)
        is_built = build_job(&builder, &jobs.list[i], (step->algorithm >> (8 * i)) & 0xFF);
    clear_jobs(&jobs);
    return is_built;
}

void cpu_work_clear(struct cpu_work *work)
{
    for (size_t i = 0; i < work->call_count; i++)
        dnnl_primitive_destroy(work->calls[i].primitive);
    for (size_t i = 0; i < work->memory_count; i++)
        dnnl_memory_destroy(work->memories[i]);
    memset(work, 0, sizeof *work);
}

bool cpu_dnnl_run(struct cpu_state *state, const struct cpu_work *work, struct reason *reason)
{
    for (size_t i = 0; i < work->call_count; i++) {
        const struct cpu_call *call = &work->calls[i];
        if (!is_good(dnnl_primitive_execute(call->primitive, state->stream, call->argument_count, call->arguments),
                     "a primitive", reason))
            return false;
    }
    return is_good(dnnl_stream_wait(state->stream), "waiting", reason);
}

/* ---- linear layers ---- */

/* Linear layers use matrix products, which add directly to their result. Primitives would need a second copy of the
 * gradients, perhaps hundreds of megabytes. oneDNN packs the operands into memory of its own (5 MB for VGG-11),
 * which the plan does not include. */

struct product {
    size_t images, inputs, outputs; /* sizes of the matrices, which are all stored row by row */
};

static struct product product_of(const struct cpu_state *state, const struct layer *layer)
{
    return (struct product){state->schedule->options.images, shape_count(layer->in), layer->out.channels};
}

bool cpu_linear_forward(struct cpu_state *state, const struct step *step, struct reason *reason)
{
    const struct layer *layer = step->layer;
    struct product p = product_of(state, layer);
    dnnl_dim_t images = (dnnl_dim_t)p.images, inputs = (dnnl_dim_t)p.inputs, outputs = (dnnl_dim_t)p.outputs;
    const float *parameters = cpu_lasting(state, LASTING_PARAMETERS), *bias = parameters + layer->bias_at;
    float *y = cpu_block(state, step->y);
    if (!is_good(dnnl_sgemm('N', 'T', images, outputs, inputs, 1, cpu_block(state, step->x), inputs,
                            parameters + layer->weight_at, inputs, 0, y, outputs),
                 "a product", reason))
        return false;
    for (size_t i = 0; i < p.images * p.outputs; i++) {
        y[i] += layer->bias_count != 0 ? bias[i % p.outputs] : 0;
        y[i] = layer->has_relu && y[i] < 0 ? 0 : y[i];
    }
    return true;
}

bool cpu_linear_backward(struct cpu_state *state, const struct step *step, struct reason *reason)
{
    const struct layer *layer = step->layer;
    struct product p = product_of(state, layer);
    dnnl_dim_t images = (dnnl_dim_t)p.images, inputs = (dnnl_dim_t)p.inputs, outputs = (dnnl_dim_t)p.outputs;
    const float *dy = cpu_block(state, step->dy);
    const float *weights = cpu_lasting(state, LASTING_PARAMETERS) + layer->weight_at;
    float *gradients = cpu_lasting(state, LASTING_GRADIENTS);
    for (size_t i = 0; layer->bias_count != 0 && i < p.images * p.outputs; i++)
        gradients[layer->bias_at + i % p.outputs] += dy[i];
    return is_good(dnnl_sgemm('T', 'N', outputs, inputs, images, 1, dy, outputs, cpu_block(state, step->x), inputs, 1,
                              gradients + layer->weight_at, inputs),
                   "a product", reason) &&
           (step->dx == NO_BLOCK || is_good(dnnl_sgemm('N', 'N', images, inputs, outputs, 1, dy, outputs, weights,
                                                       inputs, step->adds ? 1 : 0, cpu_block(state, step->dx), inputs),
                                            "a product", reason));
}
