/* Read the description of a model. */
#include "model.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LINE_BYTES = 512,
    WORDS_MAX = 16,
    NAME_BYTES = 32,
    LAYERS_MAX = 4096,
    SIZE_LIMIT = 1 << 16, /* maximum channel count, width or height */
    WINDOW_LIMIT = 255,
    ALIGNMENT = MODEL_ALIGNED /* alignment of each layer's weights and biases, in elements */
};

const char *layer_kind_text(enum layer_kind kind)
{
    static const char *const texts[] = {"input", "conv",   "batchnorm",  "maxpool",  "averagepool",
                                        "add",   "linear", "activation", "multiply", "dropout"};
    _Static_assert(sizeof texts / sizeof *texts == LAYER_KIND_COUNT, "a text for each");
    return texts[kind];
}

const char *activation_text(enum activation activation)
{
    static const char *const texts[] = {"relu6", "sigmoid", "silu", "hardswish"};
    _Static_assert(sizeof texts / sizeof *texts == ACTIVATION_COUNT, "a text for each");
    return texts[activation];
}

/* ---- words ---- */

struct reader {
    const char *path;
    int line;
    struct reason *reason;
    char *words[WORDS_MAX];    /* words of the current line */
    size_t word_count, at;     /* at: index of the next word to read */
    char (*names)[NAME_BYTES]; /* owned; name of each layer, "" if it has none */
    bool *is_read;             /* owned; per layer: true if another layer reads it */
    size_t segment;
    struct model *model;
    /* The activation at the end of the current line, which becomes a layer of its own; ACTIVATION_COUNT: none */
    enum activation activation;
};

static bool bad(const struct reader *reader, const char *what)
{
    return because(reader->reason, "%s:%d: %s", reader->path, reader->line, what);
}

static bool bad_word(const struct reader *reader, const char *what, const char *word)
{
    return because(reader->reason, "%s:%d: %s \"%.64s\"", reader->path, reader->line, what, word);
}

static bool split(struct reader *reader, char *line)
{
    char *rest = NULL;
    line[strcspn(line, "#\r\n")] = '\0';
    reader->word_count = reader->at = 0;
    for (char *word = strtok_r(line, " \t", &rest); word != NULL; word = strtok_r(NULL, " \t", &rest)) {
        if (reader->word_count == WORDS_MAX)
            return bad(reader, "too many words");
        reader->words[reader->word_count++] = word;
    }
    return true;
}

static const char *next_word(struct reader *reader)
{
    return reader->at < reader->word_count ? reader->words[reader->at++] : NULL;
}

/* If the next word is `word`, skip it and return true. */
static bool takes(struct reader *reader, const char *word)
{
    if (reader->at == reader->word_count || strcmp(reader->words[reader->at], word) != 0)
        return false;
    reader->at++;
    return true;
}

static bool number(struct reader *reader, const char *of_what, size_t least, size_t *ret)
{
    const char *word = next_word(reader);
    char *end;
    if (word == NULL)
        return bad_word(reader, "a number is missing:", of_what);
    errno = 0;
    long value = strtol(word, &end, 10);
    if (errno != 0 || end == word || *end != '\0' || value < (long)least || value > SIZE_LIMIT)
        return because(reader->reason, "%s:%d: %s must be a number from %zu to %d, not \"%.64s\"", reader->path,
                       reader->line, of_what, least, SIZE_LIMIT, word);
    *ret = (size_t)value;
    return true;
}

static bool named(struct reader *reader, const char *name, size_t *ret_layer)
{
    for (size_t i = reader->model->layer_count; i-- > 0;)
        if (strcmp(reader->names[i], name) == 0) {
            *ret_layer = i;
            reader->is_read[i] = true;
            return true;
        }
    return bad_word(reader, "no line above is named", name);
}

/* ---- layers ---- */

