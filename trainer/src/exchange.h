/* Exchange trained networks with other programs: which files a training starts from and writes at its end. */
#ifndef TRAINER_EXCHANGE_H
#define TRAINER_EXCHANGE_H

#include "model.h"

/* The names of files; NULL: none. */
struct exchange {
    const char *weights; /* initial parameters and statistics, instead of random ones (weights.h) */
    const char *except;  /* layers that keep their random values, as for weights_read() */
    /* Written after the last step: */
    const char *save_weights; /* weights.h */
    const char *onnx;         /* onnx.h */
};

/* Read exchange->weights, if it is given, into the vectors, which have the model's initial values. */
bool exchange_begin(const struct exchange *exchange, const struct model *model, float *parameters, float *statistics,
                    struct reason *reason);
/* True if exchange_end() writes a file. */
bool exchange_writes(const struct exchange *exchange);
/* Check before the training that the model can be written, and the files created. */
bool exchange_check(const struct exchange *exchange, const struct model *model, struct reason *reason);
bool exchange_end(const struct exchange *exchange, const struct model *model, const float *parameters,
                  const float *statistics, struct reason *reason);

/* Write the files without a training and without a device. The values are those of the checkpoint, if one is given, or
 * else of exchange->weights, or else the initial values for `seed`. */
bool exchange_convert(const struct exchange *exchange, const char *model_path, const char *checkpoint_path,
                      uint64_t seed, struct reason *reason);

#endif
