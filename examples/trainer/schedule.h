/* Plan one iteration over one micro-batch before it runs: the order of the steps, and the location of each block of
 * memory.
 *
 * All memory of a run is one allocation. It contains the blocks that live as long as the run (parameters, optimizer,
 * inputs) and the blocks that each iteration creates and frees. Every block has a fixed location (gs_plan), so the
 * memory of a run is known to the byte before the first step, and there is no fragmentation. Back ends execute the
 * steps and allocate nothing while training.
 *
 * With checkpointing, results inside a segment are not kept. They are computed again when the backward pass needs
 * them. The results of the last segment are always kept.
 *
 * A schedule is plain data and needs no GPU. Only one thread may use it while it is made. Any number of threads may
 * read it afterwards. */
#ifndef TRAINER_SCHEDULE_H
#define TRAINER_SCHEDULE_H

#include "model.h"

#include <gpuwhy/scope.h>

#define NO_BLOCK SIZE_MAX

enum step_kind {
    STEP_INPUT,   /* y = x, converted to the precision of the activations */
    STEP_FORWARD, /* y = layer(x, x2), including its ReLU */
    /* dx = loss scale * gradient of the mean loss with respect to the logits x; also updates struct results. */
    STEP_LOSS,
    /* Set dy to 0 in place where y is 0. This precedes STEP_BACKWARD of a layer with a ReLU, except for batch
     * normalisation, whose STEP_BACKWARD does it without writing to dy. */
    STEP_RELU,
    STEP_BACKWARD, /* dx = (or +=) gradient of x, and parameter gradients += ...; dx may be NO_BLOCK */
    STEP_COPY,     /* dx = dy */
    STEP_SUM,      /* dx += dy */
    STEP_KIND_COUNT
};
const char *step_kind_text(enum step_kind kind);

struct step {
    enum step_kind kind;
    const struct layer *layer; /* borrowed from the model */
    bool is_again;             /* the result is computed a second time: do not update the running statistics */
    bool adds;                 /* add to dx instead of overwriting it */
    size_t x, x2, y;           /* block numbers; NO_BLOCK if the step has no such block */
    size_t dx, dy;
    size_t saved; /* LAYER_BATCHNORM: mean and 1/deviation of this batch, fp32, out.channels each. LAYER_MAXPOOL: the
                     position of the maximum in its window, one byte per number of y */
    size_t workspace; /* memory used only while the step runs; NO_BLOCK: none */
    size_t workspace_bytes;
    size_t algorithm; /* chosen by plan(); only the back end knows its meaning */
};

/* Blocks that live as long as the run. */
enum lasting {
    LASTING_PARAMETERS, /* fp32 */
    LASTING_GRADIENTS,  /* fp32, summed over the micro-batches of a step */
    LASTING_MOMENT_1,   /* fp32; the momentum of SGD, or Adam's mean of the gradients */
    LASTING_MOMENT_2,   /* fp32; Adam's mean of the squared gradients; NO_BLOCK for SGD */
    LASTING_LOW,        /* copy of the parameters in the precision of the activations; NO_BLOCK for fp32 */
    LASTING_STATISTICS, /* fp32; NO_BLOCK: the model has none */
    LASTING_INPUT_0,    /* two buffers for images (fp32) and labels (int32), filled in turn */
    LASTING_INPUT_1,
    LASTING_LABELS_0,
    LASTING_LABELS_1,
    LASTING_RESULTS, /* struct results */
    LASTING_COUNT
};

/* Results that the GPU computes and the host reads, at most once per step. */
struct results {
    float loss;       /* sum over the images of the step */
    uint32_t correct; /* number of images whose class was predicted correctly */
    uint32_t broken;  /* number of gradients that are not finite; if it is not 0, the parameters are not updated */
    uint32_t reserved;
};

struct schedule_options {
    size_t images; /* images per micro-batch */
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
    size_t *block_bytes; /* owned; requested size of each block */
    size_t lasting[LASTING_COUNT];
    gs_plan *plan; /* owned; a closed plan, which uses the same block numbers */
    gs_plan_size size;
};

/* Make a schedule. `backend` chooses the workspace of each step, at most `workspace_budget_bytes`. `state` is an open
 * state of the back end. If `backend` is NULL, the steps have no workspaces. */
struct backend;
bool schedule_make(const struct model *model, const struct schedule_options *options, const struct backend *backend,
                   void *state, size_t workspace_budget_bytes, struct schedule *ret_schedule, struct reason *reason);
void schedule_clear(struct schedule *schedule); /* accepts a zeroed struct */
/* Return the location of a block in the run's memory. */
uint64_t schedule_offset(const struct schedule *schedule, size_t block);
/* schedule_input() returns the block of images of `turn` (0 or 1), schedule_labels() the block of labels. In the steps,
 * STEP_INPUT's x and STEP_LOSS's x2 are the blocks of turn 0. */
size_t schedule_input(const struct schedule *schedule, unsigned turn);
size_t schedule_labels(const struct schedule *schedule, unsigned turn);

#endif
