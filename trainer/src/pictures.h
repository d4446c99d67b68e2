/* Read labelled images that fit into host memory: pairs of IDX or NumPy files (MNIST and Fashion-MNIST among them), and
 * CIFAR-10 and CIFAR-100 (binary format). Sizes in a file are checked against the file's size. On failure, `reason`
 * names the file, the byte and the problem. Any thread may call these functions. */
#ifndef TRAINER_PICTURES_H
#define TRAINER_PICTURES_H

#include "array.h"
#include "model.h"

struct pictures {
    struct shape shape;
    size_t count;
    /* Owned: image after image, each with its rows in order; the channels of a pixel are adjacent. One of the two is
     * NULL: bytes are in `pixels`, fp32 numbers, all finite, in `reals`. */
    uint8_t *pixels;
    float *reals;
    int32_t *labels; /* owned; NULL if there are only images; each at least 0 and below the number of classes */
};
void pictures_clear(struct pictures *pictures); /* accepts a zeroed struct */

/* Make pictures of two arrays. Images: u8 or f32, with the dimensions count, rows, columns and possibly channels (1 or
 * 3). Labels: integers below `class_count`, one dimension. */
bool pictures_from_arrays(const struct array *images, const struct array *labels, size_t class_count,
                          struct pictures *ret, struct reason *reason);
/* Parse a pair of IDX files. `images_name` and `labels_name` are only used in error messages. */
bool pictures_from_idx(const char *images_name, const struct bytes *images, const char *labels_name,
                       const struct bytes *labels, size_t class_count, struct pictures *ret, struct reason *reason);
/* The same for a pair of .npy files. */
bool pictures_from_npy(const char *images_name, const struct bytes *images, const char *labels_name,
                       const struct bytes *labels, size_t class_count, struct pictures *ret, struct reason *reason);
/* The same for images only, from an IDX or a .npy file: ret->labels is NULL. */
bool pictures_images_from_idx(const char *name, const struct bytes *bytes, struct pictures *ret, struct reason *reason);
bool pictures_images_from_npy(const char *name, const struct bytes *bytes, struct pictures *ret, struct reason *reason);
/* Append the records of one file of CIFAR-10 (classes: 10) or CIFAR-100 (classes: 100, the fine labels) to `pictures`,
 * which the caller zeroes before the first file. */
bool pictures_add_cifar(const char *name, const struct bytes *bytes, unsigned classes, struct pictures *pictures,
                        struct reason *reason);

enum part { PART_TRAIN, PART_TEST, PART_COUNT };
/* Read the training or the test images from a folder. The files must be unpacked and have their original names (mnist,
 * cifar), or be train-images.npy, train-labels.npy, test-images.npy and test-labels.npy; otherwise, the call fails. */
bool pictures_read_mnist(const char *folder, enum part part, size_t class_count, struct pictures *ret,
                         struct reason *reason);
bool pictures_read_cifar10(const char *folder, enum part part, size_t class_count, struct pictures *ret,
                           struct reason *reason);
bool pictures_read_cifar100(const char *folder, enum part part, size_t class_count, struct pictures *ret,
                            struct reason *reason);
bool pictures_read_npy(const char *folder, enum part part, size_t class_count, struct pictures *ret,
                       struct reason *reason);
/* Read a pair of files named as "IMAGES,LABELS". */
bool pictures_read_idx_pair(const char *pair, size_t class_count, struct pictures *ret, struct reason *reason);
bool pictures_read_npy_pair(const char *pair, size_t class_count, struct pictures *ret, struct reason *reason);

#endif
