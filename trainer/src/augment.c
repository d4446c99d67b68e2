/* Random changes of images: see augment.h. */
#include "augment.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    double amount, least, most; /* the amount without a number, and its limits */
} rows[] = {{"zoom", 0.08, 0.001, 1},  {"crop", 4, 1, 1024},    {"flip", 0, 0, 0},
            {"brightness", 0.4, 0, 1}, {"contrast", 0.4, 0, 1}, {"erase", 0, 1, 4096}};
_Static_assert(sizeof rows / sizeof *rows == CHANGE_COUNT, "a row for each change");

const char *augment_names(void)
{
    return "zoom[:AREA], crop[:PIXELS], flip, brightness[:PART], contrast[:PART], erase[:PIXELS]";
}

/* ---- the list ---- */

static bool set_amount(const char *word, const char *number, int change, struct augment *augment, struct reason *reason)
{
    char *end;
    augment->amounts[change] = rows[change].amount;
    if (number == NULL)
        return true;
    if (rows[change].most == 0)
        return because(reason, "augment: \"%s\" takes no number", word);
    double amount = strtod(number, &end);
    if (end == number || *end != '\0' || !(amount >= rows[change].least && amount <= rows[change].most))
        return because(reason, "augment: \"%s:%s\": the number must be %g to %g", word, number, rows[change].least,
                       rows[change].most);
    bool is_whole = change == CHANGE_CROP || change == CHANGE_ERASE;
    if (is_whole && amount != floor(amount))
        return because(reason, "augment: \"%s:%s\": not a whole number of pixels", word, number);
    augment->amounts[change] = amount;
    return true;
}

static bool add_change(char *word, struct augment *augment, struct reason *reason)
{
    char *number = strchr(word, ':');
    int change = 0;
    if (number != NULL)
        *number++ = '\0';
    while (change < CHANGE_COUNT && strcmp(rows[change].name, word) != 0)
        change++;
    if (change == CHANGE_COUNT)
        return because(reason, "augment: unknown \"%.60s\"; use %s", word, augment_names());
    if (augment->has[change])
        return because(reason, "augment: \"%s\" is given twice", word);
    augment->has[change] = true;
    return set_amount(word, number, change, augment, reason);
}

bool augment_parse(const char *text, struct augment *ret, struct reason *reason)
{
    struct augment augment = {0};
    char copy[256];
    if (text != NULL && (size_t)snprintf(copy, sizeof copy, "%s", text) >= sizeof copy)
        return because(reason, "augment: the list is too long");
    for (char *at = copy, *next; text != NULL && *text != '\0' && at != NULL; at = next) {
        next = strchr(at, ',');
        if (next != NULL)
            *next++ = '\0';
        if (!add_change(at, &augment, reason))
            return false;
    }
    if (augment.has[CHANGE_ZOOM] && augment.has[CHANGE_CROP])
        return because(reason, "augment: zoom and crop exclude each other");
    *ret = augment;
    return true;
}

/* ---- chances ---- */

/* Return a sequence of random numbers for one kind of change. */
static uint64_t begin_sequence(uint64_t seed, uint64_t epoch, uint64_t index, uint64_t what)
{
    uint64_t state = seed ^ (what + 1) * 0xA0761D6478BD642F, mixed;
    mixed = random_next(&state) ^ epoch;
    mixed = random_next(&mixed) ^ index;
    return random_next(&mixed);
}

struct chances augment_draw(uint64_t seed, uint64_t epoch, uint64_t index)
{
    struct chances chances = {.seed = seed, .epoch = epoch, .index = index};
    for (uint64_t change = 0; change < CHANGE_COUNT; change++) {
        uint64_t state = begin_sequence(seed, epoch, index, change);
        for (int i = 0; i < 2; i++)
            chances.values[change][i] = random_unit(&state);
    }
    return chances;
}

static size_t choose(double chance, size_t count)
{
    size_t chosen = (size_t)(chance * (double)count);
    return chosen < count ? chosen : count - 1;
}

/* ---- cutting ---- */

/* Return a box of a random part of the area with a random ratio of its sides; a box of all pixels if ten attempts do
 * not fit into the image. The same method as torchvision's RandomResizedCrop. */
static struct box zoom_box(double least, const struct chances *chances, size_t width, size_t height)
{
    uint64_t state = begin_sequence(chances->seed, chances->epoch, chances->index, CHANGE_ZOOM);
    double area = (double)width * (double)height, limit = log(4.0 / 3);
    for (int i = 0; i < 10; i++) {
        double part = area * (least + (1 - least) * random_unit(&state));
        double ratio = exp(limit * (2 * (double)random_unit(&state) - 1));
        double box_width = round(sqrt(part * ratio)), box_height = round(sqrt(part / ratio));
        double x = random_unit(&state), y = random_unit(&state);
        if (box_width >= 1 && box_height >= 1 && box_width <= (double)width && box_height <= (double)height)
            return (struct box){.left = (double)choose(x, width - (size_t)box_width + 1),
                                .top = (double)choose(y, height - (size_t)box_height + 1),
                                .width = box_width,
                                .height = box_height};
    }
    return (struct box){.width = (double)width, .height = (double)height};
}

/* Return the offset of a cut of `out` pixels from `size` pixels. */
static size_t offset(size_t size, size_t out, const double *chance)
{
    if (chance != NULL)
        return choose(*chance, size - out + 1);
    size_t half = (size - out) / 2;
    return half + ((size - out) % 2 == 1 && half % 2 == 1); /* rounds to even, as torchvision's CenterCrop */
}