/* Read the name after "as". */
static bool read_title(struct reader *reader, struct layer *layer)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    const char *title = next_word(reader);
    if (title == NULL)
        return bad(reader, "the name after \"as\" is missing");
    if (strlen(title) >= sizeof layer->title)
        return bad_word(reader, "name too long:", title);
    if (title[strspn(title, letters)] != '\0')
        return bad_word(reader, "a name for weights has only letters, digits, \"_\", \".\" and \"-\":", title);
    strcpy(layer->title, title);
    return true;
}

/* Options that may follow the numbers of a layer. */
enum { TAKES_RELU = 1, TAKES_WINDOW = 2, TAKES_BIAS = 4, TAKES_GROUPS = 8, TAKES_IMAGES = 16 };

/* If the next word is an activation other than relu, skip it and return true. */
static bool takes_activation(struct reader *reader)
{
    for (int i = 0; i < ACTIVATION_COUNT; i++)
        if (takes(reader, activation_text((enum activation)i))) {
            reader->activation = (enum activation)i;
            return true;
        }
    return false;
}

static bool read_options(struct reader *reader, struct layer *layer, unsigned allowed)
{
    while (reader->at < reader->word_count) {
        const char *word = reader->words[reader->at];
        if ((allowed & TAKES_RELU) && takes(reader, "relu")) {
            layer->has_relu = true;
        } else if ((allowed & TAKES_RELU) && reader->activation == ACTIVATION_COUNT && takes_activation(reader)) {
            continue;
        } else if ((allowed & TAKES_BIAS) && takes(reader, "nobias")) {
            layer->has_bias = false;
        } else if ((allowed & TAKES_WINDOW) && takes(reader, "stride")) {
            if (!number(reader, "the stride", 1, &layer->stride))
                return false;
        } else if ((allowed & TAKES_WINDOW) && takes(reader, "pad")) {
            if (!number(reader, "the padding", 0, &layer->pad))
                return false;
        } else if ((allowed & TAKES_GROUPS) && takes(reader, "groups")) {
            if (!number(reader, "the groups", 1, &layer->groups))
                return false;
        } else if ((allowed & TAKES_IMAGES) && takes(reader, "images")) {
            layer->drops_images = true;
        } else if (takes(reader, "from")) {
            const char *name = next_word(reader);
            if (name == NULL)
                return bad(reader, "the name after \"from\" is missing");
            if (!named(reader, name, &layer->from[0]))
                return false;
        } else if (takes(reader, "as")) {
            if (!read_title(reader, layer))
                return false;
        } else {
            return bad_word(reader, "unknown word:", word);
        }
    }
    return !layer->has_relu || reader->activation == ACTIVATION_COUNT || bad(reader, "more than one activation");
}

static bool slide(const struct reader *reader, size_t side, const struct layer *layer, size_t *ret)
{
    size_t padded = side + 2 * layer->pad;
    if (padded < layer->kernel)
        return bad(reader, "the window is larger than the padded image");
    if (layer->kernel > WINDOW_LIMIT)
        return bad(reader, "the window is wider than 255");
    if (layer->pad >= layer->kernel)
        return bad(reader, "the padding is not smaller than the window");
    *ret = (padded - layer->kernel) / layer->stride + 1;
    return true;
}

static bool slides(const struct reader *reader, struct layer *layer)
{
    return slide(reader, layer->in.height, layer, &layer->out.height) &&
           slide(reader, layer->in.width, layer, &layer->out.width);
}

static bool read_input(struct reader *reader, struct layer *layer)
{
    if (reader->model->layer_count != 0)
        return bad(reader, "only the first line may be the input");
    return number(reader, "channels", 1, &layer->out.channels) && number(reader, "the height", 1, &layer->out.height) &&
           number(reader, "the width", 1, &layer->out.width) && read_options(reader, layer, 0);
}

static bool read_conv(struct reader *reader, struct layer *layer)
{
    layer->has_bias = true;
    layer->stride = 1;
    layer->groups = 1;
    return number(reader, "channels", 1, &layer->out.channels) && number(reader, "the kernel", 1, &layer->kernel) &&
           read_options(reader, layer, TAKES_RELU | TAKES_WINDOW | TAKES_BIAS | TAKES_GROUPS);
}

