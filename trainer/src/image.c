/* Chooses a decoder, and resizes images: see image.h. */
#include "image.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void image_clear(struct image *image)
{
    free(image->pixels);
    *image = (struct image){0};
}

const char *image_missing(void)
{
#if defined(TRAINER_HAVE_JPEG) && defined(TRAINER_HAVE_PNG)
    return "";
#elif defined(TRAINER_HAVE_JPEG)
    return "PNG";
#elif defined(TRAINER_HAVE_PNG)
    return "JPEG";
#else
    return "JPEG and PNG";
#endif
}

#ifndef TRAINER_HAVE_JPEG
bool image_decode_jpeg(const char *name, const struct bytes *bytes, size_t channels, unsigned shrink, struct image *ret,
                       struct reason *reason)
{
    (void)bytes, (void)channels, (void)shrink, (void)ret;
    return because(reason, "%s: this build cannot decode JPEG files (libjpeg was not found)", name);
}
#endif

#ifndef TRAINER_HAVE_PNG
bool image_decode_png(const char *name, const struct bytes *bytes, size_t channels, struct image *ret,
                      struct reason *reason)
{
    (void)bytes, (void)channels, (void)ret;
    return because(reason, "%s: this build cannot decode PNG files (libpng was not found)", name);
}
#endif

bool image_decode(const char *name, const struct bytes *bytes, const struct probe *probe, size_t channels,
                  unsigned shrink, struct image *ret, struct reason *reason)
{
    if (probe->kind == IMAGE_PNG)
        return image_decode_png(name, bytes, channels, ret, reason);
    return image_decode_jpeg(name, bytes, channels, shrink, ret, reason);
}

/* ---- resizing ---- */

/* The input values of one output value: `count` from `first` on, and their weights, which add up to 1. */
struct taps {
    size_t first, count;
    const float *weights;
};

struct filter {
    struct taps *taps; /* owned; one per output value */
    float *weights;    /* owned */
};

static void filter_clear(struct filter *filter)
{
    free(filter->taps);
    free(filter->weights);
}

static void set_taps(struct taps *taps, float *weights, double centre, double reach, size_t size)
{
    double sum = 0, begin = floor(centre - reach + 0.5), end = floor(centre + reach + 0.5);
    taps->first = begin < 0 ? 0 : (size_t)begin;
    if (taps->first >= size)
        taps->first = size - 1;
    size_t last = end > (double)size ? size : (size_t)end;
    taps->count = last > taps->first ? last - taps->first : 1;
    taps->weights = weights;
    for (size_t i = 0; i < taps->count; i++) {
        double distance = fabs((double)(taps->first + i) + 0.5 - centre) / reach;
        weights[i] = distance < 1 ? (float)(1 - distance) : 0;
        sum += weights[i];
    }
    if (sum <= 0)
        weights[0] = 1;
    for (size_t i = 0; sum > 0 && i < taps->count; i++)
        weights[i] /= (float)sum;
}

/* Make the filter from `length` values, from `begin` on, of an axis with `size` values to `count` values. */
static bool make_filter(double begin, double length, size_t size, size_t count, struct filter *filter)
{
    double scale = length / (double)count, reach = scale < 1 ? 1 : scale;
    size_t most = (size_t)ceil(reach) * 2 + 2;
    filter->taps = malloc(count * sizeof *filter->taps);
    filter->weights = malloc(count * most * sizeof *filter->weights);
    if (filter->taps == NULL || filter->weights == NULL)
        return false;
    for (size_t i = 0; i < count; i++)
        set_taps(&filter->taps[i], filter->weights + i * most, begin + ((double)i + 0.5) * scale, reach, size);
    return true;
}

/* Resize one row of an image with three channels, and one with a single channel. */
static void across_colours(const uint8_t *row, const struct filter *filter, size_t width, float *ret)
{
    for (size_t x = 0; x < width; x++, ret += 3) {
        const struct taps *taps = &filter->taps[x];
        const uint8_t *from = row + taps->first * 3;
        float red = 0, green = 0, blue = 0;
        for (size_t i = 0; i < taps->count; i++, from += 3) {
            red += taps->weights[i] * from[0];
            green += taps->weights[i] * from[1];
            blue += taps->weights[i] * from[2];
        }
        ret[0] = red;
        ret[1] = green;
        ret[2] = blue;
    }
}

static void across_grey(const uint8_t *row, const struct filter *filter, size_t width, float *ret)
{
    for (size_t x = 0; x < width; x++) {
        const struct taps *taps = &filter->taps[x];
        float sum = 0;
        for (size_t i = 0; i < taps->count; i++)
            sum += taps->weights[i] * row[taps->first + i];
        ret[x] = sum;
    }
}

static void down(const float *rows, const struct taps *taps, size_t values, float *ret)
{
    memset(ret, 0, values * sizeof *ret);
    for (size_t i = 0; i < taps->count; i++)
        for (size_t at = 0; at < values; at++)
            ret[at] += taps->weights[i] * rows[i * values + at];
}

bool image_resize(const struct image *image, const struct box *box, size_t width, size_t height, float *ret,
                  struct reason *reason)
{
    struct filter columns = {0}, rows = {0};
    size_t values = width * image->channels;
    float *between = NULL;
    bool is_made = make_filter(box->left, box->width, image->width, width, &columns) &&
                   make_filter(box->top, box->height, image->height, height, &rows);
    if (is_made) {
        const struct taps *last = &rows.taps[height - 1];
        size_t first = rows.taps[0].first, count = last->first + last->count - first;
        between = malloc(count * values * sizeof *between);
        is_made = between != NULL;
        for (size_t y = 0; is_made && y < count; y++) {
            const uint8_t *row = image->pixels + (first + y) * image->width * image->channels;
            if (image->channels == 3)
                across_colours(row, &columns, width, between + y * values);
            else
                across_grey(row, &columns, width, between + y * values);
        }
        for (size_t y = 0; is_made && y < height; y++)
            down(between + (rows.taps[y].first - first) * values, &rows.taps[y], values, ret + y * values);
    }
    free(between);
    filter_clear(&columns);
    filter_clear(&rows);
    return is_made || because(reason, "no host memory to resize an image");
}
