/* Read and write files with weights: see weights.h. */
#include "weights.h"

#include "safetensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t file_bytes_max = (uint64_t)16 << 30;
enum { PER_LAYER_MAX = 4 };

/* ---- the tensors of a model ---- */

void weights_title(const struct model *model, size_t index, char ret[LAYER_TITLE_BYTES])
{
    const struct layer *layer = &model->layers[index];
    size_t number = 0;
    for (size_t i = 0; i <= index; i++)
        number += model->layers[i].kind == layer->kind;
    if (layer->title[0] != '\0')
        memcpy(ret, layer->title, LAYER_TITLE_BYTES);
    else
        snprintf(ret, LAYER_TITLE_BYTES, "%s%zu", layer_kind_text(layer->kind), number);
}

struct list {
    const struct model *model;
    struct weight *weights; /* owned */
    size_t count;
};

/* Append a tensor with one value per output channel. */
static struct weight *add_vector(struct list *list, const struct layer *layer, const char *title, const char *part,
                                 size_t at)
{
    struct weight *weight = &list->weights[list->count++];
    *weight = (struct weight){.layer = layer,
                              .dims = {layer->out.channels},
                              .dim_count = 1,
                              .at = at,
                              .rows = layer->out.channels,
                              .channels = 1,
                              .places = 1};
    snprintf(weight->name, sizeof weight->name, "%s.%s", title, part);
    return weight;
}

static void add_conv(struct list *list, const struct layer *layer, const char *title)
{
    size_t places = layer->kernel * layer->kernel;
    struct weight *weight = add_vector(list, layer, title, "weight", layer->weight_at);
    weight->channels = layer->weight_count / (layer->out.channels * places);
    weight->places = places;
    weight->dim_count = 4;
    weight->dims[1] = weight->channels;
    weight->dims[2] = weight->dims[3] = layer->kernel;
}

static void add_linear(struct list *list, const struct layer *layer, const char *title)
{
    struct weight *weight = add_vector(list, layer, title, "weight", layer->weight_at);
    weight->channels = layer->in.channels;
    weight->places = layer->in.height * layer->in.width;
    weight->dim_count = 2;
    weight->dims[1] = shape_count(layer->in);
}

static void add_batchnorm(struct list *list, const struct layer *layer, const char *title)
{
    add_vector(list, layer, title, "weight", layer->weight_at);
    add_vector(list, layer, title, "running_mean", layer->statistics_at)->in_statistics = true;
    add_vector(list, layer, title, "running_var", layer->statistics_at + layer->out.channels)->in_statistics = true;
}

/* How the tensors of a kind of layer are listed, except the bias. NULL: the kind has no parameters, or they have no
 * form in files yet. */
static void (*const adders[LAYER_KIND_COUNT])(struct list *, const struct layer *, const char *) = {
    [LAYER_CONV] = add_conv, [LAYER_BATCHNORM] = add_batchnorm, [LAYER_LINEAR] = add_linear};

static bool add_layer(struct list *list, size_t index, struct reason *reason)
{
    const struct layer *layer = &list->model->layers[index];
    char title[LAYER_TITLE_BYTES];
    if (layer->weight_count == 0 && layer->bias_count == 0)
        return true;
    weights_title(list->model, index, title);
    if (adders[layer->kind] == NULL)
        return because(reason, "model %s, line %d: files with weights cannot have a layer of the kind %s",
                       list->model->name, layer->line, layer_kind_text(layer->kind));
    adders[layer->kind](list, layer, title);
    if (layer->bias_count > 0)
        add_vector(list, layer, title, "bias", layer->bias_at);
    return true;
}

static int by_name(const void *a, const void *b)
{
    const struct weight *const *one = a, *const *other = b;
    return strcmp((*one)->name, (*other)->name);
}

static bool names_differ(const struct list *list, struct reason *reason)
{
    const struct weight **sorted = malloc((list->count + 1) * sizeof *sorted);
    bool is_good = true;
    if (sorted == NULL)
        return because(reason, "no host memory for %zu names", list->count);
    for (size_t i = 0; i < list->count; i++)
        sorted[i] = &list->weights[i];
    qsort(sorted, list->count, sizeof *sorted, by_name);
    for (size_t i = 1; i < list->count && is_good; i++)
        if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
            is_good = because(reason, "model %s: lines %d and %d both have the tensor %s", list->model->name,
                              sorted[i - 1]->layer->line, sorted[i]->layer->line, sorted[i]->name);
    free(sorted);
    return is_good;
}