static bool shape_conv(struct reader *reader, struct layer *layer)
{
    if (!slides(reader, layer))
        return false;
    if (layer->in.channels % layer->groups != 0 || layer->out.channels % layer->groups != 0)
        return because(reader->reason, "%s:%d: %zu groups do not divide %zu and %zu channels", reader->path,
                       reader->line, layer->groups, layer->in.channels, layer->out.channels);
    layer->weight_count = layer->out.channels * layer->kernel * layer->kernel * (layer->in.channels / layer->groups);
    layer->bias_count = layer->has_bias ? layer->out.channels : 0;
    return true;
}

static bool read_batchnorm(struct reader *reader, struct layer *layer)
{
    return read_options(reader, layer, TAKES_RELU);
}

static bool shape_batchnorm(struct reader *reader, struct layer *layer)
{
    (void)reader;
    layer->out = layer->in;
    layer->weight_count = layer->bias_count = layer->in.channels;
    return true;
}

static bool read_maxpool(struct reader *reader, struct layer *layer)
{
    if (!number(reader, "the window", 1, &layer->kernel))
        return false;
    layer->stride = layer->kernel;
    if (layer->kernel > 15)
        return bad(reader, "pooling windows are at most 15 wide");
    return read_options(reader, layer, TAKES_WINDOW);
}

static bool shape_maxpool(struct reader *reader, struct layer *layer)
{
    layer->out.channels = layer->in.channels;
    return slides(reader, layer);
}

static bool read_averagepool(struct reader *reader, struct layer *layer)
{
    return read_options(reader, layer, 0);
}

static bool shape_averagepool(struct reader *reader, struct layer *layer)
{
    (void)reader;
    layer->out = (struct shape){layer->in.channels, 1, 1};
    return true;
}

static bool read_add(struct reader *reader, struct layer *layer)
{
    const char *name = next_word(reader);
    if (name == NULL)
        return bad(reader, "the name after \"add\" is missing");
    return named(reader, name, &layer->from[1]) && read_options(reader, layer, TAKES_RELU);
}

static bool shape_add(struct reader *reader, struct layer *layer)
{
    struct shape a = layer->in, b = reader->model->layers[layer->from[1]].out;
    if (a.channels != b.channels || a.height != b.height || a.width != b.width)
        return because(reader->reason, "%s:%d: %zux%zux%zu cannot be added to %zux%zux%zu", reader->path, reader->line,
                       b.channels, b.height, b.width, a.channels, a.height, a.width);
    layer->out = a;
    return true;
}

static bool read_linear(struct reader *reader, struct layer *layer)
{
    layer->has_bias = true;
    return number(reader, "outputs", 1, &layer->out.channels) && read_options(reader, layer, TAKES_RELU | TAKES_BIAS);
}

static bool shape_linear(struct reader *reader, struct layer *layer)
{
    (void)reader;
    layer->out.height = layer->out.width = 1;
    layer->weight_count = layer->out.channels * shape_count(layer->in);
    layer->bias_count = layer->has_bias ? layer->out.channels : 0;
    return true;
}

static bool read_activation(struct reader *reader, struct layer *layer)
{
    if (!takes_activation(reader))
        return bad(reader, "the activation must be relu6, sigmoid, silu or hardswish");
    layer->activation = reader->activation;
    reader->activation = ACTIVATION_COUNT;
    return read_options(reader, layer, 0);
}

static bool shape_same(struct reader *reader, struct layer *layer)
{
    (void)reader;
    layer->out = layer->in;
    return true;
}

static bool read_multiply(struct reader *reader, struct layer *layer)
{
    const char *name = next_word(reader);
    if (name == NULL)
        return bad(reader, "the name after \"multiply\" is missing");
    return named(reader, name, &layer->from[1]) && read_options(reader, layer, TAKES_RELU);
}

