/* Writes small JPEG and PNG files: see image_writer.h. */
#include "image_writer.h"

#include <stdio.h> /* jpeglib.h needs it */

#include <jpeglib.h>
#include <png.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

static struct bytes compress(const uint8_t *pixels, size_t width, size_t height, int channels, int quality,
                             bool is_adobe)
{
    struct jpeg_compress_struct cinfo;
    struct jpeg_error_mgr errors;
    unsigned char *data = NULL;
    unsigned long count = 0;
    cinfo.err = jpeg_std_error(&errors);
    jpeg_create_compress(&cinfo);
    jpeg_mem_dest(&cinfo, &data, &count);
    cinfo.image_width = (JDIMENSION)width;
    cinfo.image_height = (JDIMENSION)height;
    cinfo.input_components = channels;
    cinfo.in_color_space = channels == 1 ? JCS_GRAYSCALE : channels == 3 ? JCS_RGB : JCS_CMYK;
    jpeg_set_defaults(&cinfo);
    if (is_adobe)
        jpeg_set_colorspace(&cinfo, JCS_YCCK);
    else if (channels == 4)
        cinfo.write_Adobe_marker = FALSE;
    jpeg_set_quality(&cinfo, quality, TRUE);
    jpeg_start_compress(&cinfo, TRUE);
    while (cinfo.next_scanline < cinfo.image_height) {
        JSAMPROW row = (JSAMPROW)(uintptr_t)(pixels + cinfo.next_scanline * width * (size_t)channels);
        jpeg_write_scanlines(&cinfo, &row, 1);
    }
    jpeg_finish_compress(&cinfo);
    jpeg_destroy_compress(&cinfo);
    return (struct bytes){.data = data, .count = count};
}

struct bytes write_jpeg(const uint8_t *pixels, size_t width, size_t height, int channels, int quality)
{
    return compress(pixels, width, height, channels, quality, false);
}

struct bytes write_adobe_jpeg(const uint8_t *pixels, size_t width, size_t height, int quality)
{
    return compress(pixels, width, height, 4, quality, true);
}

static void on_write(png_structp png, png_bytep data, size_t count)
{
    struct bytes *file = png_get_io_ptr(png);
    file->data = realloc(file->data, file->count + count);
    if (file->data == NULL)
        abort();
    memcpy(file->data + file->count, data, count);
    file->count += count;
}

static void on_flush(png_structp png)
{
    (void)png;
}

static void write_palette(png_structp png, png_infop info, bool transparent)
{
    png_color colours[256];
    png_byte alpha = 0;
    for (int i = 0; i < 256; i++)
        colours[i] = (png_color){(png_byte)i, (png_byte)(255 - i), (png_byte)(i / 2)};
    png_set_PLTE(png, info, colours, 256);
    if (transparent)
        png_set_tRNS(png, info, &alpha, 1, NULL);
}

struct bytes write_png(const uint8_t *rows, size_t width, size_t height, int colour, int depth, bool interlaced,
                       bool transparent)
{
    struct bytes file = {0};
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    png_set_write_fn(png, &file, on_write, on_flush);
    png_set_IHDR(png, info, (png_uint_32)width, (png_uint_32)height, depth, colour,
                 interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    if (colour == PNG_COLOR_TYPE_PALETTE)
        write_palette(png, info, transparent);
    png_write_info(png, info);
    size_t row_bytes = png_get_rowbytes(png, info);
    for (int pass = png_set_interlace_handling(png); pass > 0; pass--)
        for (size_t y = 0; y < height; y++)
            png_write_row(png, rows + y * row_bytes);
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    return file;
}

struct bytes add_exif(const struct bytes *jpeg, uint8_t orientation, bool is_big)
{
    /* the marker, its length, "Exif", and a directory with one entry: tag 0x112, type 3, 1 number, the orientation */
    static const uint8_t little[] = {0xFF, 0xE1, 0,    34, 'E', 'x', 'i', 'f', 0, 0, 'I', 'I', 42, 0, 8, 0, 0, 0,
                                     1,    0,    0x12, 1,  3,   0,   1,   0,   0, 0, 0,   0,   0,  0, 0, 0, 0, 0};
    static const uint8_t big[] = {0xFF, 0xE1, 0, 34,   'E', 'x', 'i', 'f', 0, 0, 'M', 'M', 0, 42, 0, 0, 0, 8,
                                  0,    1,    1, 0x12, 0,   3,   0,   0,   0, 1, 0,   0,   0, 0,  0, 0, 0, 0};
    struct bytes file = {.data = malloc(jpeg->count + sizeof little), .count = jpeg->count + sizeof little};
    if (file.data == NULL)
        abort();
    memcpy(file.data, jpeg->data, 2);
    memcpy(file.data + 2, is_big ? big : little, sizeof little);
    file.data[2 + (is_big ? 29 : 28)] = orientation;
    memcpy(file.data + 2 + sizeof little, jpeg->data + 2, jpeg->count - 2);
    return file;
}
