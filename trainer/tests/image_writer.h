/* Write small JPEG and PNG files into memory, for tests of the decoders. Any failure ends the program. */
#ifndef TRAINER_IMAGE_WRITER_H
#define TRAINER_IMAGE_WRITER_H

#include "file.h"

/* The caller frees the result with bytes_clear(). `pixels` has 1 (grey), 3 (RGB) or 4 (CMYK, without Adobe's inversion)
 * channels, and `quality` is 1 to 100. */
struct bytes write_jpeg(const uint8_t *pixels, size_t width, size_t height, int channels, int quality);
/* The same for inks in the way of Adobe's programs: stored as the absence of ink, as YCCK, with a marker. `pixels` has
 * four channels, the absence of cyan, magenta, yellow and black. */
struct bytes write_adobe_jpeg(const uint8_t *pixels, size_t width, size_t height, int quality);
/* `colour` and `depth` as in PNG's header. `rows` has the packed rows as in the file: 16-bit numbers are big-endian.
 * The palette has 256 colours: i, 255 - i, i / 2. transparent: with colour 3, colour 0 is transparent. */
struct bytes write_png(const uint8_t *rows, size_t width, size_t height, int colour, int depth, bool interlaced,
                       bool transparent);
/* Return a copy of a JPEG file with an EXIF segment that has this orientation, big- or little-endian. */
struct bytes add_exif(const struct bytes *jpeg, uint8_t orientation, bool is_big);

#endif
