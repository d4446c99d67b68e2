/* Read and write safetensors files (https://github.com/huggingface/safetensors):
 * - u64, little-endian: size of the head in bytes
 * - the head: a JSON object with {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]} for each name of a tensor,
 *   and optionally "__metadata__", an object whose values are strings; spaces may follow
 * - the data: offsets count from here; the tensors fill it without holes and without overlaps
 *
 * The head has a parser of its own because a general JSON parser does not report a name that occurs twice.
 * No function here has a state; different threads may use different objects. */
#ifndef TRAINER_SAFETENSORS_H
#define TRAINER_SAFETENSORS_H

#include "file.h"

enum { TENSOR_DIMS_MAX = 8 };

struct tensor {
    const char *name; /* UTF-8 */
    const char *type; /* as in the file, for example "F32"; static */
    size_t dims[TENSOR_DIMS_MAX];
    size_t dim_count;    /* 0: a single value */
    const uint8_t *data; /* not aligned; little-endian */
    size_t bytes;
};
size_t tensor_count(const struct tensor *tensor); /* number of elements */
enum { TENSOR_SHAPE_BYTES = 24 * TENSOR_DIMS_MAX };
/* Write the shape to `text`, for example "64x3x7x7", or "a single value". Returns `text`. */
const char *tensor_shape_text(const struct tensor *tensor, char text[TENSOR_SHAPE_BYTES]);

struct safetensors {
    struct tensor *tensors; /* owned; in the order of their data */
    size_t count;
    char *names; /* owned: the text of all names */
};
/* Parse a file in memory. `name` is the file name for error messages. The data of the tensors is borrowed from `bytes`.
 * On failure, `reason` names the file, the tensor or the byte, and the problem, and *ret is unchanged. */
bool safetensors_parse(const char *name, const struct bytes *bytes, struct safetensors *ret, struct reason *reason);
void safetensors_clear(struct safetensors *safetensors); /* accepts a zeroed struct */
/* Return the tensor with this name. NULL: there is none. */
const struct tensor *safetensors_find(const struct safetensors *safetensors, const char *name);

/* Convert the values of an F32, F16 or BF16 tensor to fp32, which is exact. `values` has tensor_count() elements.
 * Returns false if the tensor has another type. */
bool tensor_values(const struct tensor *tensor, float *values);

/* Return the bytes before the data of a file with these tensors, which the file stores in this order. The types must
 * be F32, and the names must have only printable ASCII characters other than quotes and backslashes; `data` is not
 * read. The caller releases *ret with bytes_clear(). */
bool safetensors_head(const struct tensor *tensors, size_t count, struct bytes *ret, struct reason *reason);

#endif
