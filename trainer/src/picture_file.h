/* Read images that are to be classified, from one file:
 * - binary PGM or PPM (P5, P6) with 8 bits per value: one image
 * - IDX (as MNIST) and .npy: any number of images
 * - CIFAR-10's binary format: any number of images, with labels
 * The content decides which one it is. To add a format, add a row to the table in picture_file.c. Any thread may call
 * these functions. */
#ifndef TRAINER_PICTURE_FILE_H
#define TRAINER_PICTURE_FILE_H

#include "pictures.h"

/* Parse a file in memory. ret->labels is NULL if the format has no labels. `name` is only used in error messages. On
 * failure, `reason` names the file, the byte and the problem. */
bool picture_file_parse(const char *name, const struct bytes *bytes, struct pictures *ret, struct reason *reason);

#endif
