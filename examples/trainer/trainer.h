/* Declarations shared by all parts of the trainer. */
#ifndef TRAINER_TRAINER_H
#define TRAINER_TRAINER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Why something failed. A function that takes a reason returns false and sets it, or returns true and leaves it
 * unchanged. */
struct reason {
    char text[600];
    bool is_memory; /* not enough memory; a smaller request may succeed */
};
/* Set the text and return false, so that a function can end with `return because(reason, ...)`. */
__attribute__((format(printf, 2, 3))) bool because(struct reason *reason, const char *format, ...);

enum precision { PRECISION_FP32, PRECISION_BF16, PRECISION_FP16, PRECISION_COUNT };
const char *precision_text(enum precision precision);
static inline size_t precision_bytes(enum precision precision)
{
    return precision == PRECISION_FP32 ? 4 : 2;
}

enum optimizer { OPTIMIZER_SGD, OPTIMIZER_ADAM, OPTIMIZER_COUNT };
const char *optimizer_text(enum optimizer optimizer);

/* Random numbers for data and initial values; the same state gives the same numbers on every machine. */
uint64_t random_next(uint64_t *state);
float random_unit(uint64_t *state);   /* [0, 1) */
float random_normal(uint64_t *state); /* mean 0, variance 1 */

#endif
