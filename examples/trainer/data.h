/* Data sets: where images and labels come from, and in which order.
 *
 * A set lies in host memory as bytes, or is made as it is asked for (synthetic); never on the card as a whole. Images
 * are given as fp32, rows, columns, channels; of files: less the mean of the training images and divided by their
 * deviation, by channel; grey ones go into all channels of a model. An open set does not change: any thread. */
#ifndef TRAINER_DATA_H
#define TRAINER_DATA_H

#include "pictures.h"

struct data_options {
    const char *source;  /* "synthetic", "mnist:FOLDER", "cifar10:FOLDER" */
    struct shape shape;  /* what the model takes */
    size_t class_count;  /* what it tells apart */
    uint64_t seed;       /* of synthetic images, and of labels drawn by lot */
    size_t image_count;  /* of synthetic training images; a fifth as many to test */
    bool labels_are_lot; /* training labels have nothing to do with the images: nothing can be learned from them */
};

struct data;
bool data_open(const struct data_options *options, struct data **ret_data, struct reason *reason);
void data_close(struct data *data); /* takes NULL */
size_t data_count(const struct data *data, enum part part);
/* Image `index` of a part, below its count. The same index gives the same image. */
void data_image(const struct data *data, enum part part, size_t index, float *ret_image, int32_t *ret_label);

/* In which order an epoch takes `count` images: the same seed and epoch give the same order everywhere. `order` has
 * place for `count` numbers. */
void data_order(uint64_t seed, uint64_t epoch, size_t count, uint32_t *order);

#endif
