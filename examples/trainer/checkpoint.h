/* What a training needs to go on as if nothing had happened, in one file. There is no random state: first values, data
 * and each epoch's order come from the seed alone.
 *
 * It is written beside its name, synced, renamed over the last one, and the folder is synced: whenever the process or
 * the machine dies, there is a whole file under the name, the last one or this one. One run at a time writes a name.
 *
 * Little-endian: magic "GSTRAIN1"; u32 bytes of the head; u32 crc of all that follows it (CRC-32 as zlib's); the head,
 * lines of "key value" in the order below; then fp32: parameters, moments, statistics. A reader believes nothing that
 * does not agree with the file's size and the checksum. No threads. */
#ifndef TRAINER_CHECKPOINT_H
#define TRAINER_CHECKPOINT_H

#include "file.h"
#include "model.h"

enum { CHECKPOINT_TEXT_BYTES = 256, CHECKPOINT_MOMENTS_MAX = 2 };

/* Counts come before what they count. */
struct checkpoint {
    /* What it must fit. */
    char model[CHECKPOINT_TEXT_BYTES]; /* name */
    uint32_t model_sum;                /* checkpoint_model_sum() */
    uint64_t parameter_count, statistics_count, moment_count;
    char optimizer[CHECKPOINT_TEXT_BYTES];
    char data[CHECKPOINT_TEXT_BYTES]; /* as given; a longer one keeps its end */
    uint64_t image_count;             /* of the training part */
    uint64_t batch;                   /* images in a step, all devices */
    uint64_t seed;
    /* What gives the same numbers, to the last bit. */
    char precision[CHECKPOINT_TEXT_BYTES];
    uint64_t micro_batch, devices;
    double rate, momentum, weight_decay;
    /* Where it is. */
    uint64_t step;            /* steps made, broken ones, too */
    uint64_t update_number;   /* steps taken: Adam's */
    uint64_t epoch, position; /* the next image of the order */
    double loss_scale;
    uint64_t good_steps, broken_steps, broken_in_a_row; /* since the scale changed; in all; just now */

    float *parameters; /* owned, as the following; NULL where the count is 0 */
    float *moments[CHECKPOINT_MOMENTS_MAX];
    float *statistics;
};
void checkpoint_clear(struct checkpoint *checkpoint); /* takes a zeroed one */
/* Memory for what the counts say. */
bool checkpoint_alloc(struct checkpoint *checkpoint, struct reason *reason);

/* Different for models that compute something else from the same count of parameters. */
uint32_t checkpoint_model_sum(const struct model *model);

bool checkpoint_write(const char *path, const struct checkpoint *checkpoint, struct reason *reason);
/* `most_bytes`: a larger file is refused before it is read. */
bool checkpoint_read(const char *path, uint64_t most_bytes, struct checkpoint *ret_checkpoint, struct reason *reason);
/* The same from memory; `name` for reasons. */
bool checkpoint_parse(const char *name, const struct bytes *bytes, struct checkpoint *ret_checkpoint,
                      struct reason *reason);
/* How large the file of such counts may be. */
uint64_t checkpoint_bytes_max(uint64_t parameter_count, uint64_t statistics_count);

/* Whether training may go on from `is` where `wants` is what was asked for (its first part). `ret_note`: "" or what
 * makes the numbers differ in their last bits. */
bool checkpoint_fits(const struct checkpoint *is, const struct checkpoint *wants, char *ret_note, size_t note_bytes,
                     struct reason *reason);

#endif
