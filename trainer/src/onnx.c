/* Export a network as an ONNX file: see onnx.h. */
#include "onnx.h"

#include "protobuf.h"
#include "weights.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Numbers of fields and values in onnx.proto. */
enum { MODEL_IR_VERSION = 1, MODEL_PRODUCER = 2, MODEL_GRAPH = 7, MODEL_OPSET = 8 };
enum { OPSET_DOMAIN = 1, OPSET_VERSION = 2 };
enum { GRAPH_NODE = 1, GRAPH_NAME = 2, GRAPH_INITIALIZER = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_TYPE = 4, NODE_ATTRIBUTE = 5 };
enum { ATTRIBUTE_NAME = 1, ATTRIBUTE_F = 2, ATTRIBUTE_I = 3, ATTRIBUTE_INTS = 8, ATTRIBUTE_TYPE = 20 };
enum { TYPE_IS_FLOAT = 1, TYPE_IS_INT = 2, TYPE_IS_INTS = 7 };
enum { TENSOR_DIMS = 1, TENSOR_TYPE = 2, TENSOR_NAME = 8, TENSOR_RAW = 9 };
enum { VALUE_NAME = 1, VALUE_TYPE = 2, TYPE_TENSOR = 1, TENSOR_TYPE_ELEMENT = 1, TENSOR_TYPE_SHAPE = 2 };
enum { SHAPE_DIM = 1, DIM_VALUE = 1, DIM_PARAM = 2 };
enum { ELEMENT_FLOAT = 1, IR_VERSION = 8, OPSET = 17, FILE_BYTES_MAX = INT32_MAX };

static const float norm_epsilon = 1e-5F; /* as in the back ends */

/* A value has the name of its layer and, after a colon, what it is. Titles have no colons, so no value has the name of
 * a parameter. */
enum { VALUE_BYTES = LAYER_TITLE_BYTES + 16 };

struct export
{
    const struct model *model;
    struct message *out;
    const float *parameters, *statistics;
    struct weight *weights; /* owned, with their count */
    size_t weight_count;
    char(*titles)[LAYER_TITLE_BYTES]; /* owned; of each layer */
};

/* ---- nodes ---- */

/* True if the output of the model is N x classes; otherwise it is N x classes x 1 x 1. */
static bool ends_flat(const struct model *model)
{
    return model->layers[model->layer_count - 1].kind == LAYER_LINEAR;
}

static void value_name(const struct export *export, size_t index, const char *what, char ret[VALUE_BYTES])
{
    bool is_last = index + 1 == export->model->layer_count;
    if (index == 0)
        snprintf(ret, VALUE_BYTES, "images");
    else if (is_last && strcmp(what, ends_flat(export->model) ? "out" : "flat") == 0)
        snprintf(ret, VALUE_BYTES, "logits");
    else
        snprintf(ret, VALUE_BYTES, "%s:%s", export->titles[index], what);
}

static size_t index_of(const struct export *export, const struct layer *layer)
{
    return (size_t)(layer - export->model->layers);
}

/* Begin a node that writes the value `what` of a layer. The caller adds inputs and attributes, and ends the message. */
static size_t begin_node(struct export *export, const struct layer *layer, const char *type, const char *what)
{
    char value[VALUE_BYTES], name[VALUE_BYTES];
    size_t index = index_of(export, layer), node = message_begin(export->out, GRAPH_NODE);
    bool is_main = strcmp(what, "out") == 0;
    value_name(export, index, what, value);
    snprintf(name, sizeof name, "%s%s%s", export->titles[index], is_main ? "" : ":", is_main ? "" : what);
    message_text(export->out, NODE_NAME, name);
    message_text(export->out, NODE_TYPE, type);
    message_text(export->out, NODE_OUTPUT, value);
    return node;
}

/* Add the value of another layer as an input of the current node. */
static void add_input(struct export *export, size_t index)
{
    char value[VALUE_BYTES];
    value_name(export, index, "out", value);
    message_text(export->out, NODE_INPUT, value);
}

/* Add another value of the same layer as an input. */
static void add_own_input(struct export *export, const struct layer *layer, const char *what)
{
    char value[VALUE_BYTES];
    value_name(export, index_of(export, layer), what, value);
    message_text(export->out, NODE_INPUT, value);
}

/* Add a parameter of the layer as an input. */
static void add_parameter(struct export *export, const struct layer *layer, const char *part)
{
    char name[VALUE_BYTES];
    snprintf(name, sizeof name, "%s.%s", export->titles[index_of(export, layer)], part);
    message_text(export->out, NODE_INPUT, name);
}

