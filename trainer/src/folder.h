/* Folders of image files: a sub-folder for each class, with JPEG and PNG files.
 *
 * Classes are numbered in the order of their names' bytes. When a folder is opened, every file is looked at (probe.h);
 * files are decoded each time they are used. The folder must not change meanwhile. Any thread may use an open folder.
 */
#ifndef TRAINER_FOLDER_H
#define TRAINER_FOLDER_H

#include "augment.h"

struct folder;
struct folder_options {
    const char *path;
    struct shape shape;          /* of the images to return; channels: 1 or 3 */
    size_t resize;               /* length of the shorter side before the cut */
    size_t class_count;          /* classes of the model: the folder may have fewer */
    const struct folder *others; /* borrowed during the call; NULL, or the folder with the training images: the classes
                                    must be among its classes */
    bool skips_damaged;          /* leave out damaged files instead of failing */
    int threads;                 /* threads that look at the files; 0: one */
};
/* Open a folder. If files are damaged, `reason` names one, and their number. A file that cannot be read is an error in
 * any case. */
bool folder_open(const struct folder_options *options, struct folder **ret_folder, struct reason *reason);
void folder_close(struct folder *folder); /* accepts NULL */
size_t folder_count(const struct folder *folder);
uint32_t folder_sum(const struct folder *folder); /* checksum of the names and classes of all used files */
const char *folder_class(const struct folder *folder, size_t index); /* name of a class; NULL: there is none */

/* Decode an image, use the part that `augment` and `chances` choose (NULL: the centre), and normalise it. If the file
 * is damaged, the next one that is not takes its place with skips_damaged; otherwise, the call fails. It also fails if
 * a file cannot be read. `ret_image` has room for an image. */
bool folder_image(struct folder *folder, size_t index, const struct augment *augment, const struct chances *chances,
                  float *ret_image, int32_t *ret_label, struct reason *reason);
/* Return the mean and the deviation (of values 0 to 255) by which a channel is normalised. */
void folder_normal(size_t channel, size_t channels, double *ret_mean, double *ret_deviation);
/* Decode one file in memory like the files of a folder, but do not normalise it: the values are 0 to 255. */
bool folder_decode(const char *path, const struct bytes *bytes, const struct shape *shape, size_t resize,
                   const struct augment *augment, const struct chances *chances, float *ret_values,
                   struct reason *reason);

/* Copy the next line for the user: about files that were left out, and what is ignored or converted. False if there is
 * no further line. Lines may be added by folder_image(). */
bool folder_next_note(struct folder *folder, char *ret_line, size_t line_bytes);
size_t folder_damaged(struct folder *folder); /* files left out or replaced so far */

#endif
