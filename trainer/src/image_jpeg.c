/* Decodes JPEG files with libjpeg-turbo. Built only if it was found. */
#include "image.h"

#include <stdio.h> /* jpeglib.h needs it */

#include <jpeglib.h>

#include <jerror.h> /* after jpeglib.h: which messages there are depends on it */
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

/* A progressive file may have many scans of the whole image, and a small hostile file may have very many. */
enum { SCANS_MAX = 500 };
static const long memory_most = 1l << 30;

/* libjpeg calls back with its own structures. They are the first members of these, so that the pointers can be cast. */
struct errors {
    struct jpeg_error_mgr base;
    jmp_buf out;
    const char *name;
    struct reason *reason;
};

struct progress {
    struct jpeg_progress_mgr base;
};

/* All that must be freed after a jump out of libjpeg. */
struct decoding {
    struct jpeg_decompress_struct cinfo;
    struct errors errors;
    struct progress progress;
    struct image image;
    uint8_t *inks; /* owned; a row of CMYK */
    bool is_decoded;
};

__attribute__((noreturn)) static void give_up(j_common_ptr cinfo, const char *what)
{
    struct errors *errors = (struct errors *)cinfo->err;
    char message[JMSG_LENGTH_MAX];
    errors->base.format_message(cinfo, message);
    because(errors->reason, "%s: %s: %s", errors->name, what, message);
    errors->reason->is_damage = cinfo->err->msg_code != JERR_OUT_OF_MEMORY;
    longjmp(errors->out, 1);
}

__attribute__((noreturn)) static void on_error(j_common_ptr cinfo)
{
    give_up(cinfo, "cannot be decoded");
}

/* libjpeg continues after these warnings and returns pixels that it has made up. Other warnings do not change pixels.
 */
static void on_message(j_common_ptr cinfo, int level)
{
    static const int damage[] = {JWRN_HIT_MARKER,  JWRN_HUFF_BAD_CODE,  JWRN_JPEG_EOF,
                                 JWRN_MUST_RESYNC, JWRN_ARITH_BAD_CODE, JWRN_NOT_SEQUENTIAL};
    for (size_t i = 0; level < 0 && i < sizeof damage / sizeof *damage; i++)
        if (cinfo->err->msg_code == damage[i])
            give_up(cinfo, "damaged");
}

static void on_output(j_common_ptr cinfo)
{
    (void)cinfo; /* print nothing */
}

static void on_progress(j_common_ptr cinfo)
{
    struct errors *errors = (struct errors *)cinfo->err;
    if (((j_decompress_ptr)cinfo)->input_scan_number <= SCANS_MAX)
        return;
    because(errors->reason, "%s: more than %d scans", errors->name, SCANS_MAX);
    errors->reason->is_damage = true;
    longjmp(errors->out, 1);
}

static void begin(struct decoding *decoding, const struct bytes *bytes)
{
    struct jpeg_decompress_struct *cinfo = &decoding->cinfo;
    jpeg_create_decompress(cinfo);
    cinfo->mem->max_memory_to_use = memory_most;
    decoding->progress.base.progress_monitor = on_progress;
    cinfo->progress = &decoding->progress.base;
    jpeg_mem_src(cinfo, bytes->data, bytes->count);
    jpeg_read_header(cinfo, TRUE);
}

static bool is_ink(const struct jpeg_decompress_struct *cinfo)
{
    return cinfo->jpeg_color_space == JCS_CMYK || cinfo->jpeg_color_space == JCS_YCCK;
}

/* Convert a row of CMYK. Adobe's programs, whose files have a marker, store the absence of ink. */
static void convert_inks(const uint8_t *inks, size_t width, bool is_inverted, size_t channels, uint8_t *ret)
{
    for (size_t x = 0; x < width; x++, inks += 4, ret += channels) {
        unsigned lights[3], black = is_inverted ? inks[3] : 255u - inks[3];
        for (int i = 0; i < 3; i++)
            lights[i] = ((is_inverted ? inks[i] : 255u - inks[i]) * black + 127) / 255;
        for (size_t channel = 0; channel < channels; channel++)
            ret[channel] = channels == 1 ? image_light(lights[0], lights[1], lights[2]) : (uint8_t)lights[channel];
    }
}

static void read_rows(struct decoding *decoding)
{
    struct jpeg_decompress_struct *cinfo = &decoding->cinfo;
    struct image *image = &decoding->image;
    while (cinfo->output_scanline < cinfo->output_height) {
        uint8_t *row = image->pixels + cinfo->output_scanline * image->width * image->channels;
        JSAMPROW into = decoding->inks != NULL ? decoding->inks : row;
        jpeg_read_scanlines(cinfo, &into, 1);
        if (decoding->inks != NULL)
            convert_inks(decoding->inks, image->width, cinfo->saw_Adobe_marker, image->channels, row);
    }
    jpeg_finish_decompress(cinfo);
}

static bool decode(struct decoding *decoding, const struct bytes *bytes, size_t channels, unsigned shrink)
{
    struct jpeg_decompress_struct *cinfo = &decoding->cinfo;
    struct image *image = &decoding->image;
    begin(decoding, bytes);
    cinfo->out_color_space = is_ink(cinfo) ? JCS_CMYK : channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    cinfo->scale_num = 1;
    cinfo->scale_denom = shrink;
    jpeg_start_decompress(cinfo);
    *image = (struct image){.width = cinfo->output_width, .height = cinfo->output_height, .channels = channels};
    if (image->width == 0 || image->height == 0 || image->height > PROBE_PIXELS_MAX / image->width) {
        because(decoding->errors.reason, "%s: too many pixels", decoding->errors.name);
        decoding->errors.reason->is_damage = true;
        return false;
    }
    image->pixels = malloc(image->width * image->height * channels);
    if (is_ink(cinfo))
        decoding->inks = malloc(image->width * 4);
    if (image->pixels == NULL || (is_ink(cinfo) && decoding->inks == NULL))
        return because(decoding->errors.reason, "%s: no host memory for its pixels", decoding->errors.name);
    read_rows(decoding);
    return true;
}

bool image_decode_jpeg(const char *name, const struct bytes *bytes, size_t channels, unsigned shrink, struct image *ret,
                       struct reason *reason)
{
    struct decoding *decoding = calloc(1, sizeof *decoding);
    if (decoding == NULL)
        return because(reason, "%s: no host memory to decode it", name);
    decoding->errors.name = name;
    decoding->errors.reason = reason;
    decoding->cinfo.err = jpeg_std_error(&decoding->errors.base);
    decoding->errors.base.error_exit = on_error;
    decoding->errors.base.emit_message = on_message;
    decoding->errors.base.output_message = on_output;
    /* nothing that changes after setjmp() is in a local variable */
    if (setjmp(decoding->errors.out) == 0)
        decoding->is_decoded = decode(decoding, bytes, channels, shrink);
    bool is_decoded = decoding->is_decoded;
    jpeg_destroy_decompress(&decoding->cinfo);
    free(decoding->inks);
    if (is_decoded)
        *ret = decoding->image;
    else
        image_clear(&decoding->image);
    free(decoding);
    return is_decoded;
}
