/* Compute the learning rate of each step: see rate.h. */
#include "rate.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- parsing ---- */

/* Parse a span that ends at `end`, and return the text after it. Returns NULL if there is none. */
static const char *read_span(const char *text, struct rate_span *ret_span)
{
    char *end;
    errno = 0;
    if (*text < '0' || *text > '9')
        return NULL;
    unsigned long long count = strtoull(text, &end, 10);
    if (errno != 0)
        return NULL;
    *ret_span = (struct rate_span){.count = count, .is_epochs = *end == 'e'};
    return end + ret_span->is_epochs;
}

bool rate_parse_span(const char *text, struct rate_span *ret_span, struct reason *reason)
{
    struct rate_span span;
    const char *rest = read_span(text, &span);
    if (rest == NULL || *rest != '\0')
        return because(reason, "\"%.40s\" is not a number of steps, such as 500, or of epochs, such as 5e", text);
    *ret_span = span;
    return true;
}

static bool read_marks(const char *text, struct rate_options *options, struct reason *reason)
{
    const char *at = text;
    for (options->mark_count = 0;; at++) {
        if (options->mark_count == RATE_MARKS_MAX)
            return because(reason, "\"%.40s\": more than %d numbers", text, RATE_MARKS_MAX);
        struct rate_span *span = &options->marks[options->mark_count++];
        at = read_span(at, span);
        if (at == NULL || (*at != '\0' && *at != ','))
            return because(reason, "\"%.40s\": not numbers of steps, such as 500, or of epochs, such as 30e", text);
        if (span->count == 0)
            return because(reason, "\"%.40s\": 0 is not possible", text);
        if (options->mark_count > 1 && span[-1].is_epochs != span->is_epochs)
            return because(reason, "\"%.40s\": steps and epochs cannot be mixed", text);
        if (options->mark_count > 1 && span[-1].count >= span->count)
            return because(reason, "\"%.40s\": the numbers must ascend", text);
        if (*at == '\0')
            return true;
    }
}

static bool has_prefix(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

bool rate_parse(const char *text, struct rate_options *options, struct reason *reason)
{
    options->mark_count = 0;
    if (strcmp(text, "constant") == 0 || strcmp(text, "cosine") == 0) {
        options->kind = text[2] == 'n' ? RATE_CONSTANT : RATE_COSINE;
        return true;
    }
    bool is_one = has_prefix(text, "step:");
    if (!is_one && !has_prefix(text, "steps:"))
        return because(reason, "\"%.40s\": not constant, cosine, step:N or steps:N,N...", text);
    options->kind = is_one ? RATE_STEP : RATE_STEPS;
    if (!read_marks(strchr(text, ':') + 1, options, reason))
        return false;
    return !is_one || options->mark_count == 1 || because(reason, "\"%.40s\": step: takes one number", text);
}

/* ---- rates ---- */

static uint64_t steps_of(const struct rate_span *span, uint64_t epoch_steps)
{
    uint64_t steps;
    return __builtin_mul_overflow(span->count, span->is_epochs ? epoch_steps : 1, &steps) ? UINT64_MAX : steps;
}

struct rate_plan rate_make(const struct rate_options *options, uint64_t epoch_steps, uint64_t last_step)
{
    struct rate_plan plan = {.options = *options, .last_step = last_step};
    plan.warmup_steps = steps_of(&options->warmup, epoch_steps);
    for (size_t i = 0; i < options->mark_count; i++)
        plan.marks[i] = steps_of(&options->marks[i], epoch_steps);
    return plan;
}

static double cosine(const struct rate_plan *plan, uint64_t step)
{
    const double pi = 3.14159265358979323846;
    const struct rate_options *options = &plan->options;
    uint64_t steps = plan->last_step > plan->warmup_steps ? plan->last_step - plan->warmup_steps : 0;
    if (step >= steps)
        return options->end;
    return options->end + (options->rate - options->end) * (1 + cos(pi * (double)step / (double)steps)) / 2;
}

/* Return how often the rate has been multiplied. */
static uint64_t drops(const struct rate_plan *plan, uint64_t step)
{
    uint64_t count = 0;
    if (plan->options.kind == RATE_STEP)
        return step / plan->marks[0];
    while (count < plan->options.mark_count && step >= plan->marks[count])
        count++;
    return count;
}

double rate_at(const struct rate_plan *plan, uint64_t step)
{
    const struct rate_options *options = &plan->options;
    if (step < plan->warmup_steps) {
        double from = options->warmup_from;
        return options->rate * (from + (1 - from) * (double)step / (double)plan->warmup_steps);
    }
    step -= plan->warmup_steps;
    switch (options->kind) {
    case RATE_COSINE:
        return cosine(plan, step);
    case RATE_STEP:
    case RATE_STEPS:
        return options->rate * pow(options->factor, (double)drops(plan, step));
    case RATE_CONSTANT:
    case RATE_KIND_COUNT:
        break;
    }
    return options->rate;
}

/* ---- text ---- */

/* Append to `out`, whose first *at bytes are used. Text that does not fit is cut. */
__attribute__((format(printf, 4, 5))) static void put(char *out, size_t out_bytes, size_t *at, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(out + *at, out_bytes - *at, format, arguments);
    va_end(arguments);
    *at = length < 0 || (size_t)length >= out_bytes - *at ? out_bytes - 1 : *at + (size_t)length;
}

char *rate_text(const struct rate_plan *plan, char *out, size_t out_bytes)
{
    static const char *const texts[] = {"constant rate", "cosine", "step", "steps"};
    _Static_assert(sizeof texts / sizeof *texts == RATE_KIND_COUNT, "a text for each");
    const struct rate_options *options = &plan->options;
    char number[REAL_TEXT_BYTES];
    size_t at = 0;
    put(out, out_bytes, &at, "%s", texts[options->kind]);
    if (options->kind == RATE_COSINE)
        put(out, out_bytes, &at, " to %s at step %" PRIu64, real_text(options->end, number), plan->last_step);
    for (size_t i = 0; i < options->mark_count; i++)
        put(out, out_bytes, &at, "%s%" PRIu64, i == 0 ? " " : ",", plan->marks[i]);
    if (options->mark_count != 0)
        put(out, out_bytes, &at, " by %s", real_text(options->factor, number));
    if (plan->warmup_steps != 0)
        put(out, out_bytes, &at, ", warm-up of %" PRIu64 " steps from %s", plan->warmup_steps,
            real_text(options->warmup_from, number));
    return out;
}
