/* Decodes PNG files with libpng. Built only if it was found. */
#include "image.h"

#include <png.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_MOST = 64 << 20 };

/* All that must be freed after a jump out of libpng. */
struct decoding {
    png_structp png;
    png_infop info;
    const char *name;
    struct reason reason;
    const struct bytes *bytes;
    size_t at; /* bytes read so far */
    struct image image;
    png_bytep *rows; /* owned; the beginning of each row */
    bool is_decoded;
    jmp_buf out;
};

__attribute__((noreturn)) static void on_error(png_structp png, png_const_charp message)
{
    struct decoding *decoding = png_get_error_ptr(png);
    /* libpng reports a lack of memory only by its text, such as "insufficient memory" */
    bool is_damage = strstr(message, "emory") == NULL;
    because(&decoding->reason, is_damage ? "%s: damaged: %s" : "%s: %s", decoding->name, message);
    decoding->reason.is_damage = is_damage;
    longjmp(decoding->out, 1);
}

static void on_warning(png_structp png, png_const_charp message)
{
    (void)png, (void)message; /* about parts that are not pixels */
}

static void on_read(png_structp png, png_bytep out, size_t count)
{
    struct decoding *decoding = png_get_io_ptr(png);
    if (count > decoding->bytes->count - decoding->at)
        png_error(png, "the file ends too early");
    memcpy(out, decoding->bytes->data + decoding->at, count);
    decoding->at += count;
}

/* Ask for 8 bits, without transparency, in grey or in red, green and blue. A palette becomes red, green and blue. */
static void set_format(png_structp png)
{
    png_set_expand(png);
    png_set_scale_16(png);
    png_set_strip_alpha(png);
}

static void grey_to_colours(struct image *image)
{
    for (size_t i = image->width * image->height; i-- > 0;)
        memset(image->pixels + 3 * i, image->pixels[i], 3);
    image->channels = 3;
}

static void colours_to_grey(struct image *image)
{
    for (size_t i = 0; i < image->width * image->height; i++) {
        const uint8_t *pixel = image->pixels + 3 * i;
        image->pixels[i] = image_light(pixel[0], pixel[1], pixel[2]);
    }
    image->channels = 1;
}

static bool decode(struct decoding *decoding, size_t channels)
{
    png_structp png = decoding->png;
    struct image *image = &decoding->image;
    png_set_read_fn(png, decoding, on_read);
    png_set_user_limits(png, PROBE_PIXELS_MAX, PROBE_PIXELS_MAX);
    png_set_chunk_malloc_max(png, CHUNK_MOST);
#ifdef TRAINER_FUZZ_IGNORE_SUM /* a fuzzer cannot guess a checksum */
    png_set_crc_action(png, PNG_CRC_QUIET_USE, PNG_CRC_QUIET_USE);
#endif
    png_read_info(png, decoding->info);
    set_format(png);
    png_set_interlace_handling(png);
    png_read_update_info(png, decoding->info);
    *image = (struct image){.width = png_get_image_width(png, decoding->info),
                            .height = png_get_image_height(png, decoding->info),
                            .channels = png_get_channels(png, decoding->info)};
    size_t row_bytes = png_get_rowbytes(png, decoding->info);
    if (image->height > PROBE_PIXELS_MAX / image->width || (image->channels != 1 && image->channels != 3) ||
        row_bytes != image->width * image->channels) {
        because(&decoding->reason, "%s: too many pixels, or %zu channels", decoding->name, image->channels);
        decoding->reason.is_damage = true;
        return false;
    }
    image->pixels = malloc(image->width * image->height * 3);
    decoding->rows = malloc(image->height * sizeof *decoding->rows);
    if (image->pixels == NULL || decoding->rows == NULL)
        return because(&decoding->reason, "%s: no host memory for its pixels", decoding->name);
    for (size_t y = 0; y < image->height; y++)
        decoding->rows[y] = image->pixels + y * row_bytes;
    png_read_image(png, decoding->rows);
    png_read_end(png, NULL);
    if (image->channels < channels)
        grey_to_colours(image);
    else if (image->channels > channels)
        colours_to_grey(image);
    return true;
}

static bool open_and_decode(struct decoding *decoding, size_t channels)
{
    decoding->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, decoding, on_error, on_warning);
    if (decoding->png != NULL)
        decoding->info = png_create_info_struct(decoding->png);
    return decoding->info != NULL && decode(decoding, channels);
}

bool image_decode_png(const char *name, const struct bytes *bytes, size_t channels, struct image *ret,
                      struct reason *reason)
{
    struct decoding *decoding = calloc(1, sizeof *decoding);
    if (decoding == NULL)
        return because(reason, "%s: no host memory to decode it", name);
    decoding->name = name;
    decoding->bytes = bytes;
    because(&decoding->reason, "%s: no host memory to decode it", name); /* replaced by any other problem */
    /* nothing that changes after setjmp() is in a local variable */
    if (setjmp(decoding->out) == 0)
        decoding->is_decoded = open_and_decode(decoding, channels);
    bool is_decoded = decoding->is_decoded;
    png_destroy_read_struct(&decoding->png, &decoding->info, NULL);
    free(decoding->rows);
    if (is_decoded) {
        *ret = decoding->image;
    } else {
        *reason = decoding->reason;
        image_clear(&decoding->image);
    }
    free(decoding);
    return is_decoded;
}
