/* Plan one iteration (one micro-batch) before it runs: the order of its steps, and the location of each block of
 * memory.
 *
 * All memory of a run is one allocation, with blocks for the whole run (parameters, optimizer, inputs) and for parts of
 * each iteration. gs_plan computes a fixed location for every block. So the size is known to the byte before the first
 * step, and memory cannot become fragmented.
 *
 * With checkpointing, the results inside a segment are computed again when the backward pass needs them. Only the last
 * segment keeps its results.
 *
 * A schedule is plain data and needs no GPU. Once it is made, any number of threads may read it. */
#ifndef TRAINER_SCHEDULE_H
#define TRAINER_SCHEDULE_H

#include "inner.h"

#include <gpuwhy/scope.h>

#define NO_BLOCK SIZE_MAX

enum step_kind {
    STEP_INPUT,   /* y = x, converted to the precision of the activations */
    STEP_FORWARD, /* y = layer(x, x2), including its ReLU */
    /* Compute `saved` of a batch normalisation that is an inner layer. There is no y. */
    STEP_STATISTICS,
    /* dx = loss scale * gradient of the mean loss with respect to the logits x; x2 has the labels. The step also
     * updates struct results. */
    STEP_LOSS,
    /* The backward step of a ReLU: set dy to 0, in place, where y is 0. The layer's own backward steps follow. Some
     * layers have no STEP_RELU, because a STEP_BACKWARD handles the ReLU: batch normalisation (without writing to dy),
     * sums with inner layers, and convolutions that are inner layers. */
    STEP_RELU,
    /* Set or add to dx, the gradient of x (unless NO_BLOCK), and add to the parameter gradients. */
    STEP_BACKWARD,
    /* If backend.overlaps is set, a convolution or matrix product has two steps: this one only adds to the parameter
     * gradients, and STEP_BACKWARD only sets or adds to dx. Later steps may run before this one is complete: see
     * step.awaited. */
    STEP_PARAMETERS,
    STEP_COPY, /* dx = dy */
    STEP_SUM,  /* dx += dy */
    STEP_KIND_COUNT
};
const char *step_kind_text(enum step_kind kind);

struct step {
    enum step_kind kind;
    const struct layer *layer; /* borrowed from the model */
    bool is_again;             /* the result is computed a second time: do not update the running statistics */
    bool adds;                 /* add to dx instead of overwriting it */
    int input;                 /* STEP_BACKWARD of LAYER_MULTIPLY: dx is the gradient of x (0) or of x2 (1) */
    size_t x, x2, y;           /* numbers of blocks, like dx and dy; NO_BLOCK if the step has no such block */
    size_t dx, dy;
    size_t saved; /* LAYER_BATCHNORM: means, then 1/deviations of this batch, fp32, out.channels of each.
                   * LAYER_MAXPOOL: position of each maximum in its window, one byte per element of y.
                   * LAYER_ADD with ReLU and inner layers: whether each element of y is above 0; a bit per channel if
                   * the channels are a multiple of 8, otherwise a byte per channel */
    /* The layers inside this one (inner.h), in the order of x and x2; NULL: none.
     * - LAYER_ADD: batch normalisations. x or x2 is the normalisation's input, and inner_saved are its statistics. The
     *   backward step sets dx or dx2, the gradients of these inputs. If there is one such layer, it also changes dy,
     *   which becomes the gradient of the value before the ReLU.
     * - LAYER_MAXPOOL: inner[0] is a convolution. The step adds its bias and applies its ReLU. The backward step reads
     *   y and adds to the gradient of the bias.
     * - LAYER_MAXPOOL: inner[0] is a batch normalisation. x is its input, and inner_saved[0] are its statistics. There
     *   is no backward step, or it sets the gradient of the normalisation's result and does not know it: see `pool`. */
    const struct layer *inner[2];
    const struct layer *activation; /* LAYER_BATCHNORM: the activation that the step also computes; NULL: none */
    size_t inner_saved[2];
    /* STEP_BACKWARD of a LAYER_BATCHNORM that is inside a max pooling of pairs (inner.h): the pooling. dy is the
     * gradient of its result, and inner_saved[0] is its `saved`. The pooling has no backward step. NULL: none. */
    const struct layer *pool;
    size_t dx2;
    struct folding folding; /* LAYER_CONV that reads the images: how they are stored */
    bool is_raw;            /* LAYER_CONV that is an inner layer: no bias and no ReLU */
    size_t workspace;       /* block that is used only while the step runs; NO_BLOCK: none */
    size_t workspace_bytes;
    size_t algorithm; /* chosen by the back end's plan(); only the back end knows its meaning */
    /* Before this step begins, the first `awaited` steps of the kind STEP_PARAMETERS must be complete, because this
     * step or a later one may write to the memory that they use. The number does not decrease from step to step. */
    size_t awaited;
};