static void add_integer(struct export *export, const char *name, size_t value)
{
    size_t attribute = message_begin(export->out, NODE_ATTRIBUTE);
    message_text(export->out, ATTRIBUTE_NAME, name);
    message_number(export->out, ATTRIBUTE_I, value);
    message_number(export->out, ATTRIBUTE_TYPE, TYPE_IS_INT);
    message_end(export->out, attribute);
}

static void add_float(struct export *export, const char *name, float value)
{
    size_t attribute = message_begin(export->out, NODE_ATTRIBUTE);
    message_text(export->out, ATTRIBUTE_NAME, name);
    message_float(export->out, ATTRIBUTE_F, value);
    message_number(export->out, ATTRIBUTE_TYPE, TYPE_IS_FLOAT);
    message_end(export->out, attribute);
}

/* Add an attribute with `count` equal numbers. */
static void add_integers(struct export *export, const char *name, size_t value, size_t count)
{
    size_t attribute = message_begin(export->out, NODE_ATTRIBUTE);
    message_text(export->out, ATTRIBUTE_NAME, name);
    for (size_t i = 0; i < count; i++)
        message_number(export->out, ATTRIBUTE_INTS, value);
    message_number(export->out, ATTRIBUTE_TYPE, TYPE_IS_INTS);
    message_end(export->out, attribute);
}

/* ---- layers ---- */

/* What the last node of a layer writes, before its activation if it has one. */
static const char *result_of(const struct layer *layer)
{
    return layer->has_relu ? "linear" : "out";
}

static void write_activation(struct export *export, const struct layer *layer)
{
    if (!layer->has_relu)
        return;
    char name[VALUE_BYTES];
    size_t index = index_of(export, layer), node = message_begin(export->out, GRAPH_NODE);
    snprintf(name, sizeof name, "%s:relu", export->titles[index]);
    message_text(export->out, NODE_NAME, name);
    message_text(export->out, NODE_TYPE, "Relu");
    add_own_input(export, layer, "linear");
    value_name(export, index, "out", name);
    message_text(export->out, NODE_OUTPUT, name);
    message_end(export->out, node);
}

static void add_window(struct export *export, const struct layer *layer)
{
    add_integers(export, "kernel_shape", layer->kernel, 2);
    add_integers(export, "strides", layer->stride, 2);
    add_integers(export, "pads", layer->pad, 4);
}

static void write_input(struct export *export, const struct layer *layer)
{
    (void)export;
    (void)layer; /* the input of the graph */
}

static void write_conv(struct export *export, const struct layer *layer)
{
    size_t node = begin_node(export, layer, "Conv", result_of(layer));
    size_t inputs = layer->weight_count / (layer->out.channels * layer->kernel * layer->kernel);
    add_input(export, layer->from[0]);
    add_parameter(export, layer, "weight");
    if (layer->bias_count > 0)
        add_parameter(export, layer, "bias");
    add_window(export, layer);
    add_integer(export, "group", layer->in.channels / inputs);
    message_end(export->out, node);
}

static void write_batchnorm(struct export *export, const struct layer *layer)
{
    static const char *const parts[] = {"weight", "bias", "running_mean", "running_var"};
    size_t node = begin_node(export, layer, "BatchNormalization", result_of(layer));
    add_input(export, layer->from[0]);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        add_parameter(export, layer, parts[i]);
    add_float(export, "epsilon", norm_epsilon);
    message_end(export->out, node);
}

static void write_maxpool(struct export *export, const struct layer *layer)
{
    size_t node = begin_node(export, layer, "MaxPool", result_of(layer));
    add_input(export, layer->from[0]);
    add_window(export, layer);
    message_end(export->out, node);
}

static void write_averagepool(struct export *export, const struct layer *layer)
{
    size_t node = begin_node(export, layer, "GlobalAveragePool", result_of(layer));
    add_input(export, layer->from[0]);
    message_end(export->out, node);
}

static void write_add(struct export *export, const struct layer *layer)
{
    size_t node = begin_node(export, layer, "Add", result_of(layer));
    add_input(export, layer->from[0]);
    add_input(export, layer->from[1]);
    message_end(export->out, node);
}

/* Flatten the value of layer `from`. */
static void write_flatten(struct export *export, const struct layer *layer, size_t from)
{
    size_t node = begin_node(export, layer, "Flatten", "flat");
    add_input(export, from);
    add_integer(export, "axis", 1);
    message_end(export->out, node);
}

static void write_linear(struct export *export, const struct layer *layer)
{
    write_flatten(export, layer, layer->from[0]);
    size_t node = begin_node(export, layer, "Gemm", result_of(layer));
    add_own_input(export, layer, "flat");
    add_parameter(export, layer, "weight");
    if (layer->bias_count > 0)
        add_parameter(export, layer, "bias");
    add_integer(export, "transB", 1);
    message_end(export->out, node);
}