static bool shape_multiply(struct reader *reader, struct layer *layer)
{
    struct shape by = layer->in, image = reader->model->layers[layer->from[1]].out;
    if (by.channels != image.channels || by.height != 1 || by.width != 1)
        return because(reader->reason, "%s:%d: %zux%zux%zu cannot be multiplied by %zux%zux%zu, only by %zux1x1",
                       reader->path, reader->line, image.channels, image.height, image.width, by.channels, by.height,
                       by.width, image.channels);
    layer->out = image;
    return true;
}

static bool read_dropout(struct reader *reader, struct layer *layer)
{
    const char *word = next_word(reader);
    char *end = NULL;
    layer->rate = word == NULL ? -1 : strtof(word, &end);
    if (word == NULL || end == word || *end != '\0' || !(layer->rate >= 0 && layer->rate < 1))
        return because(reader->reason, "%s:%d: the rate must be a number from 0 to less than 1, not \"%.64s\"",
                       reader->path, reader->line, word == NULL ? "" : word);
    return read_options(reader, layer, TAKES_IMAGES);
}

/* One row for each kind of layer, in the order of enum layer_kind. `read` parses its line; `shape` computes its
 * shape and parameter counts. */
static const struct {
    bool (*read)(struct reader *, struct layer *);
    bool (*shape)(struct reader *, struct layer *);
} kinds[] = {{read_input, NULL},
             {read_conv, shape_conv},
             {read_batchnorm, shape_batchnorm},
             {read_maxpool, shape_maxpool},
             {read_averagepool, shape_averagepool},
             {read_add, shape_add},
             {read_linear, shape_linear},
             {read_activation, shape_same},
             {read_multiply, shape_multiply},
             {read_dropout, shape_same}};
_Static_assert(sizeof kinds / sizeof *kinds == LAYER_KIND_COUNT, "a row for each");

