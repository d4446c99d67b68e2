/* The interface of the back ends, which do the computing. Each one is a table of functions:
 * - `cpu`: oneDNN
 * - `cuda`: cuDNN, cuBLAS and its own kernels, loaded at run time
 * - `dry`: allocates the memory on a GPU and computes nothing
 *
 * A state belongs to one device and is used by one thread at a time. Only a loader's thread may call feed() and fed()
 * meanwhile.
 *
 * Steps run in order, and may still run when a function returns; settle() waits for them. A function that returns false
 * has set `reason`. After a device is lost, all later calls return false, but close() always works. */
#ifndef TRAINER_BACKEND_H
#define TRAINER_BACKEND_H

#include "schedule.h"

struct backend_options {
    int device;
    uint64_t memory_bytes; /* memory limit of the run; 0: no limit */
    bool deterministic;    /* compute sums in the same order each time, so that runs give identical results */
    bool tune;             /* load() may time algorithms and use the fastest; the choice may differ between runs */
    const char *name;      /* name of the scope, which gpuwhy shows as a phase; NULL: none */
    /* Called with a line for the log, for example about a fallback or a resource that was not freed. Any thread may
     * call it. NULL: no log. */
    void (*log)(void *user, const char *line);
    void *log_user;
};

/* Parameters of one optimizer step, with PyTorch's formulas: weight decay is added to the gradient (SGD, Adam), or
 * reduces the parameters directly (AdamW). Gradients are first multiplied by `scale` (1 / loss scale), and then
 * clipped. After the step, the moving average is updated if the schedule has one. */
struct update {
    enum optimizer optimizer;
    float rate, momentum, weight_decay;
    bool is_nesterov;              /* used only by SGD */
    float beta_1, beta_2, epsilon; /* used only by Adam and AdamW */
    uint64_t number;               /* number of this update, from 1; used for Adam's bias correction */
    float scale;
    /* If the norm of all scaled gradients is larger than this, they are multiplied by clip / (norm + 1e-6). 0: do not
     * clip. Otherwise, the schedule must have options.clips. */
    float clip;
    float average_weight; /* weight of the new parameters in their moving average; 1: copy them */
};

struct iteration {
    unsigned turn;         /* index (0 or 1) of the input buffers to use, which feed() has already filled */
    bool is_first;         /* first micro-batch of a step: clear gradients and results */
    bool is_evaluation;    /* only compute the loss, using the running statistics; no gradients */
    float loss_scale;      /* the gradient of each image is multiplied by loss_scale / images_in_step */
    size_t images_in_step; /* images in all micro-batches of the step, on all devices */
    /* label smoothing: part of each label that is divided equally among all classes; 0 in an evaluation */
    float smoothing;
    /* number of real images, which come first in the buffer; the images after them are padding */
    size_t images;
    /* Dropout depends only on these values, on the layer and on the place of a number in its image: the run's seed, the
     * epoch, and the position of the micro-batch's first image in the order of the epoch. */
    uint64_t seed, epoch;
    size_t first;
};

/* Values observed on a device; -1: unknown. */
struct backend_watch {
    int64_t free_bytes, total_bytes; /* memory of the whole GPU, not only of this process */
    int64_t own_bytes;               /* memory of this process on the GPU, including contexts, libraries and kernels */
    int temperature;                 /* degrees Celsius */
};

struct backend {
    const char *name;
    bool fuses;    /* the back end can compute inner layers: see inner.h */
    bool overlaps; /* the schedule has steps of the kind STEP_PARAMETERS, which can run beside later steps */
    bool (*can)(enum precision precision);
    /* Open a device. The caller must close *ret_state with close(). */
    bool (*open)(const struct backend_options *options, void **ret_state, struct reason *reason);
    /* Wait for all work and release everything. `ret_report` may be NULL. The caller owns *ret_report, which is NULL if
     * the back end has no scope. */
    bool (*close)(void *state, gs_report **ret_report, struct reason *reason);

    /* Choose the algorithm and the workspace of a step: step->algorithm and step->workspace_bytes. schedule_make()
     * calls this before any memory is allocated. `budget_bytes` limits only optional workspace. Workspace that the step
     * always needs (for partial or added results) may exceed it. */
    bool (*plan)(void *state, const struct schedule_options *options, struct step *step, size_t budget_bytes,
                 struct reason *reason);
    /* Allocate all memory of the schedule at once and set the optimizer's moments to 0. The schedule must stay valid
     * until close() or the next load(), which frees the memory of the first. */
    bool (*load)(void *state, const struct schedule *schedule, struct reason *reason);

    /* Copy bytes to a block (put) or from it (get); the copy is complete on return. put() to LASTING_PARAMETERS also
     * updates LASTING_LOW. */
    bool (*put)(void *state, size_t block, const void *data, size_t bytes, struct reason *reason);
    bool (*get)(void *state, size_t block, void *data, size_t bytes, struct reason *reason);

    /* Allocate host memory from which feed() copies quickly (page-locked if there is a GPU). */
    bool (*host_alloc)(void *state, size_t bytes, void **ret, struct reason *reason);
    void (*host_free)(void *state, void *memory);
    /* Queue a copy of images and labels into the buffers of `turn`, and return while the device computes. The copy
     * begins when the steps that read these buffers have ended. */
    bool (*feed)(void *state, unsigned turn, const float *images, const int32_t *labels, struct reason *reason);
    /* Wait until the copy that feed() started for `turn` is complete. The host memory may then be written again. */
    bool (*fed)(void *state, unsigned turn, struct reason *reason);

    /* Call expect() once for each feed(), in the thread that calls iterate(), before that thread waits for these
     * inputs. waited() returns for how long the device has waited for inputs so far, in s: it had completed all work
     * that was submitted before expect(), but the copy of the inputs was not complete. The time includes all inputs
     * that were used before the last settle(). Both are NULL if iterate() returns only when its steps are complete. */
    bool (*expect)(void *state, struct reason *reason);
    double (*waited)(void *state);

    /* Run all steps of the schedule over one micro-batch. */
    bool (*iterate)(void *state, const struct iteration *iteration, struct reason *reason);
    /* The next three functions are NULL if the back end supports only one device. One device calls invite(). Then every
     * device calls join() with this id, in its own thread, before load(). So the measured memory includes the
     * communicator. */
    bool (*invite)(void *state, gs_nccl_id *ret_id, struct reason *reason);
    bool (*join)(void *state, int ranks, int rank, const gs_nccl_id *id, struct reason *reason);
    /* Sum the gradients of all devices. Only valid after join() and before close(). */
    bool (*sum_gradients)(void *state, struct reason *reason);
    /* Store the number of gradients that are not finite in results.broken. If it is 0, update the parameters. All of
     * this runs on the device. */
    bool (*update)(void *state, const struct update *update, struct reason *reason);
    /* Exchange the parameters and their moving average, also in LASTING_LOW. The schedule must have options.averages.
     * An evaluation of the average calls this before and after. */
    bool (*swap_average)(void *state, struct reason *reason);
    /* Wait for all work and return the results, summed from the last iteration with `is_first` on. */
    bool (*settle)(void *state, struct results *ret_results, struct reason *reason);
    /* Read the current values of the GPU. Needs no state and creates no context, so any thread may call it, even before
     * open(). Back ends with a GPU use card_watch() (watch.h). */
    void (*watch)(int device, struct backend_watch *ret_watch);
};

/* Return the back end with this name. Returns NULL if this build does not have it. */
const struct backend *backend_find(const char *name);
extern const struct backend backend_cpu, backend_cuda, backend_dry;

#endif
