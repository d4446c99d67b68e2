/* Fuzz the decoders of image files in the trainer (trainer/), and the code that looks at files before. The
 * first byte selects the channels and the reduction. Checksums of PNG files are not checked. */
#include "image.h"
#include "image_writer.h"
#include "seeds.h"

#include <string.h>

enum { PIXELS_MAX = 1 << 16 }; /* larger images take too long */

static void resize(const struct image *image)
{
    float out[7 * 5 * 3];
    struct box box = {.left = (double)image->width / 3,
                      .top = (double)image->height / 5,
                      .width = (double)image->width / 2,
                      .height = (double)image->height * 0.8};
    struct reason reason;
    if (!image_resize(image, &box, 7, 5, out, &reason))
        return;
    for (size_t i = 0; i < 7 * 5 * image->channels; i++)
        if (!(out[i] >= -0.01f && out[i] <= 255.01f))
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes < 1)
        return 0;
    struct bytes file = {(uint8_t *)data + 1, bytes - 1};
    struct probe_file source = {.name = "f", .bytes = file.count, .data = file.data, .fd = -1};
    struct image image = {0};
    struct probe probe;
    struct reason reason;
    size_t channels = data[0] % 2 == 0 ? 1 : 3;
    if (!probe_image(&source, &probe, &reason) || probe.width * probe.height > PIXELS_MAX)
        return 0;
    if (image_decode("f", &file, &probe, channels, 1u << data[0] / 2 % 4, &image, &reason)) {
        if (image.channels != channels)
            abort();
        resize(&image);
    }
    image_clear(&image);
    return 0;
}

/* ---- seeds ---- */

static void seed_file(const char *folder, size_t index, struct bytes file)
{
    FILE *seed = open_seed(folder, index);
    if (seed != NULL) {
        fputc((int)index, seed);
        fwrite(file.data, 1, file.count, seed);
        fclose(seed);
    }
    bytes_clear(&file);
}

static void write_seeds(const char *folder)
{
    uint8_t pixels[24 * 16 * 8];
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(i * i / 7);
    struct bytes grey = write_jpeg(pixels, 24, 16, 1, 80);
    seed_file(folder, 0, add_exif(&grey, 6, true));
    seed_file(folder, 1, write_jpeg(pixels, 24, 16, 3, 50));
    seed_file(folder, 2, write_jpeg(pixels, 24, 16, 4, 90));
    seed_file(folder, 3, write_png(pixels, 24, 16, 6, 16, true, false));
    seed_file(folder, 4, write_png(pixels, 24, 16, 3, 8, false, true));
    seed_file(folder, 5, write_png(pixels, 24, 16, 0, 1, false, false));
    bytes_clear(&grey);
}
