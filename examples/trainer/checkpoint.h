/* Write and read checkpoints. A checkpoint is one file with everything needed to continue a training exactly. It
 * stores no random state: initial values, data and the order of each epoch depend only on the seed.
 *
 * A checkpoint is written to a temporary file in the same folder, synced, and renamed over the previous checkpoint;
 * then the folder is synced. If the process or the machine dies at any time, the name refers to a complete file: the
 * previous checkpoint or the new one. Only one run at a time may write to a name.
 *
 * Little-endian: magic "GSTRAIN1"; u32 bytes of the header; u32 CRC-32 (as in zlib) of everything after this field;
 * the header, lines of "key value" in the order below; then fp32: parameters, moments, statistics. The reader checks
 * every value against the file's size and the checksum. Not thread-safe. */
#ifndef TRAINER_CHECKPOINT_H
#define TRAINER_CHECKPOINT_H

#include "file.h"
#include "model.h"

enum { CHECKPOINT_TEXT_BYTES = 256, CHECKPOINT_MOMENTS_MAX = 2 };

/* Each count is stored before the array that it counts. */
struct checkpoint {
    /* These values must match to continue a training. */
    char model[CHECKPOINT_TEXT_BYTES]; /* name */
    uint32_t model_sum;                /* checkpoint_model_sum() */
    uint64_t parameter_count, statistics_count, moment_count;
    char optimizer[CHECKPOINT_TEXT_BYTES];
    char data[CHECKPOINT_TEXT_BYTES]; /* as given; only the end of a longer name is stored */
    uint64_t image_count;             /* number of images in the training set */
    uint64_t batch;                   /* images per step on all devices */
    uint64_t seed;
    /* These values must also match to get bit-identical results. */
    char precision[CHECKPOINT_TEXT_BYTES];
    uint64_t micro_batch, devices;
    double rate, momentum, weight_decay;
    /* The progress of the training. */
    uint64_t step;            /* steps so far, including broken ones */
    uint64_t update_number;   /* updates of the parameters, for Adam */
    uint64_t epoch, position; /* position: index of the next image in the epoch's order */
    double loss_scale;
    /* Good steps since the scale changed; all broken steps; broken steps in a row up to now. */
    uint64_t good_steps, broken_steps, broken_in_a_row;

    float *parameters; /* owned, like the arrays below; NULL if the count is 0 */
    float *moments[CHECKPOINT_MOMENTS_MAX];
    float *statistics;
};
void checkpoint_clear(struct checkpoint *checkpoint); /* accepts a zeroed struct */
/* Allocate the arrays. The counts must be set. */
bool checkpoint_alloc(struct checkpoint *checkpoint, struct reason *reason);

/* Return a checksum of the model's layers. It differs even for models that have the same number of parameters but
 * different layers. */
uint32_t checkpoint_model_sum(const struct model *model);

bool checkpoint_write(const char *path, const struct checkpoint *checkpoint, struct reason *reason);
/* Read a checkpoint. A file larger than `most_bytes` is rejected before it is read. */
bool checkpoint_read(const char *path, uint64_t most_bytes, struct checkpoint *ret_checkpoint, struct reason *reason);
/* Parse a checkpoint in memory. `name` is the file name for error messages. */
bool checkpoint_parse(const char *name, const struct bytes *bytes, struct checkpoint *ret_checkpoint,
                      struct reason *reason);
/* Return the maximum size of a file with these counts. */
uint64_t checkpoint_bytes_max(uint64_t parameter_count, uint64_t statistics_count);

/* True if a training can continue from `is`. The first part of `wants` has the requested values. `ret_note` explains
 * why the numbers will differ in their last bits, or is "". */
bool checkpoint_fits(const struct checkpoint *is, const struct checkpoint *wants, char *ret_note, size_t note_bytes,
                     struct reason *reason);

#endif
