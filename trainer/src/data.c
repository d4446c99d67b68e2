/* Reads or generates data sets.
 *
 * Each class of a synthetic data set has a tile, a pattern of coloured squares. An image repeats the tile of its class,
 * plus noise from a table. Each row reads the table from a random start. One thread can generate such images fast
 * enough for a fast GPU. Any network can learn to classify them. */
#include "data.h"

#include "picture_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { TILE = 16, SQUARE = 4, SQUARES = TILE / SQUARE, NOISE_COUNT = 1 << 16, SIDE_MAX = 16384 };
static const float noise_level = 1.0f;

/* Normalisation of a channel. */
struct norm {
    float mean, factor; /* a number x becomes (x - mean) * factor */
    float values[256];  /* what each possible byte becomes */
};

struct data {
    struct data_options options;
    size_t counts[PART_COUNT];
    struct pictures pictures[PART_COUNT]; /* set only if the images come from files */
    struct norm *norms; /* owned; one per channel of the training images; NULL: the set is synthetic */
    size_t norm_count;
    /* owned; TILE x TILE x channels for each class; NULL: the images come from files */
    float *tiles;
    struct augment augment;
    bool is_changed;                    /* there is a change in `augment` */
    float *black;                       /* owned; normalised value of black for each channel of the model's input */
    struct folder *folders[PART_COUNT]; /* owned; NULL: the images do not come from image files, or there are none */
    char *identity;                     /* owned */
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

/* Return the sums over the values of a channel of 1, x and x * x. */
static void add_up(const struct pictures *pictures, size_t channel, double sums[3])
{
    size_t channels = pictures->shape.channels, count = pictures->count * shape_count(pictures->shape);
    uint64_t seen[256] = {0};
    sums[0] = (double)(count / channels);
    sums[1] = sums[2] = 0;
    if (pictures->reals != NULL) {
        for (size_t i = channel; i < count; i += channels) {
            sums[1] += pictures->reals[i];
            sums[2] += (double)pictures->reals[i] * pictures->reals[i];
        }
        return;
    }
    for (size_t i = channel; i < count; i += channels)
        seen[pictures->pixels[i]]++;
    for (int byte = 0; byte < 256; byte++) {
        sums[1] += (double)seen[byte] * byte;
        sums[2] += (double)seen[byte] * byte * byte;
    }
}

/* Return the mean and the deviation of a channel. If all values are almost equal, the deviation is 1. */
static void measure(const struct pictures *pictures, size_t channel, double *ret_mean, double *ret_deviation)
{
    double sums[3], least = pictures->reals != NULL ? 1e-12 : 1;
    add_up(pictures, channel, sums);
    *ret_mean = sums[1] / sums[0];
    double variance = sums[2] / sums[0] - *ret_mean * *ret_mean;
    *ret_deviation = variance < least ? 1 : sqrt(variance);
}

static void set_norm(struct norm *norm, double mean, double deviation)
{
    *norm = (struct norm){.mean = (float)mean, .factor = (float)(1 / deviation)};
    for (int byte = 0; byte < 256; byte++)
        norm->values[byte] = (float)((byte - mean) / deviation);
}

/* Set the normalisation of each channel: subtract the mean of the training images, and divide by their standard
 * deviation. */
static bool make_norms(struct data *data, struct reason *reason)
{
    const struct pictures *train = &data->pictures[PART_TRAIN];
    data->norm_count = train->shape.channels;
    data->norms = calloc(train->shape.channels, sizeof *data->norms);
    if (data->norms == NULL)
        return because(reason, "%s: no host memory", data->options.source);
    for (size_t channel = 0; channel < train->shape.channels; channel++) {
        double mean, deviation;
        measure(train, channel, &mean, &deviation);
        set_norm(&data->norms[channel], mean, deviation);
    }
    return true;
}

static bool fits_model(const struct data *data, const char *source, const char *part, const struct pictures *pictures,
                       struct reason *reason)
{
    const struct shape *is = &pictures->shape, *wants = &data->options.shape;
    if (is->height == wants->height && is->width == wants->width &&
        (is->channels == wants->channels || is->channels == 1))
        return true;
    return because(reason, "%s: the %s images have %zu channels of %zux%zu, but the model takes %zu of %zux%zu", source,
                   part, is->channels, is->height, is->width, wants->channels, wants->height, wants->width);
}

/* A kind of files: how to read it from a folder with both parts, and from a pair of files; NULL: not possible. */
static const struct kind {
    const char *prefix;
    size_t classes; /* 0: any number */
    bool (*read)(const char *folder, enum part part, size_t class_count, struct pictures *ret, struct reason *reason);
    bool (*read_pair)(const char *pair, size_t class_count, struct pictures *ret, struct reason *reason);
} kinds[] = {
    {"mnist:", 10, pictures_read_mnist, NULL},
    {"cifar10:", 10, pictures_read_cifar10, NULL},
    {"cifar100:", 100, pictures_read_cifar100, NULL},
    {"idx:", 0, NULL, pictures_read_idx_pair},
    {"npy:", 0, pictures_read_npy, pictures_read_npy_pair},
};

static const char images_prefix[] = "images:";

const char *data_sources(void)
{
    return "synthetic, mnist:FOLDER (or Fashion-MNIST), cifar10:FOLDER, cifar100:FOLDER, idx:IMAGES,LABELS, "
           "npy:FOLDER, npy:IMAGES,LABELS, images:FOLDER (JPEG and PNG, a sub-folder for each class)";
}

/* Return the kind of a source, and the text after its prefix; NULL: unknown. */
static const struct kind *kind_of(const char *source, const char **ret_place)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strncmp(source, kinds[i].prefix, strlen(kinds[i].prefix)) == 0) {
            *ret_place = source + strlen(kinds[i].prefix);
            return &kinds[i];
        }
    return NULL;
}

