/* Test the decoders of image files, and resizing: each kind of file, damaged files, and files cut off at each byte. */
#include "image.h"
#include "image_writer.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { WIDTH = 20, HEIGHT = 12, PIXELS = WIDTH * HEIGHT };
static struct reason reason;

/* A smooth image, which JPEG changes little. */
static uint8_t pixel(size_t x, size_t y, size_t channel)
{
    return (uint8_t)(20 + 5 * x + 4 * y + 20 * channel);
}

static void make_pixels(uint8_t *pixels, size_t channels)
{
    for (size_t i = 0; i < PIXELS * channels; i++)
        pixels[i] = pixel(i / channels % WIDTH, i / channels / WIDTH, i % channels);
}

static bool probe(const struct bytes *file, struct probe *ret)
{
    struct probe_file source = {.name = "f", .bytes = file->count, .data = file->data, .fd = -1};
    return probe_image(&source, ret, &reason);
}

/* Decode a file that must be good. The caller clears the image. */
static struct image decode(const struct bytes *file, size_t channels, unsigned traits)
{
    struct probe is = {0};
    struct image image = {0};
    if (!probe(file, &is) || !image_decode("f", file, &is, channels, 1, &image, &reason))
        fail_msg("%s", reason.text);
    assert_int_equal(is.width, WIDTH);
    assert_int_equal(is.height, HEIGHT);
    assert_int_equal(is.traits, traits);
    assert_int_equal(image.width, WIDTH);
    assert_int_equal(image.height, HEIGHT);
    assert_int_equal(image.channels, channels);
    return image;
}

static void expect_near(const struct image *image, size_t at, int value, int most)
{
    if (abs(image->pixels[at] - value) > most)
        fail_msg("value %zu is %d instead of %d", at, image->pixels[at], value);
}

static void refused(const struct bytes *file, const char *why)
{
    struct probe is = {0};
    struct image image = {0};
    reason = (struct reason){0};
    if (probe(file, &is) && image_decode("f", file, &is, 3, 1, &image, &reason))
        fail_msg("a damaged file was read");
    if (strstr(reason.text, why) == NULL)
        fail_msg("the reason is not '%s', but '%s'", why, reason.text);
    assert_true(reason.is_damage);
}

static void decodes_jpeg(void **state)
{
    (void)state;
    for (size_t from = 1; from <= 3; from += 2)
        for (size_t to = 1; to <= 3; to += 2) {
            uint8_t pixels[PIXELS * 3];
            make_pixels(pixels, from);
            struct bytes file = write_jpeg(pixels, WIDTH, HEIGHT, (int)from, 100);
            struct image image = decode(&file, to, from == 1 ? 1u << TRAIT_GREY : 0);
            for (size_t i = 0; i < PIXELS; i++)
                for (size_t channel = 0; channel < to; channel++) {
                    const uint8_t *was = pixels + i * from;
                    int light = from == 1 ? was[0] : image_light(was[0], was[1], was[2]);
                    expect_near(&image, i * to + channel, from == 1 || to == 1 ? light : was[channel], 8);
                }
            image_clear(&image);
            bytes_clear(&file);
        }
}

static void decodes_cmyk(void **state)
{
    (void)state;
    uint8_t inks[PIXELS * 4];
    for (size_t i = 0; i < PIXELS; i++)
        memcpy(inks + 4 * i, (uint8_t[]){0, 100, 200, 51}, 4);
    struct bytes file = write_jpeg(inks, WIDTH, HEIGHT, 4, 100);
    struct image image = decode(&file, 3, 1u << TRAIT_CMYK);
    expect_near(&image, 3 * 50, 204, 2); /* 255 * 204 / 255 */
    expect_near(&image, 3 * 50 + 1, 124, 2);
    expect_near(&image, 3 * 50 + 2, 44, 2);
    image_clear(&image);
    image = decode(&file, 1, 1u << TRAIT_CMYK);
    expect_near(&image, 50, image_light(204, 124, 44), 2);
    image_clear(&image);
    bytes_clear(&file);
    for (size_t i = 0; i < sizeof inks; i++)
        inks[i] = (uint8_t)(255 - inks[i]);
    file = write_adobe_jpeg(inks, WIDTH, HEIGHT, 100);
    image = decode(&file, 3, 1u << TRAIT_CMYK);
    expect_near(&image, 3 * 50, 204, 3);
    expect_near(&image, 3 * 50 + 1, 124, 3);
    expect_near(&image, 3 * 50 + 2, 44, 3);
    image_clear(&image);
    bytes_clear(&file);
}

