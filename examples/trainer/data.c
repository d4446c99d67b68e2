/* Reads or generates data sets.
 *
 * Each class of a synthetic data set has a tile, a pattern of coloured squares. An image repeats the tile of its class,
 * plus noise from a table. Each row reads the table from a random start. One thread can generate such images fast
 * enough for a fast GPU. Any network can learn to classify them. */
#include "data.h"

#include "picture_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TILE = 16, SQUARE = 4, SQUARES = TILE / SQUARE, NOISE_COUNT = 1 << 16 };
static const float noise_level = 1.0f;

struct data {
    struct data_options options;
    size_t counts[PART_COUNT];
    struct pictures pictures[PART_COUNT]; /* set only if the images come from files */
    /* owned; normalised value of each possible byte, per channel; NULL: the set is synthetic */
    float (*values)[256];
    /* owned; TILE x TILE x channels for each class; NULL: the images come from files */
    float *tiles;
    float *noise; /* owned; NOISE_COUNT values and enough for one more row, so that no row reads past the end */
};

/* Return a random number for item `index` of kind `what`. The same arguments always give the same number. */
static uint64_t draw(uint64_t seed, uint64_t what, uint64_t index)
{
    uint64_t state = seed ^ what * 0xD1342543DE82EF95 ^ index * 0xAF251AF3B0F025B5;
    random_next(&state);
    return random_next(&state);
}
enum { DRAW_LABEL = 1, DRAW_LOT, DRAW_NOISE, DRAW_TILES, DRAW_TABLE, DRAW_ORDER };

/* ---- synthetic ---- */

static size_t row_count(const struct data *data)
{
    return data->options.shape.width * data->options.shape.channels;
}

static void make_tile(float *tile, size_t channels, uint64_t *state)
{
    float squares[SQUARES * SQUARES];
    for (size_t channel = 0; channel < channels; channel++) {
        float colour = random_normal(state) * 0.5f;
        for (size_t i = 0; i < SQUARES * SQUARES; i++)
            squares[i] = random_normal(state);
        for (size_t y = 0; y < TILE; y++)
            for (size_t x = 0; x < TILE; x++)
                tile[(y * TILE + x) * channels + channel] =
                    /* the squares have the same variance as the noise */
                    colour + squares[y / SQUARE * SQUARES + x / SQUARE];
    }
}

static bool open_synthetic(struct data *data, struct reason *reason)
{
    const struct data_options *options = &data->options;
    size_t channels = options->shape.channels, tile_count = TILE * TILE * channels;
    if (options->image_count == 0 || options->image_count > DATA_IMAGES_MAX)
        return because(reason, "synthetic data: %zu images; 1 to %d are allowed", options->image_count,
                       DATA_IMAGES_MAX);
    data->tiles = calloc(options->class_count, tile_count * sizeof(float));
    data->noise = malloc((NOISE_COUNT + row_count(data)) * sizeof(float));
    if (data->tiles == NULL || data->noise == NULL)
        return because(reason, "synthetic data: no host memory");
    uint64_t state = draw(options->seed, DRAW_TILES, 0);
    for (size_t i = 0; i < options->class_count; i++)
        make_tile(data->tiles + i * tile_count, channels, &state);
    state = draw(options->seed, DRAW_TABLE, 0);
    for (size_t i = 0; i < NOISE_COUNT + row_count(data); i++)
        data->noise[i] = noise_level * random_normal(&state);
    data->counts[PART_TRAIN] = options->image_count;
    data->counts[PART_TEST] = options->image_count < 5 ? 1 : options->image_count / 5;
    return true;
}

static void make_row(const float *tile_row, const float *noise, size_t tile_count, size_t count, float *ret)
{
    for (size_t at = 0; at < count; at += tile_count) {
        size_t end = count - at < tile_count ? count - at : tile_count;
        for (size_t i = 0; i < end; i++)
            ret[at + i] = tile_row[i] + noise[at + i];
    }
}

/* Generate synthetic image `number`. The numbers of the test images follow those of the training images. */
static void make_image(const struct data *data, uint64_t number, float *ret_image, int32_t *ret_label)
{
    const struct shape *shape = &data->options.shape;
    size_t label = draw(data->options.seed, DRAW_LABEL, number) % data->options.class_count;
    size_t tile_row = TILE * shape->channels, row = row_count(data);
    uint64_t state = draw(data->options.seed, DRAW_NOISE, number);
    for (size_t y = 0; y < shape->height; y++)
        make_row(data->tiles + (label * TILE + y % TILE) * tile_row, data->noise + random_next(&state) % NOISE_COUNT,
                 tile_row, row, ret_image + y * row);
    *ret_label = (int32_t)label;
}

/* ---- files ---- */

/* Compute the normalised value of each possible byte, per channel: subtract the mean of the training images, and divide
 * by their standard deviation. */
static bool make_values(struct data *data, struct reason *reason)
{
    const struct pictures *train = &data->pictures[PART_TRAIN];
    size_t channels = train->shape.channels, count = train->count * train->shape.height * train->shape.width;
    data->values = calloc(channels, sizeof *data->values);
    if (data->values == NULL)
        return because(reason, "%s: no host memory", data->options.source);
    for (size_t channel = 0; channel < channels; channel++) {
        uint64_t seen[256] = {0};
        double sum = 0, squares = 0;
        for (size_t i = 0; i < count; i++)
            seen[train->pixels[i * channels + channel]]++;
        for (int byte = 0; byte < 256; byte++) {
            sum += (double)seen[byte] * byte;
            squares += (double)seen[byte] * byte * byte;
        }
        double mean = sum / (double)count, variance = squares / (double)count - mean * mean;
        for (int byte = 0; byte < 256; byte++)
            data->values[channel][byte] = (float)((byte - mean) / sqrt(variance < 1 ? 1 : variance));
    }
    return true;
}

