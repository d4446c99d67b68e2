/* Arrays of numbers in files: IDX (MNIST's format) and NumPy's .npy. The sizes in a header are checked against the size
 * of the file. On failure, `reason` names the file, the byte and the problem. Any thread may call these functions. */
#ifndef TRAINER_ARRAY_H
#define TRAINER_ARRAY_H

#include "file.h"

enum element { ELEMENT_U8, ELEMENT_I8, ELEMENT_I16, ELEMENT_I32, ELEMENT_I64, ELEMENT_F32, ELEMENT_COUNT };
static inline size_t element_bytes(enum element element)
{
    return element <= ELEMENT_I8 ? 1 : element == ELEMENT_I16 ? 2 : element == ELEMENT_I64 ? 8 : 4;
}

enum { ARRAY_RANK_MAX = 4 };
struct array {
    const char *name;    /* borrowed: the file's name for messages */
    const uint8_t *data; /* borrowed from the bytes of the file: the first number; the last dimension varies fastest */
    size_t head_bytes;   /* offset of `data` in the file */
    size_t shape_at;     /* offset of the shape in the file, for messages */
    enum element element;
    bool is_big;                  /* numbers are big-endian */
    int rank;                     /* 1 to ARRAY_RANK_MAX */
    size_t shape[ARRAY_RANK_MAX]; /* each at least 1; the product with the element's size is the size of the data */
};

/* Parse the header of a file in memory. `what` is the plural for messages, such as "images". */
bool array_from_idx(const char *name, const char *what, const struct bytes *bytes, struct array *ret,
                    struct reason *reason);
bool array_from_npy(const char *name, const char *what, const struct bytes *bytes, struct array *ret,
                    struct reason *reason);

/* Return number `index`; the element must not be ELEMENT_F32. */
int64_t array_integer(const struct array *array, size_t index);
/* Return number `index`; the element must be ELEMENT_F32. */
float array_real(const struct array *array, size_t index);

/* Shared by the parsers: set array->data after a header of head_bytes, if the shape fits the rest of the file. */
bool array_end_head(struct array *array, const char *what, const struct bytes *bytes, struct reason *reason);

#endif
