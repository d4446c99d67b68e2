/* Data sets: images with labels, and the order in which an epoch uses them.
 *
 * A set is stored in host memory, generated on demand (synthetic), or decoded from image files on demand. Images are
 * fp32 in the order rows, columns, channels. Those stored in memory are normalised per channel with the training
 * images' mean and deviation, those of image files with ImageNet's. Grey images are copied into every channel.
 *
 * A set does not change while it is open, so any thread may use it. */
#ifndef TRAINER_DATA_H
#define TRAINER_DATA_H

#include "folder.h"
#include "pictures.h"

struct data_options {
    const char *source;      /* a name from data_sources() */
    const char *test_source; /* where the test images are instead, or NULL */
    struct shape shape;      /* shape of the model's input */
    size_t class_count;      /* number of classes of the model */
    uint64_t seed;           /* seed of synthetic images and of random labels */
    size_t image_count;      /* number of synthetic training images; the test part has a fifth as many */
    const char *augment;     /* changes of the training images (augment.h); NULL: none */
    size_t resize;           /* image files: length of the shorter side before the cut; 0: 8/7 of the model's */
    bool skips_damaged;      /* image files: leave out damaged files instead of failing */
    int threads;             /* image files: threads that look at the files when the set is opened; 0: one */
    bool labels_are_lot;     /* give the training images random labels, so that nothing can be learned */
};

enum { DATA_IMAGES_MAX = 1 << 30 }; /* in one part of a data set */

struct data;
bool data_open(const struct data_options *options, struct data **ret_data, struct reason *reason);
void data_close(struct data *data); /* accepts NULL */
/* Return the number of images in a part. The test part may be empty. */
size_t data_count(const struct data *data, enum part part);
/* Return the possible sources as text: "synthetic, mnist:FOLDER, ..."; static. */
const char *data_sources(void);

/* True if data_image() decodes a file, which takes longer than copying. */
bool data_decodes(const struct data *data);
/* Return a text that identifies the images and what is done with them; runs with different texts differ. Owned by
 * `data`. */
const char *data_identity(const struct data *data);
/* Copy the next line for the user, about damaged files or what is ignored in files. False if there is no further line.
 */
bool data_next_note(const struct data *data, char *ret_line, size_t line_bytes);
/* Return the number of damaged image files that were left out or replaced so far. */
size_t data_damaged(const struct data *data);
/* Return the name of a class, for example "frog"; NULL if it is unknown. Owned by `data`. */
const char *data_class_name(const struct data *data, size_t class);

/* Read the images of a file that is not part of the set: JPEG, PNG, or a format of picture_file.h. JPEG and PNG are
 * resized and cut like the set's if those are image files; all others must have the size of the model's input. The
 * values must be bytes or fp32 numbers, as in the set. A synthetic set has no mean and deviation by which to normalise
 * them, so the call fails. */
bool data_read_file(const struct data *data, const char *path, struct pictures *ret, struct reason *reason);
/* Copy image `index` of such a file, normalised like the set's images, and its label, or 0 if it has none. */
void data_file_image(const struct data *data, const struct pictures *pictures, size_t index, float *ret_image,
                     int32_t *ret_label);

/* One use of an image. */
struct pick {
    enum part part;
    uint64_t epoch;
    size_t index; /* less than the number of images in the part */
};
/* Copy an image and its label. The same pick always returns the same values. Fails only for image files: if one cannot
 * be read or decoded. */
bool data_image(const struct data *data, const struct pick *pick, float *ret_image, int32_t *ret_label,
                struct reason *reason);

/* Write the order in which an epoch uses `count` images into `order`. The seed and the epoch decide it, on every
 * machine alike. */
void data_order(uint64_t seed, uint64_t epoch, size_t count, uint32_t *order);

#endif