struct box augment_box(const struct augment *augment, const struct chances *chances, size_t width, size_t height,
                       const struct shape *out, size_t resize)
{
    size_t shorter = width < height ? width : height;
    bool crops = augment != NULL && augment->has[CHANGE_CROP];
    if (augment != NULL && augment->has[CHANGE_ZOOM])
        return zoom_box(augment->amounts[CHANGE_ZOOM], chances, width, height);
    /* The size after resizing. The cut must fit, also if it is not square. */
    size_t new_width = width * resize / shorter, new_height = height * resize / shorter;
    new_width = new_width < out->width ? out->width : new_width;
    new_height = new_height < out->height ? out->height : new_height;
    double across = (double)width / (double)new_width, down = (double)height / (double)new_height;
    const double *x = crops ? &chances->values[CHANGE_CROP][0] : NULL, *y = crops ? x + 1 : NULL;
    return (struct box){.left = (double)offset(new_width, out->width, x) * across,
                        .top = (double)offset(new_height, out->height, y) * down,
                        .width = (double)out->width * across,
                        .height = (double)out->height * down};
}

/* ---- changing ---- */

/* Shift an image by up to `pad` pixels in each direction. What is outside becomes black. */
static void shift(const struct shape *shape, const double chance[2], size_t pad, const float *black, float *image,
                  float *spare)
{
    size_t channels = shape->channels, row = shape->width * channels;
    long across = (long)choose(chance[0], 2 * pad + 1) - (long)pad;
    long down = (long)choose(chance[1], 2 * pad + 1) - (long)pad;
    memcpy(spare, image, shape->height * row * sizeof *image);
    for (size_t y = 0; y < shape->height; y++)
        for (size_t x = 0; x < shape->width; x++, image += channels) {
            long from_y = (long)y + down, from_x = (long)x + across;
            bool is_inside = from_y >= 0 && from_y < (long)shape->height && from_x >= 0 && from_x < (long)shape->width;
            memcpy(image, is_inside ? spare + (size_t)from_y * row + (size_t)from_x * channels : black,
                   channels * sizeof *image);
        }
}

static void flip(const struct shape *shape, float *image)
{
    size_t channels = shape->channels;
    for (size_t y = 0; y < shape->height; y++, image += shape->width * channels)
        for (size_t left = 0, right = shape->width - 1; left < right; left++, right--)
            for (size_t channel = 0; channel < channels; channel++) {
                float kept = image[left * channels + channel];
                image[left * channels + channel] = image[right * channels + channel];
                image[right * channels + channel] = kept;
            }
}

/* Move each value of a channel away from or towards a centre. */
static void stretch(const struct shape *shape, size_t channel, float centre, double chance, double most, float *image)
{
    float factor = (float)(1 + most * (2 * chance - 1));
    size_t count = shape_count(*shape);
    for (size_t i = channel; i < count; i += shape->channels)
        image[i] = centre + factor * (image[i] - centre);
}

static void change_brightness(const struct shape *shape, const float *black, double chance, double most, float *image)
{
    for (size_t channel = 0; channel < shape->channels; channel++)
        stretch(shape, channel, black[channel], chance, most, image);
}

static void change_contrast(const struct shape *shape, double chance, double most, float *image)
{
    size_t pixels = shape->height * shape->width;
    for (size_t channel = 0; channel < shape->channels; channel++) {
        double sum = 0;
        for (size_t i = 0; i < pixels; i++)
            sum += image[i * shape->channels + channel];
        stretch(shape, channel, (float)(sum / (double)pixels), chance, most, image);
    }
}

/* Set a square around a random pixel to the mean of the data set. */
static void erase(const struct shape *shape, const double chance[2], double side, float *image)
{
    size_t shorter = shape->width < shape->height ? shape->width : shape->height;
    long half_1 = (long)(side == 0 ? (double)shorter / 2 : side) / 2;
    long half_2 = (long)(side == 0 ? (double)shorter / 2 : side) - half_1;
    long x = (long)choose(chance[0], shape->width), y = (long)choose(chance[1], shape->height);
    for (long row = y - half_1; row < y + half_2; row++)
        for (long column = x - half_1; column < x + half_2; column++)
            if (row >= 0 && row < (long)shape->height && column >= 0 && column < (long)shape->width)
                memset(image + ((size_t)row * shape->width + (size_t)column) * shape->channels, 0,
                       shape->channels * sizeof *image);
}

void augment_apply(const struct augment *augment, const struct chances *chances, const struct shape *shape,
                   const float *black, bool is_cut, float *image, float *spare)
{
    const double(*values)[2] = chances->values;
    const double *amounts = augment->amounts;
    if (augment->has[CHANGE_CROP] && !is_cut)
        shift(shape, values[CHANGE_CROP], (size_t)amounts[CHANGE_CROP], black, image, spare);
    if (augment->has[CHANGE_FLIP] && values[CHANGE_FLIP][0] < 0.5)
        flip(shape, image);
    if (augment->has[CHANGE_BRIGHTNESS])
        change_brightness(shape, black, values[CHANGE_BRIGHTNESS][0], amounts[CHANGE_BRIGHTNESS], image);
    if (augment->has[CHANGE_CONTRAST])
        change_contrast(shape, values[CHANGE_CONTRAST][0], amounts[CHANGE_CONTRAST], image);
    if (augment->has[CHANGE_ERASE])
        erase(shape, values[CHANGE_ERASE], amounts[CHANGE_ERASE], image);
}
