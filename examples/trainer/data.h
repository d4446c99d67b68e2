/* Data sets: images with labels, and the order in which an epoch uses them.
 *
 * A set is stored in host memory as bytes, or generated on demand (synthetic). Images are fp32 in the order rows,
 * columns, channels. Those from files are normalised per channel with the training images' mean and deviation. Grey
 * images are copied into every channel.
 *
 * A set does not change while it is open, so any thread may use it. */
#ifndef TRAINER_DATA_H
#define TRAINER_DATA_H

#include "pictures.h"

struct data_options {
    const char *source;  /* "synthetic", "mnist:FOLDER", "cifar10:FOLDER" */
    struct shape shape;  /* shape of the model's input */
    size_t class_count;  /* number of classes of the model */
    uint64_t seed;       /* seed of synthetic images and of random labels */
    size_t image_count;  /* number of synthetic training images; the test part has a fifth as many */
    bool labels_are_lot; /* give the training images random labels, so that nothing can be learned */
};

enum { DATA_IMAGES_MAX = 1 << 30 }; /* in one part of a data set */

struct data;
bool data_open(const struct data_options *options, struct data **ret_data, struct reason *reason);
void data_close(struct data *data); /* accepts NULL */
size_t data_count(const struct data *data, enum part part);
/* Copy image `index` of a part and its label. `index` must be less than the number of images in the part. An index
 * always returns the same image. */
void data_image(const struct data *data, enum part part, size_t index, float *ret_image, int32_t *ret_label);

/* Read the images of a file that is not part of the set (see picture_file.h). Their size must be that of the model's
 * input. A synthetic set has no mean and deviation by which to normalise them, so the call fails. */
bool data_read_file(const struct data *data, const char *path, struct pictures *ret, struct reason *reason);
/* Copy image `index` of such a file, normalised like the set's images, and its label, or 0 if it has none. */
void data_file_image(const struct data *data, const struct pictures *pictures, size_t index, float *ret_image,
                     int32_t *ret_label);
/* Return the name of a class, for example "frog", or NULL if the set has no names. The text is static. */
const char *data_class_name(const struct data *data, size_t class);

/* Write the order in which an epoch uses `count` images into `order`. The seed and the epoch decide it, on every
 * machine alike. */
void data_order(uint64_t seed, uint64_t epoch, size_t count, uint32_t *order);

#endif
