/* Read a model's parameters from a safetensors file and write them to one, with PyTorch's names and layouts.
 *
 * The tensors of a layer with the title "conv1" (model.h: "as conv1") are:
 * - conv: conv1.weight (outputs, inputs, rows, columns), conv1.bias
 * - linear: conv1.weight (outputs, inputs), conv1.bias. If it reads an image, its inputs are in the order channel, row,
 *   column
 * - batchnorm: conv1.weight, conv1.bias, conv1.running_mean, conv1.running_var
 * A layer without a title is called by its kind and number, for example "conv1" for the first convolution.
 *
 * All functions may be called by any thread, for different objects at the same time. */
#ifndef TRAINER_WEIGHTS_H
#define TRAINER_WEIGHTS_H

#include "file.h"
#include "model.h"

/* One tensor of a file, and where the model stores its values. The file has them in the order [rows][channels][places],
 * and the model in the order [rows][places][channels]. */
struct weight {
    char name[LAYER_TITLE_BYTES + 16];
    const struct layer *layer; /* borrowed from the model */
    size_t dims[4], dim_count; /* shape in the file */
    bool in_statistics;        /* the values are in the statistics vector, not in the parameter vector */
    size_t at;                 /* index of the first value in that vector */
    size_t rows, channels, places;
};
static inline size_t weight_count(const struct weight *weight)
{
    return weight->rows * weight->channels * weight->places;
}

/* Copy the title of a layer, or its kind and number if it has none. */
void weights_title(const struct model *model, size_t index, char ret[LAYER_TITLE_BYTES]);
/* List all tensors of a model, in the order of its layers. The caller frees *ret. Fails if two layers have the same
 * title, or if a layer's parameters have no form in files. */
bool weights_list(const struct model *model, struct weight **ret, size_t *ret_count, struct reason *reason);
/* Copy the values of a tensor from the model's vectors to `values`, in the order of the file. */
void weight_get(const struct weight *weight, const float *parameters, const float *statistics, float *values);

/* Read all parameters and statistics from a file. `except` is a list of titles, separated by commas, or NULL: layers
 * with such a title, or with a title that begins with it and a dot, keep their values, and the file may have any
 * tensors for them or none. Each entry must name a layer. All other tensors must be in the file, in F32, F16 or BF16,
 * and the file must not have more tensors, except the counters "num_batches_tracked" of batch normalisation, which are
 * not used. On failure, `reason` names file and tensor, and the vectors may be changed in part. */
bool weights_read(const char *path, const struct model *model, const char *except, float *parameters, float *statistics,
                  struct reason *reason);
/* Like weights_read(), from memory. `name` is the file name for error messages. */
bool weights_parse(const char *name, const struct bytes *bytes, const struct model *model, const char *except,
                   float *parameters, float *statistics, struct reason *reason);
/* Write all parameters and statistics in F32. An existing file is replaced only when the new one is complete. */
bool weights_write(const char *path, const struct model *model, const float *parameters, const float *statistics,
                   struct reason *reason);

#endif
