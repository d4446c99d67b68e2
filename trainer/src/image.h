/* Decode JPEG and PNG files with libjpeg-turbo and libpng, and cut and resize the result.
 *
 * Both libraries are optional when the trainer is built. Without one, decoding its files fails with that reason. Any
 * thread may call these functions. */
#ifndef TRAINER_IMAGE_H
#define TRAINER_IMAGE_H

#include "probe.h"

struct image {
    size_t width, height, channels; /* channels: 1 (grey) or 3 (red, green, blue) */
    uint8_t *pixels;                /* owned; row after row, the channels of a pixel are adjacent */
};
void image_clear(struct image *image); /* accepts a zeroed struct */

/* Names of the formats that this build cannot decode: "", "JPEG", "PNG" or "JPEG and PNG"; static. */
const char *image_missing(void);

/* Decode a file in memory, which probe_image() has accepted. `channels` is 1 or 3. JPEG files are decoded at 1 / shrink
 * of their size (1, 2, 4 or 8), which saves time; PNG files ignore it. On failure, `reason` names the file and the
 * problem; is_damage is set unless memory or a decoder is missing. */
bool image_decode(const char *name, const struct bytes *bytes, const struct probe *probe, size_t channels,
                  unsigned shrink, struct image *ret, struct reason *reason);
/* The two decoders, for image_decode(). */
bool image_decode_jpeg(const char *name, const struct bytes *bytes, size_t channels, unsigned shrink, struct image *ret,
                       struct reason *reason);
bool image_decode_png(const char *name, const struct bytes *bytes, size_t channels, struct image *ret,
                      struct reason *reason);

/* A part of an image, in pixels, which may be fractions. It lies inside the image. */
struct box {
    double left, top, width, height;
};
/* Resize a part of an image to width x height, with a triangle filter that is as wide as the reduction: the same method
 * as Pillow's BILINEAR, without its rounding in between. Values are 0 to 255. `ret` has width x height x channels
 * values. Fails only without memory. */
bool image_resize(const struct image *image, const struct box *box, size_t width, size_t height, float *ret,
                  struct reason *reason);

static inline uint8_t image_light(unsigned red, unsigned green, unsigned blue)
{
    return (uint8_t)((red * 299 + green * 587 + blue * 114 + 500) / 1000);
}

#endif