static void write_clip(struct export *export, const struct layer *layer)
{
    static const struct {
        const char *what;
        float value;
    } limits[] = {{"least", 0}, {"most", 6}};
    for (size_t i = 0; i < 2; i++) {
        size_t constant = begin_node(export, layer, "Constant", limits[i].what);
        add_float(export, "value_float", limits[i].value);
        message_end(export->out, constant);
    }
    size_t node = begin_node(export, layer, "Clip", "out");
    add_input(export, layer->from[0]);
    add_own_input(export, layer, "least");
    add_own_input(export, layer, "most");
    message_end(export->out, node);
}

static void write_unary(struct export *export, const struct layer *layer, const char *type, const char *what)
{
    size_t node = begin_node(export, layer, type, what);
    add_input(export, layer->from[0]);
    message_end(export->out, node);
}

static void write_silu(struct export *export, const struct layer *layer)
{
    write_unary(export, layer, "Sigmoid", "sigmoid");
    size_t node = begin_node(export, layer, "Mul", "out");
    add_input(export, layer->from[0]);
    add_own_input(export, layer, "sigmoid");
    message_end(export->out, node);
}

static void write_function(struct export *export, const struct layer *layer)
{
    switch (layer->activation) {
    case ACTIVATION_RELU6:
        write_clip(export, layer);
        break;
    case ACTIVATION_SIGMOID:
        write_unary(export, layer, "Sigmoid", "out");
        break;
    case ACTIVATION_SILU:
        write_silu(export, layer);
        break;
    case ACTIVATION_HARDSWISH:
        write_unary(export, layer, "HardSwish", "out");
        break;
    case ACTIVATION_COUNT:
        break;
    }
}

static void write_multiply(struct export *export, const struct layer *layer)
{
    size_t node = begin_node(export, layer, "Mul", result_of(layer));
    add_input(export, layer->from[1]);
    add_input(export, layer->from[0]); /* N x channels x 1 x 1: ONNX repeats it for all places */
    message_end(export->out, node);
}

/* An evaluation drops nothing. */
static void write_dropout(struct export *export, const struct layer *layer)
{
    write_unary(export, layer, "Identity", "out");
}

/* One function for each kind of layer. It writes all nodes of the layer except its activation. NULL: the layer cannot
 * be exported. */
static void (*const writers[LAYER_KIND_COUNT])(struct export *, const struct layer *) = {
    [LAYER_INPUT] = write_input,
    [LAYER_CONV] = write_conv,
    [LAYER_BATCHNORM] = write_batchnorm,
    [LAYER_MAXPOOL] = write_maxpool,
    [LAYER_AVERAGEPOOL] = write_averagepool,
    [LAYER_ADD] = write_add,
    [LAYER_LINEAR] = write_linear,
    [LAYER_ACTIVATION] = write_function,
    [LAYER_MULTIPLY] = write_multiply,
    [LAYER_DROPOUT] = write_dropout,
};

/* Store the title of each layer. Two layers must not have the same title, because nodes and values are named by it. The
 * caller frees *ret, also after a failure. */
static bool make_titles(const struct model *model, char (**ret)[LAYER_TITLE_BYTES], struct reason *reason)
{
    char(*titles)[LAYER_TITLE_BYTES] = *ret = calloc(model->layer_count, sizeof *titles);
    if (titles == NULL)
        return because(reason, "no host memory for the titles of %zu layers", model->layer_count);
    for (size_t i = 0; i < model->layer_count; i++) {
        weights_title(model, i, titles[i]);
        for (size_t j = 0; j < i; j++)
            if (strcmp(titles[i], titles[j]) == 0)
                return because(reason, "model %s: lines %d and %d are both called %s", model->name,
                               model->layers[j].line, model->layers[i].line, titles[i]);
    }
    return true;
}

static bool check_kinds(const struct model *model, char (*titles)[LAYER_TITLE_BYTES], struct reason *reason)
{
    for (size_t i = 0; i < model->layer_count; i++) {
        const struct layer *layer = &model->layers[i];
        if (writers[layer->kind] == NULL)
            return because(reason,
                           "model %s, line %d: the layer %s cannot be exported: ONNX has no node for the kind %s",
                           model->name, layer->line, titles[i], layer_kind_text(layer->kind));
    }
    return true;
}