static void decodes_png(void **state)
{
    (void)state;
    enum { GREY = 0, RGB = 2, PALETTE = 3, GREY_ALPHA = 4, RGB_ALPHA = 6 };
    static const struct {
        int colour, depth, transparent;
        size_t channels;
        unsigned traits;
    } rows[] = {{GREY, 8, 0, 1, 1u << TRAIT_GREY},
                {GREY, 16, 0, 1, 1u << TRAIT_GREY | 1u << TRAIT_16_BIT},
                {RGB, 8, 0, 3, 0},
                {RGB, 16, 0, 3, 1u << TRAIT_16_BIT},
                {PALETTE, 8, 0, 1, 1u << TRAIT_PALETTE},
                {PALETTE, 8, 1, 1, 1u << TRAIT_PALETTE | 1u << TRAIT_ALPHA},
                {GREY_ALPHA, 8, 0, 2, 1u << TRAIT_GREY | 1u << TRAIT_ALPHA},
                {RGB_ALPHA, 8, 0, 4, 1u << TRAIT_ALPHA},
                {RGB_ALPHA, 16, 0, 4, 1u << TRAIT_ALPHA | 1u << TRAIT_16_BIT}};
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++)
        for (int variant = 0; variant < 4; variant++) {
            uint8_t pixels[PIXELS * 4], packed[PIXELS * 8];
            size_t channels = rows[row].channels, to = variant < 2 ? 1 : 3, bytes = (size_t)rows[row].depth / 8;
            make_pixels(pixels, channels);
            for (size_t i = 0; i < PIXELS * channels; i++)
                memset(packed + i * bytes, pixels[i], bytes); /* 257 times the value in 16 bits */
            struct bytes file =
                write_png(packed, WIDTH, HEIGHT, rows[row].colour, rows[row].depth, variant % 2, rows[row].transparent);
            struct image image = decode(&file, to, rows[row].traits);
            for (size_t i = 0; i < PIXELS; i++) {
                uint8_t value = pixels[i * channels];
                uint8_t colours[3] = {value, value, value};
                if (rows[row].colour == PALETTE)
                    memcpy(colours, (uint8_t[]){value, (uint8_t)(255 - value), (uint8_t)(value / 2)}, 3);
                else if (channels >= 3)
                    memcpy(colours, pixels + i * channels, 3);
                for (size_t channel = 0; channel < to; channel++)
                    expect_near(&image, i * to + channel,
                                to == 3 ? colours[channel] : image_light(colours[0], colours[1], colours[2]), 0);
            }
            image_clear(&image);
            bytes_clear(&file);
        }
}

/* 1, 2 and 4 bits are stretched to 0 to 255. */
static void decodes_few_bits(void **state)
{
    (void)state;
    uint8_t rows[HEIGHT * WIDTH];
    memset(rows, 0x93, sizeof rows);
    static const uint8_t expected[3][4] = {{255, 0, 0, 255}, {170, 85, 0, 255}, {153, 51, 153, 51}};
    for (int i = 0; i < 3; i++) {
        struct bytes file = write_png(rows, WIDTH, HEIGHT, 0, 1 << i, false, false);
        struct image image = decode(&file, 1, 1u << TRAIT_GREY);
        assert_memory_equal(image.pixels, expected[i], 4);
        image_clear(&image);
        bytes_clear(&file);
    }
}

/* No prefix of a file is read as if it were whole. */
static void refuses_truncated(void **state)
{
    (void)state;
    uint8_t pixels[PIXELS * 3];
    make_pixels(pixels, 3);
    struct bytes files[] = {write_jpeg(pixels, WIDTH, HEIGHT, 3, 90),
                            write_png(pixels, WIDTH, HEIGHT, 2, 8, false, false)};
    for (int i = 0; i < 2; i++) {
        struct bytes prefix = files[i];
        for (prefix.count = 0; prefix.count < files[i].count; prefix.count++) {
            struct probe is;
            uint8_t *copy =
                malloc(prefix.count + 1); /* of the exact size, so that a sanitizer finds what reads behind */
            memcpy(copy, prefix.data, prefix.count);
            if (probe(&(struct bytes){copy, prefix.count}, &is))
                fail_msg("file %d is accepted without its last %zu bytes", i, files[i].count - prefix.count);
            free(copy);
        }
        prefix.count = files[i].count - 1;
        refused(&prefix, "f: truncated: ");
        bytes_clear(&files[i]);
    }
}

static void refuses_damaged(void **state)
{
    (void)state;
    uint8_t pixels[PIXELS * 3];
    make_pixels(pixels, 3);
    struct bytes file = write_png(pixels, WIDTH, HEIGHT, 2, 8, false, false);
    file.data[60] ^= 1; /* inside the compressed data */
    refused(&file, "f: damaged: ");
    file.data[60] ^= 1;
    memcpy(file.data + 16, "\0\0\0\0", 4);
    refused(&file, "f: byte 16: an image of 0x12");
    memcpy(file.data + 16, "\0\xff\xff\xff\0\xff\xff\xff", 8);
    refused(&file, "f: byte 16: an image of 16777215x16777215 has more than");
    memcpy(file.data + 12, "IHDX", 4);
    refused(&file, "f: byte 8: a PNG file without a header");
    bytes_clear(&file);

    file = write_jpeg(pixels, WIDTH, HEIGHT, 3, 100);
    size_t scan = file.count;
    while (scan > 1 && !(file.data[scan - 2] == 0xFF && file.data[scan - 1] == 0xDA))
        scan--;
    struct bytes hole = {.data = malloc(scan + 54), .count = scan + 54}; /* most of the data is missing */
    assert_true(hole.data != NULL && hole.count < file.count);
    memcpy(hole.data, file.data, hole.count - 2);
    memcpy(hole.data + hole.count - 2, "\xff\xd9", 2);
    refused(&hole, "f: damaged: ");
    bytes_clear(&hole);
    for (size_t i = 0; i + 1 < scan; i++) /* the frame: 12 bits per sample */
        if (file.data[i] == 0xFF && file.data[i + 1] == 0xC0) {
            file.data[i + 4] = 12;
            break;
        }
    refused(&file, "12 bits in a JPEG file");
    file.data[2] = 0;
    refused(&file, "f: byte 0: neither JPEG nor PNG");
    file.data[2] = 0xFF;
    file.data[3] = 0xD9;
    refused(&file, "f: byte 2: the JPEG file ends before an image");
    file.count = 0;
    refused(&file, "f: empty");
    bytes_clear(&file);
    struct bytes text = {(uint8_t *)(uintptr_t) "GIF89a", 6};
    refused(&text, "f: byte 0: neither JPEG nor PNG");
}