static size_t aligned(size_t count)
{
    return (count + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static bool place_parameters(const struct reader *reader, struct layer *layer)
{
    struct model *model = reader->model;
    if (model->parameter_count + layer->weight_count + layer->bias_count > (size_t)1 << 31)
        return bad(reader, "more than 2^31 parameters");
    layer->weight_at = model->parameter_count;
    model->parameter_count += aligned(layer->weight_count);
    layer->bias_at = model->parameter_count;
    model->parameter_count += aligned(layer->bias_count);
    layer->statistics_at = model->statistics_count;
    if (layer->kind == LAYER_BATCHNORM)
        model->statistics_count += aligned(2 * layer->out.channels);
    return true;
}

static bool find_kind(const struct reader *reader, const char *word, enum layer_kind *ret)
{
    for (int kind = 0; kind < LAYER_KIND_COUNT; kind++)
        if (strcmp(word, layer_kind_text((enum layer_kind)kind)) == 0) {
            *ret = (enum layer_kind)kind;
            return true;
        }
    return bad_word(reader, "no such layer:", word);
}

/* Read the "NAME =" before a layer, if there is one. */
static bool read_name(struct reader *reader, char *name)
{
    if (reader->word_count < 2 || strcmp(reader->words[1], "=") != 0)
        return true;
    if (strlen(reader->words[0]) >= NAME_BYTES)
        return bad_word(reader, "name too long:", reader->words[0]);
    strcpy(name, reader->words[0]);
    reader->at = 2;
    return true;
}

/* Append the activation at the end of a line as a layer that reads the line's own layer. */
static void append_activation(struct reader *reader)
{
    struct model *model = reader->model;
    const struct layer *before = &model->layers[model->layer_count - 1];
    struct layer layer = {.kind = LAYER_ACTIVATION,
                          .from = {model->layer_count - 1, 0},
                          .in = before->out,
                          .out = before->out,
                          .activation = reader->activation,
                          .weight_at = model->parameter_count,
                          .bias_at = model->parameter_count,
                          .statistics_at = model->statistics_count,
                          .segment = reader->segment,
                          .line = reader->line};
    reader->is_read[model->layer_count - 1] = true;
    model->layers[model->layer_count++] = layer;
}

static bool read_layer(struct reader *reader)
{
    struct model *model = reader->model;
    struct layer layer = {.line = reader->line, .segment = reader->segment};
    char name[NAME_BYTES] = "";
    size_t above = model->layer_count - 1; /* the layer on the line above, which this layer reads if it has no "from" */
    layer.from[0] = SIZE_MAX;
    reader->activation = ACTIVATION_COUNT;
    if (!read_name(reader, name))
        return false;
    const char *word = next_word(reader);
    if (word == NULL)
        return bad(reader, "a name without a layer");
    if (!find_kind(reader, word, &layer.kind))
        return false;
    if (model->layer_count == 0 && layer.kind != LAYER_INPUT)
        return bad(reader, "the first line must be the input");
    if (model->layer_count + 2 > LAYERS_MAX) /* a line makes up to two layers */
        return bad(reader, "too many layers");
    if (!kinds[layer.kind].read(reader, &layer))
        return false;
    if (layer.kind == LAYER_INPUT) {
        layer.from[0] = 0;
    } else {
        if (layer.from[0] == SIZE_MAX)
            layer.from[0] = above;
        reader->is_read[layer.from[0]] = true;
        layer.in = model->layers[layer.from[0]].out;
        if (!kinds[layer.kind].shape(reader, &layer))
            return false;
    }
    if (shape_count(layer.out) > (size_t)1 << 31)
        return bad(reader, "more than 2^31 numbers per image");
    if (!place_parameters(reader, &layer))
        return false;
    model->layers[model->layer_count++] = layer;
    if (reader->activation != ACTIVATION_COUNT)
        append_activation(reader);
    memcpy(reader->names[model->layer_count - 1], name, sizeof name);
    return true;
}

/* ---- the file ---- */

static bool read_lines(struct reader *reader, FILE *file)
{
    char line[LINE_BYTES];
    while (fgets(line, sizeof line, file) != NULL) {
        reader->line++;
        if (strlen(line) == sizeof line - 1)
            return bad(reader, "line too long");
        if (!split(reader, line))
            return false;
        if (reader->word_count == 0)
            continue;
        if (reader->word_count == 1 && takes(reader, "segment"))
            reader->segment += reader->model->layer_count > 1 &&
                               reader->model->layers[reader->model->layer_count - 1].segment == reader->segment;
        else if (!read_layer(reader))
            return false;
    }
    return !ferror(file) || bad(reader, strerror(errno));
}

/* Check the rules that concern the whole model. */
static bool check(const struct reader *reader)
{
    const struct model *model = reader->model;
    if (model->layer_count < 2)
        return because(reader->reason, "%s: no layers", reader->path);
    const struct layer *last = &model->layers[model->layer_count - 1];
    for (size_t i = 0; i + 1 < model->layer_count; i++)
        if (!reader->is_read[i])
            return because(reader->reason, "%s:%d: no line uses the output of this one", reader->path,
                           model->layers[i].line);
    if (last->out.height != 1 || last->out.width != 1 || last->out.channels < 2)
        return because(reader->reason, "%s:%d: the last line must give two or more classes, not %zux%zux%zu",
                       reader->path, last->line, last->out.channels, last->out.height, last->out.width);
    if (last->has_relu)
        return because(reader->reason, "%s:%d: the last line must not have a ReLU", reader->path, last->line);
    if (last->kind == LAYER_ACTIVATION)
        return because(reader->reason, "%s:%d: the last line must not have an activation", reader->path, last->line);
    return model->parameter_count > 0 || because(reader->reason, "%s: no parameters to train", reader->path);
}

static void take_name(struct model *model, const char *path)
{
    const char *base = strrchr(path, '/');
    base = base != NULL ? base + 1 : path;
    snprintf(model->name, sizeof model->name, "%.*s", (int)strcspn(base, "."), base);
}

bool model_read(const char *path, struct model *ret_model, struct reason *reason)
{
    struct model model = {.layers = calloc(LAYERS_MAX, sizeof *model.layers)};
    struct reader reader = {.path = path,
                            .reason = reason,
                            .names = calloc(LAYERS_MAX, sizeof *reader.names),
                            .is_read = calloc(LAYERS_MAX, sizeof *reader.is_read),
                            .model = &model};
    FILE *file = NULL;
    bool is_good = false;
    if (model.layers == NULL || reader.names == NULL || reader.is_read == NULL) {
        because(reason, "no memory for a model");
        goto out;
    }
    file = fopen(path, "re");
    if (file == NULL) {
        because(reason, "%s: %s", path, strerror(errno));
        goto out;
    }
    if (!read_lines(&reader, file) || !check(&reader))
        goto out;
    take_name(&model, path);
    model.class_count = model.layers[model.layer_count - 1].out.channels;
    model.segment_count = model.layers[model.layer_count - 1].segment + 1;
    *ret_model = model;
    model.layers = NULL; /* the caller owns the layers now */
    is_good = true;
out:
    if (file != NULL)
        fclose(file);
    free(reader.names);
    free(reader.is_read);
    free(model.layers);
    return is_good;
}

void model_clear(struct model *model)
{
    free(model->layers);
    *model = (struct model){0};
}

size_t model_parameters(const struct model *model)
{
    size_t count = 0;
    for (size_t i = 0; i < model->layer_count; i++)
        count += model->layers[i].weight_count + model->layers[i].bias_count;
    return count;
}

/* ---- initial values ---- */

/* True if the layer has a ReLU, or if a batch normalisation or a similar activation reads its output. The batch
 * normalisation usually has a ReLU or is followed by one. */
static bool feeds_relu(const struct model *model, size_t index)
{
    if (model->layers[index].has_relu)
        return true;
    for (size_t i = index + 1; i < model->layer_count; i++)
        if (model->layers[i].from[0] == index &&
            (model->layers[i].kind == LAYER_BATCHNORM ||
             (model->layers[i].kind == LAYER_ACTIVATION && model->layers[i].activation != ACTIVATION_SIGMOID)))
            return true;
    return false;
}

static void begin_layer(const struct model *model, size_t index, uint64_t *state, float *parameters)
{
    const struct layer *layer = &model->layers[index];
    if (layer->kind == LAYER_BATCHNORM) {
        for (size_t i = 0; i < layer->weight_count; i++)
            parameters[layer->weight_at + i] = 1;
        return;
    }
    if (layer->weight_count == 0)
        return;
    float inputs = (float)(layer->weight_count / layer->out.channels);
    float deviation = sqrtf(2 / inputs), bound = 1 / sqrtf(inputs);
    bool is_normal = feeds_relu(model, index);
    for (size_t i = 0; i < layer->weight_count; i++)
        parameters[layer->weight_at + i] =
            is_normal ? deviation * random_normal(state) : bound * (2 * random_unit(state) - 1);
}

void model_begin(const struct model *model, uint64_t seed, float *parameters, float *statistics)
{
    uint64_t state = seed;
    memset(parameters, 0, model->parameter_count * sizeof *parameters);
    if (model->statistics_count != 0)
        memset(statistics, 0, model->statistics_count * sizeof *statistics);
    for (size_t i = 0; i < model->layer_count; i++) {
        const struct layer *layer = &model->layers[i];
        begin_layer(model, i, &state, parameters);
        for (size_t c = 0; layer->kind == LAYER_BATCHNORM && c < layer->out.channels; c++)
            statistics[layer->statistics_at + layer->out.channels + c] = 1;
    }
}

void model_decayed(const struct model *model, uint8_t *ret)
{
    memset(ret, 0, model_decayed_count(model));
    for (size_t i = 0; i < model->layer_count; i++) {
        const struct layer *layer = &model->layers[i];
        if (layer->kind != LAYER_BATCHNORM)
            memset(ret + layer->weight_at / ALIGNMENT, 1, (layer->weight_count + ALIGNMENT - 1) / ALIGNMENT);
    }
}