bool onnx_check(const struct model *model, struct reason *reason)
{
    char(*titles)[LAYER_TITLE_BYTES];
    size_t count = model_parameters(model);
    bool is_well = make_titles(model, &titles, reason) && check_kinds(model, titles, reason);
    free(titles);
    if (is_well && count > FILE_BYTES_MAX / sizeof(float))
        is_well = because(reason, "model %s: %zu parameters are more than the %d bytes that an ONNX file can have",
                          model->name, count, FILE_BYTES_MAX);
    return is_well;
}

/* ---- the rest of the graph ---- */

static void write_parameter(struct export *export, const struct weight *weight)
{
    size_t tensor = message_begin(export->out, GRAPH_INITIALIZER);
    for (size_t i = 0; i < weight->dim_count; i++)
        message_number(export->out, TENSOR_DIMS, weight->dims[i]);
    message_number(export->out, TENSOR_TYPE, ELEMENT_FLOAT);
    message_text(export->out, TENSOR_NAME, weight->name);
    float *values = malloc(weight_count(weight) * sizeof *values);
    if (values == NULL) {
        export->out->has_failed = true;
        return;
    }
    weight_get(weight, export->parameters, export->statistics, values); /* little-endian, like the host */
    message_bytes(export->out, TENSOR_RAW, values, weight_count(weight) * sizeof *values);
    free(values);
    message_end(export->out, tensor);
}
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "values are written as they are in memory");

/* Describe an input or output of the graph: fp32, with the dimensions N and `dims`. */
static void write_value(struct export *export, unsigned field, const char *name, const size_t *dims, size_t dim_count)
{
    struct message *out = export->out;
    size_t value = message_begin(out, field);
    message_text(out, VALUE_NAME, name);
    size_t type = message_begin(out, VALUE_TYPE), tensor = message_begin(out, TYPE_TENSOR);
    message_number(out, TENSOR_TYPE_ELEMENT, ELEMENT_FLOAT);
    size_t shape = message_begin(out, TENSOR_TYPE_SHAPE), dim = message_begin(out, SHAPE_DIM);
    message_text(out, DIM_PARAM, "N");
    message_end(out, dim);
    for (size_t i = 0; i < dim_count; i++) {
        dim = message_begin(out, SHAPE_DIM);
        message_number(out, DIM_VALUE, dims[i]);
        message_end(out, dim);
    }
    message_end(out, shape);
    message_end(out, tensor);
    message_end(out, type);
    message_end(out, value);
}

static void write_graph(struct export *export)
{
    const struct model *model = export->model;
    const struct shape in = model->layers[0].out;
    size_t graph = message_begin(export->out, MODEL_GRAPH);
    message_text(export->out, GRAPH_NAME, model->name);
    for (size_t i = 0; i < model->layer_count; i++) {
        writers[model->layers[i].kind](export, &model->layers[i]);
        write_activation(export, &model->layers[i]);
    }
    if (!ends_flat(model))
        write_flatten(export, &model->layers[model->layer_count - 1], model->layer_count - 1);
    for (size_t i = 0; i < export->weight_count; i++)
        write_parameter(export, &export->weights[i]);
    write_value(export, GRAPH_INPUT, "images", (const size_t[]){in.channels, in.height, in.width}, 3);
    write_value(export, GRAPH_OUTPUT, "logits", &model->class_count, 1);
    message_end(export->out, graph);
}

static void write_model(struct export *export)
{
    message_number(export->out, MODEL_IR_VERSION, IR_VERSION);
    message_text(export->out, MODEL_PRODUCER, "gpuwhy trainer");
    size_t opset = message_begin(export->out, MODEL_OPSET);
    message_text(export->out, OPSET_DOMAIN, "");
    message_number(export->out, OPSET_VERSION, OPSET);
    message_end(export->out, opset);
    write_graph(export);
}

static bool put_message(int fd, const void *user)
{
    const struct message *message = user;
    return file_write(fd, message->data, message->count);
}

bool onnx_write(const char *path, const struct model *model, const float *parameters, const float *statistics,
                struct reason *reason)
{
    struct message message = {0};
    struct export export = {.model = model, .out = &message, .parameters = parameters, .statistics = statistics};
    bool is_written = onnx_check(model, reason) && make_titles(model, &export.titles, reason) &&
                      weights_list(model, &export.weights, &export.weight_count, reason);
    if (is_written) {
        write_model(&export);
        if (message.has_failed)
            is_written = because(reason, "%s: no host memory for the file", path);
        else if (message.count > FILE_BYTES_MAX)
            is_written =
                because(reason, "%s: %zu bytes, but a file can have at most %d", path, message.count, FILE_BYTES_MAX);
        else
            is_written = file_replace(path, put_message, &message, reason);
    }
    message_clear(&message);
    free(export.weights);
    free(export.titles);
    return is_written;
}