static bool fits_model(const struct data *data, const char *part, const struct pictures *pictures,
                       struct reason *reason)
{
    const struct shape *is = &pictures->shape, *wants = &data->options.shape;
    if (is->height == wants->height && is->width == wants->width &&
        (is->channels == wants->channels || is->channels == 1))
        return true;
    return because(reason, "%s: the %s images have %zu channels of %zux%zu, but the model takes %zu of %zux%zu",
                   data->options.source, part, is->channels, is->height, is->width, wants->channels, wants->height,
                   wants->width);
}

static bool open_files(struct data *data, const char *folder,
                       bool (*read)(const char *, enum part, struct pictures *, struct reason *), struct reason *reason)
{
    enum { CLASSES = 10 };
    if (data->options.class_count < CLASSES)
        return because(reason, "%s: %d classes, but the model has %zu", data->options.source, CLASSES,
                       data->options.class_count);
    for (enum part part = 0; part < PART_COUNT; part++) {
        if (!read(folder, part, &data->pictures[part], reason) ||
            !fits_model(data, part == PART_TRAIN ? "training" : "test", &data->pictures[part], reason))
            return false;
        data->counts[part] = data->pictures[part].count;
    }
    return make_values(data, reason);
}

void data_file_image(const struct data *data, const struct pictures *pictures, size_t index, float *ret_image,
                     int32_t *ret_label)
{
    size_t channels = pictures->shape.channels, copies = data->options.shape.channels / channels;
    size_t count = shape_count(pictures->shape);
    const uint8_t *pixels = pictures->pixels + index * count;
    for (size_t i = 0; i < count; i += channels)
        for (size_t channel = 0; channel < channels; channel++)
            for (size_t copy = 0; copy < copies; copy++)
                *ret_image++ = data->values[channel][pixels[i + channel]];
    *ret_label = pictures->labels == NULL ? 0 : pictures->labels[index];
}

bool data_read_file(const struct data *data, const char *path, struct pictures *ret, struct reason *reason)
{
    struct pictures pictures = {0};
    if (data->values == NULL)
        return because(reason, "%s: the images of a file cannot be normalised like %s images", path,
                       data->options.source);
    if (!picture_file_read(path, &pictures, reason))
        return false;
    const struct shape *is = &pictures.shape, *set = &data->pictures[PART_TRAIN].shape;
    if (is->channels != set->channels || is->height != set->height || is->width != set->width) {
        because(reason, "%s: images with %zu channels of %zux%zu, but those of %s have %zu of %zux%zu", path,
                is->channels, is->width, is->height, data->options.source, set->channels, set->width, set->height);
        pictures_clear(&pictures);
        return false;
    }
    *ret = pictures;
    return true;
}

const char *data_class_name(const struct data *data, size_t class)
{
    /* in the order of batches.meta.txt, which belongs to the data set */
    static const char *const cifar10[] = {"airplane", "automobile", "bird",  "cat",  "deer",
                                          "dog",      "frog",       "horse", "ship", "truck"};
    bool has_names = strncmp(data->options.source, "cifar10:", 8) == 0;
    return has_names && class < sizeof cifar10 / sizeof *cifar10 ? cifar10[class] : NULL;
}

/* ---- a set ---- */

static bool open_source(struct data *data, struct reason *reason)
{
    const char *source = data->options.source;
    if (strcmp(source, "synthetic") == 0)
        return open_synthetic(data, reason);
    if (strncmp(source, "mnist:", 6) == 0)
        return open_files(data, source + 6, pictures_read_mnist, reason);
    if (strncmp(source, "cifar10:", 8) == 0)
        return open_files(data, source + 8, pictures_read_cifar10, reason);
    return because(reason, "unknown data \"%.100s\"; use synthetic, mnist:FOLDER or cifar10:FOLDER", source);
}

bool data_open(const struct data_options *options, struct data **ret_data, struct reason *reason)
{
    struct data *data = calloc(1, sizeof *data);
    if (data == NULL)
        return because(reason, "data: no host memory");
    data->options = *options;
    if (!open_source(data, reason)) {
        data_close(data);
        return false;
    }
    *ret_data = data;
    return true;
}

void data_close(struct data *data)
{
    if (data == NULL)
        return;
    for (enum part part = 0; part < PART_COUNT; part++)
        pictures_clear(&data->pictures[part]);
    free(data->values);
    free(data->tiles);
    free(data->noise);
    free(data);
}

size_t data_count(const struct data *data, enum part part)
{
    return data->counts[part];
}

void data_image(const struct data *data, enum part part, size_t index, float *ret_image, int32_t *ret_label)
{
    if (data->tiles != NULL)
        make_image(data, part == PART_TRAIN ? index : data->counts[PART_TRAIN] + index, ret_image, ret_label);
    else
        data_file_image(data, &data->pictures[part], index, ret_image, ret_label);
    if (data->options.labels_are_lot && part == PART_TRAIN)
        *ret_label = (int32_t)(draw(data->options.seed, DRAW_LOT, index) % data->options.class_count);
}

void data_order(uint64_t seed, uint64_t epoch, size_t count, uint32_t *order)
{
    uint64_t state = draw(seed, DRAW_ORDER, epoch);
    for (size_t i = 0; i < count; i++) {
        size_t at = random_next(&state) % (i + 1); /* Fisher-Yates shuffle, inside out */
        if (at != i)
            order[i] = order[at];
        order[at] = (uint32_t)i;
    }
}
