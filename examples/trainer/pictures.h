/* Pictures with labels out of the files of MNIST, Fashion-MNIST (IDX) and CIFAR-10 (binary).
 *
 * What a file says of itself is checked against its size before it is believed; a reason names file, byte and fault.
 * No threads, nothing shared. */
#ifndef TRAINER_PICTURES_H
#define TRAINER_PICTURES_H

#include "file.h"
#include "model.h"

struct pictures {
    struct shape shape;
    size_t count;
    uint8_t *pixels; /* owned; rows, columns, channels of each */
    uint8_t *labels; /* owned */
};
void pictures_clear(struct pictures *pictures); /* takes a zeroed one */

/* `images_name` and `labels_name` are for reasons alone. Labels are below `class_count`. */
bool pictures_from_idx(const char *images_name, const struct bytes *images, const char *labels_name,
                       const struct bytes *labels, size_t class_count, struct pictures *ret, struct reason *reason);
/* Adds the records of one file to `pictures`, which is zeroed before the first one. */
bool pictures_add_cifar10(const char *name, const struct bytes *bytes, struct pictures *pictures,
                          struct reason *reason);

enum part { PART_TRAIN, PART_TEST, PART_COUNT };
/* The files of a folder as they are named where they come from; compressed ones are refused with a hint. */
bool pictures_read_mnist(const char *folder, enum part part, struct pictures *ret, struct reason *reason);
bool pictures_read_cifar10(const char *folder, enum part part, struct pictures *ret, struct reason *reason);

#endif
