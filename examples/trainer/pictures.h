/* Read labelled images from MNIST and Fashion-MNIST (IDX format) and CIFAR-10 (binary format). Sizes in a file are
 * checked against the file's size. On failure, `reason` names the file, the byte and the problem. Any thread may call
 * these functions. */
#ifndef TRAINER_PICTURES_H
#define TRAINER_PICTURES_H

#include "file.h"
#include "model.h"

struct pictures {
    struct shape shape;
    size_t count;
    uint8_t *pixels; /* owned; image after image, each with its rows in order; the channels of a pixel are adjacent */
    uint8_t *labels; /* owned */
};
void pictures_clear(struct pictures *pictures); /* accepts a zeroed struct */

/* Parse a pair of IDX files. `images_name` and `labels_name` are only used in error messages. Labels must be below
 * `class_count`. */
bool pictures_from_idx(const char *images_name, const struct bytes *images, const char *labels_name,
                       const struct bytes *labels, size_t class_count, struct pictures *ret, struct reason *reason);
/* Parse a file with images only: ret->labels is NULL. */
bool pictures_images_from_idx(const char *name, const struct bytes *bytes, struct pictures *ret, struct reason *reason);
/* Append the records of one file to `pictures`, which the caller zeroes before the first file. */
bool pictures_add_cifar10(const char *name, const struct bytes *bytes, struct pictures *pictures,
                          struct reason *reason);

enum part { PART_TRAIN, PART_TEST, PART_COUNT };
/* Read the training or the test images from a folder. The files must have their original names and be unpacked;
 * otherwise, the call fails. */
bool pictures_read_mnist(const char *folder, enum part part, struct pictures *ret, struct reason *reason);
bool pictures_read_cifar10(const char *folder, enum part part, struct pictures *ret, struct reason *reason);

#endif
