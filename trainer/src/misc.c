/* Small functions for all parts of the trainer: reasons of failures, names, and random numbers. */
#include "trainer.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

bool because(struct reason *reason, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason->text, sizeof reason->text, format, arguments);
    va_end(arguments);
    reason->is_memory = reason->is_damage = false;
    return false;
}

char *exact_text(uint64_t bytes, char out[EXACT_TEXT_BYTES])
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    double size = (double)bytes / 1024;
    size_t unit = 0;
    for (; size >= 1023.995 && unit + 1 < sizeof units / sizeof *units; unit++)
        size /= 1024;
    if (bytes < 1024)
        snprintf(out, EXACT_TEXT_BYTES, "%" PRIu64 " bytes", bytes);
    else
        snprintf(out, EXACT_TEXT_BYTES, "%" PRIu64 " bytes (%.2f %s)", bytes, size, units[unit]);
    return out;
}

char *real_text(double number, char out[REAL_TEXT_BYTES])
{
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(out, REAL_TEXT_BYTES, "%.*g", digits, number);
        if (strtod(out, NULL) == number)
            break;
    }
    return out;
}

const char *precision_text(enum precision precision)
{
    static const char *const texts[] = {"fp32", "bf16", "fp16"};
    _Static_assert(sizeof texts / sizeof *texts == PRECISION_COUNT, "a text for each");
    return texts[precision];
}

const char *optimizer_text(enum optimizer optimizer)
{
    static const char *const texts[] = {"sgd", "adam", "adamw"};
    _Static_assert(sizeof texts / sizeof *texts == OPTIMIZER_COUNT, "a text for each");
    return texts[optimizer];
}

uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15; /* splitmix64 */
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
}

float random_unit(uint64_t *state)
{
    return (float)(random_next(state) >> 40) * 0x1p-24f;
}

float random_normal(uint64_t *state)
{
    double u = (double)(random_next(state) >> 11) * 0x1p-53 + 0x1p-54, v = (double)(random_next(state) >> 11) * 0x1p-53;
    return (float)(sqrt(-2 * log(u)) * cos(6.283185307179586 * v)); /* Box-Muller transform */
}