/* Read a part from a source. A pair of files is only the part for which it was given. */
static bool open_part(struct data *data, const char *source, enum part part, bool is_own, struct reason *reason)
{
    const char *place;
    const struct kind *kind = kind_of(source, &place);
    struct pictures *pictures = &data->pictures[part];
    size_t class_count = data->options.class_count;
    if (kind == NULL)
        return because(reason, "unknown data \"%.100s\"; use %s", source, data_sources());
    if (class_count < kind->classes)
        return because(reason, "%s: %zu classes, but the model has %zu", source, kind->classes, class_count);
    bool is_pair = kind->read == NULL || (kind->read_pair != NULL && strchr(place, ',') != NULL);
    if (is_pair && !is_own)
        return true; /* there are no test images */
    if (!(is_pair ? kind->read_pair(place, class_count, pictures, reason)
                  : kind->read(place, part, class_count, pictures, reason)) ||
        !fits_model(data, source, part == PART_TRAIN ? "training" : "test", pictures, reason))
        return false;
    data->counts[part] = pictures->count;
    return true;
}

static bool open_pictures(struct data *data, struct reason *reason)
{
    const char *source = data->options.source, *test = data->options.test_source;
    if (!open_part(data, source, PART_TRAIN, true, reason) ||
        !open_part(data, test != NULL ? test : source, PART_TEST, test != NULL, reason))
        return false;
    const struct pictures *parts = data->pictures;
    if (parts[PART_TEST].count != 0 && (parts[PART_TRAIN].shape.channels != parts[PART_TEST].shape.channels ||
                                        (parts[PART_TRAIN].reals == NULL) != (parts[PART_TEST].reals == NULL)))
        return because(reason,
                       "%s: the test images have other numbers of channels or other types than the training images",
                       test != NULL ? test : source);
    return make_norms(data, reason);
}

void data_file_image(const struct data *data, const struct pictures *pictures, size_t index, float *ret_image,
                     int32_t *ret_label)
{
    size_t channels = pictures->shape.channels, copies = data->options.shape.channels / channels;
    size_t count = shape_count(pictures->shape), end = (index + 1) * count;
    for (size_t i = index * count; i < end; i += channels)
        for (size_t channel = 0; channel < channels; channel++) {
            const struct norm *norm = &data->norms[channel];
            float value = pictures->reals != NULL ? (pictures->reals[i + channel] - norm->mean) * norm->factor
                                                  : norm->values[pictures->pixels[i + channel]];
            for (size_t copy = 0; copy < copies; copy++)
                *ret_image++ = value;
        }
    *ret_label = pictures->labels != NULL ? pictures->labels[index] : 0;
}