/* Blocks that live as long as the run. */
enum lasting {
    LASTING_PARAMETERS, /* fp32 */
    LASTING_GRADIENTS,  /* fp32, summed over the micro-batches of a step */
    LASTING_MOMENT_1,   /* fp32; the momentum of SGD, or Adam's mean of the gradients */
    LASTING_MOMENT_2,   /* fp32; Adam's mean of the squared gradients; NO_BLOCK for SGD */
    LASTING_LOW,        /* copy of the parameters in the precision of the activations; NO_BLOCK if that is fp32 */
    LASTING_STATISTICS, /* fp32; running means and variances; NO_BLOCK if the model has none */
    LASTING_INPUT_0,    /* two sets of images (fp32) and labels (int32): one is filled while the other is used */
    LASTING_INPUT_1,
    LASTING_LABELS_0,
    LASTING_LABELS_1,
    LASTING_RESULTS, /* struct results */
    LASTING_AVERAGE, /* fp32; moving average of the parameters; NO_BLOCK if options.averages is off */
    LASTING_DECAYED, /* model_decayed(); NO_BLOCK if options.selects_decay is off: all parameters decay */
    LASTING_SQUARES, /* NORM_PARTS sums of squared gradients in double; NO_BLOCK if options.clips is off */
    LASTING_COUNT
};

enum { NORM_PARTS = 1024, CLASSES_TOP = 5 };

/* With options.overlaps: number of steps of the kind STEP_PARAMETERS that may be incomplete when the next one begins.
 */
enum { PARAMETERS_AHEAD = 1 };

/* Results that the device computes. The host reads them at most once per step. */
struct results {
    float loss;       /* sum over the images of the step */
    uint32_t correct; /* number of images whose class was predicted correctly */
    uint32_t broken;  /* number of gradients that are not finite; if it is not 0, the parameters are not updated */
    uint32_t top;     /* number of images whose class is among the CLASSES_TOP predictions with the largest logits */
    /* The next two are set by an update that clips and takes the step. norm: Euclidean norm of all gradients, before
     * they are clipped. clip: factor by which they were multiplied. */
    float norm, clip;
    uint32_t reserved[2];
};

struct schedule_options {
    size_t images; /* images per micro-batch */
    enum precision precision;
    enum optimizer optimizer;
    bool checkpointing;
    /* Steps of the kind STEP_PARAMETERS may run beside later steps. Until they are complete, the memory that they use
     * is not free, so the plan is larger. Otherwise each one is complete before the next step begins. */
    bool overlaps;
    /* What the updates need: memory for a moving average of the parameters, for the choice of parameters that decay,
     * and for the norm of the gradients. */
    bool averages, selects_decay, clips;
};

struct schedule {
    struct schedule_options options;
    const struct model *model; /* borrowed */
    struct step *steps;        /* owned */
    size_t step_count;
    struct folding folding; /* how STEP_INPUT stores the images */
    size_t block_count;
    size_t *block_bytes; /* owned; requested size of each block */
    size_t lasting[LASTING_COUNT];
    gs_plan *plan; /* owned; a closed plan, in which each block has the same number as in this schedule */
    gs_plan_size size;
};

/* Make a schedule. `backend`, with its open `state`, chooses each step's algorithm and workspace; NULL: no workspaces.
 * `workspace_budget_bytes` limits the optional workspace of each step. */
struct backend;
bool schedule_make(const struct model *model, const struct schedule_options *options, const struct backend *backend,
                   void *state, size_t workspace_budget_bytes, struct schedule *ret_schedule, struct reason *reason);
void schedule_clear(struct schedule *schedule); /* accepts a zeroed struct */
/* Return the offset of a block from the beginning of the run's memory. */
uint64_t schedule_offset(const struct schedule *schedule, size_t block);
/* Return a block for images or labels. There are two of each: `turn` is 0 or 1. The steps contain only the blocks of
 * turn 0, as x of STEP_INPUT and x2 of STEP_LOSS. */
size_t schedule_input(const struct schedule *schedule, unsigned turn);
size_t schedule_labels(const struct schedule *schedule, unsigned turn);

#endif
