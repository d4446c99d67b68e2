/* One iteration over one micro-batch, planned before it runs: the steps in order, and the location of each block of
 * memory.
 *
 * All memory of a run is one piece. It has the blocks that live as long as the run (parameters, optimizer, inputs),
 * and the blocks that an iteration creates and frees. Each block has a fixed location (gs_plan), so the memory of a
 * run is known to the byte before the first step, and there is no fragmentation. Back ends execute the steps and
 * allocate nothing while training.
 *
 * With checkpointing, results inside a segment are not kept but computed again when the backward pass needs them.
 * The last segment is always kept.
 *
 * A schedule is plain data and needs no GPU. One thread at a time may use it while it is made, any number
 * afterwards. */
#ifndef TRAINER_SCHEDULE_H
#define TRAINER_SCHEDULE_H

#include "model.h"

#include <gpuwhy/scope.h>

#define NO_BLOCK SIZE_MAX

enum step_kind {
    STEP_INPUT,   /* y = x, in the precision of the activations */
    STEP_FORWARD, /* y = layer(x, x2), including its ReLU */
    STEP_LOSS, /* dx = gradient of the mean loss with respect to the logits x, times the loss scale; adds to the results
                */
    STEP_RELU, /* set dy to 0 where y is 0, in place, before STEP_BACKWARD of a layer with a ReLU. Batch normalisation
                  does this in its own STEP_BACKWARD without writing to dy */
    STEP_BACKWARD, /* dx (+)= gradient of x, parameter gradients += ; dx may be NO_BLOCK */
    STEP_COPY,     /* dx = dy */
    STEP_SUM,      /* dx += dy */
    STEP_KIND_COUNT
};
const char *step_kind_text(enum step_kind kind);

struct step {
    enum step_kind kind;
    const struct layer *layer; /* borrowed from the model */
    bool is_again;             /* computed a second time: do not update the running statistics */
    bool adds;                 /* add to dx */
    size_t x, x2, y;           /* blocks; NO_BLOCK if the step has none */
    size_t dx, dy;
    size_t saved; /* LAYER_BATCHNORM: mean and 1/deviation of this batch, fp32, out.channels each. LAYER_MAXPOOL: the
                     position of the maximum in its window, one byte per number of y */
    size_t workspace; /* used while the step runs; NO_BLOCK: none */
    size_t workspace_bytes;
    size_t algorithm; /* private to the back end, chosen by plan() */
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

/* Results counted on the GPU and read by the host once per step. */
struct results {
    float loss;       /* sum over the images of this step */
    uint32_t correct; /* number of images predicted right */
    uint32_t broken;  /* gradients that are not finite: the parameters must not be updated */
    uint32_t reserved;
};

struct schedule_options {
    size_t images; /* per micro-batch */
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
    size_t *block_bytes; /* owned; the requested sizes */
    size_t lasting[LASTING_COUNT];
    gs_plan *plan; /* owned; closed: block numbers are those of the plan */
    gs_plan_size size;
};

/* Make a schedule. `backend` chooses the workspace of each step, at most `workspace_budget_bytes`; `state` is its
 * open state. Without a back end (NULL) there are no workspaces. */
struct backend;
bool schedule_make(const struct model *model, const struct schedule_options *options, const struct backend *backend,
                   void *state, size_t workspace_budget_bytes, struct schedule *ret_schedule, struct reason *reason);
void schedule_clear(struct schedule *schedule); /* accepts a zeroed struct */
/* Return the location of a block in the run's memory. */
uint64_t schedule_offset(const struct schedule *schedule, size_t block);
/* Return the input buffer that STEP_INPUT reads and STEP_LOSS compares with; `turn` is 0 or 1. STEP_INPUT's x and
 * STEP_LOSS's x2 are the buffers of turn 0. */
size_t schedule_input(const struct schedule *schedule, unsigned turn);
size_t schedule_labels(const struct schedule *schedule, unsigned turn);

#endif
