/* Classify images with the parameters of a checkpoint, or with their moving average if the checkpoint has one. The
 * model runs as in an evaluation, with the running statistics of batch normalisation. */
#ifndef TRAINER_PREDICT_H
#define TRAINER_PREDICT_H

#include "train.h"

/* Print a line on `out` for each image of each source: its name and number, the predicted class, its name if the data
 * set has names, its probability, and the label if it is known. A source is a file (data_read_file()), or "train" or
 * "test" for a part of the data set. After a source with labels, a line has the number of right predictions.
 *
 * options->checkpoint_path must be set. The data set is opened, too, because its mean and deviation normalise the
 * images of a file. */
bool predict(const struct train_options *options, const char *const *sources, size_t count, FILE *out,
             struct reason *reason);

#endif