bool weights_list(const struct model *model, struct weight **ret, size_t *ret_count, struct reason *reason)
{
    struct list list = {.model = model, .weights = calloc(model->layer_count, PER_LAYER_MAX * sizeof *list.weights)};
    if (list.weights == NULL)
        return because(reason, "no host memory for the tensors of %zu layers", model->layer_count);
    for (size_t i = 0; i < model->layer_count; i++)
        if (!add_layer(&list, i, reason)) {
            free(list.weights);
            return false;
        }
    if (!names_differ(&list, reason)) {
        free(list.weights);
        return false;
    }
    *ret = list.weights;
    *ret_count = list.count;
    return true;
}

/* ---- layouts ---- */

void weight_get(const struct weight *weight, const float *parameters, const float *statistics, float *values)
{
    const float *from = (weight->in_statistics ? statistics : parameters) + weight->at;
    for (size_t r = 0; r < weight->rows; r++)
        for (size_t c = 0; c < weight->channels; c++)
            for (size_t p = 0; p < weight->places; p++)
                *values++ = from[(r * weight->places + p) * weight->channels + c];
}

static void weight_put(const struct weight *weight, const float *values, float *parameters, float *statistics)
{
    float *to = (weight->in_statistics ? statistics : parameters) + weight->at;
    for (size_t r = 0; r < weight->rows; r++)
        for (size_t c = 0; c < weight->channels; c++)
            for (size_t p = 0; p < weight->places; p++)
                to[(r * weight->places + p) * weight->channels + c] = *values++;
}

static struct tensor describe(const struct weight *weight)
{
    struct tensor tensor = {.name = weight->name, .type = "F32", .dim_count = weight->dim_count};
    memcpy(tensor.dims, weight->dims, sizeof weight->dims);
    return tensor;
}

/* ---- reading ---- */

struct read {
    const char *file;
    const struct model *model;
    const char *except; /* never NULL */
    struct safetensors tensors;
    struct weight *weights; /* owned, with their count */
    size_t count;
    float *parameters, *statistics;
    struct reason *reason;
};

/* True if the name is the entry (of `bytes` bytes), or begins with the entry and a dot. */
static bool is_covered_by(const char *name, const char *entry, size_t bytes)
{
    return strncmp(name, entry, bytes) == 0 && (name[bytes] == '\0' || name[bytes] == '.');
}

/* True if the list of exceptions covers the name of a layer or of a tensor. */
static bool is_excepted(const char *except, const char *name)
{
    for (const char *at = except; *at != '\0';) {
        size_t bytes = strcspn(at, ",");
        if (bytes > 0 && is_covered_by(name, at, bytes))
            return true;
        at += bytes + (at[bytes] == ',');
    }
    return false;
}

/* Check that each exception names a layer, so that a spelling mistake is noticed. */
static bool check_exceptions(const struct read *read)
{
    for (const char *at = read->except; *at != '\0';) {
        size_t bytes = strcspn(at, ",");
        bool is_known = bytes == 0;
        for (size_t i = 0; i < read->count && !is_known; i++)
            is_known = is_covered_by(read->weights[i].name, at, bytes);
        if (!is_known)
            return because(read->reason, "%s: the exception \"%.*s\" is no layer of the model %s", read->file,
                           (int)(bytes < 100 ? bytes : 100), at, read->model->name);
        at += bytes + (at[bytes] == ',');
    }
    return true;
}

static bool is_same_shape(const struct weight *weight, const struct tensor *tensor)
{
    return weight->dim_count == tensor->dim_count &&
           memcmp(weight->dims, tensor->dims, weight->dim_count * sizeof *weight->dims) == 0;
}

static bool take_values(const struct read *read, const struct weight *weight, const struct tensor *tensor)
{
    float *values = malloc(weight_count(weight) * sizeof *values);
    if (values == NULL)
        return because(read->reason, "%s: no host memory for tensor \"%s\"", read->file, weight->name);
    bool is_good = tensor_values(tensor, values);
    if (is_good)
        weight_put(weight, values, read->parameters, read->statistics);
    else
        because(read->reason, "%s: tensor \"%s\": the type is %s, but only F32, F16 and BF16 can be read", read->file,
                weight->name, tensor->type);
    free(values);
    return is_good;
}

static bool take_weight(const struct read *read, const struct weight *weight)
{
    const struct tensor *tensor = safetensors_find(&read->tensors, weight->name);
    const struct tensor wanted = describe(weight);
    char is[TENSOR_SHAPE_BYTES], wants[TENSOR_SHAPE_BYTES];
    if (is_excepted(read->except, weight->name))
        return true;
    if (tensor == NULL)
        return because(read->reason, "%s: tensor \"%s\" (%s) is missing; line %d of the model %s needs it", read->file,
                       weight->name, tensor_shape_text(&wanted, wants), weight->layer->line, read->model->name);
    if (!is_same_shape(weight, tensor))
        return because(read->reason, "%s: tensor \"%s\": the shape is %s, but line %d of the model %s needs %s",
                       read->file, weight->name, tensor_shape_text(tensor, is), weight->layer->line, read->model->name,
                       tensor_shape_text(&wanted, wants));
    return take_values(read, weight, tensor);
}

