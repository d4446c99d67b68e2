/* A checkpoint: everything needed to continue a training exactly, in one file. There is no random state to store:
 * initial values, data and the order of each epoch depend only on the seed.
 *
 * It is written to a temporary file beside its name, synced, and renamed over the previous checkpoint; then the
 * folder is synced. Whenever the process or the machine dies, the name refers to a complete file, the previous one
 * or the new one. Only one run at a time may write to a name.
 *
 * Little-endian: magic "GSTRAIN1"; u32 bytes of the header; u32 crc of everything after the crc (CRC-32 as in zlib);
 * the header, lines of "key value" in the order below; then fp32: parameters, moments, statistics. The reader checks
 * every value against the file's size and the checksum. No threads. */
#ifndef TRAINER_CHECKPOINT_H
#define TRAINER_CHECKPOINT_H

#include "file.h"
#include "model.h"

enum { CHECKPOINT_TEXT_BYTES = 256, CHECKPOINT_MOMENTS_MAX = 2 };

/* A count is before the array that it counts. */
struct checkpoint {
    /* What a training must match to continue from it. */
    char model[CHECKPOINT_TEXT_BYTES]; /* name */
    uint32_t model_sum;                /* checkpoint_model_sum() */
    uint64_t parameter_count, statistics_count, moment_count;
    char optimizer[CHECKPOINT_TEXT_BYTES];
    char data[CHECKPOINT_TEXT_BYTES]; /* as given; a longer name keeps its end */
    uint64_t image_count;             /* in the training set */
    uint64_t batch;                   /* images per step on all devices */
    uint64_t seed;
    /* What else must match to get the same numbers to the last bit. */
    char precision[CHECKPOINT_TEXT_BYTES];
    uint64_t micro_batch, devices;
    double rate, momentum, weight_decay;
    /* How far the training has come. */
    uint64_t step;            /* steps so far, including broken ones */
    uint64_t update_number;   /* updates of the parameters, for Adam */
    uint64_t epoch, position; /* position: the next image in the epoch's order */
    double loss_scale;
    uint64_t good_steps, broken_steps, broken_in_a_row; /* since the scale changed; total; most recent */

    float *parameters; /* owned, like the arrays below; NULL if the count is 0 */
    float *moments[CHECKPOINT_MOMENTS_MAX];
    float *statistics;
};
void checkpoint_clear(struct checkpoint *checkpoint); /* accepts a zeroed struct */
/* Allocate the arrays for the counts. */
bool checkpoint_alloc(struct checkpoint *checkpoint, struct reason *reason);

/* Return a checksum of the model. It distinguishes models with equal numbers of parameters that compute something
 * else. */
uint32_t checkpoint_model_sum(const struct model *model);

bool checkpoint_write(const char *path, const struct checkpoint *checkpoint, struct reason *reason);
/* A file larger than `most_bytes` is rejected before it is read. */
bool checkpoint_read(const char *path, uint64_t most_bytes, struct checkpoint *ret_checkpoint, struct reason *reason);
/* Parse a checkpoint in memory; `name` is used in reasons. */
bool checkpoint_parse(const char *name, const struct bytes *bytes, struct checkpoint *ret_checkpoint,
                      struct reason *reason);
/* Return the maximum size of a file with these counts. */
uint64_t checkpoint_bytes_max(uint64_t parameter_count, uint64_t statistics_count);

/* Whether a training can continue from `is`, where `wants` has the requested values in its first part. `ret_note` is
 * "" or explains why the numbers will differ in their last bits. */
bool checkpoint_fits(const struct checkpoint *is, const struct checkpoint *wants, char *ret_note, size_t note_bytes,
                     struct reason *reason);

#endif