/* ---- image files ---- */

static size_t default_resize(const struct shape *shape)
{
    return (shape->width < shape->height ? shape->width : shape->height) * 8 / 7;
}

static size_t resize_of(const struct data *data)
{
    return data->options.resize != 0 ? data->options.resize : default_resize(&data->options.shape);
}

/* Find the folder of a part: a sub-folder of `root` with one of the names, or `root` itself (`is_whole`). Returns false
 * if there is none. */
static bool find_folder(const char *root, enum part part, bool is_whole, char *ret, size_t bytes)
{
    static const char *const names[PART_COUNT][2] = {{"train", NULL}, {"val", "test"}};
    struct stat about;
    for (int i = 0; i < 2 && names[part][i] != NULL; i++)
        if (snprintf(ret, bytes, "%s/%s", root, names[part][i]) < (int)bytes && stat(ret, &about) == 0 &&
            S_ISDIR(about.st_mode))
            return true;
    return is_whole && snprintf(ret, bytes, "%s", root) < (int)bytes;
}

static bool open_folder(struct data *data, const char *source, enum part part, bool is_whole, struct reason *reason)
{
    const struct data_options *options = &data->options;
    size_t shorter = options->shape.width < options->shape.height ? options->shape.width : options->shape.height;
    char path[4096];
    struct folder_options folder_options = {.path = path,
                                            .shape = options->shape,
                                            .resize = resize_of(data),
                                            .class_count = options->class_count,
                                            .others = part == PART_TRAIN ? NULL : data->folders[PART_TRAIN],
                                            .skips_damaged = options->skips_damaged,
                                            .threads = options->threads};
    if (strncmp(source, images_prefix, strlen(images_prefix)) != 0)
        return because(reason, "%s: the test images must be images:FOLDER, like the training images", source);
    if (folder_options.resize < shorter || folder_options.resize > SIDE_MAX)
        return because(reason, "images are resized to %zu to %d, because the model takes %zux%zu; not to %zu", shorter,
                       SIDE_MAX, options->shape.width, options->shape.height, folder_options.resize);
    if (options->shape.channels != 1 && options->shape.channels != 3)
        return because(reason, "%s: images have 1 or 3 channels, but the model takes %zu", source,
                       options->shape.channels);
    if (!find_folder(source + strlen(images_prefix), part, is_whole, path, sizeof path))
        return true; /* there are no test images */
    if (!folder_open(&folder_options, &data->folders[part], reason))
        return false;
    data->counts[part] = folder_count(data->folders[part]);
    return true;
}

static bool open_folders(struct data *data, struct reason *reason)
{
    const char *source = data->options.source, *test = data->options.test_source;
    size_t channels = data->options.shape.channels;
    if (!open_folder(data, source, PART_TRAIN, true, reason) ||
        !open_folder(data, test != NULL ? test : source, PART_TEST, test != NULL, reason))
        return false;
    data->norm_count = channels;
    data->norms = calloc(channels, sizeof *data->norms);
    for (size_t channel = 0; data->norms != NULL && channel < channels; channel++) {
        double mean, deviation;
        folder_normal(channel, channels, &mean, &deviation);
        set_norm(&data->norms[channel], mean, deviation);
    }
    return data->norms != NULL || because(reason, "%s: no host memory", source);
}

/* ---- files that are not part of the set ---- */

/* Decode a JPEG or PNG file. */
static bool decode_file(const struct data *data, const char *path, const struct bytes *bytes, struct pictures *pictures,
                        struct reason *reason)
{
    bool is_cut = data->folders[PART_TRAIN] != NULL; /* otherwise, the size must be right */
    struct shape shape = data->options.shape;
    struct probe_file file = {.name = path, .bytes = bytes->count, .data = bytes->data, .fd = -1};
    struct probe probe;
    shape.channels = data->norm_count;
    if (!probe_image(&file, &probe, reason))
        return false;
    if (!is_cut && (probe.width != shape.width || probe.height != shape.height))
        return because(reason, "%s: an image of %zux%zu, but the model takes %zux%zu", path, probe.height, probe.width,
                       shape.height, shape.width);
    size_t shorter = shape.width < shape.height ? shape.width : shape.height;
    *pictures = (struct pictures){.shape = shape, .count = 1, .reals = malloc(shape_count(shape) * sizeof(float))};
    return (pictures->reals != NULL || because(reason, "%s: no host memory for its pixels", path)) &&
           folder_decode(path, bytes, &shape, is_cut ? resize_of(data) : shorter, NULL, NULL, pictures->reals, reason);
}

