/* The learning rate of each step: a linear warm-up, then a constant rate, a cosine or steps.
 *
 * The rates are those of PyTorch's LinearLR, followed (SequentialLR) by ConstantLR with the factor 1,
 * CosineAnnealingLR, StepLR or MultiStepLR, with scheduler.step() after every optimizer step. So steps of the schedule
 * are counted from the end of the warm-up.
 *
 * Steps count from 0. A rate depends only on the plan and the step, so a continued run has the same rates. Any thread
 * may call these functions. */
#ifndef TRAINER_RATE_H
#define TRAINER_RATE_H

#include "trainer.h"

enum rate_kind { RATE_CONSTANT, RATE_COSINE, RATE_STEP, RATE_STEPS, RATE_KIND_COUNT };
enum { RATE_MARKS_MAX = 16 };

/* A number of steps, or of epochs. */
struct rate_span {
    uint64_t count;
    bool is_epochs;
};

struct rate_options {
    double rate; /* the rate after the warm-up */
    enum rate_kind kind;
    double end;    /* RATE_COSINE: the rate after the last step */
    double factor; /* RATE_STEP and RATE_STEPS: the rate is multiplied by this */
    /* RATE_STEP: marks[0] is the distance between multiplications. RATE_STEPS: when they happen, ascending. */
    struct rate_span marks[RATE_MARKS_MAX];
    size_t mark_count;
    struct rate_span warmup; /* length of the warm-up; a count of 0: none */
    double warmup_from;      /* the warm-up begins with this fraction of `rate` */
};

/* The same with all spans in steps. */
struct rate_plan {
    struct rate_options options;
    uint64_t marks[RATE_MARKS_MAX];
    uint64_t warmup_steps, last_step;
};

/* Parse "constant", "cosine", "step:SPAN" or "steps:SPAN,SPAN..." and set kind and marks. A span is a number of steps,
 * or of epochs if an e follows: "30e". */
bool rate_parse(const char *text, struct rate_options *options, struct reason *reason);
bool rate_parse_span(const char *text, struct rate_span *ret_span, struct reason *reason);

/* `epoch_steps`: number of steps per epoch. `last_step`: number of steps of the whole run, where a cosine ends. */
struct rate_plan rate_make(const struct rate_options *options, uint64_t epoch_steps, uint64_t last_step);
double rate_at(const struct rate_plan *plan, uint64_t step);
/* Describe a plan, without its rate, in one line: "cosine to 0 at step 1000, warm-up of 100 steps from 0.01". Two plans
 * with the same text and the same rate have the same rates, unless the text was cut. RATE_TEXT_BYTES are enough for any
 * plan. Returns `out`. */
enum { RATE_TEXT_BYTES = 512 };
char *rate_text(const struct rate_plan *plan, char *out, size_t out_bytes);

#endif
