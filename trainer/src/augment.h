/* Random changes of training images, so that no epoch has exactly the same ones.
 *
 * All chances follow from seed, epoch and index of the image. So they depend neither on the number of threads nor on
 * the order of their work, and a run that continues from a checkpoint makes the same changes. Each kind of change has
 * its own chances, which the other kinds do not influence. Any thread may call these functions. */
#ifndef TRAINER_AUGMENT_H
#define TRAINER_AUGMENT_H

#include "image.h"
#include "model.h"

/* In the order in which they are applied. */
enum change { CHANGE_ZOOM, CHANGE_CROP, CHANGE_FLIP, CHANGE_BRIGHTNESS, CHANGE_CONTRAST, CHANGE_ERASE, CHANGE_COUNT };

struct augment {
    bool has[CHANGE_COUNT];
    /* The number after the name, or its default:
     * - zoom: least part of the area that is used
     * - crop: pixels of black that are added on each side before cropping; only for images that are not cut from larger
     * ones
     * - brightness, contrast: largest relative change
     * - erase: side of the square in pixels; 0: half of the image's shorter side */
    double amounts[CHANGE_COUNT];
};
/* Parse a list such as "crop,flip,erase:8". NULL or "" is none. */
bool augment_parse(const char *text, struct augment *ret, struct reason *reason);
const char *augment_names(void); /* the possible changes as text for messages; static */

/* The chances of one use of an image: each is in [0, 1). */
struct chances {
    double values[CHANGE_COUNT][2];
    uint64_t seed, epoch, index; /* for zoom, which may try several times */
};
struct chances augment_draw(uint64_t seed, uint64_t epoch, uint64_t index);

/* Return the part of an image file of width x height pixels to use for an image of the shape `out`. Without changes,
 * the shorter side becomes `resize` pixels long and the centre is used, as for test images (NULL). */
struct box augment_box(const struct augment *augment, const struct chances *chances, size_t width, size_t height,
                       const struct shape *out, size_t resize);

/* Change a normalised image in place. `black` has the normalised value of black for each channel. `spare` has room for
 * an image. is_cut: augment_box() has already made CHANGE_CROP. */
void augment_apply(const struct augment *augment, const struct chances *chances, const struct shape *shape,
                   const float *black, bool is_cut, float *image, float *spare);

#endif