/* The set's mean and deviation are those of values from 0 to 255, or of any numbers. So the file must have the same
 * type. */
static bool same_type(const struct data *data, const char *path, bool is_fp32, struct reason *reason)
{
    bool wants_fp32 = data->pictures[PART_TRAIN].reals != NULL;
    return is_fp32 == wants_fp32 ||
           because(reason, "%s: the values are %s, but those of %s are %s", path, is_fp32 ? "fp32" : "bytes",
                   data->options.source, wants_fp32 ? "fp32" : "bytes");
}

static bool parse_file(const struct data *data, const char *path, const struct bytes *bytes, struct pictures *pictures,
                       struct reason *reason)
{
    const uint8_t *begin = bytes->data;
    if (bytes->count >= 3 && (memcmp(begin, "\xff\xd8\xff", 3) == 0 || memcmp(begin, "\x89PN", 3) == 0))
        return same_type(data, path, false, reason) && decode_file(data, path, bytes, pictures, reason);
    return picture_file_parse(path, bytes, pictures, reason) && same_type(data, path, pictures->reals != NULL, reason);
}

bool data_read_file(const struct data *data, const char *path, struct pictures *ret, struct reason *reason)
{
    struct pictures pictures = {0};
    struct bytes bytes;
    if (data->norms == NULL)
        return because(reason, "%s: the images of a file cannot be normalised like %s images", path,
                       data->options.source);
    if (!bytes_read(path, 1ull << 30, &bytes, reason))
        return false;
    bool is_read =
        parse_file(data, path, &bytes, &pictures, reason) && fits_model(data, path, "file's", &pictures, reason);
    bytes_clear(&bytes);
    if (is_read && pictures.shape.channels != data->norm_count)
        is_read = because(reason, "%s: %zu channels, but the images of %s have %zu", path, pictures.shape.channels,
                          data->options.source, data->norm_count);
    if (!is_read) {
        pictures_clear(&pictures);
        return false;
    }
    *ret = pictures;
    return true;
}

/* ---- a set ---- */

static bool open_source(struct data *data, struct reason *reason)
{
    const char *source = data->options.source;
    if (strncmp(source, images_prefix, strlen(images_prefix)) == 0)
        return open_folders(data, reason);
    if (data->options.resize != 0 || data->augment.has[CHANGE_ZOOM])
        return because(reason, "%s: only image files (images:FOLDER) can be resized or zoomed", source);
    if (strcmp(source, "synthetic") != 0)
        return open_pictures(data, reason);
    if (data->options.test_source != NULL)
        return because(reason, "synthetic data has its own test images: other ones are not possible");
    return open_synthetic(data, reason);
}

static bool set_black(struct data *data, struct reason *reason)
{
    size_t channels = data->options.shape.channels;
    data->black = calloc(channels, sizeof *data->black);
    if (data->black == NULL)
        return because(reason, "data: no host memory");
    for (size_t channel = 0; channel < channels; channel++) {
        if (data->norms != NULL) {
            const struct norm *norm = &data->norms[channel % data->norm_count];
            data->black[channel] = -norm->mean * norm->factor;
        }
    }
    return true;
}

static bool set_identity(struct data *data, struct reason *reason)
{
    const struct data_options *options = &data->options;
    char texts[3][300] = {"", "", ""};
    if (options->augment != NULL && *options->augment != '\0')
        snprintf(texts[0], sizeof texts[0], ", augment %.200s", options->augment);
    if (data->folders[PART_TRAIN] != NULL)
        /* 0 stands for the default, also if it was given */
        snprintf(texts[1], sizeof texts[1], ", resize %zu, files %08x",
                 resize_of(data) == default_resize(&options->shape) ? 0 : options->resize,
                 folder_sum(data->folders[PART_TRAIN]));
    if (options->labels_are_lot)
        snprintf(texts[2], sizeof texts[2], " by lot");
    if (asprintf(&data->identity, "%s%s%s%s", options->source, texts[2], texts[0], texts[1]) >= 0)
        return true;
    data->identity = NULL;
    return because(reason, "data: no host memory");
}

