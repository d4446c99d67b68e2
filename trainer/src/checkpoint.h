/* Write and read checkpoints. A checkpoint is one file with everything needed to continue a training run exactly. It
 * has no random state: initial values, data and the order of each epoch depend only on the seed.
 *
 * A new checkpoint is written to a temporary file, synced, and renamed over the previous one. Then the folder is
 * synced. So even after a crash, the file is complete, old or new. Only one run at a time may write to a name.
 *
 * The format is little-endian:
 * - magic "GSTRAIN2"
 * - u32: size of the header in bytes
 * - u32: CRC-32 (as in zlib) of everything after this field
 * - the header: lines of "key value" in the order of the table in checkpoint.c
 * - fp32: parameters, moments, statistics, moving average of the parameters
 * An older file begins with "GSTRAIN1" and lacks the fields that checkpoint.c marks with FIELD_2. It is still read.
 * The reader checks the checksum and the file's size. Not thread-safe. */
#ifndef TRAINER_CHECKPOINT_H
#define TRAINER_CHECKPOINT_H

#include "file.h"
#include "model.h"

/* The recipe of a training without further settings, and of all checkpoints in the older format. */
#define CHECKPOINT_PLAIN "constant rate"
enum { CHECKPOINT_TEXT_BYTES = 256, CHECKPOINT_RECIPE_BYTES = 1024, CHECKPOINT_MOMENTS_MAX = 2 };

/* The content of a checkpoint. In the file, all fields before `parameters` are in the header. */
struct checkpoint {
    /* A run can continue from the checkpoint only if its own values are equal to these: */
    char model[CHECKPOINT_TEXT_BYTES]; /* name */
    uint32_t model_sum;                /* checkpoint_model_sum() */
    uint64_t parameter_count, statistics_count, moment_count;
    uint64_t average_count; /* 1 if there is a moving average of the parameters, otherwise 0 */
    char optimizer[CHECKPOINT_TEXT_BYTES];
    char data[CHECKPOINT_TEXT_BYTES]; /* as given by the user; if the name is too long, only its end is stored */
    uint64_t image_count;             /* number of images in the training set */
    uint64_t batch;                   /* images per step on all devices */
    uint64_t seed;
    /* A run with other values can continue, too, but its results differ from those of an uninterrupted run: */
    char precision[CHECKPOINT_TEXT_BYTES];
    uint64_t micro_batch, devices;
    double rate, momentum, weight_decay;
    /* The other settings that change the results, as a text for the user. Older trainers reject a longer text than
     * CHECKPOINT_TEXT_BYTES. */
    char recipe[CHECKPOINT_RECIPE_BYTES];
    /* The progress of the training. */
    uint64_t step;            /* number of steps so far, including broken ones (a gradient was not finite) */
    uint64_t update_number;   /* number of updates of the parameters so far, for Adam's bias correction */
    uint64_t epoch, position; /* position: index of the next image in the epoch's order */
    double loss_scale;
    /* Numbers of steps:
     * - good_steps: since the loss scale last changed
     * - broken_steps: since the training run began
     * - broken_in_a_row: since the last good step or reduction of the loss scale */
    uint64_t good_steps, broken_steps, broken_in_a_row;

    /* The best evaluation so far (best_step 0: none), and the number of evaluations since. */
    double best_accuracy;
    uint64_t best_step, worse_evaluations;

    float *parameters; /* owned, like the arrays below; NULL if the count is 0 */
    float *moments[CHECKPOINT_MOMENTS_MAX];
    float *statistics;
    float *average;
};
/* The weights that evaluations, predictions and other programs use: the moving average if there is one. */
static inline const float *checkpoint_weights(const struct checkpoint *checkpoint)
{
    return checkpoint->average_count != 0 ? checkpoint->average : checkpoint->parameters;
}
void checkpoint_clear(struct checkpoint *checkpoint); /* accepts a zeroed struct */
/* Allocate the arrays, whose sizes follow from the counts in `checkpoint`. */
bool checkpoint_alloc(struct checkpoint *checkpoint, struct reason *reason);

/* Return a checksum of the model's layers. Models with different layers differ here, even if they have equally many
 * parameters. */
uint32_t checkpoint_model_sum(const struct model *model);

bool checkpoint_write(const char *path, const struct checkpoint *checkpoint, struct reason *reason);
/* Read a checkpoint. A file larger than `most_bytes` is rejected before it is read. */
bool checkpoint_read(const char *path, uint64_t most_bytes, struct checkpoint *ret_checkpoint, struct reason *reason);
/* Parse a checkpoint in memory. `name` is the file name for error messages. */
bool checkpoint_parse(const char *name, const struct bytes *bytes, struct checkpoint *ret_checkpoint,
                      struct reason *reason);
/* Return the maximum size in bytes of a checkpoint file with these counts. */
uint64_t checkpoint_bytes_max(uint64_t parameter_count, uint64_t statistics_count);

/* True if a run described by `wants` can continue from the checkpoint `is`; otherwise `reason` says why not.
 * `ret_note` is "" if the results will equal those of an uninterrupted run; otherwise it says why they will differ.
 * The progress and the arrays of `wants` are not read. */
bool checkpoint_fits(const struct checkpoint *is, const struct checkpoint *wants, char *ret_note, size_t note_bytes,
                     struct reason *reason);

#endif
