/* Declarations shared by all parts of the trainer. */
#ifndef TRAINER_TRAINER_H
#define TRAINER_TRAINER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Why a function failed. A function with an argument `reason` either sets it and returns false, or leaves it unchanged
 * and returns true. */
struct reason {
    char text[600];
    bool is_memory; /* true: out of memory, so a smaller request may succeed */
    bool is_damage; /* true: an image file was read, but its content is damaged or not supported */
};
/* Set the text of the reason and clear is_memory and is_damage. Always returns false, so that a function can end with:
 * return because(reason, ...). */
__attribute__((format(printf, 2, 3))) bool because(struct reason *reason, const char *format, ...);

/* Format a number of bytes exactly, and also in its unit from 1 KiB: "512 bytes" or "2097152 bytes (2.00 MiB)". Returns
 * `out`. */
enum { EXACT_TEXT_BYTES = 56 };
char *exact_text(uint64_t bytes, char out[EXACT_TEXT_BYTES]);

/* Format a number with the fewest digits, at least 6, from which strtod() reads the same number. So different numbers
 * have different texts. Returns `out`. */
enum { REAL_TEXT_BYTES = 32 };
char *real_text(double number, char out[REAL_TEXT_BYTES]);

enum precision { PRECISION_FP32, PRECISION_BF16, PRECISION_FP16, PRECISION_COUNT };
const char *precision_text(enum precision precision);
static inline size_t precision_bytes(enum precision precision)
{
    return precision == PRECISION_FP32 ? 4 : 2;
}

enum optimizer { OPTIMIZER_SGD, OPTIMIZER_ADAM, OPTIMIZER_ADAMW, OPTIMIZER_COUNT };
const char *optimizer_text(enum optimizer optimizer);
/* Return the number of fp32 values that the optimizer keeps for each parameter. */
static inline size_t optimizer_moments(enum optimizer optimizer)
{
    return optimizer == OPTIMIZER_SGD ? 1 : 2;
}

/* Return the next random number of the sequence that `state` determines, and advance `state`. The numbers are the
 * same on every machine. */
uint64_t random_next(uint64_t *state);
float random_unit(uint64_t *state);   /* [0, 1) */
float random_normal(uint64_t *state); /* normal distribution with mean 0 and variance 1 */

#endif