bool data_open(const struct data_options *options, struct data **ret_data, struct reason *reason)
{
    struct data *data = calloc(1, sizeof *data);
    if (data == NULL)
        return because(reason, "data: no host memory");
    data->options = *options;
    data->is_changed = options->augment != NULL && *options->augment != '\0';
    if (!augment_parse(options->augment, &data->augment, reason) || !open_source(data, reason) ||
        !set_black(data, reason) || !set_identity(data, reason)) {
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
    for (enum part part = 0; part < PART_COUNT; part++) {
        pictures_clear(&data->pictures[part]);
        folder_close(data->folders[part]);
    }
    free(data->black);
    free(data->identity);
    free(data->norms);
    free(data->tiles);
    free(data->noise);
    free(data);
}

size_t data_count(const struct data *data, enum part part)
{
    return data->counts[part];
}

bool data_decodes(const struct data *data)
{
    return data->folders[PART_TRAIN] != NULL;
}

const char *data_identity(const struct data *data)
{
    return data->identity;
}

bool data_next_note(const struct data *data, char *ret_line, size_t line_bytes)
{
    for (enum part part = 0; part < PART_COUNT; part++)
        if (data->folders[part] != NULL && folder_next_note(data->folders[part], ret_line, line_bytes))
            return true;
    return false;
}

size_t data_damaged(const struct data *data)
{
    size_t count = 0;
    for (enum part part = 0; part < PART_COUNT; part++)
        count += data->folders[part] != NULL ? folder_damaged(data->folders[part]) : 0;
    return count;
}

const char *data_class_name(const struct data *data, size_t class)
{
    /* in the order of batches.meta.txt, which belongs to the data set */
    static const char *const cifar10[] = {"airplane", "automobile", "bird",  "cat",  "deer",
                                          "dog",      "frog",       "horse", "ship", "truck"};
    bool has_names = strncmp(data->options.source, "cifar10:", 8) == 0;
    if (data->folders[PART_TRAIN] != NULL)
        return folder_class(data->folders[PART_TRAIN], class);
    return has_names && class < sizeof cifar10 / sizeof *cifar10 ? cifar10[class] : NULL;
}

/* Return room for a copy of an image if a change needs it; NULL if not. False without memory. */
static bool take_spare(const struct data *data, float **ret, struct reason *reason)
{
    *ret = NULL;
    if (!data->augment.has[CHANGE_CROP] || data_decodes(data))
        return true;
    *ret = malloc(shape_count(data->options.shape) * sizeof **ret);
    return *ret != NULL || because(reason, "no host memory to change an image");
}

static bool make_or_read(const struct data *data, const struct pick *pick, const struct augment *augment,
                         const struct chances *chances, float *ret_image, int32_t *ret_label, struct reason *reason)
{
    if (data_decodes(data))
        return folder_image(data->folders[pick->part], pick->index, augment, chances, ret_image, ret_label, reason);
    if (data->tiles != NULL)
        make_image(data, pick->part == PART_TRAIN ? pick->index : data->counts[PART_TRAIN] + pick->index, ret_image,
                   ret_label);
    else
        data_file_image(data, &data->pictures[pick->part], pick->index, ret_image, ret_label);
    return true;
}

bool data_image(const struct data *data, const struct pick *pick, float *ret_image, int32_t *ret_label,
                struct reason *reason)
{
    const struct augment *augment = pick->part == PART_TRAIN && data->is_changed ? &data->augment : NULL;
    struct chances chances;
    float *spare = NULL;
    if (augment != NULL)
        chances = augment_draw(data->options.seed, pick->epoch, pick->index);
    if (!make_or_read(data, pick, augment, &chances, ret_image, ret_label, reason))
        return false;
    if (augment != NULL) {
        if (!take_spare(data, &spare, reason))
            return false;
        augment_apply(augment, &chances, &data->options.shape, data->black, data_decodes(data), ret_image, spare);
        free(spare);
    }
    if (data->options.labels_are_lot && pick->part == PART_TRAIN)
        *ret_label = (int32_t)(draw(data->options.seed, DRAW_LOT, pick->index) % data->options.class_count);
    return true;
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