/* True for PyTorch's counter of the batches that a batch normalisation has seen. */
static bool is_counter(const struct read *read, const char *name)
{
    static const char end[] = ".num_batches_tracked";
    size_t bytes = strlen(name), title_bytes = bytes - (sizeof end - 1);
    if (bytes < sizeof end || strcmp(name + title_bytes, end) != 0)
        return false;
    for (size_t i = 0; i < read->count; i++)
        if (read->weights[i].layer->kind == LAYER_BATCHNORM && strncmp(read->weights[i].name, name, title_bytes) == 0 &&
            strcmp(read->weights[i].name + title_bytes, ".weight") == 0)
            return true;
    return false;
}

static bool is_known(const struct read *read, const char *name)
{
    for (size_t i = 0; i < read->count; i++)
        if (strcmp(read->weights[i].name, name) == 0)
            return true;
    return is_counter(read, name) || is_excepted(read->except, name);
}

static bool take_all(const struct read *read)
{
    char shape[TENSOR_SHAPE_BYTES];
    if (!check_exceptions(read))
        return false;
    for (size_t i = 0; i < read->count; i++)
        if (!take_weight(read, &read->weights[i]))
            return false;
    for (size_t i = 0; i < read->tensors.count; i++)
        if (!is_known(read, read->tensors.tensors[i].name))
            return because(read->reason, "%s: tensor \"%.100s\" (%s) belongs to no layer of the model %s", read->file,
                           read->tensors.tensors[i].name, tensor_shape_text(&read->tensors.tensors[i], shape),
                           read->model->name);
    return true;
}

bool weights_parse(const char *name, const struct bytes *bytes, const struct model *model, const char *except,
                   float *parameters, float *statistics, struct reason *reason)
{
    struct read read = {.file = name,
                        .model = model,
                        .except = except != NULL ? except : "",
                        .parameters = parameters,
                        .statistics = statistics,
                        .reason = reason};
    if (!weights_list(model, &read.weights, &read.count, reason))
        return false;
    bool is_read = safetensors_parse(name, bytes, &read.tensors, reason) && take_all(&read);
    safetensors_clear(&read.tensors);
    free(read.weights);
    return is_read;
}

bool weights_read(const char *path, const struct model *model, const char *except, float *parameters, float *statistics,
                  struct reason *reason)
{
    struct bytes bytes = {0};
    bool is_read = bytes_read(path, file_bytes_max, &bytes, reason) &&
                   weights_parse(path, &bytes, model, except, parameters, statistics, reason);
    bytes_clear(&bytes);
    return is_read;
}

/* ---- writing ---- */

struct write {
    const struct weight *weights;
    size_t count;
    const float *parameters, *statistics;
    struct bytes head;
    float *values; /* owned; room for the largest tensor */
};

static bool write_file(int fd, const void *user)
{
    const struct write *write = user;
    bool is_written = file_write(fd, write->head.data, write->head.count);
    for (size_t i = 0; i < write->count && is_written; i++) {
        weight_get(&write->weights[i], write->parameters, write->statistics, write->values);
        is_written = file_write(fd, write->values, weight_count(&write->weights[i]) * sizeof(float));
    }
    return is_written;
}
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "values are written as they are in memory");

/* Prepare the head of the file and room for values. */
static bool prepare(struct write *write, struct reason *reason)
{
    struct tensor *tensors = calloc(write->count + 1, sizeof *tensors);
    size_t most = 1;
    if (tensors == NULL)
        return because(reason, "no host memory for %zu tensors", write->count);
    for (size_t i = 0; i < write->count; i++) {
        tensors[i] = describe(&write->weights[i]);
        most = weight_count(&write->weights[i]) > most ? weight_count(&write->weights[i]) : most;
    }
    bool is_made = safetensors_head(tensors, write->count, &write->head, reason);
    free(tensors);
    write->values = malloc(most * sizeof(float));
    return is_made && (write->values != NULL || because(reason, "no host memory for %zu values", most));
}

bool weights_write(const char *path, const struct model *model, const float *parameters, const float *statistics,
                   struct reason *reason)
{
    struct write write = {.parameters = parameters, .statistics = statistics};
    struct weight *weights;
    if (!weights_list(model, &weights, &write.count, reason))
        return false;
    write.weights = weights;
    bool is_written = prepare(&write, reason) && file_replace(path, write_file, &write, reason);
    bytes_clear(&write.head);
    free(write.values);
    free(weights);
    return is_written;
}
