/* One iteration over one micro-batch, told before it runs: the steps in order, and where each block of memory lies.
 *
 * All memory of a run is one piece. Blocks that live as long as the run (parameters, optimizer, inputs) lie beside
 * those that an iteration makes and gives back, each at its place for good (gs_plan): what a run takes is known to the
 * byte before the first step, and nothing can fragment. Back ends do the steps; none of them allocates while training.
 *
 * With checkpointing, what a segment computed inside is not kept but computed again when its turn comes in the
 * backward pass; the last segment is kept in any case.
 *
 * A schedule is plain data: no GPU; one thread at a time while it is made, any number afterwards. */
#ifndef TRAINER_SCHEDULE_H
#define TRAINER_SCHEDULE_H

#include "model.h"

#include <gpuwhy/scope.h>

#define NO_BLOCK SIZE_MAX

enum step_kind {
    STEP_INPUT,    /* y = x, in the precision of the activations */
    STEP_FORWARD,  /* y = layer(x, x2), its ReLU included */
    STEP_LOSS,     /* dx = gradient of the mean loss by the logits x, times the loss scale; adds to the results */
    STEP_RELU,     /* dy is 0 where y is: in place, before STEP_BACKWARD of a layer with a ReLU; but batch normalisation
                      does it in its own STEP_BACKWARD, without writing to dy */
    STEP_BACKWARD, /* dx (+)= gradient by x, parameters' gradients += ; dx may be NO_BLOCK */
    STEP_COPY,     /* dx = dy */
    STEP_SUM,      /* dx += dy */
    STEP_KIND_COUNT
};
const char *step_kind_text(enum step_kind kind);

struct step {
    enum step_kind kind;
    const struct layer *layer; /* borrowed from the model */
    bool is_again;             /* computed a second time: running statistics stay as they are */
    bool adds;                 /* to what is in dx */
    size_t x, x2, y;           /* blocks; NO_BLOCK where the step has none */
    size_t dx, dy;
    size_t saved;     /* LAYER_BATCHNORM: mean and 1/deviation of this batch, fp32, out.channels each.
                         LAYER_MAXPOOL: which of the window was largest, a byte each of y */
    size_t workspace; /* while the step runs; NO_BLOCK: needs none */
    size_t workspace_bytes;
    size_t algorithm; /* the back end's own, chosen by plan() */
};

/* Blocks that live as long as the run. */
enum lasting {
    LASTING_PARAMETERS, /* fp32 */
    LASTING_GRADIENTS,  /* fp32, summed over the micro-batches of a step */
    LASTING_MOMENT_1,   /* momentum of SGD, mean of Adam; fp32 */
    LASTING_MOMENT_2,   /* Adam's; else NO_BLOCK */
    LASTING_LOW,        /* parameters in the precision of the activations; NO_BLOCK for fp32 */
    LASTING_STATISTICS, /* fp32; NO_BLOCK: the model has none */
    LASTING_INPUT_0,    /* two buffers for images (fp32) and labels (int32), filled in turn */
    LASTING_INPUT_1,
    LASTING_LABELS_0,
    LASTING_LABELS_1,
    LASTING_RESULTS, /* struct results */
    LASTING_COUNT
};

/* What the card counts, read by the host once a step. */
struct results {
    float loss;       /* sum over images of this step */
    uint32_t correct; /* how many were told right */
    uint32_t broken;  /* gradients that are no numbers: the step must not be taken */
    uint32_t reserved;
};

struct schedule_options {
    size_t images; /* in a micro-batch */
    enum precision precision;
    enum optimizer optimizer;
    bool checkpointing;
};

struct schedule {
    struct schedule_options options;
    const struct model *model; /* borrowed */
    struct step *steps;        /* owned */
    size_t step_count;
    size_t block_count;
    size_t *block_bytes; /* owned; as asked for */
    size_t lasting[LASTING_COUNT];
    gs_plan *plan; /* owned; closed: block numbers are the plan's */
    gs_plan_size size;
};

/* `backend` says which workspace a step needs, at most `workspace_budget_bytes`; `state` is its own, open; NULL as the
 * back end: no workspace. */
struct backend;
bool schedule_make(const struct model *model, const struct schedule_options *options, const struct backend *backend,
                   void *state, size_t workspace_budget_bytes, struct schedule *ret_schedule, struct reason *reason);
void schedule_clear(struct schedule *schedule); /* takes a zeroed one */
/* Where a block lies in the run's memory. */
uint64_t schedule_offset(const struct schedule *schedule, size_t block);
/* Which buffer of inputs STEP_INPUT reads and STEP_LOSS compares with: `turn` is 0 or 1. STEP_INPUT's x and
 * STEP_LOSS's x2 are those of turn 0. */
size_t schedule_input(const struct schedule *schedule, unsigned turn);
size_t schedule_labels(const struct schedule *schedule, unsigned turn);

#endif