/* A failed read is not damage. */
static void notes_failed_reads(void **state)
{
    (void)state;
    struct probe_file file = {.name = "f", .bytes = 100, .fd = -1};
    struct probe is;
    reason = (struct reason){0};
    assert_false(probe_image(&file, &is, &reason));
    assert_string_equal(reason.text, "f: Bad file descriptor");
    assert_false(reason.is_damage);
}

static void sees_orientation(void **state)
{
    (void)state;
    uint8_t pixels[PIXELS];
    make_pixels(pixels, 1);
    struct bytes file = write_jpeg(pixels, WIDTH, HEIGHT, 1, 90);
    for (int i = 0; i < 4; i++) {
        struct bytes turned = add_exif(&file, i < 2 ? 6 : 1, i % 2);
        struct image image = decode(&turned, 1, 1u << TRAIT_GREY | (i < 2 ? 1u << TRAIT_ORIENTATION : 0));
        image_clear(&image);
        bytes_clear(&turned);
    }
    bytes_clear(&file);
}

static void shrinks_jpeg(void **state)
{
    (void)state;
    static uint8_t pixels[160 * 80];
    memset(pixels, 77, sizeof pixels);
    struct bytes file = write_jpeg(pixels, 160, 80, 1, 90);
    struct probe is;
    assert_true(probe(&file, &is));
    for (unsigned shrink = 1; shrink <= 8; shrink *= 2) {
        struct image image = {0};
        assert_true(image_decode("f", &file, &is, 1, shrink, &image, &reason));
        assert_int_equal(image.width, 160 / shrink);
        assert_int_equal(image.height, 80 / shrink);
        assert_in_range(image.pixels[100 / shrink], 75, 79);
        image_clear(&image);
    }
    bytes_clear(&file);
}

/* ---- resizing ---- */

static void resizes(void **state)
{
    (void)state;
    uint8_t pixels[PIXELS * 3];
    float out[PIXELS * 3 * 4];
    struct image image = {.width = WIDTH, .height = HEIGHT, .channels = 3, .pixels = pixels};
    make_pixels(pixels, 3);
    struct box whole = {0, 0, WIDTH, HEIGHT};
    assert_true(image_resize(&image, &whole, WIDTH, HEIGHT, out, &reason)); /* nothing changes */
    for (size_t i = 0; i < PIXELS * 3; i++)
        assert_true(fabsf(out[i] - pixels[i]) < 1e-3f);
    struct box part = {4, 3, 5, 6};
    assert_true(image_resize(&image, &part, 5, 6, out, &reason)); /* a cut */
    for (size_t y = 0; y < 6; y++)
        for (size_t x = 0; x < 5; x++)
            assert_true(fabsf(out[(y * 5 + x) * 3 + 2] - pixel(x + 4, y + 3, 2)) < 1e-3f);
    /* The image is linear, so inside it every size has the same values at the same place. */
    assert_true(image_resize(&image, &whole, WIDTH * 2, HEIGHT * 2, out, &reason));
    assert_true(fabsf(out[(12 * WIDTH * 2 + 20) * 3] - (20 + 5 * 9.75f + 4 * 5.75f)) < 1e-3f);
    assert_true(image_resize(&image, &whole, WIDTH / 4, HEIGHT / 4, out, &reason));
    assert_true(fabsf(out[(1 * WIDTH / 4 + 2) * 3] - (20 + 5 * 9.5f + 4 * 5.5f)) < 1e-3f);
    struct box thin = {19.9, 11.9, 0.1, 0.1};
    assert_true(image_resize(&image, &thin, 1, 1, out, &reason));
    assert_true(fabsf(out[0] - pixel(19, 11, 0)) < 1e-3f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decodes_jpeg),       cmocka_unit_test(decodes_cmyk),      cmocka_unit_test(decodes_png),
        cmocka_unit_test(decodes_few_bits),   cmocka_unit_test(refuses_truncated), cmocka_unit_test(refuses_damaged),
        cmocka_unit_test(sees_orientation),   cmocka_unit_test(shrinks_jpeg),      cmocka_unit_test(resizes),
        cmocka_unit_test(notes_failed_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
